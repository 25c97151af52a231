"""Bytes of unknown encoding to text, in bounded memory; a byte that does not fit stops nothing."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterable, Iterator
from itertools import chain

from orienteer.data.rows import Fault

_SAMPLE = 1 << 20
_LONGEST_LINE = 1 << 18  # characters; a longer line comes in pieces
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_DECLARED = re.compile(rb"""(?:charset|encoding)\s*=\s*["']?([A-Za-z0-9_.:-]{2,40})""")
# Those that are common in files; among all that exist, short texts are taken for an exotic one.
_CANDIDATES = [
    "cp1252", "cp1250", "cp1251", "cp1253", "koi8_r", "shift_jis", "euc_jp", "gb18030", "big5", "euc_kr",
]  # fmt: skip


def _as_western(error: UnicodeError) -> tuple[str, int]:
    """One byte that is no UTF-8, as Windows-1252 has it: a Latin-1 letter in a UTF-8 file."""
    assert isinstance(error, UnicodeDecodeError)
    byte = error.object[error.start : error.start + 1]
    return byte.decode("cp1252", "replace"), error.start + 1


codecs.register_error("orienteer-western", _as_western)


def decode_blocks(blocks: Iterable[bytes], *, declared: bool = False) -> Iterator[str]:
    r"""The text in pieces, line ends as `\n`; `declared`: a `charset=` near the start is believed if it fits.

    Raises `Fault` where the bytes are not text.
    """
    source = iter(blocks)
    sample = b""
    for block in source:
        sample += block
        if len(sample) >= _SAMPLE:
            break
    name = _encoding(sample[:_SAMPLE], declared)
    errors = "orienteer-western" if name.startswith("utf-8") else "replace"
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder(name)(errors), translate=True)
    for block in chain([sample], source):
        if text := decoder.decode(block):
            yield text
    if text := decoder.decode(b"", final=True):
        yield text


def decode(data: bytes, *, declared: bool = False) -> str:
    return "".join(decode_blocks([data], declared=declared))


def text_lines(blocks: Iterable[bytes]) -> Iterator[tuple[int, int, str]]:
    """(line number from 1, offset in the text, line without its end); a very long line comes in pieces."""
    number, offset, rest = 1, 0, ""
    for text in decode_blocks(blocks):
        lines = (rest + text).split("\n")
        rest = lines.pop()
        for line in lines:
            for start in range(0, max(len(line), 1), _LONGEST_LINE):
                yield number, offset + start, line[start : start + _LONGEST_LINE]
            offset += len(line) + 1
            number += 1
        while len(rest) > _LONGEST_LINE:
            end = rest.rfind(" ", _LONGEST_LINE // 2, _LONGEST_LINE) + 1 or _LONGEST_LINE
            yield number, offset, rest[:end]
            offset += end
            rest = rest[end:]
    if rest:
        yield number, offset, rest


def _encoding(sample: bytes, declared: bool) -> str:
    for mark, name in _MARKS:
        if sample.startswith(mark):
            return name
    if b"\0" in sample:
        return _without_mark(sample)
    if declared and (found := _DECLARED.search(sample[:4096])):
        name = found[1].decode("ascii", "replace")
        try:
            sample.decode(name)
            return name
        except (LookupError, UnicodeDecodeError):
            pass
    wrong, right = _utf8_errors(sample)
    if wrong == 0 or right > 4 * wrong:
        return "utf-8"
    if right == 0 and wrong <= 3:  # too little to guess by
        return "utf-8"
    from charset_normalizer import from_bytes

    best = from_bytes(sample[: 1 << 16], cp_isolation=_CANDIDATES).best()
    return best.encoding if best is not None else "cp1252"


def _without_mark(sample: bytes) -> str:
    """UTF-16 without its mark has a zero in most pairs of bytes, always on the same side."""
    pairs = max(1, len(sample) // 2)
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    if odd > 0.4 * pairs and even < 0.05 * pairs:
        return "utf-16-le"
    if even > 0.4 * pairs and odd < 0.05 * pairs:
        return "utf-16-be"
    raise Fault("binary data, not text")


def _utf8_errors(sample: bytes) -> tuple[int, int]:
    """How many bytes are no UTF-8, and how many characters take several bytes; the end may be cut."""
    text = sample.decode("utf-8", "surrogateescape")
    wrong = sum(1 for c in text[:-3] if "\udc80" <= c <= "\udcff")
    if len(sample) < _SAMPLE:
        wrong += sum(1 for c in text[-3:] if "\udc80" <= c <= "\udcff")
    right = sum(1 for c in text if c > "\x7f" and not "\udc80" <= c <= "\udcff")
    return wrong, right
