"""Passages to an index: tokenise in threads, number the terms, invert, commit.

What is written grows with the corpus, what is kept in memory does not: the text, the stream of term numbers and
the postings go to disk as they are made; the postings are inverted one range of terms at a time, within
`memory` bytes. Only the vocabulary and about a hundred bytes a passage stay: its id, and where its parts end.

An update of a large index writes a delta beside its base (see `segments.py`) as long as that stays small; then, and
always for small indexes, base and delta are made one index again, equal to a fresh build byte for byte.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orienteer.data.passage import Passage
from orienteer.data.regular_files import create_new
from orienteer.engine.embedded import bm25
from orienteer.engine.embedded.analysis import STOP_WORDS
from orienteer.engine.embedded.batches import Batch, batches, in_order, tokenized
from orienteer.engine.embedded.index import FIELD_COUNT, Index, saturations
from orienteer.engine.embedded.kernels import invert, tokenize
from orienteer.engine.embedded.kernels import stream as streams
from orienteer.engine.embedded.kernels.search import WINDOW
from orienteer.engine.embedded.segmented_index import SegmentedIndex, open_segments
from orienteer.engine.embedded.store import ArrayWriter, Manifest, Writer, read_manifest, writing
from orienteer.engine.embedded.stored_text import passages_digest, pieces, write_text
from orienteer.engine.embedded.structure import MAX_FREQUENCY, SMALL_CODES, damaged
from orienteer.errors import DataError, DuplicateIdError, IndexCorruptError, IndexLockedError, UnknownPassageError

STREAM, TEXT = "stream.tmp", "text.tmp"  # of an index under construction, before they are packed and compressed
MEMORY = 512 << 20
MANY = 1 << 12  # a term this often in one passage is rare enough to be looked up by bisection
SMALL = 2_000  # passages that are inverted in about a tenth of a second: a smaller index has no delta
LARGEST_DELTA = 20_000  # passages: about a second

SETTINGS = {
    "analyzer": "lucene-standard-12.1", "stop_words": "lucene-english-33",
    "k1": 1.2, "b": 0.75, "fields": ["contents", "title"],
}  # fmt: skip

Progress = Callable[[int], None]


def build_index(
    passages: Iterable[Passage],
    out: Path | str,
    *,
    threads: int = 2,
    memory: int = MEMORY,
    progress: Progress = lambda done: None,
    sources: Callable[[], bytes] | None = None,
) -> Manifest:
    """Index `passages` at `out`, in the place of whatever index was there.

    `sources` is called after the last passage: the state of what they were made of, stored with them.
    """
    with writing(Path(out)) as writer:
        return _Builder(writer, threads, memory, progress).run(passages, sources)


def update_index(
    path: Path | str,
    *,
    add: Iterable[Passage] = (),
    delete: Collection[str] = (),
    threads: int = 2,
    memory: int = MEMORY,
    progress: Progress = lambda done: None,
    sources: Callable[[], bytes] | None = None,
    merge: bool = False,
    opened: SegmentedIndex | None = None,
) -> Manifest:
    """A new generation without the passages `delete` and with the passages `add` after the others.

    Its results equal those of a fresh build of the same passages in the same order, to the bit; where it is one
    segment, so do its files. With `merge` it always is; else a large index and a small change have a delta.
    `opened` is the index that the change was made for: where there is a newer generation by now, it is refused.
    """
    read_manifest(Path(path))  # before a folder is made for an index that is not there
    with writing(Path(path)) as writer:
        if opened is not None and read_manifest(Path(path)) != opened.manifest:
            raise IndexLockedError(f"another process has changed {path} meanwhile; try again")
        old = opened or open_segments(path)
        kept = [np.ones(segment.index.size, np.bool_) for segment in old.segments]
        kept[0][old.segments[0].deleted] = False
        for passage_id in delete:
            if (number := old.number(passage_id)) is None:
                raise UnknownPassageError(f"cannot delete {passage_id!r}: the index does not hold it")
            segment, stored = old.place(number)
            kept[old.segments.index(segment)][stored] = False
        base = old.segments[0].index
        waiting = iter(add)
        limit = delta_limit(base.size)
        first = list(islice(waiting, limit + 1))
        changed = len(first) + int(np.count_nonzero(~kept[0])) + sum(int(keep.sum()) for keep in kept[1:])
        if sources is None and not first and not delete and old.sources:
            sources = partial(getattr, old, "sources")
        builder = _Builder(writer, threads, memory, progress)
        if merge or not limit or changed > limit:
            for segment, keep in zip(old.segments, kept, strict=True):
                builder.take_over(segment.index, keep)
            return builder.run(chain(first, waiting), sources)
        for segment, keep in zip(old.segments[1:], kept[1:], strict=True):
            builder.take_over(segment.index, keep)
        _refuse_held(first, base, kept[0])
        writer.write("deleted", np.flatnonzero(~kept[0]).astype(np.int64))
        return builder.run(first, sources, base.manifest)


def delta_limit(passages: int) -> int:
    """How many passages a delta may add to and delete from a base of so many; then both are merged."""
    return 0 if passages < SMALL else min(LARGEST_DELTA, passages // 4)


def delta_has_grown(index: SegmentedIndex) -> bool:
    """Whether an index has a delta of a quarter of the size at which it is merged in any case."""
    if len(index.segments) == 1:
        return False
    base, delta = index.segments
    return 4 * (delta.size + base.deleted.size) >= delta_limit(base.index.size)


def _refuse_held(passages: Iterable[Passage], base: Index, kept: NDArray[np.bool_]) -> None:
    """Raises where a new passage has the id of one that stays in the base."""
    for passage in passages:
        if (number := base.number(passage.id)) is not None and kept[number]:
            raise DuplicateIdError(
                f"two passages have the id {passage.id!r} (one is in the index already); ids must be unique",
                passage.id,
            )


class _Lexicon:
    """Every term seen so far, numbered in order of appearance."""

    def __init__(self) -> None:
        self.count = 0
        self.slots = np.zeros(1 << 20, np.int32)
        self.hashes = np.empty(1 << 19, np.uint64)
        self.ends = np.zeros((1 << 19) + 1, np.int64)
        self.letters = np.empty(1 << 23, np.uint8)

    def add(self, hashes: Any, ends: Any, letters: Any, first: int) -> NDArray[np.int32]:
        self._make_room(hashes.size, int(ends[-1]))
        numbers, self.count = tokenize.merge_terms(
            self.slots, self.hashes, self.ends, self.letters, self.count, hashes, ends, letters, first
        )
        return numbers  # type: ignore[no-any-return]

    def _make_room(self, terms: int, letters: int) -> None:
        if self.count + terms > self.hashes.size:
            size = max(self.hashes.size * 2, self.count + terms)
            self.hashes = _grown(self.hashes, size)
            self.ends = _grown(self.ends, size + 1)
        if self.hashes.size * 2 > self.slots.size:
            self.slots = np.zeros(1 << int(self.hashes.size * 2 - 1).bit_length(), np.int32)
            tokenize.rehash(self.slots, self.hashes, self.count)
        if (need := int(self.ends[self.count]) + letters + 16) > self.letters.size:
            self.letters = _grown(self.letters, max(self.letters.size * 2, need))

    def terms(self) -> list[bytes]:
        letters = self.letters[: self.ends[self.count]].tobytes()
        ends = self.ends[: self.count + 1].tolist()
        return [letters[start:end] for start, end in pairwise(ends)]


class _Builder:
    def __init__(self, writer: Writer, threads: int, memory: int, progress: Progress):
        self.writer, self.threads, self.memory, self.progress = writer, threads, memory, progress
        self.lexicon = _Lexicon()
        self.done = 0
        # As they come; `_pack_stream` and `write_text` make of them what an index holds.
        self.stream = ArrayWriter(writer.folder / STREAM, np.dtype(np.int32))
        self.text = ArrayWriter(writer.folder / TEXT, np.dtype(np.uint8))
        self.ids: list[bytes] = []
        self.stream_ends: list[NDArray[np.int64]] = []
        self.title_positions: list[NDArray[np.int32]] = []
        self.text_ends: list[NDArray[np.int64]] = []  # [passages, 2]: end of title, end of text
        self.metadata = writer.array("metadata", np.uint8)
        self.metadata_ends: list[NDArray[np.int64]] = []

    def run(
        self,
        passages: Iterable[Passage],
        sources: Callable[[], bytes] | None = None,
        base: Manifest | None = None,
    ) -> Manifest:
        """Index what was taken over and then `passages`; with `base`, as its delta."""
        with self.stream, self.text, self.metadata:
            for batch, made in in_order(batches(passages), tokenized, self.threads):
                self._take(batch, made)
        if sources is not None:
            self.writer.write("sources", np.frombuffer(sources(), np.uint8))
        self.base = base
        ends = _joined(self.stream_ends, np.int64)
        titles = _joined(self.title_positions, np.int32)
        self._write_passages()
        texts = np.load(self.writer.folder / TEXT, mmap_mode="r")  # here: NumPy reads headers in one thread only
        with ThreadPoolExecutor(1) as beside:  # inverting keeps one core busy
            written = beside.submit(self._write_texts, texts)
            counts = self._invert(ends, titles)
            written.result()
        return self.writer.commit(SETTINGS, counts, self.base)

    def _write_texts(self, raw: NDArray[np.uint8]) -> None:
        ends = _joined(self.text_ends, np.int64).reshape(-1, 2)
        write_text(self.writer, raw, ends, self.threads)
        letters = b"".join(self.ids)
        id_ends = np.cumsum([0, *map(len, self.ids)], dtype=np.int64)
        digest = passages_digest([letters], id_ends, pieces(raw), ends)
        self.writer.write("passages", np.frombuffer(digest, np.uint8))
        (self.writer.folder / TEXT).unlink()

    def _take(self, batch: Batch, made: tuple[Any, ...]) -> None:
        stream, ends, titles, hashes, term_ends, letters = made
        stops = len(STOP_WORDS)
        numbers = self.lexicon.add(hashes, term_ends, letters, stops)
        stream = stream[ends[0] :]
        tokenize.renumber(stream, numbers)
        self.stream_ends.append(ends[1:] - ends[0] + self.stream.length)
        self.title_positions.append(titles[1:])
        self.text_ends.append(batch.bounds[1:, 1:] - batch.bounds[0, 2] + self.text.length)
        self.stream.append(stream)
        self.text.append_bytes(batch.text[batch.bounds[0, 2] :])
        self.metadata_ends.append(np.cumsum([len(each) for each in batch.metadata]) + self.metadata.length)
        self.metadata.append_bytes(b"".join(batch.metadata))
        self.ids += batch.ids
        self.done += len(batch.ids)
        self.progress(self.done)

    def take_over(self, old: Index, keep: NDArray[np.bool_]) -> None:
        """Start with the kept passages of an older segment, already tokenised; or go on with them."""
        terms = old.array("terms")
        ends = old.array("term_ends")
        hashes = tokenize.hash_terms(ends, terms)
        numbers = self.lexicon.add(hashes, np.array(ends), np.array(terms), 0)
        if np.unique(numbers).size != old.terms:
            raise IndexCorruptError("terms: one of them is there twice; build the index again")
        step = 1 << 16
        for low in range(0, old.size, step):
            chosen = np.flatnonzero(keep[low : low + step]) + low
            if chosen.size == 0:
                continue
            taken, stops = old.streams(chosen)
            self.stream_ends.append(stops + self.stream.length)
            tokenize.renumber(taken, numbers)
            self.stream.append(taken)
            titles = np.array(old.array("title_positions")[chosen])
            if (titles > np.diff(stops, prepend=0)).any():
                raise damaged("title_positions", "a title is longer than its passage")
            self.title_positions.append(titles)
            texts = [part for number in chosen.tolist() for part in old.text[number]]
            self.text_ends.append(np.cumsum([len(part) for part in texts]).reshape(-1, 2) + self.text.length)
            self.text.append_bytes(b"".join(texts))
            self.ids += [old.id(int(number)).encode() for number in chosen]
            self._take_metadata(old, chosen)
        self.done = len(self.ids)
        self.progress(self.done)

    def _take_metadata(self, old: Index, chosen: NDArray[np.int64]) -> None:
        sizes = np.zeros(chosen.size, np.int64)
        if old.has_metadata:
            ends = old.array("metadata_ends")
            begin = np.where(chosen > 0, ends[chosen - 1], 0)
            sizes = ends[chosen] - begin
        self.metadata_ends.append(np.cumsum(sizes) + self.metadata.length)
        if old.has_metadata:
            self.metadata.append(old.array("metadata")[_ranges(begin, sizes)])

    def _write_passages(self) -> None:
        if self.metadata.length:
            self.writer.write("metadata_ends", _joined(self.metadata_ends, np.int64))
        else:
            (self.writer.folder / "metadata.npy").unlink()  # as an index had it before there was metadata
        ends = np.cumsum([0, *map(len, self.ids)], dtype=np.int64)
        letters = np.frombuffer(b"".join(self.ids), np.uint8)
        hashes = np.fromiter(map(zlib.crc32, self.ids), np.uint32, len(self.ids))
        slots = np.zeros(1 << max(4, int(2 * len(self.ids)).bit_length()), np.int32)
        first, second = invert.fill_id_slots(slots, hashes, ends, letters)
        if first >= 0:
            twice = self.ids[first].decode()
            raise DuplicateIdError(
                f"two passages have the id {twice!r} (number {first + 1} and number {second + 1}); ids must be unique",
                twice,
            )
        self.writer.write("ids", letters)
        self.writer.write("id_ends", ends)
        self.writer.write("id_slots", slots)

    def _invert(self, ends: NDArray[np.int64], titles: NDArray[np.int32]) -> dict[str, int]:
        """Writes all but the texts; returns the manifest's counts."""
        writer, size = self.writer, ends.size
        stream = np.load(writer.folder / STREAM, mmap_mode="r+")
        count = self.lexicon.count
        lengths = np.zeros((FIELD_COUNT, size), np.int64)
        totals = np.zeros((FIELD_COUNT, 2), np.int64)
        frequencies = np.zeros(FIELD_COUNT * count, np.int64)
        last = np.full(FIELD_COUNT * count, -1, np.int32)
        stream = np.asarray(stream)
        invert.count_documents(stream, ends, titles, frequencies, last, lengths, totals)
        del last
        # Terms are numbered as Lucene orders them, by their bytes; terms of deleted passages only are dropped.
        terms = self.lexicon.terms()
        order = sorted((i for i in range(count) if frequencies[i]), key=terms.__getitem__)
        numbers = np.full(count, -1, np.int32)
        numbers[order] = np.arange(len(order), dtype=np.int32)
        tokenize.renumber(stream, numbers)
        writer.write("terms", np.frombuffer(b"".join(terms[i] for i in order), np.uint8))
        writer.write("term_ends", np.cumsum([0, *(len(terms[i]) for i in order)], dtype=np.int64))
        del terms
        frequencies = frequencies.reshape(FIELD_COUNT, count)[:, order].reshape(-1)
        offsets = np.cumsum(np.concatenate([[0], frequencies]), dtype=np.int64)
        writer.write("offsets", offsets)
        writer.write("title_positions", titles)
        self._pack_stream(stream, ends, frequencies[: len(order)])
        norms = np.stack([bm25.encode_lengths(lengths[field]) for field in range(FIELD_COUNT)])
        writer.write("norms", norms.reshape(-1))
        self._write_postings(stream, ends, titles, offsets, norms, totals)
        (writer.folder / STREAM).unlink()
        return {
            "passages": size, "terms": len(order), "postings": int(offsets[-1]),
            "contents_passages": int(totals[0, 0]), "contents_length": int(totals[0, 1]),
            "title_passages": int(totals[1, 0]), "title_length": int(totals[1, 1]),
        }  # fmt: skip

    def _pack_stream(self, stream: Any, ends: NDArray[np.int64], frequencies: NDArray[np.int64]) -> None:
        """`frequencies` [terms]: in how many passages each stands, by which terms are ranked."""
        ranked = np.argsort(-frequencies, kind="stable").astype(np.int32)
        rank_of = np.empty_like(ranked)
        rank_of[ranked] = np.arange(ranked.size, dtype=np.int32)
        coding = streams.classes(ranked.size)
        packed_ends = np.zeros_like(ends)
        step, done, held = 1 << 14, 0, np.zeros(0, np.uint32)  # bits that are written; the last word, not yet full
        with self.writer.array("stream", np.uint32) as out:
            for low in range(0, ends.size, step):
                begin, own = int(ends[low - 1]) if low else 0, ends[low : low + step]
                words = np.zeros((own[-1] - begin) * 36 // 32 + 4, np.uint32)
                words[: held.size] = held
                stops = packed_ends[low : low + step]
                streams.pack(stream[begin : own[-1]], own - begin, rank_of, *coding, done % 32, words, stops)
                last = int(stops[-1])
                stops += done - done % 32
                out.append(words[: last // 32])
                held, done = words[last // 32 : last // 32 + 1].copy() if last % 32 else held[:0], int(stops[-1])
            out.append(np.concatenate([held, np.zeros(streams.SPARE, np.uint32)]))
        self.writer.write("stream_ends", packed_ends)
        self.writer.write("ranked", ranked)

    def _write_postings(
        self, stream: Any, ends: Any, titles: Any, offsets: NDArray[np.int64], norms: Any, totals: Any
    ) -> None:
        """Invert in ranges of terms; a posting's frequency and norm become one code, ordered by their score."""
        count = offsets.size // FIELD_COUNT
        ranges = list(_term_ranges(offsets, count, self.memory // 8))
        counts_file = self.writer.folder / "counts.tmp"
        highest = 0
        with self.writer.array("documents", np.uint32) as documents, create_new(counts_file) as counts_out:
            for field, low, high in ranges:
                start = offsets[field * count + low]
                total = int(offsets[field * count + high] - start)
                numbers, counts = np.empty(total, np.uint32), np.empty(total, np.uint32)
                cursor = offsets[field * count + low : field * count + high] - start
                last = np.full(high - low, -1, np.int32)
                top = invert.fill_lists(stream, ends, titles, field, low, high, cursor, last, numbers, counts)
                highest = max(highest, int(top))
                documents.append(numbers)
                counts_out.write(counts.data)
        if highest > MAX_FREQUENCY:
            raise DataError(f"one passage holds a term {highest:,} times; split it into shorter passages")
        numbers = np.asarray(np.load(self.writer.folder / "documents.npy", mmap_mode="r"))
        frequencies = np.memmap(counts_file, np.uint32, "r", shape=numbers.shape) if numbers.size else numbers
        slices = [(f, slice(offsets[f * count + a], offsets[f * count + b])) for f, a, b in ranges]
        # A table has a row for each frequency; where some are huge, only for those that occur.
        known = np.arange(highest + 1)
        if highest > MANY:
            known = np.unique(np.concatenate([np.unique(frequencies[part]) for _, part in slices]))

        def rows(part: slice) -> NDArray[np.uint32]:
            own = np.array(frequencies[part])
            return own if highest <= MANY else np.searchsorted(known, own).astype(np.uint32)

        seen = np.zeros((FIELD_COUNT, known.size, 256), np.bool_)
        for field, part in slices:
            invert.mark_pairs(np.array(numbers[part]), rows(part), norms[field], seen[field])
        table = np.argwhere(seen)  # [codes, 3]: field, row, norm
        pairs = np.stack([table[:, 0], known[table[:, 1]], table[:, 2]], axis=1)  # field, frequency, norm
        saturation = saturations(pairs, totals)
        order = np.argsort(saturation, kind="stable")
        pairs, table = pairs[order], table[order]
        code_of = np.zeros(seen.shape, np.uint32)
        code_of[table[:, 0], table[:, 1], table[:, 2]] = np.arange(len(table), dtype=np.uint32)
        kind = np.uint16 if len(pairs) <= SMALL_CODES else np.uint32
        with self.writer.array("codes", kind) as out:
            for field, part in slices:
                codes = np.empty(part.stop - part.start, kind)
                invert.encode_pairs(np.array(numbers[part]), rows(part), norms[field], code_of[field], codes)
                out.append(codes)
        counts_file.unlink()
        best = np.zeros(offsets.size - 1, kind)
        codes = np.load(self.writer.folder / "codes.npy", mmap_mode="r")
        invert.highest_codes(offsets, np.asarray(codes), best)
        self.writer.write("best_codes", best)
        # Lists with four passages a window or more: too long to say "somewhere here" of a window.
        windows = -(-ends.size // WINDOW)
        long_lists = np.flatnonzero(np.diff(offsets) >= 4 * windows) if windows else np.empty(0, np.int64)
        window_starts = np.zeros(long_lists.size * (windows + 1), np.uint32)
        window_best = np.zeros(long_lists.size * windows, kind)
        invert.lists_by_window(
            offsets, numbers, np.asarray(codes), long_lists, WINDOW, windows, window_starts, window_best
        )
        self.writer.write("long_lists", long_lists.astype(np.int64))
        self.writer.write("window_starts", window_starts)
        self.writer.write("window_best", window_best)
        self.writer.write("pairs", pairs.astype(np.uint32).reshape(-1))


def _term_ranges(offsets: NDArray[np.int64], count: int, room: int) -> Iterator[tuple[int, int, int]]:
    """(field, low, high) ranges of terms whose postings fit in `room` entries; a longer list is a range by itself."""
    for field in range(FIELD_COUNT):
        own = offsets[field * count : (field + 1) * count + 1]
        low = 0
        while low < count:
            high = int(np.searchsorted(own, own[low] + room, side="right")) - 1
            high = min(max(high, low + 1), count)
            yield field, low, high
            low = high


def _ranges(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers start, start + 1, … of each range, one after another."""
    ends = np.cumsum(lengths)
    steps = np.repeat(starts - (ends - lengths), lengths)
    return steps + np.arange(ends[-1] if ends.size else 0)


def _grown(array: NDArray[Any], size: int) -> NDArray[Any]:
    bigger = np.zeros(size, array.dtype)
    bigger[: array.size] = array
    return bigger


def _joined(parts: list[NDArray[Any]], kind: Any) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.empty(0, kind)
