"""Several embedded indexes as one engine: the results of one index over all passages, to the bit.

Passages are ordered by shard, then by their order within it. What BM25 needs of the whole collection (how many
passages have a field, how long it is on average, in how many a term stands) is summed over the shards; each shard then
scores its own passages with these sums, and the best k of all shards' best k are the best k.

A `Shard` takes and gives only queries, strings and arrays, so it may live anywhere. Where it lives is a `Fleet`'s
business: in this process (`LocalFleet`), each in its own (`ProcessFleet`), or each in an actor of a cluster.
"""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from hashlib import blake2b
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from orienteer.data.passage import Passage
from orienteer.engine import bm25
from orienteer.engine import refine as refining
from orienteer.engine.analysis import analyze
from orienteer.engine.clauses import (
    Clause,
    Compiled,
    Lists,
    Postings,
    Rows,
    Text,
    compile_query,
    find_terms,
    text_of,
    too_many_clauses,
)
from orienteer.engine.embedded import EmbeddedEngine, HitLists, Hits
from orienteer.engine.index import ARRAYS, FIELD_NUMBER, NO_TERM, Index, saturations
from orienteer.engine.kernels.tokenize import hash_terms
from orienteer.errors import DuplicateIdError, OrienteerError, UnknownFieldError, UnknownPassageError
from orienteer.query import Query, Refinement
from orienteer.query.refinement import MAX_CLAUSES

Word: TypeAlias = tuple[int, str]  # a field's number and an index term
State: TypeAlias = tuple[Query, Sequence[Refinement]]
_REMEMBERED = 1 << 20  # words whose frequency the engine keeps


class ShardLostError(OrienteerError):
    """A shard's process that ended, and ended again when it was started anew."""


@dataclass(frozen=True)
class ShardFacts:
    """What the whole has to know of a part."""

    passages: int
    field_counts: NDArray[np.int64]  # [2, 2]: passages that have the field, terms in it
    fingerprint: str


class Found(NamedTuple):
    """Result lists of one shard; numbers are the shard's own."""

    numbers: NDArray[np.int64]  # [lists, k]
    scores: NDArray[np.float32]  # [lists, k]; -inf where a list has ended


class Shard:
    """One part of the collection, which scores by the statistics of the whole."""

    def __init__(self, path: Path | str):
        self._index = Index.open(path)

    def facts(self) -> ShardFacts:
        return ShardFacts(self._index.size, self._index.field_counts, self._index.manifest.fingerprint)

    def join(self, totals: NDArray[np.int64]) -> None:
        """Score from now on with the field statistics of the whole collection [2, 2]."""
        self._index = with_totals(self._index, totals)

    def frequencies(self, words: Sequence[Word]) -> NDArray[np.int64]:
        """In how many of this shard's passages each word stands."""
        numbers = find_terms(self._index, [term for _, term in words])
        found = [
            self._index.frequency(field, number) if number != NO_TERM else 0
            for (field, _), number in zip(words, numbers.tolist(), strict=True)
        ]
        return np.array(found, np.int64)

    def search(self, queries: Sequence[Query], k: int, frequencies: Mapping[Word, int]) -> Found:
        """The shard's top k of each query; `frequencies` are the whole collection's, of every word of the queries."""
        engine = _PartEngine(self._index, frequencies)
        return _found([engine.search(query, k) for query in queries], k)

    def refine(self, states: Sequence[State], k: int, frequencies: Mapping[Word, int]) -> list[Found]:
        """The shard's top k of query + r for every r of every state."""
        engine = _PartEngine(self._index, frequencies)
        return [_found(engine.refine(query, refinements, k), k) for query, refinements in states]

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
    arrays = {name: index.array(name) for name in ARRAYS}
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

    def __init__(self, local: Lists, frequencies: Mapping[Word, int]):
        self.index, self._local, self._frequencies = local.index, local, frequencies

    def find(self, texts: Iterable[Text]) -> dict[Text, Postings | None]:
        wanted = list(texts)
        known = self._local.find(wanted)
        return {text: self.weighed(text, postings) if (postings := known[text]) else None for text in wanted}

    def weighed(self, text: Text, postings: Postings) -> Postings:
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


class _PartEngine(EmbeddedEngine):
    """The embedded engine over a shard that has joined, for queries of words whose frequencies are given."""

    def __init__(self, index: Index, frequencies: Mapping[Word, int]):
        super().__init__(index, threads=1)
        self._frequencies = frequencies

    def search(self, query: Query, k: int = 5) -> Hits:
        return self._run(self._compiled(query), k)

    def refine(self, query: Query, refinements: Sequence[Refinement], k: int = 5) -> HitLists:
        k = max(0, min(k, self.index.size))
        base = self._compiled(query)
        if base.impossible or k == 0 or not refinements:
            return HitLists.empty(self.index, len(refinements))
        numbers, scores, counts = refining.run(self.index, base, refining.plan(base, refinements), k)
        for r in np.flatnonzero(counts < 0).tolist():
            hits = self.search(query.refine(refinements[r]), k)
            counts[r] = len(hits)
            numbers[r, : len(hits)], scores[r, : len(hits)] = hits.numbers, hits.scores
        return HitLists(self.index, numbers, scores, counts)

    def _compiled(self, query: Query) -> Compiled:
        local = compile_query(self.index, query)
        lists = _GlobalLists(local.lists, self._frequencies)

        def weighed(clauses: list[Clause]) -> list[Clause]:
            return [clause._replace(postings=lists.weighed(clause.text, clause.postings)) for clause in clauses]

        must, should, must_not = weighed(local.must), weighed(local.should), weighed(local.must_not)
        return replace(local, must=must, should=should, must_not=must_not, lists=lists)


