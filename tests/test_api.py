"""The front door: `Searcher`, from an index to an answer."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

import orienteer
from orienteer import (
    STOP,
    Observation,
    OrienteerError,
    Passage,
    Query,
    Refinement,
    Searcher,
    evaluate,
    make_agent,
    open_engine,
)

sys.path.insert(0, str(Path(__file__).parent / "session"))

from lexical_reader import LexicalReader
from small_world import PASSAGES, QUESTIONS

ASKED = [question.question for question in QUESTIONS]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("searcher") / "index"
    Searcher.index(PASSAGES, folder)
    return folder


@pytest.fixture
def searcher(index: Path) -> Searcher:
    return Searcher.open(index, agent="prf-answer", steps=4, reader=LexicalReader())


def test_every_public_name_can_be_imported() -> None:
    for name in orienteer.__all__:
        assert getattr(orienteer, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        orienteer.nothing  # noqa: B018
    assert set(dir(orienteer)) == set(orienteer.__all__)


def test_an_answer_has_its_passages_steps_and_cost(searcher: Searcher) -> None:
    result = searcher.ask(ASKED[0])
    assert result.question == ASKED[0]
    assert result.answer == result.passages[0].answer
    assert result.passages[0].ps == max(each.ps for each in result.passages)
    assert 0 < result.confidence < 1
    assert result.verdict
    assert len(result.steps) == 5
    assert result.steps[0].action == ""
    assert result.steps[1].action in result.steps[1].query
    assert result.cost.queries == 5
    assert result.cost.passages_read >= len(result.passages)
    assert result.cost.seconds.total > 0
    assert result.ended == "steps"
    for passage in result.passages:
        assert passage.text[passage.start : passage.end] == passage.answer
        assert passage.query == result.steps[passage.step].query
        assert passage.id in result.steps[passage.step].hits


def test_an_answer_prints_renders_and_goes_to_json(searcher: Searcher) -> None:
    result = searcher.ask(ASKED[0])
    assert f"Answer: {result.answer}" in str(result)
    assert result.passages[0].title in str(result)
    assert "\x1b" not in str(result)
    assert result._repr_html_().startswith("<div")
    row = json.loads(result.to_json())
    assert row == json.loads(json.dumps(result.to_dict()))
    assert row["passages"][0]["id"] == result.passages[0].id
    assert row["cost"]["queries"] == 5
    assert "record" not in row


def test_many_questions_are_answered_as_each_alone(searcher: Searcher) -> None:
    together = list(searcher.ask_many(ASKED))
    alone = [searcher.ask(question) for question in ASKED]
    assert [(each.passages, each.steps) for each in together] == [(each.passages, each.steps) for each in alone]
    assert [each.question for each in together] == ASKED


def test_a_stream_ends_with_the_answer(searcher: Searcher) -> None:
    updates = list(searcher.stream(ASKED[0]))
    assert [len(update.steps) for update in updates] == [1, 2, 3, 4, 5]
    assert [update.ended for update in updates] == [None] * 4 + ["steps"]
    final = searcher.ask(ASKED[0])
    assert (updates[-1].passages, updates[-1].steps) == (final.passages, final.steps)


def test_an_ensemble_streams_whole(index: Path) -> None:
    searcher = Searcher.open(index, agent="ensemble(prf-answer|prf-idf-or)", steps=2, reader=LexicalReader())
    [whole] = searcher.stream(ASKED[0])
    assert whole.passages == searcher.ask(ASKED[0]).passages


def test_a_budget_ends_a_session_once_it_has_read_so_much(index: Path) -> None:
    free = Searcher.open(index, agent="prf-idf-c", steps=6, reader=LexicalReader()).ask(ASKED[0])
    assert free.cost.passages_read > 6
    bound = Searcher.open(index, agent="prf-idf-c", steps=6, budget=6, reader=LexicalReader()).ask(ASKED[0])
    assert 6 <= bound.cost.passages_read < free.cost.passages_read
    assert len(bound.steps) < len(free.steps)


def test_search_and_refine_give_what_the_engine_gives(searcher: Searcher) -> None:
    engine = searcher.engine
    hits = searcher.search("lamp +title:ardle", k=3)
    assert [(hit.id, hit.score) for hit in hits] == [
        (hit.id, hit.score) for hit in engine.search(orienteer.parse("lamp +title:ardle"), 3)
    ]
    assert hits[0].text == engine.passages([hits[0].id])[0].text
    given = ["+title:ardle", Refinement("-", "contents", "reef")]
    refined = searcher.refine("lamp", given, k=3)
    for refinement, found in zip(("+title:ardle", "-reef"), refined, strict=True):
        assert [hit.id for hit in found] == [hit.id for hit in searcher.search(f"lamp {refinement}", k=3)]
    assert [hit.id for hit in searcher.search(Query("lamp"), 2)] == [hit.id for hit in searcher.search("lamp", 2)]


@pytest.mark.parametrize("given", ["lamp", "lamp +reef", "+reef -lamp", ""])
def test_what_is_not_one_refinement_is_refused(given: str, searcher: Searcher) -> None:
    with pytest.raises(OrienteerError):
        searcher.refine("lamp", [given])


def test_documents_are_passages_mappings_or_files(tmp_path: Path) -> None:
    rows = [{"id": p.id, "title": p.title, "text": p.text} for p in PASSAGES[:3]]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for number, documents in enumerate((PASSAGES[:3], rows, file, str(file), [file])):
        searcher = Searcher.index(documents, tmp_path / f"index-{number}", reader=LexicalReader())
        assert list(searcher.engine.passages([row["id"] for row in rows])) == PASSAGES[:3]
    with pytest.raises(OrienteerError, match="without 'text'"):
        Searcher.index([{"id": "a"}], tmp_path / "bad")


class FirstTerm:
    """Requires the first term that it is offered."""

    def __init__(self, engine: object, most: int = 1) -> None:
        self.most = most

    def act(self, observations: Sequence[Observation]) -> list[object]:
        return [
            Refinement("+", "contents", seen.terms[0].text) if seen.terms and seen.step <= self.most else STOP
            for seen in observations
        ]


def test_an_agent_is_a_name_an_object_or_what_make_agent_gives(index: Path) -> None:
    engine = open_engine(index)
    for agent in ("bm25+ps", FirstTerm(engine), make_agent("prf-answer", engine, steps=1)):
        searcher = Searcher.open(index, agent=agent, steps=1, reader=LexicalReader())  # type: ignore[arg-type]
        assert searcher.ask(ASKED[1]).passages
    assert Searcher.open(index, agent=FirstTerm(engine), reader=LexicalReader()).ask(ASKED[1]).agent == "FirstTerm"


def test_options_reach_the_agent_and_its_sessions(index: Path) -> None:
    searcher = Searcher.open(index, agent="prf-idf-or", steps=3, order="agreement", reader=LexicalReader())
    assert (searcher.agent.settings.order, searcher.agent.settings.steps) == ("agreement", 3)


@pytest.mark.parametrize("agent", ["rocchio", "ensemble(rocchio|bm25)"])
def test_an_agent_that_is_told_the_answers_cannot_be_asked(agent: str, index: Path) -> None:
    with pytest.raises(OrienteerError, match="known answers"):
        Searcher.open(index, agent=agent)


def test_mistakes_are_told_before_any_work(index: Path, searcher: Searcher) -> None:
    with pytest.raises(OrienteerError, match="budget = 0"):
        Searcher.open(index, budget=0)
    with pytest.raises(OrienteerError, match="empty question"):
        searcher.ask("  ")
    with pytest.raises(OrienteerError, match="no agent is called 'bm52'; did you mean bm25"):
        Searcher.open(index, agent="bm52", reader=LexicalReader()).ask("lamp")
    with pytest.raises(OrienteerError, match="nowhere"):
        Searcher.open(index.parent / "nowhere")


def test_a_question_that_finds_nothing_is_an_empty_answer(searcher: Searcher) -> None:
    result = searcher.ask("zyxwv qponm")
    assert (result.answer, result.confidence, result.passages) == ("", 0.0, ())
    assert "No passage found" in str(result)


def test_agents_are_compared_on_questions(index: Path) -> None:
    result = evaluate(["bm25+ps", "prf-answer"], QUESTIONS, index, steps=2, reader=LexicalReader(), limit=4)
    assert result.agents == ["bm25+ps", "prf-answer"]
    assert "prf-answer" in result.table()
    assert result.compare("prf-answer", "bm25+ps")[0].measure == "NDCG@5"


def test_threads_share_a_searcher(searcher: Searcher) -> None:
    expected = [searcher.ask(question).passages for question in ASKED]
    found: dict[int, object] = {}

    def ask(place: int) -> None:
        found[place] = searcher.ask(ASKED[place]).passages

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(len(ASKED))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[place] for place in range(len(ASKED))] == expected


@pytest.mark.long
def test_the_bundled_corpus_is_asked_where_no_index_is_named() -> None:
    result = Searcher.open(steps=2).ask("who first isolated sodium metal")
    assert result.answer == "Humphry Davy"
    assert isinstance(result.passages[0].text, str)
    assert Passage(result.passages[0].id, result.passages[0].title, result.passages[0].text)


def test_a_filter_narrows_search_refinements_and_questions(tmp_path: Path) -> None:
    from dataclasses import replace

    dated = [replace(passage, metadata={"year": 1900 + number}) for number, passage in enumerate(PASSAGES)]
    late = {passage.id for passage in dated[4:]}
    searcher = Searcher.index(dated, tmp_path / "index", agent="prf-answer", steps=2, reader=LexicalReader())
    assert {hit.id for hit in searcher.search("lamp", 50, where="year>=1904")} <= late
    assert not {hit.id for hit in searcher.search("lamp", 50)} <= late
    [hits] = searcher.refine("lamp", ["+keeper"], 50, where="year>=1904")
    assert {hit.id for hit in hits} <= late
    answer = searcher.ask("who kept the lamp", where="year>=1904")
    assert {passage.id for passage in answer.passages} <= late
    assert searcher.where("year>=1904") is searcher.where("year>=1904")
    narrowed = Searcher.open(tmp_path / "index", where="year>=1904")
    assert {hit.id for hit in narrowed.search("lamp", 50)} <= late
    with pytest.raises(OrienteerError, match="no passage has a value of 'colour'"):
        searcher.ask("who kept the lamp", where="colour=red")
