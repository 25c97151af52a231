"""An open index: its arrays, memory-mapped, and what can be looked up in them."""

from __future__ import annotations

import json
import zlib
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orienteer.data.passage import Passage
from orienteer.engine.embedded import bm25
from orienteer.engine.embedded.store import Manifest, open_latest
from orienteer.errors import IndexCorruptError

FIELD_COUNT = 2
FIELD_NUMBER = {"contents": 0, "title": 1}
NO_TERM = -1
_REMEMBERED = 1 << 16  # ids

ARRAYS = (
    "best_codes", "codes", "documents", "id_ends", "id_slots", "ids", "long_lists", "norms", "offsets", "pairs",
    "stream", "stream_ends", "term_ends", "terms", "text", "text_ends", "title_positions",
    "window_best", "window_starts",
)  # fmt: skip


class Index:
    """Read-only arrays of one generation.

    terms/term_ends         the vocabulary, sorted by UTF-8 bytes
    offsets                 int64 [2 * terms + 1]: where each list starts in documents and codes
    documents, codes        postings: passage numbers, and (field, frequency, norm) pairs by number in `pairs`
    best_codes              each list's highest code; codes are ordered by the score they give
    long_lists              the lists that stand in most windows of passages; for each of them, by window,
    window_starts           where it stands, and
    window_best             its best code + 1
    stream, stream_ends     every passage's terms by position; -1 is a removed stop word
    title_positions         how many positions of a passage's stream are its title's
    text, text_ends         stored titles and texts; text_ends [passages, 2]
    ids, id_ends, id_slots  stored ids and their hash table
    """

    def __init__(self, manifest: Manifest, arrays: dict[str, NDArray[Any]]):
        self.manifest = manifest
        self._arrays = arrays
        self.size = manifest.counts["passages"]
        self.terms = manifest.counts["terms"]
        self._idf: dict[tuple[int, int], np.float32] = {}
        self._ids: dict[int, str] = {}

    @classmethod
    def open(cls, path: Path | str) -> Index:
        manifest, arrays = open_latest(Path(path))
        if missing := set(ARRAYS) - set(arrays):
            raise IndexCorruptError(f"{path} lacks {', '.join(sorted(missing))}; build the index again")
        return cls(manifest, arrays)

    def array(self, name: str) -> NDArray[Any]:
        return self._arrays[name]

    @property
    def passages_fingerprint(self) -> str:
        """Names ids, titles and texts in their order, whatever else the index holds."""
        files = self.manifest.files
        content = [files[f"{name}.npy"]["blake2b"] for name in ("ids", "id_ends", "text", "text_ends")]
        return blake2b(json.dumps(content).encode(), digest_size=16).hexdigest()

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
    def long_starts(self) -> NDArray[np.int64]:
        """Where each of `long_lists` starts in the postings."""
        starts: NDArray[np.int64] = self.array("offsets")[self.array("long_lists")]
        return starts

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

    def frequency(self, field: int, term: int) -> int:
        """In how many passages' field the term stands."""
        number = field * self.terms + term
        offsets = self.array("offsets")
        return int(offsets[number + 1] - offsets[number])

    def occurrences(self, term: int) -> int:
        """How often the term stands in the contents of all passages."""
        offsets, pairs = self.array("offsets"), self.array("pairs").reshape(-1, 3)
        return int(pairs[self.array("codes")[offsets[term] : offsets[term + 1]], 1].sum())

    def stream(self, number: int) -> NDArray[Any]:
        """A passage's terms by position, -1 for a removed stop word."""
        ends = self.array("stream_ends")
        return self.array("stream")[int(ends[number - 1]) if number else 0 : int(ends[number])]

    def idf(self, field: int, frequency: int) -> np.float32:
        if (value := self._idf.get((field, frequency))) is None:
            value = self._idf[field, frequency] = bm25.idf(int(self.field_counts[field, 0]), frequency)
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
        found = self._ids[number] = self.array("ids")[ends[number] : ends[number + 1]].tobytes().decode()
        return found

    def passage(self, number: int) -> Passage:
        ends, text = self.array("text_ends"), self.array("text")
        start = ends[2 * number - 1] if number else 0
        middle, end = ends[2 * number], ends[2 * number + 1]
        return Passage(self.id(number), text[start:middle].tobytes().decode(), text[middle:end].tobytes().decode())

    def term(self, number: int) -> str:
        ends = self.array("term_ends")
        return self.array("terms")[ends[number] : ends[number + 1]].tobytes().decode()


def saturations(pairs: NDArray[Any], totals: NDArray[np.int64]) -> NDArray[np.float32]:
    """1 + frequency · cache[norm], the part of a term's score that is free of its weight.

    pairs [codes, 3]: field, frequency, norm; totals [2, 2]: passages that have the field, terms in it.
    """
    caches = np.stack([bm25.norm_cache(int(length), int(passages)) for passages, length in totals])
    values: NDArray[np.float32] = np.float32(1) + pairs[:, 1].astype(np.float32) * caches[pairs[:, 0], pairs[:, 2]]
    return values
