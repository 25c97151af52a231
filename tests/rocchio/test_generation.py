"""Sessions into a file: the same bytes from any number of workers, after any kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from generated_world import ASKED, CONFIG, GRAMMARS, Bundled, run

from orienteer.rocchio import RocchioConfig, RocchioError, generate, read_sessions, variants_of
from orienteer.rocchio.generation import GenerationProgress

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a run that nothing disturbed."""
    out = tmp_path_factory.mktemp("whole") / "sessions.jsonl"
    run(out)
    return out.read_bytes()


def test_a_finished_run_leaves_the_sessions_and_what_they_cost(tmp_path: Path, whole: bytes) -> None:
    out = tmp_path / "sessions.jsonl"
    costs = run(out)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sessions.jsonl", "sessions.jsonl.costs.json"]
    assert costs.questions == len(ASKED)
    assert costs.sessions == 2 * len(ASKED)
    assert costs.passages_read > 0
    header, sessions = read_sessions(out)
    assert header.config == CONFIG
    found = [(session.id, session.variant) for session in sessions]
    assert found == [(question.id, variant) for question in ASKED for variant in GRAMMARS]
    assert run(out) == costs, "over a finished one"
    assert out.read_bytes() == whole


@pytest.mark.long
@pytest.mark.parametrize("chunk", [1, 7, 100])
def test_the_size_of_a_chunk_changes_no_byte(tmp_path: Path, whole: bytes, chunk: int) -> None:
    run(tmp_path / "sessions.jsonl", chunk=chunk)
    assert (tmp_path / "sessions.jsonl").read_bytes() == whole


@pytest.mark.long
def test_the_number_of_workers_changes_no_byte(tmp_path: Path, whole: bytes) -> None:
    run(tmp_path / "sessions.jsonl", workers=3)
    assert (tmp_path / "sessions.jsonl").read_bytes() == whole


@pytest.mark.long
def test_a_worker_that_is_killed_loses_nothing(tmp_path: Path, whole: bytes) -> None:
    backend = Bundled(doom=5, once=tmp_path / "first", parent=os.getpid())
    run(tmp_path / "sessions.jsonl", backend, workers=2)
    assert (tmp_path / "first").exists(), "a worker was killed"
    assert (tmp_path / "sessions.jsonl").read_bytes() == whole


def _program(out: Path, workers: int, doom: int) -> subprocess.Popen[bytes]:
    path = os.pathsep.join([str(HERE), str(HERE.parent / "session"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, str(HERE / "generated_world.py"), str(out), str(workers), str(doom)]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path})


@pytest.mark.long
@pytest.mark.parametrize("doom", np.random.default_rng(3).integers(3, 30, 3).tolist())
def test_killed_at_random_and_taken_up_again_it_gives_the_same_bytes(tmp_path: Path, whole: bytes, doom: int) -> None:
    out = tmp_path / "sessions.jsonl"
    assert _program(out, 1, doom).wait() == -signal.SIGKILL
    assert not out.exists()
    run(out)
    assert out.read_bytes() == whole


@pytest.mark.slow
def test_fifty_kills_at_random_moments_lose_and_double_nothing(tmp_path: Path, whole: bytes) -> None:
    draw = np.random.default_rng(1)
    lasts = _seconds_of_work(tmp_path / "unbroken.jsonl")
    kills = {"runs": 0, "workers": 0}
    rounds = 0
    while sum(kills.values()) < 50:
        rounds += 1
        out = tmp_path / f"{rounds}.jsonl"
        while not out.exists():
            running = _program(out, int(draw.integers(1, 4)), 0)
            _wait_for_work(running, out)
            time.sleep(float(draw.uniform(0, lasts)))
            workers = _workers_of(running.pid)
            if running.poll() is None and workers and draw.random() < 0.5:
                with suppress(ProcessLookupError):
                    os.kill(int(draw.choice(workers)), signal.SIGKILL)
                    kills["workers"] += 1
            elif running.poll() is None:
                running.kill()
                kills["runs"] += 1
            running.wait()
        assert out.read_bytes() == whole, f"after {kills}"
    assert min(kills.values()) > 5, kills


