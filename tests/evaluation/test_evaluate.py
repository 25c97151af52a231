"""An evaluation as a whole: the same files again, after a kill, from two processes; and what it refuses."""

from __future__ import annotations

import builtins
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evaluated_world import AGENTS, FORTY, SETTINGS, WANDERER, SmallWorld, run, tree
from lexical_reader import LexicalReader
from small_world import HARD_QUESTIONS, PASSAGES, QUESTIONS

from orienteer.agents import AgentNameError, ConfiguredAgent
from orienteer.data.passage import Passage, Question
from orienteer.engine import ReferenceEngine
from orienteer.errors import MissingExtraError
from orienteer.evaluation import EvaluationError, EvaluationProgress, WorkerConfig, journal
from orienteer.reader.protocol import Reading
from orienteer.session import Action, Observation, Settings, read_records

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def whole(engine: ReferenceEngine, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of an evaluation that nothing disturbed."""
    out = tmp_path_factory.mktemp("whole")
    run(engine, out)
    return tree(out)


@pytest.mark.long
def test_the_same_evaluation_gives_the_same_files(
    engine: ReferenceEngine, tmp_path: Path, whole: dict[str, bytes]
) -> None:
    run(engine, tmp_path)
    assert tree(tmp_path) == whole
    run(engine, tmp_path)
    assert tree(tmp_path) == whole, "over a finished one"


@pytest.mark.long
@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_the_size_of_a_chunk_changes_no_file(
    engine: ReferenceEngine, tmp_path: Path, whole: dict[str, bytes], chunk: int
) -> None:
    run(engine, tmp_path, chunk=chunk)
    assert tree(tmp_path) == whole


class Interrupted(LexicalReader):
    """Is stopped by hand after so many batches."""

    def __init__(self, batches: int) -> None:
        super().__init__()
        self._left = batches

    def read_many(self, batch: Sequence[tuple[str, Sequence[Passage]]]) -> list[list[Reading]]:
        self._left -= 1
        if self._left < 0:
            raise KeyboardInterrupt
        return super().read_many(batch)


@pytest.mark.long
def test_stopped_again_and_again_it_comes_to_the_same_end(
    engine: ReferenceEngine, tmp_path: Path, whole: dict[str, bytes]
) -> None:
    stops = 0
    while True:
        try:
            run(engine, tmp_path, reader=Interrupted(7))
            break
        except KeyboardInterrupt:
            stops += 1
    assert stops > 3
    assert tree(tmp_path) == whole


@pytest.mark.long
@pytest.mark.parametrize("batches", np.random.default_rng(4).integers([1, 8, 15], [7, 14, 21]).tolist())
def test_killed_at_random_and_taken_up_again_it_gives_the_same_files(
    engine: ReferenceEngine, tmp_path: Path, whole: dict[str, bytes], batches: int
) -> None:
    path = os.pathsep.join([str(HERE), str(HERE.parent / "session"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, str(HERE / "evaluated_world.py"), str(tmp_path), str(batches)]
    killed = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert "metrics.json" not in tree(tmp_path)
    run(engine, tmp_path)
    assert tree(tmp_path) == whole


@pytest.mark.long
def test_a_torn_or_damaged_journal_is_cut_and_played_again(
    engine: ReferenceEngine, tmp_path: Path, whole: dict[str, bytes]
) -> None:
    draw = np.random.default_rng(0)
    run(engine, tmp_path)
    file = tmp_path / "sessions" / "wanderer.jsonl"
    for damage in ("torn", "flipped", "zeros") * 2:
        data = bytearray(whole["sessions/wanderer.jsonl"])
        place = int(draw.integers(len(data)))
        if damage == "flipped":
            data[place] = 0
        else:
            del data[place:]
        if damage == "zeros":  # as a file system may leave them when the power fails
            data += bytes(len(whole["sessions/wanderer.jsonl"]))
        file.unlink()
        file.with_name("wanderer.jsonl.partial").write_bytes(data)
        run(engine, tmp_path)
        assert tree(tmp_path) == whole


@pytest.mark.long
def test_a_kill_while_the_report_is_written_leaves_nothing_behind(
    engine: ReferenceEngine, tmp_path: Path, whole: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("runs/bm25.trec", "qrels.trec", "statistics.json", "examples/wanderer.md", "report.md", "metrics.json")
    for name in names:
        replaced = Path.replace

        def dies(self: Path, target: Path, name: str = name, replaced: Any = replaced) -> Any:
            if Path(target) == tmp_path / name:
                raise KeyboardInterrupt
            return replaced(self, target)

        with monkeypatch.context() as patched:
            patched.setattr(Path, "replace", dies)
            with pytest.raises(KeyboardInterrupt):
                run(engine, tmp_path)
        assert "metrics.json" not in tree(tmp_path)
    run(engine, tmp_path)
    assert tree(tmp_path) == whole


@pytest.mark.long
def test_several_at_once_in_one_folder_share_the_work_and_give_the_same_files(
    engine: ReferenceEngine, tmp_path: Path, whole: dict[str, bytes]
) -> None:
    readers = [LexicalReader() for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        for _ in pool.map(lambda reader: run(engine, tmp_path, reader=reader), readers):
            pass
    assert tree(tmp_path) == whole
    alone = LexicalReader()
    run(engine, tmp_path / "alone", reader=alone)
    assert sum(len(reader.batches) for reader in readers) == len(alone.batches), "no session was played twice"


@pytest.mark.long
def test_workers_give_the_files_of_one_process_also_when_one_dies(engine: ReferenceEngine, tmp_path: Path) -> None:
    run(engine, tmp_path / "here", agents=AGENTS[:3])
    wanted = tree(tmp_path / "here")
    run(engine, tmp_path / "two", agents=AGENTS[:3], workers=WorkerConfig(SmallWorld(), workers=2))
    assert tree(tmp_path / "two") == wanted
    doom = tmp_path / "doom"
    told: list[EvaluationProgress] = []
    workers = WorkerConfig(SmallWorld(doom), workers=3)
    run(engine, tmp_path / "war", agents=AGENTS[:3], chunk=3, workers=workers, progress=told.append)
    assert doom.exists()
    assert tree(tmp_path / "war") == wanted
    assert (told[-1].done, told[-1].total) == (120, 120)


@pytest.mark.long
def test_what_one_process_began_workers_finish(engine: ReferenceEngine, tmp_path: Path) -> None:
    run(engine, tmp_path / "here", agents=AGENTS[:3])
    for agent in ("bm25+ps", "prf-idf-t"):
        with pytest.raises(KeyboardInterrupt):
            run(engine, tmp_path / "there", agents=[agent], reader=Interrupted(2))
    played = len((tmp_path / "there/sessions/bm25+ps.jsonl.partial").read_bytes().splitlines())
    assert 0 < played < 40
    run(engine, tmp_path / "there", agents=AGENTS[:3], workers=WorkerConfig(SmallWorld(), workers=2))
    assert tree(tmp_path / "there") == tree(tmp_path / "here")


@pytest.mark.long
def test_a_worker_with_another_reader_and_an_agent_that_cannot_travel_are_refused(
    engine: ReferenceEngine, tmp_path: Path
) -> None:
    with pytest.raises(EvaluationError, match="a worker played with the reader other, this process has"):
        run(engine, tmp_path, agents=["bm25"], workers=WorkerConfig(SmallWorld(reader="other"), workers=2))
    with pytest.raises(EvaluationError, match="'wanderer' is an object, which workers cannot make"):
        run(engine, tmp_path, workers=WorkerConfig(SmallWorld(), workers=2))


def test_a_journal_that_another_process_finished_meanwhile_is_not_played_again(
    engine: ReferenceEngine, tmp_path: Path, whole: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = journal._locked

    @contextmanager
    def finished_meanwhile(path: Path) -> Iterator[Any]:
        path.with_suffix("").write_bytes(whole[f"sessions/{path.stem}"])
        with locked(path) as file:
            yield file

    monkeypatch.setattr(journal, "_locked", finished_meanwhile)
    reader = LexicalReader()
    run(engine, tmp_path, reader=reader)
    assert reader.batches == []
    assert tree(tmp_path) == whole


@pytest.mark.long
def test_agents_may_be_added_to_a_finished_evaluation(
    engine: ReferenceEngine, tmp_path: Path, whole: dict[str, bytes]
) -> None:
    run(engine, tmp_path, agents=AGENTS[:2])
    reader = LexicalReader()
    run(engine, tmp_path, reader=reader)
    assert tree(tmp_path) == whole


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"reader": LexicalReader("another")}, "played with the reader"),
        ({"settings": replace(SETTINGS, seed=1)}, "played with the settings"),
        ({"questions": [replace(FORTY[0], question="who knows"), *FORTY[1:]]}, "expected 'q1-0' as asked now"),
        ({"questions": [replace(FORTY[0], answers=("Nobody",)), *FORTY[1:]]}, "has other answers now"),
        ({"questions": FORTY[:-1]}, "more sessions than there are questions"),
        ({"questions": [*FORTY, Question("new", "who")]}, "ends after 40 of 41"),
    ],
)  # fmt: skip
def test_a_folder_with_another_evaluation_is_refused(
    engine: ReferenceEngine, tmp_path: Path, options: dict[str, Any], says: str
) -> None:
    run(engine, tmp_path)
    with pytest.raises(EvaluationError, match=says):
        run(engine, tmp_path, **options)


def test_a_finished_file_that_was_damaged_is_named(engine: ReferenceEngine, tmp_path: Path) -> None:
    run(engine, tmp_path)
    file = tmp_path / "sessions" / "bm25.jsonl"
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(EvaluationError, match=r"bm25\.jsonl, line 40: not JSON.*delete it to play it again"):
        run(engine, tmp_path)


def test_metrics_are_as_the_contract_says(engine: ReferenceEngine, tmp_path: Path) -> None:
    evaluation = run(engine, tmp_path)
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    details = metrics.pop("_run")
    assert details["n"] == 40
    assert details["settings"] == SETTINGS.as_dict()
    assert "index_fingerprint" in details
    assert list(metrics) == ["bm25", "bm25+ps", "prf-idf-t", "wanderer"]
    for values in metrics.values():
        percent = {"NDCG@5", "Top-1", "Top-5", "found", "EM-MR", "score", "reward"}
        costs = {"passages_read", "queries", "refinements_scored", "passages_scored", "seconds"}
        assert set(values) == percent | costs
        assert all(-100 <= values[name] <= 100 for name in percent)
    assert metrics["bm25"]["reward"] == 0
    assert metrics["wanderer"]["found"] >= metrics["wanderer"]["Top-5"]
    assert evaluation.metrics == metrics
    assert set(evaluation.seconds) == set(metrics)
    assert all(seconds > 0 for seconds in evaluation.seconds.values())


def test_means_are_those_of_the_records(engine: ReferenceEngine, tmp_path: Path) -> None:
    metrics = run(engine, tmp_path).metrics
    for agent in metrics:
        records = list(read_records(tmp_path / "sessions" / f"{agent}.jsonl"))
        assert [record.question.id for record in records] == [question.id for question in FORTY]
        scores = [
            (r.steps[-1].score.total if r.steps and r.steps[-1].score else 0.0) for r in records if r.question.answers
        ]
        assert metrics[agent]["score"] == pytest.approx(100 * sum(scores) / len(scores), abs=1e-9)
        assert metrics[agent]["queries"] == pytest.approx(sum(r.queries for r in records) / 40, abs=1e-9)
        assert metrics[agent]["passages_read"] == pytest.approx(sum(len(r.passages) for r in records) / 40, abs=1e-9)


@pytest.mark.long
def test_seconds_are_in_no_other_file_than_those_that_are_said_to_differ(
    engine: ReferenceEngine, tmp_path: Path
) -> None:
    run(engine, tmp_path)
    with_seconds = {
        str(f.relative_to(tmp_path)) for f in tmp_path.rglob("*.*") if f.is_file() and "seconds" in f.read_text()
    }
    agents = ("bm25", "bm25+ps", "prf-idf-t", "wanderer")
    assert with_seconds == {"metrics.json", "report.md", *(f"summaries/{agent}.json" for agent in agents)}
    costs = json.loads((tmp_path / "costs" / "wanderer.json").read_text())
    assert costs["questions"] == 40
    assert 0 < costs["engine"] + costs["reader"] + costs["agent"] <= costs["total"]


def test_without_answers_only_the_costs_are_told(engine: ReferenceEngine, tmp_path: Path) -> None:
    questions = [replace(question, answers=()) for question in QUESTIONS]
    evaluation = run(engine, tmp_path, questions=questions)
    costs = {"passages_read", "queries", "refinements_scored", "passages_scored", "seconds"}
    assert all(set(values) == costs for values in evaluation.metrics.values())
    assert evaluation.run["judged"] == 0
    assert (tmp_path / "qrels.trec").read_text() == ""
    assert "No agent whose sessions are here refined a question with answers." in (tmp_path / "report.md").read_text()


def test_hard_questions_and_agents_that_fail_are_counted_and_do_no_harm(
    engine: ReferenceEngine, tmp_path: Path
) -> None:
    class Failing:
        def act(self, observations: Sequence[Observation]) -> list[Action]:
            raise RuntimeError("no idea")

    failing = ConfiguredAgent("failing | <b>", Failing(), Settings(steps=3))
    metrics = run(engine, tmp_path, agents=["bm25+ps", failing], questions=[*QUESTIONS, *HARD_QUESTIONS]).metrics
    assert metrics["failing | <b>"]["score"] == metrics["bm25+ps"]["score"], "what was found before is kept"
    report = (tmp_path / "report.md").read_text()
    assert "<b>" not in report
    assert (tmp_path / "sessions" / "failing____b_.jsonl").is_file()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"questions": []}, "no questions"),
        ({"agents": []}, "no agents"),
        ({"chunk": 0}, "chunk = 0"),
        ({"agents": ["bm25", "bm25"]}, "'bm25' is named twice"),
        ({"questions": [QUESTIONS[0], QUESTIONS[0]]}, "two questions have the id 'q1'"),
        ({"landscape": "none.jsonl"}, r"none\.jsonl: cannot be read"),
    ],
)  # fmt: skip
def test_what_cannot_be_evaluated_is_refused_before_any_work(
    engine: ReferenceEngine, tmp_path: Path, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(EvaluationError, match=says):
        run(engine, tmp_path / "out", **options)
    assert not list(tmp_path.rglob("*.jsonl*"))


def test_an_unknown_agent_is_one_error_before_any_work(engine: ReferenceEngine, tmp_path: Path) -> None:
    with pytest.raises(AgentNameError, match="no agent is called 'bm26'"):
        run(engine, tmp_path / "out", agents=["bm25", "bm26"])
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_made_is_one_error(engine: ReferenceEngine, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EvaluationError, match="cannot be written"):
        run(engine, tmp_path / "file" / "out")


def test_figures_without_matplotlib_are_refused_before_any_work(
    engine: ReferenceEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    importing = builtins.__import__

    def missing(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return importing(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(MissingExtraError, match=r"pip install 'orienteer\[eval\]'"):
        run(engine, tmp_path, figures=True)
    assert not list(tmp_path.rglob("*.jsonl*"))


def test_progress_tells_sessions_done_and_time_left(engine: ReferenceEngine, tmp_path: Path) -> None:
    told: list[EvaluationProgress] = []
    run(engine, tmp_path, progress=told.append)
    done = [each.done for each in told]
    assert done == sorted(done)
    assert (told[0].done, told[0].seconds_left) == (0, None)
    assert (told[-1].done, told[-1].total, told[-1].seconds_left) == (160, 160, 0)
    assert all(each.seconds_left is not None for each in told[1:])
    assert {each.agent for each in told} == {"bm25", "bm25+ps", "prf-idf-t", WANDERER.name}


def test_the_index_is_named_by_its_fingerprint(tmp_path: Path) -> None:
    class Named(ReferenceEngine):
        fingerprint = "abc"

    assert run(Named(PASSAGES), tmp_path, agents=["bm25"]).run["index_fingerprint"] == "abc"
