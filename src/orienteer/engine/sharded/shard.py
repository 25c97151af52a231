"""One part of a collection that scores by the statistics of the whole.

What BM25 needs of the whole collection (how many passages have a field, how long it is on average, in how many a term
stands) is given to the shard; the passages and their postings are its own. It takes and gives only queries, strings and
arrays, so it may live anywhere: `shard_transport.py` calls it there, `engine.py` makes one engine of many.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from orienteer.data.passage import Passage
from orienteer.engine.embedded.clauses import Clause, Compiled, FieldTerms, Lists, Postings, Rows, find_terms
from orienteer.engine.embedded.engine import EmbeddedEngine
from orienteer.engine.embedded.index import FIELD_NUMBER, NO_TERM, Index, saturations
from orienteer.engine.embedded.kernels.tokenize import hash_terms
from orienteer.engine.hits import HitLists, Hits
from orienteer.query import Query, Refinement

TermKey: TypeAlias = tuple[int, str]  # a field's number and an index term
RefineRequest: TypeAlias = tuple[Query, Sequence[Refinement]]


@dataclass(frozen=True)
class ShardInfo:
    """What the engine needs to know of a shard."""

    passages: int
    field_counts: NDArray[np.int64]  # [2, 2]: passages that have the field, terms in it
    fingerprint: str


class ShardHits(NamedTuple):
    """Result lists of one shard; numbers are the shard's own."""

    numbers: NDArray[np.int64]  # [lists, k]
    scores: NDArray[np.float32]  # [lists, k]; -inf where a list has ended


class Shard:
    """One part of the collection, which scores by the statistics of the whole."""

    def __init__(self, path: Path | str):
        self._index = Index.open(path)

    def info(self) -> ShardInfo:
        return ShardInfo(self._index.size, self._index.field_counts, self._index.manifest.fingerprint)

    def set_totals(self, totals: NDArray[np.int64]) -> None:
        """Score from now on with the field statistics of the whole collection [2, 2]."""
        self._index = with_totals(self._index, totals)

    def frequencies(self, words: Sequence[TermKey]) -> NDArray[np.int64]:
        """In how many of this shard's passages each word stands."""
        numbers = find_terms(self._index, [term for _, term in words])
        counts = [
            self._index.frequency(field, number) if number != NO_TERM else 0
            for (field, _), number in zip(words, numbers.tolist(), strict=True)
        ]
        return np.array(counts, np.int64)

    def search(self, queries: Sequence[Query], k: int, frequencies: Mapping[TermKey, int]) -> ShardHits:
        """The shard's top k of each query; `frequencies` are the whole collection's, of every word of the queries."""
        engine = _ShardEngine(self._index, frequencies)
        return _shard_hits([engine.search(query, k) for query in queries], k)

    def refine(self, requests: Sequence[RefineRequest], k: int, frequencies: Mapping[TermKey, int]) -> list[ShardHits]:
        """The shard's top k of query + r for every r of every request."""
        engine = _ShardEngine(self._index, frequencies)
        return [_shard_hits(engine.refine(query, refinements, k), k) for query, refinements in requests]

    def ids(self, numbers: Sequence[int]) -> list[str]:
        return [self._index.id(number) for number in numbers]

    def find(self, ids: Sequence[str]) -> list[Passage | None]:
        """The passages with these ids; None where another shard has it, or none."""
        numbers = [self._index.number(passage_id) for passage_id in ids]
        return [None if number is None else self._index.passage(number) for number in numbers]

    def id_hashes(self) -> NDArray[np.uint64]:
        hashes: NDArray[np.uint64] = hash_terms(self._index.array("id_ends"), self._index.array("ids"))
        return hashes


