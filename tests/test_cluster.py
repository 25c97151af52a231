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

from orienteer.cluster import ClusterError, in_order, run_chunks
from orienteer.errors import MissingExtraError, QuerySyntaxError
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


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_every_chunk_has_its_result_in_order_from_workers_made_once(tmp_path: Path, workers: int) -> None:
    results = in_order(run_chunks(Squares(tmp_path), range(12), workers=workers))
    assert list(results) == [n * n for n in range(12)]
    assert 1 <= workers_of(tmp_path) <= workers


def test_a_worker_that_dies_costs_only_time(tmp_path: Path) -> None:
    assert list(in_order(run_chunks(Deadly(tmp_path, deaths=2), range(8), workers=2))) == [n * n for n in range(8)]
    assert len(list(tmp_path.glob("died-*"))) == 2


def test_a_chunk_that_kills_every_worker_is_named(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="chunk 3 has cost 3 workers, the last one by SIGKILL"):
        list(run_chunks(Deadly(tmp_path, deaths=99), range(8), workers=2))


@pytest.mark.parametrize(("chunk", "error"), [(2, QuerySyntaxError), (5, ClusterError), (7, ClusterError)])
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


def test_fewer_workers_than_none_are_refused_and_none_means_one_a_processor(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="-1 workers"):
        run_chunks(Squares(tmp_path), [1], workers=-1)
    assert list(in_order(run_chunks(Squares(tmp_path, 0.05), range(20), workers=0))) == [n * n for n in range(20)]
    assert workers_of(tmp_path) <= len(os.sched_getaffinity(0))


def test_whoever_stops_listening_ends_the_workers(tmp_path: Path) -> None:
    results = run_chunks(Squares(tmp_path, pause=0.05), range(100), workers=2)
    next(results)
    assert isinstance(results, Iterator)
    results.close()  # type: ignore[attr-defined]
    assert not [pid for pid in _pids(tmp_path) if _alive(pid)]


def test_workers_do_not_outlive_a_parent_that_was_killed(tmp_path: Path) -> None:
    program = (
        "from pathlib import Path; from test_cluster import Squares; from orienteer.cluster import run_chunks\n"
        f"if __name__ == '__main__': list(run_chunks(Squares(Path({str(tmp_path)!r}), 60.0), range(4), workers=2))"
    )
    file = tmp_path / "parent.py"
    file.write_text(program)
    parent = subprocess.Popen([sys.executable, str(file)], env={**os.environ, "PYTHONPATH": str(TESTS)})
    while workers_of(tmp_path) < 2:
        assert parent.poll() is None
        time.sleep(0.1)
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 30
    while any(_alive(pid) for pid in _pids(tmp_path)):
        assert time.monotonic() < deadline
        time.sleep(0.1)


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
    with pytest.raises(ClusterError, match="no Ray cluster at 'head:6379': timed out during startup; start one"):
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
def test_a_node_that_goes_half_way_loses_nothing(two_nodes: Any, tmp_path: Path) -> None:
    node = two_nodes.add_node(num_cpus=1, node_ip_address="127.0.0.1")
    results = run_chunks(Squares(tmp_path, 0.3), range(30), workers=3, ray="auto")
    found = dict([next(results), next(results), next(results), next(results)])
    two_nodes.remove_node(node)
    for number, result in results:
        assert number not in found, "done twice"
        found[number] = result
    assert found == {n: n * n for n in range(30)}


@pytest.mark.slow
def test_rocchio_sessions_from_two_ray_nodes_are_those_of_one_process_also_when_a_node_goes(
    two_nodes: Any, tmp_path: Path
) -> None:
    sys.path[:0] = [str(TESTS / "rocchio"), str(TESTS / "session")]
    from generated_world import ASKED, GRAMMARS, PLAN, Bundled, run

    from orienteer.rocchio import generate

    run(tmp_path / "here.jsonl")
    run(tmp_path / "there.jsonl", workers=2, ray="auto")
    assert (tmp_path / "there.jsonl").read_bytes() == (tmp_path / "here.jsonl").read_bytes()
    half_way = Leaving(two_nodes, len(ASKED) // 3)
    there = tmp_path / "fewer.jsonl"
    generate(Bundled(), ASKED, GRAMMARS, there, PLAN, chunk=1, workers=3, ray="auto", progress=half_way)
    assert half_way.gone
    assert there.read_bytes() == (tmp_path / "here.jsonl").read_bytes()


@pytest.mark.slow
def test_an_evaluation_on_two_ray_nodes_is_that_of_one_process_also_when_a_node_goes(
    two_nodes: Any, tmp_path: Path
) -> None:
    sys.path[:0] = [str(TESTS / "evaluation"), str(TESTS / "session")]
    from evaluated_world import SmallWorld, run, tree

    from orienteer.evaluation import Crew

    engine, _ = SmallWorld().open()
    agents = ("bm25", "bm25+ps", "prf-idf-t")
    run(engine, tmp_path / "here", agents=agents)
    wanted = tree(tmp_path / "here")
    assert "metrics.json" in wanted
    run(engine, tmp_path / "there", agents=agents, crew=Crew(SmallWorld(), workers=2, ray="auto"))
    assert tree(tmp_path / "there") == wanted
    half_way = Leaving(two_nodes, 50)
    crew = Crew(SmallWorld(pause=0.05), workers=3, ray="auto")
    run(engine, tmp_path / "fewer", agents=agents, chunk=2, crew=crew, progress=half_way)
    assert half_way.gone
    assert tree(tmp_path / "fewer") == wanted


@pytest.mark.slow
def test_embeddings_from_two_ray_nodes_are_those_of_one_process(two_nodes: Any, tmp_path: Path) -> None:
    sys.path[:0] = [str(TESTS / "dense"), str(TESTS / "session")]
    from bare_bert import save_bare
    from small_world import PASSAGES

    from orienteer.dense import Crew, TextEncoder, embed_index
    from orienteer.engine import build_index, open_index

    build_index(PASSAGES, tmp_path / "index")
    bert, index = save_bare(tmp_path / "bert"), open_index(tmp_path / "index").index
    encoder = TextEncoder.from_pretrained(bert, threads=1)
    crew = Crew(tmp_path / "index", bert, workers=2, ray="auto")
    embed_index(index, encoder, tmp_path / "here", shard=2)
    embed_index(index, encoder, tmp_path / "there", shard=2, crew=crew)
    for file in (tmp_path / "here").iterdir():
        assert (tmp_path / "there" / file.name).read_bytes() == file.read_bytes()


class Leaving:
    """A third node that goes as soon as more than `after` of the work is done."""

    def __init__(self, cluster: Any, after: int) -> None:
        self._cluster, self._after = cluster, after
        self._node = cluster.add_node(num_cpus=1, node_ip_address="127.0.0.1")
        self.gone = False

    def __call__(self, progress: Any) -> None:
        if not self.gone and progress.total > progress.done > self._after:
            self._cluster.remove_node(self._node)
            self.gone = True
