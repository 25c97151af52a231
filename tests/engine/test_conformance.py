"""Every engine keeps the contract, and the check of the contract catches every engine that does not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pytest

from orienteer.data.passage import Passage
from orienteer.engine.check import EngineContractError, check_engine
from orienteer.engine.embedded.build import build_index
from orienteer.engine.embedded.engine import open_index
from orienteer.engine.protocol import Engine, Hit
from orienteer.engine.reference import ReferenceEngine
from orienteer.errors import TooManyClausesError
from orienteer.query import Query, Refinement, parse

Make = Callable[[Sequence[Passage], pytest.FixtureRequest], Engine]


def lucene(passages: Sequence[Passage], request: pytest.FixtureRequest) -> Engine:
    jar = request.getfixturevalue("lucene_jar")
    pytest.importorskip("jpype")
    from orienteer.engine.adapters.lucene import LuceneEngine

    engine = LuceneEngine(jar, passages)
    request.addfinalizer(engine.close)
    return engine


def tantivy(passages: Sequence[Passage], request: pytest.FixtureRequest) -> Engine:
    pytest.importorskip("tantivy")
    from orienteer.engine.adapters.tantivy import TantivyEngine

    return TantivyEngine(passages)


def embedded(passages: Sequence[Passage], request: pytest.FixtureRequest) -> Engine:
    folder = request.getfixturevalue("tmp_path_factory").mktemp("embedded")
    build_index(passages, folder, threads=1)
    return open_index(folder)


# An engine of ours is one more line here; the number is how far a score may be from Lucene's, relatively.
ENGINES: dict[str, tuple[Make, float]] = {
    "reference": (lambda passages, request: ReferenceEngine(passages), 0.0),
    "embedded": (embedded, 0.0),
    "lucene": (lucene, 0.0),
    "tantivy": (tantivy, 1e-3),  # the price of passages without a title in a small collection
}


@pytest.fixture(params=ENGINES, scope="module")
def made(request: pytest.FixtureRequest, golden_passages: list[Passage]) -> tuple[Engine, float]:
    make, tolerance = ENGINES[request.param]
    return make(golden_passages, request), tolerance


@pytest.mark.long
def test_every_engine_keeps_the_contract(made, golden_passages) -> None:
    check_engine(made[0], golden_passages)


@pytest.mark.long
def test_every_engine_keeps_the_contract_as_seen_from_some_of_its_passages(made, golden_passages) -> None:
    check_engine(made[0], golden_passages[10:25], k=3)


def test_every_engine_gives_lucenes_answers(made, golden_answers) -> None:
    engine, tolerance = made
    for query, hits in golden_answers:
        came = engine.search(query, 5)
        assert [hit.id for hit in came] == [hit.id for hit in hits], str(query)
        scores = [hit.score for hit in hits]
        assert [hit.score for hit in came] == pytest.approx(scores, rel=tolerance, abs=0.0), str(query)


def test_tantivy_scores_as_lucene_where_every_passage_has_a_title(golden_passages, golden_answers, request) -> None:
    titled = [dataclasses.replace(passage, title=f"{passage.title} Bridge") for passage in golden_passages]
    engine, reference = tantivy(titled, request), ReferenceEngine(titled)
    for query, _ in golden_answers:
        came, wanted = engine.search(query, 5), reference.search(query, 5)
        assert [hit.id for hit in came] == [hit.id for hit in wanted], str(query)
        assert [hit.score for hit in came] == pytest.approx([hit.score for hit in wanted], rel=1e-5)


# One broken engine for each promise, or several.


class Incomplete:
    def search(self, query: Query, k: int) -> list[Hit]:
        return []


class KeepsCase(ReferenceEngine):
    def analyze(self, text: str) -> list[str]:
        return [word for word in text.split() if word.lower() in super(KeepsCase, self).analyze(text)]


class KeepsStopWords(ReferenceEngine):
    def analyze(self, text: str) -> list[str]:
        return text.lower().split()


class LosesTitles(ReferenceEngine):
    def passages(self, ids: Sequence[str]) -> list[Passage]:
        return [dataclasses.replace(passage, title="") for passage in super().passages(ids)]


class SortsPassages(ReferenceEngine):
    def passages(self, ids: Sequence[str]) -> list[Passage]:
        return sorted(super().passages(ids), key=lambda passage: passage.id)


class InventsPassages(ReferenceEngine):
    def passages(self, ids: Sequence[str]) -> list[Passage]:
        known = [id for id in ids if id in self._number]
        return super().passages(known) + [Passage(id, "", "") for id in ids if id not in known]


class WorstFirst(ReferenceEngine):
    def search(self, query: Query, k: int) -> list[Hit]:
        return super().search(query, k)[::-1]


class OneTooMany(ReferenceEngine):
    def search(self, query: Query, k: int) -> list[Hit]:
        return super().search(query, k + 1)


class FindsTwice(ReferenceEngine):
    def search(self, query: Query, k: int) -> list[Hit]:
        return [hit for hit in super().search(query, k) for _ in range(2)][:k]


class DoubleScores(ReferenceEngine):
    def search(self, query: Query, k: int) -> list[Hit]:
        return [Hit(hit.id, hit.score / 3) for hit in super().search(query, k)]


class StopsEarly(ReferenceEngine):
    def search(self, query: Query, k: int) -> list[Hit]:
        return super().search(query, 10)[-k:] if k == 1 else super().search(query, k)


class ReversesTies(ReferenceEngine):
    def search(self, query: Query, k: int) -> list[Hit]:
        return sorted(super().search(query, 10_000), key=lambda hit: hit.score)[::-1][: max(0, k)]


class AnswersBackwards(ReferenceEngine):
    def search_many(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        return super().search_many(queries[::-1], k)


class Forgets(ReferenceEngine):
    def search_many(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        return super().search_many(queries[: len(queries) // 2], k)


class RefinesNothing(ReferenceEngine):
    def refine(self, query: Query, refinements: Sequence[Refinement], k: int) -> list[list[Hit]]:
        return [self.search(query, k) for _ in refinements]


class SkipsARefinement(ReferenceEngine):
    def refine(self, query: Query, refinements: Sequence[Refinement], k: int) -> list[list[Hit]]:
        return super().refine(query, refinements[1:], k)


class Rewrites(ReferenceEngine):
    """An engine that misreads queries, each subclass in its own way."""

    def read(self, query: Query) -> Query:
        raise NotImplementedError

    def search(self, query: Query, k: int) -> list[Hit]:
        return super().search(self.read(query), k)


class PlusIsOptional(Rewrites):
    def read(self, query: Query) -> Query:
        return Query(query.question, tuple(_with(r, "^") if r.op == "+" else r for r in query.refinements))


class PlusIsOptionalForPresentTerms(Rewrites):
    def read(self, query: Query) -> Query:
        present = [r.op == "+" and "zqx" not in r.term for r in query.refinements]
        refinements = (_with(r, "^") if p else r for r, p in zip(query.refinements, present, strict=True))
        return Query(query.question, tuple(refinements))


class PlusIgnoresAbsentTerms(Rewrites):
    def read(self, query: Query) -> Query:
        kept = (r for r in query.refinements if r.op != "+" or "zqx" not in r.term)
        return Query(query.question, tuple(kept))


class MixesFields(Rewrites):
    def read(self, query: Query) -> Query:
        fields = tuple(dataclasses.replace(r, field="contents") for r in query.refinements)
        return Query(query.question, fields)


class IgnoresMinus(Rewrites):
    def read(self, query: Query) -> Query:
        return Query(query.question, tuple(r for r in query.refinements if r.op != "-"))


class AllWordsRequired(Rewrites):
    def read(self, query: Query) -> Query:
        words = [word for word in query.question.split() if self.analyze(word)]
        return Query("", (*(Refinement("+", "contents", word) for word in words), *query.refinements))


class IgnoresBoosts(Rewrites):
    def read(self, query: Query) -> Query:
        refinements = (_with(r, "^") if r.op == "^" else r for r in query.refinements)
        return Query(query.question, tuple(refinements))


class CountsWordsOnce(Rewrites):
    def read(self, query: Query) -> Query:
        return Query(" ".join(dict.fromkeys(query.question.split())), query.refinements)


class RequiresStopWords(ReferenceEngine):
    def search(self, query: Query, k: int) -> list[Hit]:
        required = [r.term for r in query.refinements if r.op == "+"]
        return super().search(query, k) if all(map(self.analyze, required)) else []


class ReadsOperators(Rewrites):
    def read(self, query: Query) -> Query:
        words = [word for word in query.question.split() if not word.startswith(("-", "!"))]
        return Query(" ".join(words), query.refinements)


class SplitsPhrases(Rewrites):
    def read(self, query: Query) -> Query:
        parts = [dataclasses.replace(r, term=word) for r in query.refinements for word in r.term.split()]
        return Query(query.question, tuple(parts))


class FindsNoPhrases(Rewrites):
    def read(self, query: Query) -> Query:
        return Query(query.question, tuple(r for r in query.refinements if len(r.term.split()) == 1))


class FlatIdf(ReferenceEngine):
    def idf(self, field: str, term: str) -> float:
        return 20.0


class NegativeIdf(ReferenceEngine):
    def idf(self, field: str, term: str) -> float:
        return super().idf(field, term) - 3.0


class LuceneEightFactor(ReferenceEngine):
    def search(self, query: Query, k: int) -> list[Hit]:
        return [Hit(hit.id, float(np.float32(hit.score * 2.2))) for hit in super().search(query, k)]


class NoLimit(ReferenceEngine):
    def search(self, query: Query, k: int) -> list[Hit]:
        try:
            return super().search(query, k)
        except TooManyClausesError:
            return []


class Crashes(ReferenceEngine):
    def search(self, query: Query, k: int) -> list[Hit]:
        if k == 0:
            raise ZeroDivisionError("division by k")
        return super().search(query, k)


BROKEN = [
    (Incomplete, "has every method"),
    (KeepsCase, "`analyze` gives"),
    (KeepsStopWords, "`analyze` gives"),
    (LosesTitles, "`passages` gives back"),
    (SortsPassages, "`passages` gives back"),
    (InventsPassages, "refuses an id"),
    (WorstFirst, "the best first"),
    (OneTooMany, "at most"),
    (FindsTwice, "each passage once"),
    (DoubleScores, "a finite float32 value"),
    (StopsEarly, "the same ones first for every k"),
    (ReversesTies, "in which the passages were indexed"),
    (AnswersBackwards, "`search_many` gives"),
    (Forgets, "`search_many` gives"),
    (RefinesNothing, "`refine` gives"),
    (SkipsARefinement, "`refine` gives"),
    (PlusIsOptional, "finds nothing when no passage has it"),
    (PlusIsOptionalForPresentTerms, "each adds its score"),
    (PlusIgnoresAbsentTerms, "finds nothing when no passage has it"),
    (MixesFields, "finds the passages that have the term"),
    (IgnoresMinus, "takes away the passages"),
    (AllWordsRequired, "Words of a query are optional"),
    (IgnoresBoosts, "multiplies a term's score"),
    (CountsWordsOnce, "the same word twice"),
    (RequiresStopWords, "as if it were not there"),
    (ReadsOperators, "A question is only words"),
    (SplitsPhrases, "is a phrase"),
    (FindsNoPhrases, "is a phrase"),
    (FlatIdf, "falls as more passages have the term"),
    (NegativeIdf, "idf is positive"),
    (LuceneEightFactor, "scores less than its idf"),
    (NoLimit, "more than 1,024 clauses"),
    (Crashes, "ZeroDivisionError: division by k"),
]


@pytest.mark.long
@pytest.mark.parametrize(("broken", "promise"), BROKEN, ids=[broken.__name__ for broken, _ in BROKEN])
def test_a_broken_engine_is_caught(broken, promise, golden_passages) -> None:
    engine = broken() if broken is Incomplete else broken(golden_passages)
    with pytest.raises(EngineContractError, match=promise):
        check_engine(engine, golden_passages)


def test_the_error_says_what_was_asked_what_came_and_what_was_expected(golden_passages) -> None:
    with pytest.raises(EngineContractError) as caught:
        check_engine(IgnoresMinus(golden_passages), golden_passages)
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("the engine breaks a promise: `-term` takes away")
    assert lines[1].startswith("  asked:    search('")
    assert "-(contents:" in lines[1]
    assert lines[2].startswith("  came:     [Hit(")
    assert lines[3].startswith("  expected: [")


def test_passages_with_too_few_words_cannot_check_an_engine() -> None:
    passages = [Passage("a", "", "two words")]
    with pytest.raises(EngineContractError, match="give check_engine more passages"):
        check_engine(ReferenceEngine(passages), passages)


def test_the_golden_queries_have_ties_and_every_operator(golden_answers) -> None:
    assert {r.op for query, _ in golden_answers for r in query.refinements} == {"or", "+", "-", "^"}
    assert sum(a.score == b.score for _, hits in golden_answers for a, b in pairwise(hits)) > 100
    assert all(parse(str(query)) == query for query, _ in golden_answers)


def _with(refinement: Refinement, op: str) -> Refinement:
    return Refinement(op, refinement.field, refinement.term, 1.0)  # type: ignore[arg-type]
