"""Several embedded indexes as one engine: the results of one index over all passages, to the bit.

Passages are ordered by shard, then by their order within it. Statistics are summed over the shards before anything is
scored; each shard then scores its own passages with these sums, and the best k of all shards' best k are the best k.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from orienteer.data.passage import Passage
from orienteer.engine.embedded import bm25
from orienteer.engine.embedded.analysis import analyze
from orienteer.engine.embedded.clauses import text_of, too_many_clauses
from orienteer.engine.embedded.index import FIELD_NUMBER
from orienteer.engine.hits import HitLists, Hits
from orienteer.engine.sharded.shard import Found, ShardFacts, Word
from orienteer.engine.sharded.shard_transport import Fleet, LocalFleet, ProcessFleet
from orienteer.errors import DuplicateIdError, OrienteerError, UnknownFieldError, UnknownPassageError
from orienteer.query import Query, Refinement
from orienteer.query.refinement import MAX_CLAUSES

_REMEMBERED = 1 << 20  # words whose frequency the engine keeps


class _Names:
    """The ids of one answer's passages, fetched all at once when the first is looked at."""

    def __init__(self, fleet: Fleet, starts: NDArray[np.int64], numbers: NDArray[np.int64]):
        self._fleet, self._starts, self._numbers = fleet, starts, numbers
        self._ids: dict[int, str] | None = None

    def id(self, number: int) -> str:
        if self._ids is None:
            numbers = np.unique(self._numbers)
            cuts = np.searchsorted(numbers, self._starts)
            own = [
                (numbers[low:high] - start).tolist()
                for low, high, start in zip(cuts[:-1], cuts[1:], self._starts[:-1], strict=True)
            ]
            parts = self._fleet.ask("ids", [(part,) for part in own])
            self._ids = dict(zip(numbers.tolist(), [name for part in parts for name in part], strict=True))
        return self._ids[number]


