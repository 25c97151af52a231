"""The Engine contract made executable: `check_engine` asks ordinary and hard things and says what broke."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise, product

import numpy as np

from orienteer.data.passage import Passage
from orienteer.engine.protocol import Engine, Hit
from orienteer.errors import OrienteerError, TooManyClausesError, UnknownPassageError
from orienteer.query import FIELDS, Query, Refinement
from orienteer.query.refinement import MAX_CLAUSES

_MANY = 1000  # hits asked for where every hit is wanted; an answer of fewer is taken to be whole
_WORDS = 8  # of each field, from the most to the least frequent
_CLOSE = 1e-5  # relative; where engines may round a sum each in its own way


class EngineContractError(OrienteerError):
    """An engine that breaks a promise of the `Engine` protocol."""

    def __init__(self, promise: str, asked: str, came: object, expected: object):
        self.promise, self.asked = promise, asked
        super().__init__(
            f"the engine breaks a promise: {promise}\n"
            f"  asked:    {asked}\n  came:     {_shown(came)}\n  expected: {_shown(expected)}"
        )


def check_engine(engine: Engine, passages: Sequence[Passage], k: int = 5) -> None:
    """Raise `EngineContractError` for the first promise that the engine breaks.

    `passages` are passages it holds, all or some (a hundred are plenty), in the order in which they
    were indexed; every question is made of their words.
    """
    if not isinstance(engine, Engine):
        methods = ("search", "search_many", "refine", "passages", "idf", "analyze")
        missing = [name for name in methods if not hasattr(engine, name)]
        raise EngineContractError(
            "An engine has every method of the protocol.", f"the methods of {type(engine).__name__}",
            f"no {', '.join(missing)}", f"{', '.join(methods)}",
        )  # fmt: skip
    probe = _Probe(engine, passages, k)
    for promise in (_Probe.learn, *_PROMISES):
        probe.promise = " ".join((promise.__doc__ or promise.__name__).split())
        try:
            promise(probe)
        except EngineContractError:
            raise
        except Exception as error:
            came = f"{type(error).__name__}: {error}"
            raise EngineContractError(probe.promise, probe.asked, came, "an answer") from error


class _Probe:
    """An engine under examination, what is known of its passages, and what it was last asked."""

    def __init__(self, engine: Engine, passages: Sequence[Passage], k: int):
        self.engine, self.passages, self.k = engine, passages, k
        self.promise = self.asked = ""
        self.order = {passage.id: number for number, passage in enumerate(passages)}
        self.words: list[str] = []
        self.title_words: list[str] = []
        self.absent = ""

    def learn(self) -> None:
        """The passages have at least four words to ask for."""
        self.asked = "analyze(…) of the passages given to check_engine"
        self.words = _spread([self.engine.analyze(passage.contents) for passage in self.passages])
        self.title_words = _spread([self.engine.analyze(passage.title) for passage in self.passages])
        if len(self.words) < 4:
            self.fail(f"the words {self.words}", "at least 4; give check_engine more passages of the engine")
        self.absent = next(word for n in range(9) if not self.all(Query(word := "zqx" + "jq" * n)))

    def search(self, query: Query, k: int) -> list[Hit]:
        self.asked = f"search({str(query)!r}, k={k})"
        return self.well_formed(self.engine.search(query, k), k)

    def all(self, query: Query) -> list[Hit]:
        return self.search(query, _MANY)

    def well_formed(self, hits: Sequence[Hit], k: int) -> list[Hit]:
        """The hits, when they are hits at all: few enough, best first, each passage once, float32 scores."""
        hits = [Hit(*hit) for hit in hits]
        if len(hits) > k:
            self.fail(f"{len(hits)} hits", f"at most {k}")
        for hit in hits:
            if not isinstance(hit.id, str) or not isinstance(hit.score, float):
                self.fail(hit, "an id (str) and a score (float)")
            if float(np.float32(hit.score)) != hit.score or not 0 <= hit.score < math.inf:
                self.fail(f"a score of {hit.score!r}", "a finite float32 value of 0 or more")
        for better, worse in pairwise(hits):
            if better.score < worse.score:
                self.fail(f"{worse} after {better}", "the best first")
        if twice := [id for id, n in Counter(hit.id for hit in hits).items() if n > 1]:
            self.fail(f"the passage {twice[0]!r} more than once", "each passage once")
        return hits

    def expect(self, came: object, expected: object) -> None:
        if came != expected:
            self.fail(came, expected)

    def fail(self, came: object, expected: object) -> None:
        raise EngineContractError(self.promise, self.asked, came, expected)

    def queries(self) -> list[Query]:
        """A handful of ordinary queries, from one plain word to every operator at once."""
        a, b, c, d = self.words[:4]
        title = self.title_words[0] if self.title_words else a
        return [
            Query(a), Query(f"{a} {b} {c} {d}"),
            _query("+", a, question=b), _query("-", b, question=f"{a} {c}"),
            _query("^", title, "title", 4.0, question=f"{a} {b}"),
            Query(f"{a} {b}").refine(_term("or", c), _term("+", a), _term("-", d), _term("^", b, weight=0.1)),
        ]  # fmt: skip


def _analysis(probe: _Probe) -> None:
    """`analyze` gives the words of a text in order, lower-cased, without stop words."""
    for text, terms in {"The Quick QUICK fox": ["quick", "quick", "fox"], "of and the": [], "": []}.items():
        probe.asked = f"analyze({text!r})"
        probe.expect(list(probe.engine.analyze(text)), terms)
    for passage in probe.passages:
        probe.asked = f"analyze({passage.contents!r})"
        terms = probe.engine.analyze(passage.contents)
        if upper := [term for term in terms if any("A" <= letter <= "Z" for letter in term)]:
            probe.fail(upper, "lower case")


def _passages(probe: _Probe) -> None:
    """`passages` gives back what was indexed, in the order of the ids, and refuses an id it does not know."""
    wanted = [*reversed(probe.passages), *probe.passages[:1]]
    for passages in ([], wanted):
        probe.asked = f"passages({_shown([passage.id for passage in passages])})"
        probe.expect(list(probe.engine.passages([passage.id for passage in passages])), passages)
    unknown = "no such id"
    while unknown in probe.order:
        unknown += "!"
    probe.asked = f"passages([{unknown!r}])"
    try:
        came = probe.engine.passages([probe.passages[0].id, unknown])
    except UnknownPassageError:
        return
    probe.fail(came, "an UnknownPassageError")


def _number_of_hits(probe: _Probe) -> None:
    """A search gives the top k: none for k = 0, all when k is larger, the same ones first for every k."""
    for query in probe.queries():
        every = probe.all(query)
        probe.expect(probe.search(query, 0), [])
        for k in (1, 2, probe.k):
            probe.expect(probe.search(query, k), every[:k])


def _ties(probe: _Probe) -> None:
    """Equal scores come in the order in which the passages were indexed."""
    for word in probe.words:
        known = [hit for hit in probe.all(Query(word)) if hit.id in probe.order]
        for first, second in pairwise(known):
            if first.score == second.score and probe.order[first.id] > probe.order[second.id]:
                probe.fail(f"{first.id!r} before {second.id!r}, both {first.score}", "the one indexed first")


def _search_many(probe: _Probe) -> None:
    """`search_many` gives for each query what `search` gives, and gives it again when asked again."""
    queries = probe.queries() * 2
    wanted = [probe.search(query, probe.k) for query in queries]
    probe.asked = f"search_many({_shown([str(query) for query in queries])}, k={probe.k})"
    came = [probe.well_formed(hits, probe.k) for hits in probe.engine.search_many(queries, probe.k)]
    probe.expect(came, wanted)
    probe.asked = f"search_many([], k={probe.k})"
    probe.expect(list(probe.engine.search_many([], probe.k)), [])


def _refine(probe: _Probe) -> None:
    """`refine` gives for each refinement exactly what `search` gives for the refined query."""
    phrase = f"{probe.words[0]} {probe.words[1]}"
    terms = [*probe.words[:3], *probe.title_words[:2], probe.absent, "the", phrase]
    refinements = [_term("or", term) for term in terms]
    for term, field, (op, weight) in product(terms, FIELDS, (("+", 1.0), ("-", 1.0), ("^", 0.1), ("^", 6.0))):
        refinements.append(_term(op, term, field, weight))
    for query in [*probe.queries(), Query(""), Query(probe.absent), Query("the")]:
        probe.asked = f"refine({str(query)!r}, …, k={probe.k})"
        came = list(probe.engine.refine(query, refinements, probe.k))
        probe.expect(f"{len(came)} answers", f"{len(refinements)} answers")
        for refinement, hits in zip(refinements, came, strict=True):
            wanted = probe.search(query.refine(refinement), probe.k)
            probe.asked = f"refine({str(query)!r}, [{str(refinement)!r}], k={probe.k})"
            probe.expect(probe.well_formed(hits, probe.k), wanted)
        probe.asked = f"refine({str(query)!r}, [], k={probe.k})"
        probe.expect(list(probe.engine.refine(query, [], probe.k)), [])


def _required(probe: _Probe) -> None:
    """`+term` finds the passages that have the term and no others, scores like the plain term, and
    finds nothing when no passage has it.
    """
    for field, words in zip(FIELDS, (probe.words, probe.title_words), strict=True):
        for word in words:
            hits = probe.all(_query("+", word, field))
            for hit in hits[:20]:
                _has(probe, hit.id, field, word)
            if len(hits) < _MANY:
                found = {hit.id for hit in hits}
                for passage in probe.passages:
                    if word in _terms(probe, passage, field) and passage.id not in found:
                        probe.fail(f"no hit {passage.id!r}", f"the passage has {word!r} in {field}")
            probe.expect(probe.all(_query("^", word, field)), hits)
    probe.expect(probe.all(_query("+", probe.absent, question=probe.words[0])), [])


def _excluded(probe: _Probe) -> None:
    """`-term` takes away the passages that have the term, changes no score, and finds nothing by itself."""
    for word, other in pairwise(probe.words):
        having = {hit.id for hit in probe.all(_query("+", other))}
        plain = probe.all(Query(word))
        if len(having) < _MANY and len(plain) < _MANY:
            wanted = [hit for hit in plain if hit.id not in having]
            probe.expect(probe.all(_query("-", other, question=word)), wanted)
        probe.expect(probe.all(_query("-", word)), [])


def _optional(probe: _Probe) -> None:
    """Words of a query are optional, and each adds its score."""
    for word, other in pairwise(probe.words):
        parts = [probe.all(Query(word)), probe.all(Query(other))]
        if all(len(hits) < _MANY for hits in parts):
            sums: dict[str, float] = defaultdict(float)
            for hit in parts[0] + parts[1]:
                sums[hit.id] += hit.score
            _close(probe, probe.all(Query(f"{word} {other}")), sums)
            required = {hit.id for hit in parts[0]}
            wanted = {id: score for id, score in sums.items() if id in required}
            _close(probe, probe.all(_query("+", word, question=other)), wanted)


def _boosts(probe: _Probe) -> None:
    """`^boost` multiplies a term's score and never filters; the same word twice counts twice."""
    for word in probe.words[:3]:
        plain = probe.all(Query(word))
        for boost in (2.0, 0.1):
            scores = {hit.id: hit.score * boost for hit in plain}
            _close(probe, probe.all(_query("^", word, weight=boost)), scores)
        twice = {hit.id: hit.score * 2 for hit in plain}
        _close(probe, probe.all(Query(f"{word} {word}")), twice)
        _close(probe, probe.all(_query("+", word, question=word)), twice)


