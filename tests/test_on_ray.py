"""What users spread over a cluster: two Ray nodes give the bytes of one process, also when one is killed half way."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orienteer.bundled import bundled_passages, bundled_questions
from orienteer.data import Question
from orienteer.engine import build_index, open_index
from orienteer.workers import in_order, run_chunks
from ray_nodes import ROOMS, TESTS, second_node
from ray_nodes import two_nodes as two_nodes

sys.path[:0] = [str(TESTS / room) for room in ROOMS]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def encyclopedia(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of the bundled corpus."""
    folder = tmp_path_factory.mktemp("encyclopedia") / "index"
    build_index(bundled_passages(), folder)
    return folder


def some_questions(count: int) -> list[Question]:
    return bundled_questions("train")[:count]


def test_rocchio_sessions_are_those_of_one_process(two_nodes: Any, tmp_path: Path) -> None:
    from generated_world import ASKED, GRAMMARS, PLAN, Bundled, run

    from orienteer.rocchio import generate

    run(tmp_path / "here.jsonl")
    run(tmp_path / "there.jsonl", workers=2, ray="auto")
    assert (tmp_path / "there.jsonl").read_bytes() == (tmp_path / "here.jsonl").read_bytes()
    with second_node(two_nodes) as node:
        out = tmp_path / "fewer.jsonl"
        generate(Bundled(), ASKED, GRAMMARS, out, PLAN, chunk=1, workers=2, ray="auto", progress=node)
        assert node.killed
    assert out.read_bytes() == (tmp_path / "here.jsonl").read_bytes()


def test_rocchio_sessions_with_the_shipped_reader_are_those_of_one_process(
    two_nodes: Any, tmp_path: Path, encyclopedia: Path
) -> None:
    from orienteer.rocchio import RocchioConfig, generate, variants_of
    from orienteer.rocchio.generation import BackendFiles
    from orienteer.session import Settings

    plan, grammars, asked = RocchioConfig(n=6, m=3, settings=Settings(steps=3)), variants_of("G4"), some_questions(6)
    generate(BackendFiles(encyclopedia), asked, grammars, tmp_path / "here.jsonl", plan)
    with second_node(two_nodes) as node:
        out = tmp_path / "there.jsonl"
        generate(BackendFiles(encyclopedia), asked, grammars, out, plan, chunk=1, workers=2, ray="auto", progress=node)
        assert node.killed
    assert out.read_bytes() == (tmp_path / "here.jsonl").read_bytes()


def test_an_evaluation_is_that_of_one_process(two_nodes: Any, tmp_path: Path) -> None:
    from evaluated_world import SmallWorld, run, tree

    from orienteer.evaluation import WorkerConfig

    engine, _ = SmallWorld().open()
    agents = ("bm25", "bm25+ps", "prf-idf-t")
    run(engine, tmp_path / "here", agents=agents)
    wanted = tree(tmp_path / "here")
    assert "metrics.json" in wanted
    run(engine, tmp_path / "there", agents=agents, workers=WorkerConfig(SmallWorld(), workers=2, ray="auto"))
    assert tree(tmp_path / "there") == wanted
    with second_node(two_nodes) as node:
        workers = WorkerConfig(SmallWorld(pause=0.05), workers=2, ray="auto")
        run(engine, tmp_path / "fewer", agents=agents, chunk=2, workers=workers, progress=node)
        assert node.killed
    assert tree(tmp_path / "fewer") == wanted


