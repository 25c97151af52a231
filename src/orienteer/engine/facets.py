"""Facets: the values of metadata fields with their counts, and the filter that chosen values make.

A value's count is the number of passages that its filter leaves, by the comparison that defines filters
(`query/where.py`). The counts of a field are made behind what is chosen in all *other* fields, so that a second value
of the same field can be added: values of one field are joined by `or`, fields by `and`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orienteer.engine.protocol import Engine, HasMetadata, MetadataColumn, allowed_by, filtered
from orienteer.query.where import Comparison, compare

FIRST = ("folder", "type", "year", "language")
SHOWN = 12  # values of a field
_OTHERS = 4  # further fields
_FEW = 40  # distinct values at most for a further field to be a facet,
_SHARE = 0.05  # and passages at least that have a value
# What places a passage in its document, or is a facet under another name.
_NO_FACET = frozenset({"file", "hash", "start", "end", "page", "last_page", "section", "date", "title", "id"})

Chosen = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class FacetValue:
    value: str
    passages: int


@dataclass(frozen=True, slots=True)
class Facet:
    """A field with its most frequent values; `more` have none of their own here."""

    field: str
    values: tuple[FacetValue, ...]
    more: int


@dataclass(frozen=True, slots=True)
class Facets:
    """`where` is the filter of what is chosen, `passages` how many it leaves."""

    facets: tuple[Facet, ...]
    where: str
    passages: int


def facets(engine: Engine, chosen: Chosen | None = None) -> Facets:
    """The facets of an index, behind what is chosen: field → values. None where the engine has no metadata."""
    chosen = {field: values for field, values in (chosen or {}).items() if values}
    where = filter_of(chosen)
    if not isinstance(engine, HasMetadata):
        return Facets((), where, 0)
    narrowed = allowed_by(filtered(engine, where))
    found = []
    fields = _fields(engine)
    for field, column in zip(fields, engine.metadata_columns(fields), strict=True):
        others = filter_of({name: values for name, values in chosen.items() if name != field})
        facet = _facet(field, column, allowed_by(filtered(engine, others)), chosen.get(field, ()))
        if len(facet.values) + facet.more > 1 or field in chosen:
            found.append(facet)
    return Facets(tuple(found), where, int(narrowed.sum()) if narrowed.size else len(engine))


def filter_of(chosen: Chosen) -> str:
    """`year="2020" and (folder="a" or folder="b")`; empty where nothing is chosen."""
    parts = []
    for field, values in chosen.items():
        either = " or ".join(f"{_quoted(field)}={_quoted(value)}" for value in values)
        parts.append(f"({either})" if len(values) > 1 else either)
    return " and ".join(part for part in parts if part)


def _fields(engine: HasMetadata) -> list[str]:
    known = engine.metadata_fields()
    derived = {"type"} if "file" in known else set()
    derived |= {"year"} if "date" in known else set()
    first = [field for field in FIRST if field in known | derived]
    others = sorted(known - {*FIRST} - _NO_FACET)[:50]
    few = [
        field for field, column in zip(others, engine.metadata_columns(others), strict=True)
        if 1 < len(column.values) <= _FEW and not any(isinstance(value, dict) for value in column.values)
        and _filled(column) >= _SHARE
    ]  # fmt: skip
    return first + few[:_OTHERS]


def _filled(column: MetadataColumn) -> float:
    """The share of passages that have a value."""
    some = np.array([value is not None for value in column.values])
    return float(some[column.numbers].mean()) if len(column.numbers) else 0.0


def _facet(field: str, column: MetadataColumn, allowed: NDArray[np.bool_], chosen: Sequence[str]) -> Facet:
    numbers = column.numbers[allowed] if allowed.size else column.numbers
    counts = np.bincount(numbers, minlength=len(column.values))
    by_text: dict[str, int] = {}
    for value, count in zip(column.values, counts.tolist(), strict=True):
        for text in _texts(field, value):
            by_text[text] = by_text.get(text, 0) + count
    # A chosen value stays where it can be taken back, also when nothing of it is left.
    order = sorted(by_text, key=lambda text: (text not in chosen, -by_text[text], text))
    order = [text for text in order if by_text[text] or text in chosen]
    shown = [FacetValue(text, _count(field, text, column.values, counts)) for text in order[:SHOWN]]
    shown.sort(key=lambda each: (-each.passages, each.value))
    if field == "year":
        shown.sort(key=lambda each: each.value, reverse=True)
    return Facet(field, tuple(shown), max(0, len(order) - len(shown)))


def _count(field: str, text: str, values: Sequence[Any], counts: NDArray[np.int64]) -> int:
    """Passages that the filter of this value leaves."""
    comparison = Comparison(field, "=", text)
    return sum(count for value, count in zip(values, counts.tolist(), strict=True) if compare(comparison, value))


def _texts(field: str, value: Any) -> list[str]:
    """A field's value as a filter would name it; the items of a list each."""
    if isinstance(value, list):
        return list(dict.fromkeys(text for each in value if not isinstance(each, list) for text in _texts(field, each)))
    if value is None or isinstance(value, dict) or value == "":
        return []
    if isinstance(value, bool):
        return ["true" if value else "false"]
    text = str(value)
    return [text[:4]] if field == "year" else [text]


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