def _stop_words(probe: _Probe) -> None:
    """A clause of stop words alone is as if it were not there."""
    probe.expect(probe.all(Query("the of")), [])
    probe.expect(probe.all(Query("")), [])
    for query in probe.queries():
        wanted = probe.search(query, probe.k)
        for op, field in product(("+", "-", "^"), FIELDS):
            probe.expect(probe.search(query.refine(_term(op, "the", field)), probe.k), wanted)
        probe.expect(probe.search(Query(f"the {query.question} of", query.refinements), probe.k), wanted)


def _question_is_words(probe: _Probe) -> None:
    """A question is only words: what looks like an operator in it has no meaning."""
    a, b, c, d = probe.words[:4]
    wanted = probe.search(Query(f"{a} {b} {c} {d}"), probe.k)
    for question in (
        f"+{a} -{b} {c}* ({d}",
        f'"{a} {b}" !{c} {d}~',
        f"{a} AND NOT {b} OR {c} && {d}",
        f"{a}^ {{{b} [{c}] \\ {d}/ :?",
        f"- {a} + {b} | {c} || {d} \\",
    ):
        probe.expect(probe.search(Query(question), probe.k), wanted)


def _phrases(probe: _Probe) -> None:
    """A term of several words is a phrase: it finds passages where they stand side by side, in that order."""
    for passage in probe.passages[:10]:
        for words in pairwise(passage.text.split()[:12]):
            phrase = tuple(probe.engine.analyze(" ".join(words)))
            if len(phrase) != 2 or not all(word.isascii() and word.isalnum() for word in words):
                continue
            hits = probe.all(_query("+", " ".join(words)))
            if len(hits) < _MANY and passage.id not in {hit.id for hit in hits}:
                probe.fail(f"no hit {passage.id!r}", "the passage with this phrase")
            for found in probe.engine.passages([hit.id for hit in hits[:5]]):
                if phrase not in pairwise(probe.engine.analyze(found.contents)):
                    probe.fail(f"the hit {found.id!r}", f"{' '.join(phrase)!r} side by side in it")


