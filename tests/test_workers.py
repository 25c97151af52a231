"""Chunks on many workers: every result once, whatever happens to the workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from orienteer.errors import MissingExtraError, QuerySyntaxError
from orienteer.workers import WorkerError, in_order, run_chunks
from ray_nodes import second_node
from ray_nodes import two_nodes as two_nodes

TESTS = Path(__file__).parent


@dataclass(frozen=True)
class Squares:
    """n² for n; leaves a mark for every worker, and one where a chunk is worked on."""

    folder: Path
    pause: float = 0.0

    def __call__(self) -> Callable[[int], int]:
        (self.folder / f"worker-{os.getpid()}").touch()
        return self._square

    def _square(self, number: int) -> int:
        time.sleep(self.pause)
        return number * number


@dataclass(frozen=True)
class Deadly(Squares):
    """The worker dies of chunk 3, `deaths` times."""

    deaths: int = 1

    def _square(self, number: int) -> int:
        if number == 3:
            died = len(list(self.folder.glob("died-*")))
            if died < self.deaths:
                (self.folder / f"died-{died}").touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return number * number


@dataclass(frozen=True)
class Wrong(Squares):
    def _square(self, number: int) -> int:
        if number == 2:
            raise QuerySyntaxError("a mistake of the user's")
        if number == 5:
            raise MissingExtraError("ray", "ray")
        if number == 7:
            raise ZeroDivisionError("a mistake of ours")
        return number * number


def workers_of(folder: Path) -> int:
    return len(list(folder.glob("worker-*")))


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_every_chunk_has_its_result_in_order_from_workers_made_once(tmp_path: Path, workers: int) -> None:
    results = in_order(run_chunks(Squares(tmp_path), range(12), workers=workers))
    assert list(results) == [n * n for n in range(12)]
    assert 1 <= workers_of(tmp_path) <= workers


@pytest.mark.long
def test_a_worker_that_dies_costs_only_time(tmp_path: Path) -> None:
    assert list(in_order(run_chunks(Deadly(tmp_path, deaths=2), range(8), workers=2))) == [n * n for n in range(8)]
    assert len(list(tmp_path.glob("died-*"))) == 2


@pytest.mark.long
def test_a_chunk_that_kills_every_worker_is_named(tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match="chunk 3 has cost 3 workers, the last one by SIGKILL"):
        list(run_chunks(Deadly(tmp_path, deaths=99), range(8), workers=2))


@pytest.mark.long
@pytest.mark.parametrize(("chunk", "error"), [(2, QuerySyntaxError), (5, WorkerError), (7, WorkerError)])
def test_an_error_inside_the_work_comes_out_with_its_message(
    tmp_path: Path, chunk: int, error: type[Exception]
) -> None:
    with pytest.raises(error, match=r"mistake|pip install"):
        list(run_chunks(Wrong(tmp_path), [chunk, chunk], workers=2))


class Newest(Sequence[int]):
    """Twenty chunks; what a chunk holds is settled when a worker takes it."""

    value = 0

    def __len__(self) -> int:
        return 20

    def __getitem__(self, number: Any) -> Any:
        return self.value


@pytest.mark.parametrize("workers", [1, 2])
def test_a_chunk_is_made_when_a_worker_takes_it(tmp_path: Path, workers: int) -> None:
    chunks = Newest()
    results = []
    for _, result in run_chunks(Squares(tmp_path), chunks, workers=workers):
        results.append(result)
        chunks.value += 1
    assert len(results) == 20
    assert max(results) > 100, "later chunks hold what earlier results led to"


def test_no_chunks_need_no_workers(tmp_path: Path) -> None:
    assert list(run_chunks(Squares(tmp_path), [], workers=3)) == []
    assert workers_of(tmp_path) == 0


@pytest.mark.long
def test_fewer_workers_than_none_are_refused_and_none_means_one_a_processor(tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match="-1 workers"):
        run_chunks(Squares(tmp_path), [1], workers=-1)
    assert list(in_order(run_chunks(Squares(tmp_path, 0.05), range(20), workers=0))) == [n * n for n in range(20)]
    assert workers_of(tmp_path) <= len(os.sched_getaffinity(0))


def test_whoever_stops_listening_ends_the_workers(tmp_path: Path) -> None:
    results = run_chunks(Squares(tmp_path, pause=0.05), range(100), workers=2)
    next(results)
    assert isinstance(results, Iterator)
    results.close()  # type: ignore[attr-defined]
    assert not [pid for pid in _pids(tmp_path) if _alive(pid)]


@pytest.mark.long
def test_workers_do_not_outlive_a_parent_that_was_killed(tmp_path: Path) -> None:
    program = (
        "from pathlib import Path; from test_workers import Squares; from orienteer.workers import run_chunks\n"
        f"if __name__ == '__main__': list(run_chunks(Squares(Path({str(tmp_path)!r}), 60.0), range(4), workers=2))"
    )
    file = tmp_path / "parent.py"
    file.write_text(program)
    parent = subprocess.Popen([sys.executable, str(file)], env=_environment())
    while workers_of(tmp_path) < 2:
        assert parent.poll() is None
        time.sleep(0.1)
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 300  # a busy machine
    while any(_alive(pid) for pid in _pids(tmp_path)):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _environment() -> dict[str, str]:
    """This one's, where the tests' own modules are found too."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}


