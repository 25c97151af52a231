"""The words that pseudo-relevance feedback picks."""

from __future__ import annotations

from collections import Counter
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lexical_reader import LexicalReader
from small_world import PASSAGES, QUESTIONS

from orienteer.agents import make_agent
from orienteer.agents.passage_terms import AnalysedTerms, IndexedTerms, passage_terms
from orienteer.agents.prf import ByAnswer, ByIdf, ByRelevanceModel
from orienteer.data.passage import Passage, Question
from orienteer.engine import EmbeddedEngine, Engine, ReferenceEngine
from orienteer.engine.embedded.analysis import analyze
from orienteer.query import Refinement
from orienteer.session import Environment, Observation, Settings, run_sessions
from orienteer.session.observation import STOP_LIST


def first_moment(engine: Engine, question: str) -> Observation:
    environment = Environment(engine, LexicalReader(), Settings())
    return environment.observe(environment.open([Question("q", question)]))[0]


def rm3_reference(observation: Observation, corpus: list[Passage], mu: float = 2500) -> dict[str, float]:
    """The formula, written out, with exact collection frequencies."""
    whole = Counter(term for passage in corpus for term in analyze(passage.contents))
    size = whole.total()
    hits = [Counter(analyze(passage.contents)) for passage in observation.hits]
    question = [q for q in analyze(observation.question) if q in whole]

    def given_passage(w: str, d: Counter[str]) -> float:
        return (d[w] + mu * whole[w] / size) / (d.total() + mu)

    words = {w for d in hits for w in d} - set(analyze(observation.question)) - STOP_LIST - observation.used
    return {w: sum(given_passage(w, d) * prod(given_passage(q, d) for q in question) for d in hits) for w in words}


@pytest.mark.parametrize("question", [question.question for question in QUESTIONS])
def test_rm3_picks_the_word_of_the_formula(embedded: EmbeddedEngine, question: str) -> None:
    observation = first_moment(embedded, question)
    expected = rm3_reference(observation, PASSAGES)
    picked = ByRelevanceModel(embedded)(observation)
    assert picked is not None
    assert expected[picked] == pytest.approx(max(expected.values()), rel=1e-9)


words = st.sampled_from("lamp reef tower keeper storm red oil stone ship rock the of".split())
corpora = st.lists(st.lists(words, min_size=1, max_size=12).map(" ".join), min_size=2, max_size=8)


class ExactTerms:
    """Terms and background counted from the corpus itself."""

    def __init__(self, corpus: list[Passage]) -> None:
        self.whole = Counter(term for passage in corpus for term in analyze(passage.contents))

    def counts(self, passage: Passage) -> Counter[str]:
        return Counter(analyze(passage.contents))

    def background(self, term: str, passages: object) -> float:
        return self.whole[term] / self.whole.total()


@pytest.mark.long
@given(corpora, st.sampled_from([1.0, 50.0, 2500.0]))
def test_rm3_weighs_every_word_as_the_formula_does(texts: list[str], mu: float) -> None:
    from orienteer.agents.prf import relevance_model

    corpus = [Passage(str(i), "", text) for i, text in enumerate(texts)]
    observation = first_moment(ReferenceEngine(corpus), "red lamp tower")
    expected = rm3_reference(observation, corpus, mu)
    if not expected:
        return
    terms = ExactTerms(corpus)
    names, counts = list(expected), [terms.counts(passage) for passage in observation.hits]
    question = [q for q in analyze(observation.question) if terms.background(q, ()) > 0]
    came = relevance_model(terms, counts, question, names, mu)
    top = max(expected.values())
    for name, value in zip(names, came / came.max(), strict=True):
        assert value == pytest.approx(expected[name] / top, rel=1e-9)


def test_a_long_question_does_not_vanish_in_rm3(engine: Engine) -> None:
    observation = first_moment(engine, "lamp reef tower keeper storm " * 100)
    assert ByRelevanceModel(engine)(observation) is not None


def test_a_word_of_the_question_that_no_passage_has_does_not_matter_to_rm3(engine: Engine) -> None:
    plain, with_it = (first_moment(engine, text) for text in ("lamp on the reef", "lamp zyxwv on the reef"))
    assert ByRelevanceModel(engine)(plain) == ByRelevanceModel(engine)(with_it)