def with_totals(index: Index, totals: NDArray[np.int64]) -> Index:
    """The index with the field statistics of a larger collection, of which it is a part.

    The bounds in an index are codes, ordered by the score they give; with another average length that order is a little
    different. So a bound becomes that code, of those up to it, which gives the highest score now.
    """
    arrays = dict(index.arrays)
    pairs = arrays["pairs"].reshape(-1, 3)
    highest = np.arange(len(pairs))
    now = saturations(pairs, totals)
    for field in FIELD_NUMBER.values():
        codes = np.flatnonzero(pairs[:, 0] == field)
        leads = now[codes] == np.maximum.accumulate(now[codes])
        highest[codes] = codes[np.maximum.accumulate(np.where(leads, np.arange(codes.size), 0))]
    if highest.size:
        arrays["best_codes"] = _frozen(highest[arrays["best_codes"]], arrays["best_codes"])
        windows = np.concatenate([[0], highest + 1])  # in `window_best` 0 is "not here"
        arrays["window_best"] = _frozen(windows[arrays["window_best"]], arrays["window_best"])
    joined = Index(index.manifest, arrays)
    joined.field_counts = totals
    return joined


def _frozen(values: NDArray[np.int64], like: NDArray[Any]) -> NDArray[Any]:
    values = values.astype(like.dtype)
    values.flags.writeable = False  # as mapped files are: a kernel compiled for one fits the other
    return values


class _GlobalLists(Lists):
    """A query's postings in one shard, with the idf of the whole collection."""

    def __init__(self, local: Lists, frequencies: Mapping[TermKey, int]):
        self.index, self._local, self._frequencies = local.index, local, frequencies

    def find(self, texts: Iterable[FieldTerms]) -> dict[FieldTerms, Postings | None]:
        wanted = list(texts)
        known = self._local.find(wanted)
        return {text: self.with_idf(text, postings) if (postings := known[text]) else None for text in wanted}

    def with_idf(self, text: FieldTerms, postings: Postings) -> Postings:
        idfs = [self.index.idf(text.field, self._frequencies[text.field, term]) for term in text.terms]
        return postings._replace(idf=idfs[0] if len(idfs) == 1 else np.float32(sum(map(float, idfs))))

    def saturation(self) -> NDArray[np.float32]:
        return self._local.saturation()

    def pairs(self) -> list[tuple[int, int, int]]:
        return self._local.pairs()

    def rows(self, clauses: Rows) -> NDArray[np.int64]:
        return self._local.rows(clauses)

    def arrays(self) -> tuple[Any, Any, Any, Any, Any]:
        return self._local.arrays()


class _ShardEngine(EmbeddedEngine):
    """The embedded engine over one shard, for queries of terms whose collection frequencies are given."""

    def __init__(self, index: Index, frequencies: Mapping[TermKey, int]):
        super().__init__(index, threads=1)
        self._frequencies = frequencies

    def _compile(self, query: Query) -> Compiled:
        local = super()._compile(query)
        lists = _GlobalLists(local.lists, self._frequencies)

        def with_idf(clauses: list[Clause]) -> list[Clause]:
            return [clause._replace(postings=lists.with_idf(clause.text, clause.postings)) for clause in clauses]

        must, should, must_not = with_idf(local.must), with_idf(local.should), with_idf(local.must_not)
        return replace(local, must=must, should=should, must_not=must_not, lists=lists)


def _shard_hits(lists: Sequence[Hits] | HitLists, k: int) -> ShardHits:
    numbers = np.zeros((len(lists), k), np.int64)
    scores = np.full((len(lists), k), -np.inf, np.float32)
    if isinstance(lists, HitLists):
        width = lists.numbers.shape[1]
        here = np.arange(width) < lists.counts[:, None]
        np.copyto(numbers[:, :width], lists.numbers, where=here)
        np.copyto(scores[:, :width], lists.scores, where=here)
        return ShardHits(numbers, scores)
    for row, hits in enumerate(lists):
        numbers[row, : len(hits)], scores[row, : len(hits)] = hits.numbers, hits.scores
    return ShardHits(numbers, scores)