def _pids(folder: Path) -> list[int]:
    return [int(path.name.removeprefix("worker-")) for path in folder.glob("worker-*")]


def _alive(pid: int) -> bool:
    try:
        return "zombie" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_ray_that_is_not_installed_is_answered_with_the_line_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"orienteer\[ray\]"):
        list(run_chunks(Squares(tmp_path), [1], workers=1, ray="local"))


def test_a_ray_cluster_that_does_not_answer_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Ray:
        @staticmethod
        def is_initialized() -> bool:
            return False

        @staticmethod
        def init(**options: Any) -> None:
            raise Exception("timed out\nduring startup")

    monkeypatch.setitem(sys.modules, "ray", Ray)  # type: ignore[arg-type]
    with pytest.raises(WorkerError, match="no Ray cluster at 'head:6379': timed out during startup; start one"):
        list(run_chunks(Squares(tmp_path), [1], workers=1, ray="head:6379"))


@pytest.mark.slow
def test_a_ray_cluster_gives_the_same_results(two_nodes: Any, tmp_path: Path) -> None:
    results = in_order(run_chunks(Squares(tmp_path, 0.02), range(40), workers=0, ray="auto"))
    assert list(results) == [n * n for n in range(40)]
    assert workers_of(tmp_path) == 2


@pytest.mark.slow
def test_a_ray_worker_that_dies_costs_only_time(two_nodes: Any, tmp_path: Path) -> None:
    assert list(in_order(run_chunks(Deadly(tmp_path), range(8), workers=2, ray="auto"))) == [n * n for n in range(8)]


@pytest.mark.slow
def test_relative_paths_mean_the_same_to_a_ray_worker(
    two_nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert list(in_order(run_chunks(Squares(Path()), range(4), workers=2, ray="auto"))) == [0, 1, 4, 9]
    assert workers_of(tmp_path) >= 1


@pytest.mark.slow
def test_an_error_on_ray_comes_out_with_its_message(two_nodes: Any, tmp_path: Path) -> None:
    with pytest.raises(QuerySyntaxError, match="mistake"):
        list(run_chunks(Wrong(tmp_path), [2], workers=1, ray="auto"))


@pytest.mark.slow
def test_a_node_that_is_killed_half_way_loses_nothing(two_nodes: Any, tmp_path: Path) -> None:
    results = run_chunks(Squares(tmp_path, 0.3), range(30), workers=2, ray="auto")
    found = dict([next(results), next(results), next(results), next(results)])
    with second_node(two_nodes) as node:
        node.kill()
        for number, result in results:
            assert number not in found, "done twice"
            found[number] = result
    assert found == {n: n * n for n in range(30)}