def test_idf_picks_the_rarest_word_of_the_last_hits(engine: Engine) -> None:
    for question in QUESTIONS:
        observation = first_moment(engine, question.question)
        found = [w for passage in observation.hits for w in analyze(passage.contents)]
        new = [w for w in found if w not in analyze(question.question) and w not in STOP_LIST]
        expected = max(dict.fromkeys(new), key=lambda word: engine.idf("contents", word))
        assert ByIdf(engine)(observation) == expected


def test_an_operator_on_titles_takes_its_word_from_the_hits_titles(engine: Engine) -> None:
    for question in QUESTIONS:
        observation = first_moment(engine, question.question)
        found = [w for passage in observation.hits for w in analyze(passage.title)]
        new = [w for w in found if w not in analyze(question.question) and w not in STOP_LIST]
        if new:
            assert ByIdf(engine, "title")(observation) == max(dict.fromkeys(new), key=lambda w: engine.idf("title", w))
            assert ByRelevanceModel(engine, "title")(observation) in new
        else:
            assert ByIdf(engine, "title")(observation) is not None


def test_excluding_a_title_excludes_passages_that_were_found(engine: Engine) -> None:
    entry = make_agent("prf-idf-t", engine, Settings(steps=1))
    environment = Environment(engine, LexicalReader(), entry.settings)
    sessions = run_sessions(environment, entry.agent, QUESTIONS).sessions
    refined = [session for session in sessions if isinstance(session.steps[-1].action, Refinement)]
    assert refined
    for session in refined:
        first, last = session.steps[0], session.steps[-1]
        assert {hit.id for hit in first.hits} - {hit.id for hit in last.hits}


def test_no_word_is_used_twice_or_taken_from_the_question(engine: Engine) -> None:
    for name in ("prf-idf-or", "prf-rm3^2", "prf-answer"):
        entry = make_agent(name, engine, Settings(steps=10))
        for session in run_sessions(
            Environment(engine, LexicalReader(), entry.settings), entry.agent, QUESTIONS
        ).sessions:
            terms = [step.action.term for step in session.steps if isinstance(step.action, Refinement)]
            assert len(terms) == len(set(terms)) == 10
            assert not set(terms) & (STOP_LIST | set(analyze(session.question.question)))


def test_the_answer_agent_takes_the_rarest_word_of_the_most_confident_answer(engine: Engine) -> None:
    observation = first_moment(engine, "who lit the first lamp on the reef")
    assert observation.passages[0].answer == "Ardle Light"
    assert ByAnswer(engine)(observation) == max(["ardle", "light"], key=lambda word: engine.idf("contents", word))


def test_feedback_stops_when_there_is_nothing_to_add() -> None:
    engine = ReferenceEngine([Passage("1", "", "lamp"), Passage("2", "", "the lamp of")])
    for name in ("prf-idf-or", "prf-rm3-or", "prf-answer"):
        entry = make_agent(name, engine)
        environment = Environment(engine, LexicalReader(), entry.settings)
        [session] = run_sessions(environment, entry.agent, [Question("q", "lamp")]).sessions
        assert (session.ended, session.queries) == ("stop", 1)


def test_the_index_and_the_analyser_count_the_same_terms(embedded: EmbeddedEngine) -> None:
    indexed, analysed = IndexedTerms(embedded), AnalysedTerms(embedded)
    assert isinstance(passage_terms(embedded), IndexedTerms)
    assert isinstance(passage_terms(ReferenceEngine(PASSAGES)), AnalysedTerms)
    for passage in PASSAGES:
        assert list(indexed.counts(passage).items()) == list(analysed.counts(passage).items())


def test_the_background_is_exact_from_the_index_and_near_it_elsewhere(embedded: EmbeddedEngine) -> None:
    whole = Counter(term for passage in PASSAGES for term in analyze(passage.contents))
    indexed, analysed = IndexedTerms(embedded), AnalysedTerms(embedded)
    counts = [indexed.counts(passage) for passage in PASSAGES]
    for term, count in whole.items():
        assert indexed.background(term, counts) == count / whole.total()
        assert 0.5 < analysed.background(term, counts) * whole.total() / count < 2
    assert indexed.background("zyxwv", counts) == analysed.background("zyxwv", counts) == 0