def _found(lists: Sequence[Hits] | HitLists, k: int) -> Found:
    numbers = np.zeros((len(lists), k), np.int64)
    scores = np.full((len(lists), k), -np.inf, np.float32)
    if isinstance(lists, HitLists):
        width = lists.numbers.shape[1]
        here = np.arange(width) < lists.counts[:, None]
        np.copyto(numbers[:, :width], lists.numbers, where=here)
        np.copyto(scores[:, :width], lists.scores, where=here)
        return Found(numbers, scores)
    for row, hits in enumerate(lists):
        numbers[row, : len(hits)], scores[row, : len(hits)] = hits.numbers, hits.scores
    return Found(numbers, scores)


class Fleet(Protocol):
    """Where the shards live."""

    def __len__(self) -> int: ...

    def ask(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of every shard, each with its own arguments, all at once; answers in the shards' order."""
        ...

    def close(self) -> None: ...


class LocalFleet:
    """Shards in this process, each asked in a thread of its own: the kernels let go of Python's lock."""

    def __init__(self, paths: Sequence[Path | str]):
        self._shards = [Shard(path) for path in paths]
        self._pool = ThreadPoolExecutor(max(1, len(paths)), "shard")

    def __len__(self) -> int:
        return len(self._shards)

    def ask(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        if len(self._shards) == 1:
            return [getattr(self._shards[0], method)(*arguments[0])]
        calls = [
            self._pool.submit(getattr(shard, method), *own) for shard, own in zip(self._shards, arguments, strict=True)
        ]
        return [call.result() for call in calls]

    def close(self) -> None:
        self._pool.shutdown()


class ProcessFleet:
    """Shards in processes of their own. One that ends is started anew and asked again: shards only read."""

    def __init__(self, paths: Sequence[Path | str]):
        self._context = multiprocessing.get_context("spawn")  # a fork would copy threads' locks as they happen to be
        self._paths = [str(path) for path in paths]
        self._totals: tuple[Any, ...] | None = None
        self._lock = threading.Lock()  # a pipe carries one conversation
        self._processes = [self._start(path) for path in self._paths]

    def __len__(self) -> int:
        return len(self._paths)

    def ask(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        with self._lock:
            if method == "join":
                self._totals = arguments[0]
            sent = [self._send(at, method, own) for at, own in enumerate(arguments)]
            answers = [
                self._receive(at, method, own, whole)
                for at, (own, whole) in enumerate(zip(arguments, sent, strict=True))
            ]
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return answers

    def close(self) -> None:
        for process, pipe in self._processes:
            pipe.close()
            process.join(5)
            if process.is_alive():
                process.kill()

    def _start(self, path: str) -> tuple[Any, Connection]:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(path, theirs), daemon=True, name=f"shard {path}")
        process.start()
        theirs.close()
        return process, ours

    def _send(self, at: int, method: str, arguments: tuple[Any, ...]) -> bool:
        try:
            self._processes[at][1].send((method, arguments))
        except OSError:
            return False
        return True

    def _receive(self, at: int, method: str, arguments: tuple[Any, ...], sent: bool) -> Any:
        try:
            if sent:
                return self._processes[at][1].recv()
        except (EOFError, OSError):
            pass
        try:
            process, pipe = self._processes[at]
            process.kill()
            pipe.close()
            process, pipe = self._processes[at] = self._start(self._paths[at])
            if self._totals is not None and method != "join":
                pipe.send(("join", self._totals))
                pipe.recv()
            pipe.send((method, arguments))
            return pipe.recv()
        except (EOFError, OSError):
            return ShardLostError(
                f"the process of the shard {self._paths[at]} ended twice; is there memory enough for it?"
            )


def _serve(path: str, pipe: Connection) -> None:
    """A shard's process: answers until nobody asks any more."""
    shard: Shard | None = None
    while True:
        try:
            method, arguments = pipe.recv()
        except EOFError:
            return
        answer: Any
        try:
            shard = shard or Shard(path)
            answer = getattr(shard, method)(*arguments)
        except Exception as error:
            answer = error
        pipe.send(answer)


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
        """The best k of all shards' lists; equal scores in the order of the shards, and of the passages in them."""
        numbers = np.concatenate(
            [part.numbers + start for part, start in zip(parts, self._starts[:-1], strict=True)], axis=1
        )
        scores = np.concatenate([part.scores for part in parts], axis=1)
        order = np.lexsort((numbers, -scores), axis=-1)[:, :k]
        numbers, scores = np.take_along_axis(numbers, order, 1), np.take_along_axis(scores, order, 1)
        here = scores > -np.inf
        names = cast(Index, _Names(self._fleet, self._starts, numbers[here]))  # of an index, a list needs only ids
        return HitLists(names, numbers, scores, here.sum(axis=1))


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