def _seconds_of_work(out: Path) -> float:
    """How long two workers take from the first sign of work to the end."""
    running = _program(out, 2, 0)
    _wait_for_work(running, out)
    started = time.monotonic()
    assert running.wait() == 0
    return time.monotonic() - started


def _wait_for_work(running: subprocess.Popen[bytes], out: Path) -> None:
    while running.poll() is None and not out.with_name(f"{out.name}.parts").exists():
        time.sleep(0.01)


def _workers_of(pid: int) -> list[int]:
    """The worker processes of a run; none where the system does not tell."""
    found = []
    with suppress(OSError, ValueError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            with suppress(OSError):
                if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                    found.append(int(child))
    return found


@pytest.mark.long
def test_a_damaged_part_is_searched_again(tmp_path: Path, whole: bytes) -> None:
    out = tmp_path / "sessions.jsonl"
    assert _program(out, 1, 30).wait() == -signal.SIGKILL
    parts = sorted((tmp_path / "sessions.jsonl.parts").glob("0*.jsonl"))
    assert len(parts) > 1
    parts[0].write_bytes(parts[0].read_bytes()[:-10])
    parts[1].write_bytes(parts[0].read_bytes())
    run(out)
    assert out.read_bytes() == whole


@pytest.mark.long
def test_a_run_of_another_kind_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "sessions.jsonl"
    assert _program(out, 1, 30).wait() == -signal.SIGKILL
    for options, says in (
        ({"config": replace(CONFIG, n=13)}, "begun with n = 12, this is 13"),
        ({"questions": ASKED[1:]}, "questions"),
        ({"variants": variants_of("G4")}, "variants"),
    ):
        with pytest.raises(RocchioError, match=says):
            generate(**{"backend": Bundled(), "questions": ASKED, "variants": GRAMMARS, "out": out, "config": CONFIG,
                        "chunk": 3, **options})  # type: ignore[arg-type]  # fmt: skip
    run(out)
    with pytest.raises(RocchioError, match="holds other sessions"):
        generate(Bundled(), ASKED[:-1], GRAMMARS, out, CONFIG)
    with pytest.raises(RocchioError, match="holds other sessions"):
        generate(Bundled(), ASKED, GRAMMARS, out, RocchioConfig())


def test_two_runs_at_once_do_not_share_a_file(tmp_path: Path) -> None:
    out = tmp_path / "sessions.jsonl"

    def second(done: GenerationProgress) -> None:
        with pytest.raises(RocchioError, match="another process is writing"):
            run(out)

    generate(Bundled(), ASKED[:4], GRAMMARS, out, CONFIG, progress=second)


def test_progress_counts_questions_and_guesses_the_time_left(tmp_path: Path) -> None:
    told: list[GenerationProgress] = []
    generate(Bundled(), ASKED[:8], GRAMMARS, tmp_path / "out.jsonl", CONFIG, chunk=4, progress=told.append)
    assert [(each.done, each.total) for each in told] == [(0, 8), (4, 8), (8, 8)]
    assert told[0].seconds_left is None
    assert told[1].seconds_left is not None
    assert told[2].seconds_left == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"questions": []}, "no questions"), ({"variants": ()}, "no grammar"), ({"chunk": 0}, "chunk = 0"),
        ({"questions": [ASKED[0], ASKED[0]]}, "two questions have the id"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused_at_once(tmp_path: Path, options: dict[str, object], says: str) -> None:
    wanted = {"backend": Bundled(), "questions": ASKED, "variants": GRAMMARS, "out": tmp_path / "x", **options}
    with pytest.raises(RocchioError, match=says):
        generate(**wanted)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_the_costs_are_those_of_all_chunks(tmp_path: Path) -> None:
    out = tmp_path / "sessions.jsonl"
    assert _program(out, 1, 20).wait() == -signal.SIGKILL
    costs = run(out)
    told = json.loads((tmp_path / "sessions.jsonl.costs.json").read_text())
    assert told["questions"] == costs.questions == len(ASKED)
    assert costs.worker_seconds > 0
