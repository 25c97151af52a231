"""Blocks of bytes as numbered lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from orienteer.data.bad_rows import Fault

MAX_LINE = 64 << 20  # Without a bound a file without a line break would be read whole into memory.

_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def numbered_lines(blocks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    r"""Each line with its number from 1, without its `\n`; nothing else ends a line."""
    number, rest = 1, b""
    for block in blocks:
        if number == 1 and not rest:
            block = _without_mark(block)
        lines = block.split(b"\n")
        lines[0] = rest + lines[0]
        rest = lines.pop()
        if len(rest) > MAX_LINE:
            raise Fault(
                f"line {number + len(lines)} is longer than {MAX_LINE >> 20} MiB; "
                "expected one row a line: is this another format?"
            )
        yield from enumerate(lines, number)
        number += len(lines)
    if rest:
        yield number, rest


def filled_lines(blocks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank."""
    for numbered in numbered_lines(blocks):
        if not numbered[1].isspace() and numbered[1]:
            yield numbered


def decoded(line: bytes) -> str:
    """The line as text; raises `Fault` where it is not UTF-8."""
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise Fault(
            f"invalid UTF-8: byte 0x{line[error.start]:02x} at byte {error.start + 1} of the line; "
            "save the file as UTF-8"
        ) from None


def _without_mark(block: bytes) -> bytes:
    if block.startswith(_UTF16_MARKS):
        raise Fault("the file is UTF-16; expected UTF-8: save it as UTF-8")
    return block.removeprefix(_UTF8_MARK)
