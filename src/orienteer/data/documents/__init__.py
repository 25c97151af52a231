"""Documents of every format: which suffix is which format, and a file's `Document`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from orienteer.data.compression import plain_name, read_blocks
from orienteer.data.documents.blocks import Block, Document
from orienteer.data.documents.markup import html
from orienteer.data.documents.packages import docx, epub
from orienteer.data.documents.pdf import pdf
from orienteer.data.documents.plain import markdown, plain_text, restructured_text
from orienteer.data.documents.tables import table

__all__ = ["Block", "Document", "is_document", "read_document"]


def _csv(blocks: Iterable[bytes]) -> Document:
    return table(blocks, tabs=False)


def _tsv(blocks: Iterable[bytes]) -> Document:
    return table(blocks, tabs=True)


_STREAMS: dict[str, Callable[[Iterable[bytes]], Document]] = {
    ".txt": plain_text, ".text": plain_text, ".md": markdown, ".markdown": markdown, ".rst": restructured_text,
    ".log": plain_text, ".html": html, ".htm": html, ".xhtml": html, ".csv": _csv, ".tsv": _tsv,
}  # fmt: skip
_FILES: dict[str, Callable[[Path], Document]] = {".pdf": pdf, ".docx": docx, ".epub": epub}


def is_document(path: Path) -> bool:
    """Whether the name is that of a format that can be read."""
    return path.suffix.lower() in _FILES or _stream(path) is not None


def read_document(path: Path) -> Document:
    """The document, whose blocks are read as they are asked for; raises `DataError` where it cannot be read."""
    if (read := _FILES.get(path.suffix.lower())) is not None:
        return read(path)
    blocks = read_blocks(path)
    try:
        return (_stream(path) or plain_text)(blocks)
    except BaseException:
        blocks.close()
        raise


def _stream(path: Path) -> Callable[[Iterable[bytes]], Document] | None:
    """What reads the file from its beginning to its end; a name in capitals, as README, is that of a text."""
    name = Path(plain_name(path))
    return plain_text if not name.suffix and name.name.isupper() else _STREAMS.get(name.suffix.lower())
