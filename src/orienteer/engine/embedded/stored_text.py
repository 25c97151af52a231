"""Stored titles and texts: blocks of a few passages, compressed by zstd with a dictionary learned from all of them.

Some passages a block and one dictionary keep two fifths of the bytes, and a passage costs some microseconds. Blocks are
independent, so that any passage can be read by itself.

    text              the compressed blocks, one after another
    text_ends         int64 [blocks]: where each ends
    text_dictionary   zstd's dictionary; empty where there is too little text to learn one
    passages          the digest of ids, titles and texts in their order, however they are stored

A block, before compression: for each passage the bytes of title and text, two uint32; then titles and texts in turn.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from threading import local
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray

from orienteer.engine.embedded.store import Writer, _header
from orienteer.engine.embedded.structure import TEXT_BLOCK as PASSAGES
from orienteer.engine.embedded.structure import damaged
from orienteer.errors import DataError

LEVEL = 4
DICTIONARY_BYTES = 256 << 10
SAMPLES = 1500  # blocks that the dictionary is learned from
LEAST_TEXT = 1 << 20  # bytes that a dictionary is worth learning from
LARGEST_BLOCK = 1 << 30  # bytes before compression
_CHUNK = 2048  # blocks that are compressed in one call


class StoredText:
    """Titles and texts by passage number. Safe to share between threads."""

    def __init__(self, passages: int, text: NDArray[Any], ends: NDArray[np.int64], dictionary: NDArray[Any]):
        self._arrays = passages, text, ends, dictionary
        self._passages, self._text, self._ends = passages, text, ends
        self._dictionary = _dictionary(dictionary.tobytes())
        self._own = local()  # a decompressor is not to be shared
        self._last: tuple[int, list[tuple[bytes, bytes]]] = (-1, [])  # passages are often read one after another

    def __reduce__(self) -> tuple[Any, ...]:
        return StoredText, self._arrays  # an index can be copied, what zstd made cannot

    def __getitem__(self, number: int) -> tuple[bytes, bytes]:
        """Title and text."""
        block, place = divmod(number, PASSAGES)
        last, passages = self._last
        if last != block:
            passages = self._read(block)
            self._last = block, passages
        return passages[place]

    def _read(self, block: int) -> list[tuple[bytes, bytes]]:
        data = self._text[int(self._ends[block - 1]) if block else 0 : int(self._ends[block])].tobytes()
        try:
            if zstandard.frame_content_size(data) > LARGEST_BLOCK:
                raise damaged("text", f"block {block} says that it is larger than any")
            raw = self._decompressor().decompress(data)
        except (zstandard.ZstdError, MemoryError) as error:
            raise damaged("text", f"block {block} cannot be decompressed ({error})") from None
        count = min(PASSAGES, self._passages - PASSAGES * block)
        if len(raw) < 8 * count:
            raise damaged("text", f"block {block} has {len(raw)} bytes")
        sizes = np.frombuffer(raw, "<u4", 2 * count).tolist()
        if 8 * count + sum(sizes) != len(raw):
            raise damaged("text", f"block {block} has {len(raw):,} bytes, expected {8 * count + sum(sizes):,}")
        passages, at = [], 8 * count
        for title, text in zip(sizes[::2], sizes[1::2], strict=True):
            passages.append((raw[at : at + title], raw[at + title : at + title + text]))
            at += title + text
        return passages

    def _decompressor(self) -> zstandard.ZstdDecompressor:
        if (found := getattr(self._own, "decompressor", None)) is None:
            found = self._own.decompressor = zstandard.ZstdDecompressor(dict_data=self._dictionary)
        return found


def block_count(passages: int) -> int:
    return -(-passages // PASSAGES)


def write_text(writer: Writer, raw: NDArray[np.uint8], ends: NDArray[np.int64], threads: int) -> None:
    """Compresses `raw`, titles and texts in turn, that end at `ends` [passages, 2]."""
    blocks = block_count(len(ends))
    begins = np.concatenate([[0], ends[:-1, 1]]) if len(ends) else np.empty(0, np.int64)
    sizes = np.stack([ends[:, 0] - begins, ends[:, 1] - ends[:, 0]], 1).astype("<u4")  # [passages, 2]

    def block(number: int) -> bytes:
        low, high = PASSAGES * number, min(PASSAGES * (number + 1), len(ends))
        return sizes[low:high].tobytes() + raw[begins[low] : ends[high - 1, 1]].tobytes()

    largest = np.add.reduceat(sizes.sum(1, dtype=np.int64), np.arange(blocks) * PASSAGES).max() if blocks else 0
    if largest > LARGEST_BLOCK // 2:
        raise DataError(f"{PASSAGES} passages in a row have over {LARGEST_BLOCK >> 21} MB; split them")
    learned = _learned(raw.size, blocks, block)
    compressor = zstandard.ZstdCompressor(LEVEL, dict_data=_dictionary(learned), write_dict_id=False)
    lengths = [np.empty(0, np.int64)]
    with writer.array("text", np.uint8) as out:
        for low in range(0, blocks, _CHUNK):
            numbers = range(low, min(low + _CHUNK, blocks))
            rows: list[bytes | bytearray | memoryview] = [block(number) for number in numbers]
            made = compressor.multi_compress_to_buffer(rows, threads=threads if len(rows) > 64 else 1)
            packed = [made[number].tobytes() for number in range(len(rows))]
            lengths.append(np.array([len(each) for each in packed], np.int64))
            out.append_bytes(b"".join(packed))
    writer.write("text_ends", np.cumsum(np.concatenate(lengths), dtype=np.int64))
    writer.write("text_dictionary", np.frombuffer(learned, np.uint8))


def _learned(size: int, blocks: int, block: Any) -> bytes:
    """A dictionary from blocks of the whole corpus; empty where it would hardly pay."""
    if size < LEAST_TEXT or blocks < 64:
        return b""
    chosen = np.unique(np.linspace(0, blocks - 1, min(SAMPLES, blocks)).astype(np.int64))
    samples = [block(number) for number in chosen.tolist()]
    try:
        return zstandard.train_dictionary(min(DICTIONARY_BYTES, size // 64), samples).as_bytes()
    except zstandard.ZstdError:  # such text has nothing that recurs
        return b""


def _dictionary(data: bytes) -> zstandard.ZstdCompressionDict | None:
    return zstandard.ZstdCompressionDict(data) if data else None


def passages_digest(
    letters: Iterable[Any], id_ends: NDArray[np.int64], text: Iterable[Any], text_ends: NDArray[np.int64]
) -> bytes:
    """Names passages by ids, titles and texts in their order.

    letters, text    all ids, and all titles and texts in turn, as pieces of bytes
    id_ends          [passages + 1]
    text_ends        [passages, 2]
    """
    # The digests of these arrays as .npy files: what format 1 stored, so that vectors made for it still fit.
    parts = [
        _digest("|u1", int(id_ends[-1]), letters), _digest("<i8", id_ends.size, [id_ends]),
        _digest("|u1", int(text_ends[-1, 1]) if len(text_ends) else 0, text),
        _digest("<i8", text_ends.size, [np.ascontiguousarray(text_ends)]),
    ]  # fmt: skip
    return blake2b(json.dumps(parts).encode(), digest_size=16).digest()


def _digest(dtype: str, length: int, pieces: Iterable[Any]) -> str:
    state = blake2b(_header(np.dtype(dtype), length), digest_size=16)
    for piece in pieces:
        state.update(piece)
    return state.hexdigest()


def pieces(data: NDArray[np.uint8], size: int = 1 << 22) -> Iterator[NDArray[np.uint8]]:
    """An array in parts, so that a mapped one is never in memory as a whole."""
    return (data[low : low + size] for low in range(0, data.size, size))
