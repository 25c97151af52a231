"""The files that passages come from: only those that a passage names, inside the folder given for its index."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path

from orienteer.data import texts
from orienteer.data.passage import Passage
from orienteer.serve.errors import ServeError

_SECONDS = 30.0
_LARGEST = 300 << 20  # bytes of a file that is sent
_DRAWN_AT_ONCE = 2
_SCRIPT = Path(__file__).with_name("pdf_page.py")


class NoSourceError(ServeError):
    """A passage whose file cannot be shown here."""

    status = 404


class SourceFiles:
    """`folders`: index name → the folder that was indexed. What a client names is a passage, never a path."""

    def __init__(self, folders: Mapping[str, Path]) -> None:
        self._folders = {name: folder.resolve() for name, folder in folders.items()}
        self._drawing = asyncio.Semaphore(_DRAWN_AT_ONCE)

    def pdf_of(self, index: str, passage: Passage, more: Mapping[str, Path]) -> tuple[Path, range]:
        """The passage's PDF file and its pages; `more` are further folders by index.

        The index may come from a stranger, so its names are not trusted: the file must lie in the folder, with all
        links followed, and have the content that was indexed.
        """
        folder = self._folders.get(index) or more.get(index)
        name, pages = passage.metadata.get("file"), _pages(passage)
        if folder is None:
            raise NoSourceError(f"where the documents of {index!r} lie is not known; start the server with --documents")
        if not isinstance(name, str) or not name.lower().endswith(".pdf") or pages is None:
            raise NoSourceError("this passage is of no page of a PDF file")
        try:
            root = folder.resolve()
            path = (root / name).resolve(strict=True)
            if not path.is_relative_to(root) or not path.is_file() or path.suffix.lower() != ".pdf":
                raise NoSourceError(f"{name}: not a file of the indexed folder")
            if path.stat().st_size > _LARGEST:
                raise NoSourceError(f"{name}: larger than {_LARGEST >> 20} MB")
            if passage.metadata.get("hash") != texts.file_hash(path):
                raise NoSourceError(f"{name}: the file has changed since it was indexed; index it again")
        except (OSError, ValueError):
            raise NoSourceError(f"{name}: the file is no longer in its folder") from None
        return path, pages

    def has_pdf(self, index: str, passage: Passage, more: Mapping[str, Path]) -> bool:
        """Whether the passage's page can be shown."""
        try:
            self.pdf_of(index, passage, more)
        except NoSourceError:
            return False
        return True

    async def draw(self, path: Path, pages: range, passage: str) -> bytes:
        """The pages as PNG, with the passage marked."""
        async with self._drawing:
            process = await asyncio.create_subprocess_exec(
                sys.executable, str(_SCRIPT), str(path), str(pages[0]), str(pages[-1]), stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            )  # fmt: skip
            try:
                async with asyncio.timeout(_SECONDS):
                    picture, _ = await process.communicate(passage.encode("utf-8", "replace"))
            except TimeoutError:
                raise NoSourceError(f"{path.name}: the page takes too long to draw") from None
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        if process.returncode or not picture.startswith(b"\x89PNG"):
            raise NoSourceError(f"{path.name}: page {pages[0]} cannot be drawn")
        return picture


def _pages(passage: Passage) -> range | None:
    first = passage.metadata.get("page")
    last = passage.metadata.get("last_page", first)
    return range(first, last + 1) if type(first) is int and type(last) is int and 1 <= first <= last else None