def test_an_evaluation_with_the_shipped_reader_is_that_of_one_process(
    two_nodes: Any, tmp_path: Path, encyclopedia: Path
) -> None:
    from evaluated_world import tree

    from orienteer.evaluation import WorkerConfig, evaluate
    from orienteer.rocchio.generation import BackendFiles
    from orienteer.session import Settings

    context, asked = BackendFiles(encyclopedia), some_questions(6)
    options: dict[str, Any] = {"settings": Settings(steps=3), "figures": False}
    evaluate(*context.open(), asked, ("bm25+ps", "prf-answer"), tmp_path / "here", **options)
    with second_node(two_nodes) as node:
        options |= {"chunk": 1, "workers": WorkerConfig(context, workers=2, ray="auto"), "progress": node}
        evaluate(*context.open(), asked, ("bm25+ps", "prf-answer"), tmp_path / "there", **options)
        assert node.killed
    assert "metrics.json" in tree(tmp_path / "here")
    assert tree(tmp_path / "there") == tree(tmp_path / "here")


def test_embeddings_are_those_of_one_process(two_nodes: Any, tmp_path: Path) -> None:
    from bare_bert import save_bare
    from small_world import PASSAGES

    from orienteer.dense import EmbedWorkers, TextEncoder, embed_index

    build_index(PASSAGES, tmp_path / "index")
    bert, index = save_bare(tmp_path / "bert"), open_index(tmp_path / "index")
    encoder = TextEncoder.from_pretrained(bert, threads=1)
    embed_index(index, encoder, tmp_path / "here", shard=2)
    with second_node(two_nodes) as node:
        workers = EmbedWorkers(tmp_path / "index", bert, workers=2, ray="auto")
        embed_index(index, encoder, tmp_path / "there", shard=2, workers=workers, progress=node)
        assert node.killed
    for file in (tmp_path / "here").iterdir():
        assert (tmp_path / "there" / file.name).read_bytes() == file.read_bytes()


@dataclass(frozen=True)
class SmallTask:
    """What MuZero's learner gives to an actor; its own class would bring torch along."""

    first: int
    count: int
    seed: int
    folder: str


@dataclass(frozen=True)
class MakeSmallActor:
    """A MuZero actor of random weights, on a few passages and a stand-in reader."""

    index: Path

    def __call__(self) -> Callable[[Any], Any]:
        from lexical_reader import LexicalReader
        from small_world import QUESTIONS
        from tiny_muzero import CONFIG, tiny_base

        from orienteer.agents.muzero.self_play import Actor, SelfPlayContext

        answered = [question for question in QUESTIONS if question.answers]
        return Actor(
            SelfPlayContext.of(open_index(self.index, threads=1), LexicalReader(), answered, tiny_base(), CONFIG)
        )


def test_muzero_s_actors_play_the_episodes_of_one_process(two_nodes: Any, tmp_path: Path) -> None:
    from small_world import PASSAGES
    from tiny_muzero import CONFIG, tiny_base
    from tiny_networks import random_tensors

    from orienteer.agents.muzero.grammar import query_grammar
    from orienteer.agents.muzero.model_files import NETWORKS, publish
    from orienteer.agents.muzero.replay import pack
    from orienteer.query import GRAMMARS

    build_index(PASSAGES, tmp_path / "index")
    base, rules = tiny_base(), len(query_grammar(GRAMMARS[CONFIG.grammar], CONFIG.shape, CONFIG.fields))
    weights = random_tensors(CONFIG.networks, rules, 0, *base.encoding_sizes, base.word_embeddings.shape[1])
    publish(tmp_path, {NETWORKS + name: value for name, value in weights.items()}, 0)
    make, tasks = MakeSmallActor(tmp_path / "index"), [SmallTask(3 * n, 3, 7, str(tmp_path)) for n in range(6)]
    wanted = [pack(episodes) for episodes in in_order(run_chunks(make, tasks))]
    assert sum(len(each["numbers"]) for each in wanted) > 18, "turns were played"
    with second_node(two_nodes) as node:
        results = run_chunks(make, tasks, workers=2, ray="auto")
        found = dict([next(results), next(results)])
        node.kill()
        found.update(results)
    for number, own in enumerate(wanted):
        again = pack(found[number])
        assert again.keys() == own.keys()
        assert all(np.array_equal(again[name], own[name]) for name in own), f"task {number}"