class ShardedEngine:
    """`Engine` over a fleet of shards."""

    def __init__(self, fleet: Fleet):
        self._fleet = fleet
        facts: list[ShardFacts] = fleet.ask("facts", [()] * len(fleet))
        self._starts = np.cumsum([0, *(part.passages for part in facts)])  # [shards + 1]
        self._totals = np.array([part.field_counts for part in facts], np.int64).sum(axis=0).reshape(2, 2)
        self._frequencies: dict[Word, int] = {}
        fleet.ask("join", [(self._totals,)] * len(fleet))
        joined = "\n".join(part.fingerprint for part in facts)
        self.fingerprint = f"shards-{blake2b(joined.encode(), digest_size=16).hexdigest()}"

    def __len__(self) -> int:
        return int(self._starts[-1])

    def close(self) -> None:
        self._fleet.close()

    def search(self, query: Query, k: int = 5) -> Hits:
        return self.search_many([query], k)[0]

    def search_many(self, queries: Sequence[Query], k: int = 5) -> list[Hits]:
        k = max(0, min(k, len(self)))
        frequencies = self._look_up(word for query in queries for word in _words(query))
        found: list[Found] = self._fleet.ask("search", [(list(queries), k, frequencies)] * len(self._fleet))
        merged = self._merged(found, k)
        return [merged[at] for at in range(len(queries))]

    def refine(self, query: Query, refinements: Sequence[Refinement], k: int = 5) -> HitLists:
        return self.refine_many([query], [refinements], k)[0]

    def refine_many(
        self, queries: Sequence[Query], refinements: Sequence[Sequence[Refinement]], k: int = 5
    ) -> list[HitLists]:
        """`refine` for many sessions, asked of every shard in one call."""
        k = max(0, min(k, len(self)))
        states = [(query, list(own)) for query, own in zip(queries, refinements, strict=True)]
        words = (word for query, own in states for word in _words(query, own))
        frequencies = self._look_up(words)
        found: list[list[Found]] = self._fleet.ask("refine", [(states, k, frequencies)] * len(self._fleet))
        return [self._merged([part[at] for part in found], k) for at in range(len(states))]

    def passages(self, ids: Sequence[str]) -> list[Passage]:
        parts: list[list[Passage | None]] = self._fleet.ask("find", [(list(ids),)] * len(self._fleet))
        passages = []
        for passage_id, *found in zip(ids, *parts, strict=True):
            if (passage := next(filter(None, found), None)) is None:
                raise UnknownPassageError(f"no shard holds a passage {passage_id!r}")
            passages.append(passage)
        return passages

    def idf(self, field: str, term: str) -> float:
        if field not in FIELD_NUMBER:
            raise UnknownFieldError(f"unknown field {field!r}; expected contents or title")
        word = FIELD_NUMBER[field], term
        return float(bm25.idf(int(self._totals[word[0], 0]), self._look_up([word])[word]))

    def analyze(self, text: str) -> list[str]:
        return analyze(text)

    def check_ids(self) -> None:
        """Raise an error when two shards hold passages of one id, as an index of all would."""
        hashes = np.concatenate(self._fleet.ask("id_hashes", [()] * len(self._fleet)))
        order = np.argsort(hashes, kind="stable")
        same = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])
        for first, second in zip(order[same].tolist(), order[same + 1].tolist(), strict=True):
            names = _Names(self._fleet, self._starts, np.array([first, second]))
            if (twice := names.id(first)) == names.id(second):
                one, other = np.searchsorted(self._starts, np.array([first, second]), side="right").tolist()
                raise DuplicateIdError(
                    f"two passages have the id {twice!r} (in shard {one} and shard {other}); "
                    "ids must be unique over all shards",
                    twice,
                )

    def _look_up(self, words: Iterable[Word]) -> dict[Word, int]:
        """In how many passages of the whole collection each word stands."""
        wanted = list(dict.fromkeys(words))
        if len(self._frequencies) > _REMEMBERED:
            self._frequencies = {}
        known = self._frequencies
        if new := [word for word in wanted if word not in known]:
            counts = np.sum(self._fleet.ask("frequencies", [(new,)] * len(self._fleet)), axis=0)
            known.update(zip(new, counts.tolist(), strict=True))
        return {word: known[word] for word in wanted}

    def _merged(self, parts: Sequence[Found], k: int) -> HitLists:
        numbers, scores = merged(parts, self._starts, k)
        here = scores > -np.inf
        names = _Names(self._fleet, self._starts, numbers[here])
        return HitLists(names, numbers, scores, here.sum(axis=1))


def merged(
    parts: Sequence[Found], starts: NDArray[np.int64], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:  # both [lists, k]
    """The best k of all shards' lists; equal scores in the order of the shards, and of the passages in them.

    parts    what each shard found, by its own numbers
    starts   [shards + 1] the number of each shard's first passage in the whole
    """
    numbers = np.concatenate([part.numbers + start for part, start in zip(parts, starts[:-1], strict=True)], axis=1)
    scores = np.concatenate([part.scores for part in parts], axis=1)
    order = np.lexsort((numbers, -scores), axis=-1)[:, :k]
    return np.take_along_axis(numbers, order, 1), np.take_along_axis(scores, order, 1)


def _words(query: Query, refinements: Sequence[Refinement] = ()) -> list[Word]:
    """Every word whose frequency the query needs, alone and with each of the refinements."""
    terms = analyze(query.question)
    own = [text for refinement in query.refinements if (text := text_of(refinement)) is not None]
    more = [text for refinement in refinements if (text := text_of(refinement)) is not None]
    if (clauses := len(terms) + len(own) + bool(more)) > MAX_CLAUSES:
        raise too_many_clauses(clauses)
    return [(0, term) for term in terms] + [(text.field, term) for text in own + more for term in text.terms]


def open_shards(paths: Sequence[Path | str], *, processes: bool = False, check_ids: bool = True) -> ShardedEngine:
    """The indexes at `paths` as one engine; with `processes`, each in a process of its own."""
    if not paths:
        raise OrienteerError("no shard; name the folder of one index or more")
    engine = ShardedEngine(ProcessFleet(paths) if processes else LocalFleet(paths))
    if check_ids:
        engine.check_ids()
    return engine
