"""Tab-separated tables with a header: DPR's `psgs_w100.tsv`, BEIR's judgements.

Fields are quoted as Python's `csv` does it, which is how DPR reads its file: `"` around a field, `""` for a
quote in it, and a quoted field may run over several lines.
"""

from __future__ import annotations

import csv
import reprlib
from collections.abc import Callable, Iterable, Iterator

from orienteer.data.passage import Passage
from orienteer.data.rows import Fault, Report, check_id, decoded, numbered_lines


def passages(blocks: Iterable[bytes], bad: Report) -> Iterator[tuple[int, Passage]]:
    """Each passage of a table with the columns id, text and, if it likes, title, in any order."""
    for number, (id, text, title) in table(blocks, bad, ("id", "text"), ("title",)):
        try:
            passage = Passage(check_id(id), title, text)
        except Fault as fault:
            bad(number, fault)
        else:
            yield number, passage


def table(
    blocks: Iterable[bytes], bad: Report, needed: tuple[str, ...], optional: tuple[str, ...] = ()
) -> Iterator[tuple[int, list[str]]]:
    """The named columns of each row, in the order of their names, with the line at which the row starts."""
    rows = _rows(numbered_lines(blocks), bad)
    header = next(rows, None)
    if header is None:
        return
    columns = header[1]
    if not set(needed) <= set(columns):
        raise Fault(
            f"the header has the columns {', '.join(map(reprlib.repr, columns[:6]))}; "
            f"expected {', '.join(map(repr, needed + optional))}, between tabs, in the first line"
        )
    places = [columns.index(name) if name in columns else None for name in needed + optional]
    for number, fields in rows:
        if len(fields) != len(columns):
            found = f"{len(fields)} column{'s' if len(fields) > 1 else ''}"
            bad(number, Fault(f"{found}; expected {len(columns)}, as in the header, between tabs"))
        else:
            yield number, ["" if place is None else fields[place] for place in places]


def _rows(numbered: Iterator[tuple[int, bytes]], bad: Report) -> Iterator[tuple[int, list[str]]]:
    again: list[tuple[int, bytes]] = []  # Lines that a row took and could not use, the next one last.

    def following() -> tuple[int, bytes] | None:
        return again.pop() if again else next(numbered, None)

    while (start := following()) is not None:
        number, line = start
        taken: list[tuple[int, bytes]] = []
        try:
            fields = _row(line, following, taken)
        except Fault as fault:
            again.extend(reversed(taken))
            bad(number, fault)
        else:
            if fields:
                yield number, fields


def _row(line: bytes, following: Callable[[], tuple[int, bytes] | None], taken: list[tuple[int, bytes]]) -> list[str]:
    """The fields of the row that starts with `line`; the further lines it runs over are put into `taken`."""
    text = decoded(line)
    lines, length = [text], len(text)
    while True:
        try:
            return next(csv.reader(lines, delimiter="\t", strict=True))
        except csv.Error as error:
            if not str(error).startswith("unexpected end"):
                return _loose_row(text, error)
        while True:
            start = following()
            if start is None or length > csv.field_size_limit():
                raise Fault("a quote that opens a field and is not closed; close it, or double it")
            taken.append(start)
            lines[-1] += "\n"
            lines.append(decoded(start[1]))
            length += len(lines[-1])
            if '"' in lines[-1]:
                break


def _loose_row(line: str, error: csv.Error) -> list[str]:
    """A row such as `1⇥"A text."⇥"Weird Al" Yankovic`, as DPR's reader takes it: the quotes are lost, no more.

    Only where its first line is the whole row: otherwise the next rows' quotes may have been taken for its own.
    """
    try:
        fields, *rest = csv.reader([line + "\n", "end"], delimiter="\t")
        if rest == [["end"]]:
            return fields
    except csv.Error as again:
        error = again
    raise Fault(f"quotes out of order ({error}); double a quote inside a quoted field") from None
