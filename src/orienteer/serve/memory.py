"""Bytes that a session holds in memory."""

from __future__ import annotations

import sys
from dataclasses import fields, is_dataclass
from typing import Any

_SHARED = (type, type(None), bool)


def deep_size(*roots: Any) -> int:
    """Bytes of strings, numbers, containers and dataclasses below the roots, each object once."""
    total, seen, stack = 0, set(), list(roots)
    while stack:
        value = stack.pop()
        if isinstance(value, _SHARED) or id(value) in seen:
            continue
        seen.add(id(value))
        total += sys.getsizeof(value)
        if isinstance(value, dict):
            stack.extend(value.keys())
            stack.extend(value.values())
        elif isinstance(value, list | tuple | set | frozenset):
            stack.extend(value)
        elif is_dataclass(value):
            stack.extend(getattr(value, field.name) for field in fields(value))
    return total
