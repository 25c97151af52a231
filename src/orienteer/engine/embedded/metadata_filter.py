"""A filter over metadata as a mask over the passages of an index, made once and kept with the index.

The metadata of an index is JSON, a passage each. A field that a filter names is read into a *column* once: its distinct
values and, for each passage, the number of its value. A comparison is then made once for each distinct value, by the
same function that defines it (`query/where.py`), and a mask is a look-up.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orienteer.engine.embedded.structure import damaged
from orienteer.engine.protocol import MetadataColumn
from orienteer.errors import FilterError
from orienteer.query.where import Both, Comparison, Either, Not, Where, compare, field_value, fields_of

Mask = NDArray[np.bool_]
_KEPT = 16  # masks of an index, a byte a passage each
_TOGETHER = 4096  # passages whose metadata is decoded in one call


def frozen(mask: Mask) -> Mask:
    """Read-only, as the kernels are compiled for."""
    mask.flags.writeable = False
    return mask


EVERYTHING: Mask = frozen(np.empty(0, np.bool_))  # what the kernels take for "no filter"


class MetadataFilter:
    """Masks of one index. Safe to share between threads."""

    def __init__(self, ends: NDArray[Any] | None, letters: NDArray[Any] | None, size: int) -> None:
        self._ends, self._letters, self._size = ends, letters, size
        self._columns: dict[str, MetadataColumn] = {}
        self._masks: OrderedDict[Where, Mask] = OrderedDict()
        self._fields: frozenset[str] = frozenset()
        self._lock = threading.Lock()

    def mask(self, where: Where) -> Mask:
        """bool [passages]: which pass the filter."""
        with self._lock:
            if where not in self._masks:
                self._read([field for field in fields_of(where) if field not in self._columns])
                self._masks[where] = frozen(self._evaluate(where))
                while len(self._masks) > _KEPT:
                    self._masks.popitem(last=False)
            self._masks.move_to_end(where)
            return self._masks[where]

    def columns(self, fields: Sequence[str]) -> list[MetadataColumn]:
        """The fields' values; those that are not known yet are read in one pass."""
        with self._lock:
            self._read([field for field in dict.fromkeys(fields) if field not in self._columns])
            return [self._columns[field] for field in fields]

    def fields(self) -> frozenset[str]:
        """Every field that some passage has."""
        with self._lock:
            if not self._fields:
                self._read([], names=True)
            return self._fields

    def has(self, field: str) -> bool:
        """Whether some passage has a value of the field."""
        return any(value is not None for value in self.columns([field])[0].values)

    def _evaluate(self, where: Where) -> Mask:
        match where:
            case Comparison(field):
                column = self._columns[field]
                held = np.array([compare(where, value) for value in column.values], np.bool_)
                return held[column.numbers] if held.size else np.zeros(self._size, np.bool_)
            case Not(part):
                return ~self._evaluate(part)
            case Both(parts):
                return np.asarray(np.logical_and.reduce([self._evaluate(part) for part in parts]), np.bool_)
            case Either(parts):
                return np.asarray(np.logical_or.reduce([self._evaluate(part) for part in parts]), np.bool_)

    def _read(self, fields: Sequence[str], names: bool = False) -> None:
        if not fields and not names:
            return
        known: list[dict[Any, int]] = [{} for _ in fields]
        values: list[list[Any]] = [[] for _ in fields]
        numbers = [np.empty(self._size, np.int32) for _ in fields]
        found: set[str] = set()
        for first in range(0, self._size, _TOGETHER):
            rows = self._rows(first, min(first + _TOGETHER, self._size))
            for row in rows:
                found.update(row)
            for own, distinct, out, field in zip(known, values, numbers, fields, strict=True):
                for at, row in enumerate(rows, first):
                    value = field_value(row, field)
                    key = value if type(value) is str else _key(value)
                    if (number := own.get(key)) is None:
                        number = own[key] = len(distinct)
                        distinct.append(value)
                    out[at] = number
        self._fields = frozenset(found)
        for field, distinct, out in zip(fields, values, numbers, strict=True):
            self._columns[field] = MetadataColumn(distinct, out)

    def _rows(self, first: int, last: int) -> list[dict[str, Any]]:
        if self._ends is None or self._letters is None:
            return [{}] * (last - first)
        ends = [int(self._ends[first - 1]) if first else 0, *self._ends[first:last].tolist()]
        data = self._letters[ends[0] : ends[-1]].tobytes()
        parts = [data[a - ends[0] : b - ends[0]] or b"{}" for a, b in pairwise(ends)]
        try:
            rows = json.loads(b"[" + b",".join(parts) + b"]")
        except (ValueError, RecursionError):
            rows = []
        if len(rows) != last - first or not all(type(row) is dict for row in rows):
            raise damaged("metadata", f"that of passages {first} to {last} is not a JSON object each")
        return rows  # type: ignore[no-any-return]


def _key(value: Any) -> Any:
    """Equal only for values of one type: 1, 1.0 and true are three."""
    return (type(value), json.dumps(value, sort_keys=True)) if isinstance(value, list | dict) else (type(value), value)


def check_fields(where: Where, filters: Sequence[MetadataFilter]) -> None:
    """Raises `FilterError` where no passage of any of these indexes has a value of a field that the filter names."""
    for field in fields_of(where):
        if not any(each.has(field) for each in filters):
            raise unknown_field(field, frozenset[str]().union(*(each.fields() for each in filters)))


def unknown_field(field: str, known: frozenset[str]) -> FilterError:
    if not known:
        return FilterError(f"a filter by {field!r}: the passages of this index have no metadata")
    shown = ", ".join(sorted(known)[:20]) + (", …" if len(known) > 20 else "")
    return FilterError(f"no passage has a value of {field!r}; the fields here are {shown}")
