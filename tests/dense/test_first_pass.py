"""Sessions that start from BM25's hits and from vectors'."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_world import PASSAGES, QUESTIONS
from test_dense_commands import run

from orienteer import Searcher
from orienteer.agents.registry import make_agent
from orienteer.agents.spec import AgentNameError, CheckpointMissingError
from orienteer.dense import FirstPassEngine, StaticEncoder
from orienteer.dense.index_vectors import make_vectors, open_vectors
from orienteer.engine import EmbeddedEngine, build_index, open_index
from orienteer.query import Query, parse


@pytest.fixture(scope="module")
def index_with_vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("with-vectors") / "index"
    build_index(PASSAGES, folder)
    make_vectors(folder, StaticEncoder.from_pretrained())
    return folder


@pytest.fixture(scope="module")
def both(index_with_vectors: Path) -> EmbeddedEngine:
    return open_index(index_with_vectors, threads=1)


def test_a_plain_question_has_the_hits_of_both_and_a_refinement_those_of_bm25(both: EmbeddedEngine) -> None:
    retriever = open_vectors(both)
    first_pass = FirstPassEngine(both, retriever, nearest=3)
    asked = [Query(question.question) for question in QUESTIONS]
    for query, hits in zip(asked, first_pass.search_many(asked, 2), strict=True):
        ids = [hit.id for hit in hits]
        assert set(ids) == {h.id for h in both.search(query, 2)} | {
            h.id for h in retriever.search_many([query.question], 3)[0]
        }
        assert len(ids) == len(set(ids))
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    refined = parse(f"{asked[0].question} contents:lamp")
    assert list(first_pass.search(refined, 2)) == list(both.search(refined, 2))


def test_every_agent_takes_vectors_as_an_option(both: EmbeddedEngine) -> None:
    assert make_agent("bm25+ps", both).engine is None
    assert make_agent("bm25+ps[dense=0]", both).engine is None
    for made in (make_agent("bm25+ps[dense=4]", both), make_agent("bm25+ps", both, dense=4)):
        assert isinstance(made.engine, FirstPassEngine)
        assert made.engine.fingerprint.startswith(both.fingerprint)
    assert make_agent("hybrid@6+ps", both).settings.hits == 6
    assert isinstance(make_agent("prf-answer[dense=2;steps=3]", both).engine, FirstPassEngine)


@pytest.mark.parametrize("name", ["bm25+ps[dense=-1]", "bm25+ps[dense=many]", "bm25+ps[dense=100000]",
                                  "dense+ps[dense=5]", "hybrid@1+ps"])  # fmt: skip
def test_a_wrong_number_of_vectors_is_refused(name: str, both: EmbeddedEngine) -> None:
    with pytest.raises(AgentNameError):
        make_agent(name, both)


def test_without_vectors_the_error_says_how_to_make_them(engine: EmbeddedEngine) -> None:
    with pytest.raises(CheckpointMissingError, match="--dense static"):
        make_agent("bm25+ps[dense=5]", engine)


def test_a_session_sees_what_vectors_find(index_with_vectors: Path, both: EmbeddedEngine) -> None:
    question = QUESTIONS[0].question
    plain = Searcher.open(index_with_vectors, agent="bm25+ps", hits=1).ask(question)
    dense = Searcher.open(index_with_vectors, agent="bm25+ps", hits=1, dense=4).ask(question)
    assert plain.cost.passages_read == 1
    assert set(dense.steps[0].hits) >= {h.id for h in open_vectors(both).search_many([question], 4)[0]}


@pytest.mark.long
def test_the_command_asks_with_vectors(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], index_with_vectors: Path
) -> None:
    command = ("ask", QUESTIONS[0].question, "--index", index_with_vectors, "--steps", 2, "--json")
    assert run(monkeypatch, *command, "--dense") == 0
    with_vectors = json.loads(capsys.readouterr().out)
    assert run(monkeypatch, *command, "--agent", "hybrid") == 0
    hybrid = json.loads(capsys.readouterr().out)
    assert [step["hits"] for step in hybrid["steps"]] == [step["hits"] for step in with_vectors["steps"]]
    assert len(hybrid["steps"][0]["hits"]) > 5
    assert len(hybrid["steps"][1]["hits"]) <= 5
