"""An open index: its arrays, memory-mapped, and what can be looked up in them."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from orienteer.data.passage import Passage
from orienteer.engine.embedded import bm25, scan
from orienteer.engine.embedded.block_bounds import BlockBounds
from orienteer.engine.embedded.kernels import checks
from orienteer.engine.embedded.kernels import stream as streams
from orienteer.engine.embedded.metadata_filter import MetadataFilter
from orienteer.engine.embedded.store import ARRAYS, OPTIONAL_ARRAYS, Manifest, open_latest, verify
from orienteer.engine.embedded.stored_text import StoredText
from orienteer.engine.embedded.structure import check_deleted, check_structure, damaged
from orienteer.engine.protocol import Similarity
from orienteer.errors import IndexCorruptError, IndexVersionError

if TYPE_CHECKING:
    from orienteer.engine.embedded.clauses import FieldTerms, Postings

FIELD_COUNT = 2
FIELD_NUMBER = {"contents": 0, "title": 1}
NO_TERM = -1
_PASSAGES_WITH = ("contents_passages", "title_passages")
_REMEMBERED = 1 << 16  # ids, and as many terms
_WRONG = {
    checks.WRONG_PASSAGES: ("documents", "passages do not rise, or are not in the index"),
    checks.WRONG_CODES: ("codes", "a code that stands for nothing"),
    checks.WRONG_WINDOWS: ("window_starts", "a window holds passages that are not its own"),
}


class Index:
    """Read-only arrays of one generation.

    terms/term_ends         the vocabulary, sorted by UTF-8 bytes
    offsets                 int64 [2 * terms + 1]: where each list starts in documents and codes
    documents, codes        postings: passage numbers, and (field, frequency, norm) pairs by number in `pairs`
    best_codes              each list's highest code; codes are ordered by the score they give
    long_lists              the lists that stand in most windows of passages; for each of them, by window,
    window_starts           where it stands, and
    window_best             its best code + 1
    stream, stream_ends,    every passage's terms by position, packed: see `kernels/stream.py`
    ranked
    title_positions         how many positions of a passage's stream are its title's
    text, text_ends,        titles and texts in compressed blocks, and the digest that names them: see `stored_text.py`
    text_dictionary, passages
    ids, id_ends, id_slots  stored ids and their hash table
    metadata, metadata_ends a passage's metadata as JSON, only where some passage has any
    sources                 the state of `orienteer sync` as JSON, only in an index that follows a folder
    """

    def __init__(self, manifest: Manifest, arrays: dict[str, NDArray[Any]], folder: Path | None = None):
        self.manifest, self.folder = manifest, folder
        self.arrays = arrays
        self.size = manifest.counts["passages"]
        self.terms = manifest.counts["terms"]
        self._idf: dict[tuple[int, int], np.float32] = {}
        self._ids: dict[int, str] = {}
        self.remembered: dict[FieldTerms, Postings | None] = {}  # of single terms that were looked up
        self._checked = np.zeros(FIELD_COUNT * self.terms, np.bool_)  # lists that were found sound

    @classmethod
    def open(cls, path: Path | str) -> Index:
        """The index at `path`, which is in one segment; `segments.open_segments` opens any."""
        manifest, segments = open_latest(Path(path))
        if manifest.base is not None:
            raise IndexVersionError(f"{path} is in two segments; `orienteer index --out {path} --merge` makes it one")
        return cls.of(manifest, segments[0], Path(path))

    @classmethod
    def of(cls, manifest: Manifest, arrays: dict[str, NDArray[Any]], folder: Path) -> Index:
        """One segment whose structure is checked."""
        if missing := set(ARRAYS) - set(OPTIONAL_ARRAYS) - set(arrays):
            raise IndexCorruptError(f"{folder} lacks {', '.join(sorted(missing))}; build the index again")
        check_structure(manifest.counts, arrays)
        return cls(manifest, arrays, folder)

    def array(self, name: str) -> NDArray[Any]:
        return self.arrays[name]

    def check_lists(self, numbers: NDArray[np.int64]) -> None:
        """Raises IndexCorruptError where a list holds what no kernel may walk; a list is checked at its first use."""
        if self._checked[numbers].all():
            return
        if scan.is_time():
            for number in sorted({*numbers[~self._checked[numbers]].tolist()}):
                if wrong := scan.check_list(self, number):
                    raise damaged(_WRONG[wrong][0], f"list {number}: {_WRONG[wrong][1]}")
                self._checked[number] = True
            return
        wrong, number = checks.check_lists(
            self.array("documents"), self.array("codes"), self.array("offsets"), self.array("long_lists"),
            self.array("window_starts"), self.size, self.array("pairs").size // 3, numbers, self._checked,
        )  # fmt: skip
        if wrong:
            raise damaged(_WRONG[wrong][0], f"list {number}: {_WRONG[wrong][1]}")

    def check_stream(self) -> None:
        """Raises IndexCorruptError where a position holds no term; reads the whole stream."""
        stream, *coding = self.packed
        if not streams.is_sound(stream, self.array("stream_ends"), *coding):
            raise damaged("stream", "a term that is not in the vocabulary")

    @property
    def passages_fingerprint(self) -> str:
        """Names ids, titles and texts in their order, whatever else the index holds."""
        return self.array("passages").tobytes().hex()

    @cached_property
    def packed(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
        """The stream, and what is needed to unpack it."""
        return self.array("stream"), self.array("ranked"), *streams.classes(self.terms)

    @cached_property
    def rank_of(self) -> NDArray[np.int64]:
        """[terms + 1]: each term's rank in the stream; the last is that of no term."""
        ranks = np.full(self.terms + 1, -1)
        ranks[self.array("ranked")] = np.arange(self.terms)
        return ranks

    @cached_property
    def text(self) -> StoredText:
        return StoredText(self.size, *map(self.array, ("text", "text_ends", "text_dictionary")))

    @cached_property
    def field_counts(self) -> NDArray[np.int64]:
        """[2, 2]: passages that have the field, terms in it."""
        counts = self.manifest.counts
        return np.array(
            [[counts["contents_passages"], counts["contents_length"]],
             [counts["title_passages"], counts["title_length"]]]
        )  # fmt: skip

    @cached_property
    def saturation(self) -> NDArray[np.float32]:
        """[codes]: 1 + frequency · cache[norm] of each pair."""
        values = saturations(self.array("pairs").reshape(-1, 3), self.field_counts)
        values.flags.writeable = False
        return values

    @cached_property
    def block_bounds(self) -> BlockBounds:
        return BlockBounds(self.size, self.array("long_lists").size, self.saturation)

    def saturation_with(self, pairs: list[tuple[int, int, int]]) -> NDArray[np.float32]:
        """`saturation` followed by that of further (field, frequency, norm) pairs."""
        more = saturations(np.array(pairs, np.int64).reshape(-1, 3), self.field_counts)
        values = np.concatenate([self.saturation, more])
        values.flags.writeable = False
        return values

    @cached_property
    def code_of(self) -> dict[tuple[int, int, int], int]:
        """Each (field, frequency, norm) pair's code."""
        pairs = self.array("pairs").reshape(-1, 3).tolist()
        return {(field, frequency, norm): code for code, (field, frequency, norm) in enumerate(pairs)}

    def remember(self, postings: Mapping[FieldTerms, Postings | None]) -> None:
        if len(self.remembered) + len(postings) > _REMEMBERED:
            self.remembered = {}  # another thread may still look into the old one
        self.remembered.update(postings)

    def frequency(self, field: int, term: int) -> int:
        """In how many passages' field the term stands."""
        number = field * self.terms + term
        offsets = self.array("offsets")
        return int(offsets[number + 1] - offsets[number])

    def occurrences(self, term: int) -> int:
        """How often the term stands in the contents of all passages."""
        self.check_lists(np.array([term]))
        offsets, pairs = self.array("offsets"), self.array("pairs").reshape(-1, 3)
        return int(pairs[self.array("codes")[offsets[term] : offsets[term + 1]], 1].sum())

    def stream(self, number: int) -> NDArray[Any]:
        """A passage's terms by position, -1 for a removed stop word."""
        return self.streams(np.array([number]))[0]

    def streams(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The terms of passages by position, one passage after another, and where each ends."""
        ends = self.array("stream_ends")
        begins = np.where(numbers > 0, ends[numbers - 1], 0)
        stream, *coding = self.packed
        found, stops = streams.unpack(stream, begins, ends[numbers], *coding)
        if found.size and found.min() <= streams.WRONG:
            raise damaged("stream", "a term that is not in the vocabulary")
        return found, stops

    def streams_of(self, numbers: Sequence[int]) -> list[NDArray[np.int64]]:
        """`stream` of many passages."""
        if not numbers:
            return []
        found, stops = self.streams(np.array(numbers, np.int64))
        flat, ends = found.astype(np.int64), stops.tolist()
        return [flat[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def terms_at(self, numbers: NDArray[np.int64]) -> list[str]:
        """`term` of many numbers."""
        ends, letters = self.array("term_ends"), self.array("terms").data
        try:
            return [
                str(letters[start:end], "utf-8")
                for start, end in zip(ends[numbers].tolist(), ends[numbers + 1].tolist(), strict=True)
            ]
        except UnicodeDecodeError:
            raise damaged("terms", "it is not UTF-8") from None

    def frequencies_of(self, field: int, numbers: NDArray[np.int64]) -> list[int]:
        """`frequency` of many terms."""
        offsets, lists = self.array("offsets"), field * self.terms + numbers
        counts: list[int] = (offsets[lists + 1] - offsets[lists]).tolist()
        return counts

    def idf(self, field: int, frequency: int) -> np.float32:
        if (value := self._idf.get((field, frequency))) is None:
            passages = int(self.field_counts[field, 0])
            # A segment's own list may be longer than the collection, whose statistics leave out deleted passages.
            if frequency > (most := max(passages, self.manifest.counts[_PASSAGES_WITH[field]])):
                raise damaged("offsets", f"a term in {frequency:,} passages of {most:,}")
            value = self._idf[field, frequency] = bm25.idf(passages, frequency)
        return value

    def number(self, passage_id: str) -> int | None:
        """The passage's number in index order."""
        wanted = passage_id.encode("utf-8", "replace")
        slots, ends, letters = self.array("id_slots"), self.array("id_ends"), self.array("ids")
        mask = slots.size - 1
        slot = zlib.crc32(wanted) & mask
        while passage := int(slots[slot]):
            if letters[ends[passage - 1] : ends[passage]].tobytes() == wanted:
                return passage - 1
            slot = (slot + 1) & mask
        return None

    def id(self, number: int) -> str:
        if (known := self._ids.get(number)) is not None:
            return known
        if len(self._ids) > _REMEMBERED:
            self._ids = {}  # another thread may still look into the old one
        ends = self.array("id_ends")
        found = self._ids[number] = _decoded("ids", self.array("ids")[ends[number] : ends[number + 1]])
        return found

    def passage(self, number: int) -> Passage:
        title, contents = self.text[number]
        return Passage(self.id(number), _decoded("text", title), _decoded("text", contents), self.metadata(number))

    @property
    def has_metadata(self) -> bool:
        return "metadata" in self.arrays

    def metadata(self, number: int) -> dict[str, Any]:
        """What is known of a passage beside title and text; empty in an index without metadata."""
        if not self.has_metadata:
            return {}
        ends, letters = self.array("metadata_ends"), self.array("metadata")
        data = letters[int(ends[number - 1]) if number else 0 : int(ends[number])].tobytes()
        try:
            known = json.loads(data) if data else {}
        except (ValueError, RecursionError):
            known = None
        if not isinstance(known, dict):
            raise damaged("metadata", f"that of passage {number} is no JSON object")
        return known

    @cached_property
    def metadata_filter(self) -> MetadataFilter:
        return MetadataFilter(self.arrays.get("metadata_ends"), self.arrays.get("metadata"), self.size)

    def term(self, number: int) -> str:
        ends = self.array("term_ends")
        return _decoded("terms", self.array("terms")[ends[number] : ends[number + 1]])


def open_parts(path: Path | str) -> tuple[Manifest, list[Index], NDArray[np.int64]]:
    """The manifest, the segments of the index, and the numbers of the first one's deleted passages; all checked."""
    manifest, arrays = open_latest(Path(path))
    if manifest.base is None:
        return manifest, [Index.of(manifest, arrays[0], Path(path))], np.empty(0, np.int64)
    parts = [Index.of(manifest.base, arrays[0], Path(path)), Index.of(manifest, arrays[1], Path(path))]
    deleted = parts[1].array("deleted")
    check_deleted(deleted, parts[0].size)
    return manifest, parts, deleted


def verify_index(path: Path) -> list[str]:
    """Reads every byte: returns the files whose checksum does not match; raises where the structure is wrong."""
    if found := verify(path):
        return found
    for index in open_parts(path)[1]:
        index.check_lists(np.arange(FIELD_COUNT * index.terms))
        index.check_stream()
    return []


def _decoded(array: str, data: NDArray[Any] | bytes) -> str:
    try:
        return bytes(data).decode()
    except UnicodeDecodeError:
        raise damaged(array, "it is not UTF-8") from None


def saturations(
    pairs: NDArray[Any], totals: NDArray[np.int64], similarity: Similarity | None = None
) -> NDArray[np.float32]:
    """1 + frequency · cache[norm], the part of a term's score that is free of its weight.

    pairs [codes, 3]: field, frequency, norm; totals [2, 2]: passages that have the field, terms in it.
    """
    parameters = ((bm25.K1, bm25.B),) * FIELD_COUNT
    if similarity is not None:
        k1 = np.float32(similarity.k1)
        parameters = ((k1, np.float32(similarity.b)), (k1, np.float32(similarity.title_b)))
    rows = zip(totals.tolist(), parameters, strict=True)
    caches = np.stack([bm25.norm_cache(length, passages, *own) for (passages, length), own in rows])
    values: NDArray[np.float32] = np.float32(1) + pairs[:, 1].astype(np.float32) * caches[pairs[:, 0], pairs[:, 2]]
    return values