def _idf(probe: _Probe) -> None:
    """idf is positive and falls as more passages have the term; a plain term scores less than its idf."""
    for field, words in zip(FIELDS, (probe.words, probe.title_words), strict=True):
        found: list[tuple[int, float, str]] = []
        for word in [*words, probe.absent]:
            hits = probe.all(_query("^", word, field))
            probe.asked = f"idf({field!r}, {word!r})"
            idf = probe.engine.idf(field, word)
            if not isinstance(idf, float) or not 0 < idf < math.inf:
                probe.fail(idf, "a float above 0")
            if hits and hits[0].score > idf * (1 + _CLOSE):
                probe.fail(idf, f"more than the score {hits[0].score} of {word!r} alone")
            if len(hits) < _MANY:
                found.append((len(hits), idf, word))
        for (few, high, rare), (many, low, common) in pairwise(sorted(found)):
            if (high <= low) if few < many else (high != low):
                relation = "more than" if few < many else "the same as"
                probe.asked = f"idf({field!r}, {rare!r}) and idf({field!r}, {common!r})"
                probe.fail(
                    f"{high} and {low}",
                    f"the first {relation} the second: {few} and {many} passages have the terms",
                )


def _too_many_clauses(probe: _Probe) -> None:
    """A query of more than 1,024 clauses, once analysed, is refused with a TooManyClausesError."""
    question = " ".join(f"{probe.absent}{n}-{probe.absent}x{n}" for n in range(MAX_CLAUSES // 2 + 1))
    probe.asked = f"search({question[:40]!r} and so on, {MAX_CLAUSES + 2} terms, k=1)"
    try:
        came = probe.engine.search(Query(question), 1)
    except TooManyClausesError:
        return
    probe.fail(came, "a TooManyClausesError")


_PROMISES: tuple[Callable[[_Probe], None], ...] = (
    _analysis, _passages, _number_of_hits, _ties, _search_many, _required, _excluded, _optional, _boosts,
    _stop_words, _question_is_words, _phrases, _idf, _too_many_clauses, _refine,
)  # fmt: skip


def _spread(texts: Sequence[Sequence[str]]) -> list[str]:
    """Some plain words of the texts, from those that stand in most of them to those in fewest."""
    counts = Counter(term for terms in texts for term in set(terms) if term.isascii() and term.isalnum())
    ranked = sorted(counts, key=lambda term: (-counts[term], term))
    step = max(1, (len(ranked) - 1) // (_WORDS - 1))
    return ranked[::step][:_WORDS]


def _term(op: str, term: str, field: str = "contents", weight: float = 1.0) -> Refinement:
    return Refinement(op, field, term, weight)  # type: ignore[arg-type]


def _query(op: str, term: str, field: str = "contents", weight: float = 1.0, question: str = "") -> Query:
    return Query(question, (_term(op, term, field, weight),))


def _terms(probe: _Probe, passage: Passage, field: str) -> list[str]:
    return probe.engine.analyze(passage.title if field == "title" else passage.contents)


def _has(probe: _Probe, id: str, field: str, word: str) -> None:
    if word not in _terms(probe, probe.engine.passages([id])[0], field):
        probe.fail(f"the hit {id!r}", f"{word!r} in its {field}")


def _close(probe: _Probe, hits: list[Hit], wanted: dict[str, float]) -> None:
    """The same passages, with these scores to within rounding."""
    if len(hits) == _MANY:
        return
    if {hit.id for hit in hits} != set(wanted):
        probe.fail(sorted(hit.id for hit in hits), sorted(wanted))
    for hit in hits:
        if not math.isclose(hit.score, wanted[hit.id], rel_tol=_CLOSE):
            probe.fail(hit, f"a score of {wanted[hit.id]}")


def _shown(value: object, length: int = 300) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= length else text[:length] + "…"
