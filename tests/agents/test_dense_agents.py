"""The agents of dense retrieval, over embeddings and over runs that stand in for them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "dense"))

from bare_bert import save_bare
from lexical_reader import LexicalReader
from small_world import PASSAGES, QUESTIONS

from orienteer.agents import CheckpointMissingError, ConfiguredAgent, check_agent, make_agent
from orienteer.data.passage import Question
from orienteer.dense import (
    DenseEngine,
    EmbeddingRetriever,
    Embeddings,
    EmbeddingsMismatchError,
    HybridEngine,
    NotInRunError,
    TextEncoder,
    embed_index,
    write_run,
)
from orienteer.engine import EmbeddedEngine, Engine, ReferenceEngine
from orienteer.errors import QueryError
from orienteer.query import Query, Refinement
from orienteer.session import Session, Settings, check_replay, record, run_sessions, to_line

NAMES = ["dense", "dense+ps", "hybrid+ps"]


@pytest.fixture(scope="module")
def encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_bare(tmp_path_factory.mktemp("bare"))


@pytest.fixture(scope="module")
def embeddings(tmp_path_factory: pytest.TempPathFactory, embedded: EmbeddedEngine, encoder_folder: Path) -> Path:
    folder = tmp_path_factory.mktemp("embeddings")
    embed_index(embedded, TextEncoder.from_pretrained(encoder_folder, threads=1), folder, shard=5)
    return folder


@pytest.fixture(scope="module")
def retriever(embedded: EmbeddedEngine, embeddings: Path, encoder_folder: Path) -> EmbeddingRetriever:
    encoder = TextEncoder.from_pretrained(encoder_folder, threads=1)
    return EmbeddingRetriever(embedded, Embeddings.open(embeddings), encoder)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, retriever: EmbeddingRetriever) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder / "small.trec.xz", retriever, QUESTIONS)
    return folder


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, encoder_folder: Path) -> None:
    """No embeddings and no runs but those that a test names."""
    monkeypatch.setenv("ORIENTEER_ENCODER", str(encoder_folder))
    for variable in ("ORIENTEER_EMBEDDINGS", "ORIENTEER_RUNS"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)


def played(entry: ConfiguredAgent, engine: Engine) -> tuple[Session, ...]:
    return run_sessions(entry.environment(engine, LexicalReader()), entry.agent, QUESTIONS).sessions


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("place", ["embeddings", "runs"])
def test_they_keep_the_contract(
    name: str, place: str, embedded: EmbeddedEngine, request: pytest.FixtureRequest
) -> None:
    entry = make_agent(f"{name}={request.getfixturevalue(place)}", embedded)
    # The check asks what no run has, such as an observation without passages, of the agent alone.
    check_agent(entry.agent, entry.environment(embedded, LexicalReader()), QUESTIONS)


def test_dense_keeps_the_order_of_the_vectors(
    embedded: EmbeddedEngine, embeddings: Path, retriever: EmbeddingRetriever
) -> None:
    entry = make_agent(f"dense={embeddings}", embedded)
    assert entry.settings == Settings(steps=0, order="engine")
    expected = retriever.search_many([question.question for question in QUESTIONS], 5)
    for session, hits in zip(played(entry, embedded), expected, strict=True):
        assert [seen.passage.id for seen in session.best] == [hit.id for hit in hits]
        assert (session.ended, session.queries, session.passages_read) == ("steps", 1, 5)


def test_dense_ps_orders_the_same_passages_by_the_reader(embedded: EmbeddedEngine, embeddings: Path) -> None:
    plain = played(make_agent(f"dense={embeddings}", embedded), embedded)
    for before, after in zip(
        plain, played(make_agent(f"dense+ps={embeddings}[order=ps]", embedded), embedded), strict=True
    ):
        assert {seen.passage.id for seen in before.best} == {seen.passage.id for seen in after.best}
        scores = [seen.reading.score for seen in after.best]
        assert scores == sorted(scores, reverse=True)


def test_hybrid_reads_what_either_finds_and_keeps_the_best_five(
    embedded: EmbeddedEngine, embeddings: Path, retriever: EmbeddingRetriever
) -> None:
    entry = make_agent(f"hybrid+ps={embeddings}[hits=8;order=ps]", embedded)
    assert make_agent(f"hybrid+ps={embeddings}[order=ps]", embedded).settings == Settings(steps=0, hits=100)
    for session in played(entry, embedded):
        sparse = [hit.id for hit in embedded.search(session.query, 4)]
        dense = [hit.id for hit in retriever.search_many([session.question.question], 4)[0]]
        assert {seen.passage.id for seen in session.seen} == {*sparse, *dense}
        best = sorted((seen.reading.score for seen in session.seen), reverse=True)[:5]
        assert [seen.reading.score for seen in session.best] == best


def test_a_hybrid_list_is_ordered_by_reciprocal_ranks(embedded: EmbeddedEngine, retriever: EmbeddingRetriever) -> None:
    query = Query(QUESTIONS[0].question)
    sparse, dense = embedded.search(query, 6), retriever.search_many([query.question], 6)[0]
    expected: dict[str, float] = {}
    for hits in (sparse, dense):
        for rank, hit in enumerate(hits, 1):
            expected[hit.id] = expected.get(hit.id, 0) + 1 / (60 + rank)
    found = HybridEngine(embedded, retriever).search(query, 12)
    assert dict(found) == expected
    assert [hit.score for hit in found] == sorted(expected.values(), reverse=True)


@pytest.mark.parametrize("name", NAMES)
def test_runs_give_the_very_records_that_embeddings_give(
    name: str, embedded: EmbeddedEngine, embeddings: Path, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lines() -> list[bytes]:
        entry = make_agent(name, embedded)
        environment = entry.environment(embedded, LexicalReader())
        sessions = run_sessions(environment, entry.agent, QUESTIONS).sessions
        records = [record(session, environment, entry.name) for session in sessions]
        check_replay(records[0], environment.engine, LexicalReader())
        return [to_line(each) for each in records]

    monkeypatch.setenv("ORIENTEER_EMBEDDINGS", str(embeddings))
    searched = lines()
    monkeypatch.delenv("ORIENTEER_EMBEDDINGS")
    monkeypatch.setenv("ORIENTEER_RUNS", str(runs))
    assert lines() == searched


def test_the_records_name_the_encoder(embedded: EmbeddedEngine, runs: Path) -> None:
    entry = make_agent(f"dense={runs}", embedded)
    engine = entry.environment(embedded, LexicalReader()).engine
    assert isinstance(engine, DenseEngine)
    assert engine.fingerprint.startswith(f"{embedded.fingerprint}+")
    assert engine.fingerprint != embedded.fingerprint + "+"


def test_runs_below_the_working_folder_are_not_found_by_chance(
    embedded: EmbeddedEngine, runs: Path, tmp_path: Path
) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "runs").symlink_to(runs)
    with pytest.raises(CheckpointMissingError, match="ORIENTEER_RUNS"):
        make_agent("dense", embedded)


def test_a_question_that_no_run_has_stops_the_work(embedded: EmbeddedEngine, runs: Path) -> None:
    entry = make_agent(f"dense={runs}", embedded)
    with pytest.raises(NotInRunError, match="who sings"):
        run_sessions(entry.environment(embedded, LexicalReader()), entry.agent, [Question("x", "who sings")])


@pytest.mark.parametrize("name", NAMES)
def test_with_neither_embeddings_nor_runs_one_error_says_where_it_looked(
    name: str, embedded: EmbeddedEngine, tmp_path: Path
) -> None:
    with pytest.raises(
        CheckpointMissingError,
        match=r"has no vectors of its passages; .*--dense static.*=FOLDER, or set ORIENTEER_EMBEDDINGS or .*RUNS",
    ):
        make_agent(name, embedded)
    with pytest.raises(CheckpointMissingError, match="holds neither embeddings nor runs"):
        make_agent(f"{name}={tmp_path}", embedded)
    with pytest.raises(CheckpointMissingError, match=r"no folder nowhere.*orienteer index --dense"):
        make_agent(f"{name}=nowhere", embedded)


def test_embeddings_need_their_index_and_runs_any_engine(embeddings: Path, runs: Path) -> None:
    reference = ReferenceEngine(PASSAGES)
    with pytest.raises(EmbeddingsMismatchError, match="ReferenceEngine"):
        make_agent(f"dense={embeddings}", reference)
    assert len(played(make_agent(f"dense={runs}", reference), reference)) == len(QUESTIONS)


def test_dense_retrieval_takes_no_refinement_and_an_empty_question_finds_nothing(
    embedded: EmbeddedEngine, retriever: EmbeddingRetriever
) -> None:
    engine = DenseEngine(embedded, retriever)
    assert engine.search_many([Query(""), Query("lamp"), Query(" ")], 2)[::2] == [[], []]
    with pytest.raises(QueryError, match="without refinements"):
        engine.refine(Query("lamp"), [Refinement("+", "contents", "reef")], 5)
