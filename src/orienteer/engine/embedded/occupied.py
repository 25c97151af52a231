"""Keeps an index out of a folder that holds something else."""

from __future__ import annotations

from pathlib import Path

from orienteer.engine.embedded.store import LOCK, MANIFEST
from orienteer.errors import FolderOccupiedError


def refuse_occupied(path: Path) -> None:
    """Raises where the folder holds files and no index: its files would then be among somebody's documents."""
    try:
        if not path.is_dir() or (path / MANIFEST).exists() or (path / LOCK).exists():
            return
        names = sorted(each.name for each in path.iterdir() if not each.name.startswith("."))
    except OSError:  # a folder that cannot be read is the writer's to refuse
        return
    if names:
        raise FolderOccupiedError(
            f"{path} is no index and holds {', '.join(names[:3])}{', …' if len(names) > 3 else ''}; name a folder of "
            "its own for the index, or force it"
        )
