"""Draws the pages of a PDF that a passage stands on, one below the other, with it marked, in a process of its own.

    python pdf_page.py FILE PAGE LAST_PAGE < passage > page.png

Imports nothing of Orienteer, so that it starts quickly; a file that breaks PDFium breaks this process only.
"""

from __future__ import annotations

import resource
import struct
import sys
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pypdfium2
from numpy.typing import NDArray

WIDTH = 1100  # pixels
_TALLEST = 3000  # a page
_MOST, _GAP = 3, 12  # pages, and pixels between them
_WORDS = 5  # of the passage that are looked for at a time
_MEMORY, _SECONDS = 4 << 30, 20
_MARK = np.array([255, 232, 120], np.uint16)  # multiplied with the page, as a text marker does

Pixels = NDArray[np.uint8]


def main(file: str, first: int, last: int, passage: str) -> bytes:
    """The pages, counted from 1, as PNG; at most three."""
    document = pypdfium2.PdfDocument(file)
    pages = [_drawn(document[number - 1], passage) for number in range(first, min(last, first + _MOST - 1) + 1)]
    width = max(page.shape[1] for page in pages)
    stacked: list[Pixels] = []
    for page in pages:
        if stacked:
            stacked.append(np.full((_GAP, width, 3), 120, np.uint8))
        stacked.append(np.pad(page, ((0, 0), (0, width - page.shape[1]), (0, 0)), constant_values=255))
    return png(np.concatenate(stacked))


def _drawn(page: Any, passage: str) -> Pixels:
    width, height = page.get_size()
    scale = min(WIDTH / max(width, 1.0), _TALLEST / max(height, 1.0))
    pixels = np.array(page.render(scale=scale, rev_byteorder=True).to_numpy()[:, :, :3])
    for left, bottom, right, top in _boxes(page.get_textpage(), passage):
        rows = slice(max(0, int((height - top) * scale) - 1), max(0, int((height - bottom) * scale) + 2))
        columns = slice(max(0, int(left * scale) - 1), max(0, int(right * scale) + 2))
        pixels[rows, columns] = pixels[rows, columns].astype(np.uint16) * _MARK // 255
    return pixels


def _boxes(text: Any, passage: str) -> set[tuple[float, float, float, float]]:
    """Where the passage's words stand, a few at a time: a page breaks its lines elsewhere than the passage."""
    found: set[tuple[float, float, float, float]] = set()
    for few in _pieces(passage.split()):
        place = text.search(few, match_case=True).get_next()
        if place is not None:
            start, count = place
            boxes = text.count_rects(start, count)
            found.update(text.get_rect(box) for box in range(boxes))
    return found


def _pieces(words: list[str]) -> Iterator[str]:
    for start in range(0, len(words), _WORDS):
        yield " ".join(words[start : start + _WORDS])


def png(pixels: Pixels) -> bytes:
    """RGB pixels [height, width, 3] as a PNG file."""
    height, width, _ = pixels.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1).tobytes()

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 6)) + chunk(b"IEND", b"")


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
    sys.stdout.buffer.write(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.stdin.read()))
