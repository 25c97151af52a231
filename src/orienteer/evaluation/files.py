"""The files of an evaluation: written atomically, and named after agents."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from orienteer.data.atomic import atomic_write

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


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    atomic_write(path, json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
