"""The files of an evaluation: written whole or not at all, and named after agents."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from orienteer.evaluation.errors import EvaluationError

_UNSAFE = re.compile(r"[^\w+@^.=-]", re.ASCII)


def file_names(agents: Iterable[str]) -> dict[str, str]:
    """Each agent's name as that of a file: `ensemble(a|b)` is `ensemble_a_b_`, a second one of a name gets a number."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for agent in agents:
        base = _UNSAFE.sub("_", agent).lstrip(".")[:150] or "_"
        name, number = base, 1
        while name.lower() in taken:
            number += 1
            name = f"{base}_{number}"
        taken.add(name.lower())
        names[agent] = name
    return names


def write_whole(path: Path, parts: bytes | str | Iterable[bytes]) -> None:
    """Writes a file under another name, flushes it to the disk, and puts it in its place.

    The other name is always the same, so that what a killed process left behind is overwritten by the next.
    """
    if isinstance(parts, str):
        parts = parts.encode("utf-8", "replace")
    if isinstance(parts, bytes):
        parts = [parts]
    partial = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise EvaluationError(f"{path}: cannot be written: {error.strerror}; free the disk or choose another") from None


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    write_whole(path, json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
