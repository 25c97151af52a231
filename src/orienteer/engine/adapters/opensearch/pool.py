"""A pool: the documents that may matter to a question, fetched once; refinements are looked at there.

A service answers each of a step's 600 refinements by a search. A pool answers them by arithmetic: it scores its own
documents as the service does, by the index's statistics and BM25 parameters. It holds the best documents of the
question and, for each word of a step, the best with this word; a refinement's hits are an estimate only where a
document that the pool lacks would be among them. Hits of a chosen query are the service's.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from orienteer.data.passage import Passage
from orienteer.engine.adapters.opensearch.engine import OpenSearchEngine, connect
from orienteer.engine.adapters.opensearch.settings import ServiceSettings
from orienteer.engine.embedded import bm25
from orienteer.engine.protocol import Hit
from orienteer.engine.request_counters import Counters
from orienteer.errors import SearchBudgetError
from orienteer.query import FIELDS, Field, Query, Refinement

DEPTH = 200  # hits of the question, as many as features of hits look at
HOLDING = 20  # documents for a required word: more than a list of hits, since boosts order them otherwise
_POOLS = 128  # questions: the sessions of a batch

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]


@dataclass(slots=True)
class Pool:
    """Documents by row, and in which of them each term stands how often."""

    passages: dict[str, Passage] = field(default_factory=dict)
    lengths: dict[Field, list[int]] = field(default_factory=lambda: {name: [] for name in FIELDS})
    rows: dict[Field, dict[str, list[tuple[int, int]]]] = field(default_factory=lambda: {name: {} for name in FIELDS})
    required: set[tuple[Query, Refinement]] = field(default_factory=set)  # words that were asked for, by query
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, passage: Passage, terms: Mapping[Field, Sequence[str]]) -> None:
        row = len(self.passages)
        self.passages[passage.id] = passage
        for name in FIELDS:
            self.lengths[name].append(len(terms[name]))
            for term, often in Counter(terms[name]).items():
                self.rows[name].setdefault(term, []).append((row, often))

    def frequency(self, name: Field, terms: Sequence[str]) -> Floats:
        """[rows]; of a phrase that of its rarest term, an estimate from above."""
        found = np.zeros((len(terms), len(self.passages)), np.float32)
        for at, term in enumerate(terms):
            for row, often in self.rows[name].get(term, ()):
                found[at, row] = often
        return np.asarray(found.min(0), np.float32)


class PooledEngine:
    """`Engine` whose `refine` is estimated on a pool for each question; all else is the service's."""

    def __init__(self, engine: OpenSearchEngine, depth: int = DEPTH, holding: int = HOLDING):
        self._engine, self._depth, self._holding = engine, depth, holding
        self._pools: dict[str, Pool] = {}
        self._lock = threading.Lock()
        self._norms = {name: _norms(engine, name) for name in FIELDS}

    @property
    def fingerprint(self) -> str:
        return self._engine.fingerprint

    @property
    def counters(self) -> Counters:
        """What was sent to the service."""
        return self._engine.counters

    def close(self) -> None:
        self._engine.close()

    def search(self, query: Query, k: int = 5) -> Sequence[Hit]:
        return self._engine.search(query, k)

    def search_many(self, queries: Sequence[Query], k: int = 5) -> Sequence[Sequence[Hit]]:
        return self._engine.search_many(queries, k)

    def idf(self, field: str, term: str) -> float:
        return self._engine.idf(field, term)

    def analyze(self, text: str) -> list[str]:
        return self._engine.analyze(text)

    def analyze_many(self, texts: Sequence[str]) -> list[list[str]]:
        return self._engine.analyze_many(texts)

    def passages(self, ids: Sequence[str]) -> list[Passage]:
        """The service is asked for those that no pool has."""
        with self._lock:
            pools = list(self._pools.values())
        known = {each: pool.passages[each] for pool in pools for each in ids if each in pool.passages}
        self._engine.analyze_many([passage.contents for passage in known.values()])  # as for those that are fetched
        missing = [each for each in dict.fromkeys(ids) if each not in known]
        known.update(zip(missing, self._engine.passages(missing) if missing else (), strict=True))
        return [known[each] for each in ids]

    def refine(self, query: Query, refinements: Sequence[Refinement], k: int = 5) -> list[list[Hit]]:
        pool = self._pool(query)
        with pool.lock:
            self._collect(pool, query, refinements)
            scores = self._scores(pool, query, refinements)
            ids = list(pool.passages)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return [
            [Hit(ids[row], float(scores[at, row])) for row in rows if scores[at, row] > -np.inf]
            for at, rows in enumerate(best.tolist())
        ]

    def _pool(self, query: Query) -> Pool:
        """A session begins with the question itself: then the pool is made anew, for the index may have changed."""
        with self._lock:
            pool = self._pools.pop(query.question, None) if query.refinements else None
            pool = self._pools[query.question] = pool or Pool()  # the last one used stands last
            if len(self._pools) > _POOLS:
                del self._pools[next(iter(self._pools))]
            return pool

    def _collect(self, pool: Pool, query: Query, refinements: Sequence[Refinement]) -> None:
        """The documents that the refinements may find: one search for each of their words."""
        found = [] if pool.passages else [hit.id for hit in self._engine.search(Query(query.question), self._depth)]
        words = dict.fromkeys(Refinement("+", each.field, each.term) for each in refinements)
        new = [each for each in words if (query, each) not in pool.required]
        try:
            lists = self._engine.refine_nearly(query, new, self._holding)
            pool.required.update((query, each) for each in new)
        except SearchBudgetError:
            lists = []  # what the pool holds has to do
        found += [each for ids in lists for each in ids]
        for name in FIELDS:  # else the first of them would bring those of every text analysed so far
            terms_of = [self._words(each) for each in new if each.field == name]
            self._engine.statistics.learn(name, [term for terms in terms_of for term in terms])
        passages = self._engine.stored_passages([each for each in dict.fromkeys(found) if each not in pool.passages])
        terms = {name: self._terms(name, passages) for name in FIELDS}
        for at, passage in enumerate(passages):
            pool.add(passage, {name: terms[name][at] for name in FIELDS})

    def _terms(self, name: Field, passages: Sequence[Passage]) -> list[list[str]]:
        """The terms of a field of each passage."""
        if name == "title":
            return self._analyse(name, [passage.title for passage in passages])
        whole = self._analyse(name, [passage.contents for passage in passages])
        if self._engine.info.meta:  # an index that we made, whose contents begin with the title
            return whole
        titles = self._analyse(name, [passage.title for passage in passages])
        return [terms[len(title) :] for terms, title in zip(whole, titles, strict=True)]

    def _analyse(self, name: Field, texts: Sequence[str]) -> list[list[str]]:
        return [[term for _, term in terms] for terms in self._engine.analysis.positioned_terms(name, texts)]

    def _scores(self, pool: Pool, query: Query, refinements: Sequence[Refinement]) -> Floats:
        """[refinements, rows]; -inf where the query with the refinement does not return the document."""
        base, must = np.zeros(len(pool.passages), np.float32), np.ones(len(pool.passages), np.bool_)
        any_should = np.zeros(len(pool.passages), np.bool_)
        clauses: list[tuple[str, Field, list[str], float]] = [
            ("or", "contents", [term], 1.0) for term in self.analyze(query.question)
        ]
        clauses += [(each.op, each.field, self._words(each), each.weight) for each in query.refinements]
        needs_should = True
        for op, name, terms, weight in clauses:
            if not terms:
                continue
            share = self._share(pool, name, terms)
            if op == "-":
                must &= share == 0
                continue
            base += np.float32(weight) * share
            if op == "+":
                must &= share > 0
                needs_should = False
            else:
                any_should |= share > 0
        scores = np.empty((len(refinements), len(pool.passages)), np.float32)
        shares: dict[tuple[Field, str], Floats | None] = {}
        matched = any_should if needs_should else np.ones_like(any_should)
        for at, each in enumerate(refinements):
            if (key := (each.field, each.term)) not in shares:
                words = self._words(each)
                shares[key] = self._share(pool, each.field, words) if words else None
            part = shares[key]
            if part is None:  # only stop words: nothing is refined
                scores[at] = np.where(must & matched, base, -np.inf)
            elif each.op == "-":
                scores[at] = np.where(must & matched & (part == 0), base, -np.inf)
            else:
                found = part > 0 if each.op == "+" else matched | (part > 0)
                scores[at] = np.where(must & found, base + np.float32(each.weight) * part, -np.inf)
        return scores

    def _words(self, refinement: Refinement) -> list[str]:
        [terms] = self._analyse(refinement.field, [refinement.term])
        return terms

    def _share(self, pool: Pool, name: Field, terms: Sequence[str]) -> Floats:
        """[rows]: what a clause with boost 1 adds to a document's score."""
        frequency = pool.frequency(name, terms)
        idf = sum(np.float32(self.idf(name, term)) for term in terms)
        inverse = self._norms[name][bm25.encode_lengths(np.array(pool.lengths[name], np.int64))]
        return np.asarray(idf - idf / (np.float32(1) + frequency * inverse), np.float32)


def _norms(engine: OpenSearchEngine, name: Field) -> Floats:
    """By norm byte, with the parameters of the index's own BM25 where its explanation tells them."""
    known = engine.measured[name]
    k1 = None if known.k1 is None else np.float32(known.k1)
    b = None if known.b is None else np.float32(known.b)
    return bm25.norm_cache(known.average_length or 1.0, 1, k1, b)


def connect_pooled(address: str | Path, settings: ServiceSettings | None = None) -> PooledEngine:
    """The engine over a service, its refinements looked at in a pool; credentials come from the environment."""
    return PooledEngine(connect(address, settings))
