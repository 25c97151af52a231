"""h in training is h at play, and `train muzero` goes from files to an agent that plays."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs the extra [train]")
pytest.importorskip("transformers", reason="training needs the extra [train]")
pytest.importorskip("tensorboard", reason="training needs the extra [train]")

from lexical_reader import LexicalReader  # noqa: E402
from small_world import QUESTIONS  # noqa: E402
from taught_world import taught_world  # noqa: E402
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # noqa: E402
from test_episodes import context_of, networks_of  # noqa: E402
from tiny_muzero import CONFIG, save_muzero  # noqa: E402
from tiny_pointer import save_pointer, value_model_tensors  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

from orienteer.agents import AgentNameError, CheckpointMissingError, make_agent  # noqa: E402
from orienteer.agents.action_space import grammar_bits  # noqa: E402
from orienteer.agents.muzero import model_files as folder  # noqa: E402
from orienteer.agents.muzero.learner import MuZeroModel, TrainableEncoder  # noqa: E402
from orienteer.agents.muzero.representation import Encoder  # noqa: E402
from orienteer.agents.muzero.self_play import Actor, play_episodes  # noqa: E402
from orienteer.agents.muzero.train import ChunkReport, Run, RunComponents, train  # noqa: E402
from orienteer.cli import app  # noqa: E402
from orienteer.engine import EmbeddedEngine, open_index  # noqa: E402
from orienteer.query import G4  # noqa: E402
from orienteer.reader import TrainedReader  # noqa: E402
from orienteer.session import Environment, Settings, run_sessions  # noqa: E402


@pytest.mark.parametrize("layers", [False, True])
def test_what_is_trained_sees_what_plays_sees(embedded: EmbeddedEngine, layers: bool) -> None:
    context = context_of(embedded, CONFIG)
    asked = list(enumerate(context.questions))
    trajectories = play_episodes(
        context.environment(0), context.pipeline, networks_of(context), asked, seed=1, keep_rows=True
    )
    steps = [step for trajectory in trajectories for step in trajectory.steps]
    h = TrainableEncoder(context.base, G4)
    if layers:
        torch.nn.init.normal_(h.idf, std=0.3)
        torch.nn.init.normal_(h.ps, std=0.3)
    tokenizer = context.base.plain_tokenizer()
    encoder = Encoder(
        context.base.bert, {**context.base.tensors, **h.tensors()}, tokenizer, compute="float32", threads=1
    )
    environment = Environment(embedded, LexicalReader(), Settings(steps=3))
    seen = environment.observe(environment.open(context.questions))
    tokenized = [context.pipeline.tokenizer(each) for each in seen]
    with torch.no_grad():
        whole, terms = h([trajectory.steps[0] for trajectory in trajectories])
    first = 0
    for place, encoded in enumerate(encoder.encode(tokenized, grammar_bits(G4))):
        np.testing.assert_allclose(encoded.summary, whole[place].numpy(), atol=2e-3)
        np.testing.assert_allclose(encoded.terms, terms[first : first + len(encoded.terms)].numpy(), atol=2e-3)
        first += len(encoded.terms)
    assert steps


def test_h_is_trained_with_everything_else(embedded: EmbeddedEngine, tmp_path: Path) -> None:
    context = context_of(embedded, CONFIG)
    torch.manual_seed(0)
    model = MuZeroModel(
        CONFIG.networks, len(context.grammar), *context.base.encoding_sizes, context.base.word_embeddings
    )
    h = TrainableEncoder(context.base, G4)
    before = {name: value.clone() for name, value in h.state_dict().items()}
    said: list[ChunkReport] = []
    parts = RunComponents(
        model, context.grammar, context.index, context.base.word_embeddings, lambda: Actor(context, True), h
    )
    train(CONFIG, Run(tmp_path, chunks=2), parts, show=said.append)
    after = h.state_dict()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert {"idf", "ps", "clone.term.weight"} <= moved
    assert "clone.encoder.embeddings.word_embeddings.weight" not in moved
    assert all(np.isfinite(value) for progress in said for value in progress.values.values())


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """An index, a tiny reader, Rocchio's sessions with both."""
    taught = taught_world(tmp_path, "G4")
    unsearched = {"id": "unsearched", "question": "who has no session", "answers": ["nobody"]}
    with taught["questions"].open("a") as questions:
        questions.write(json.dumps(unsearched) + "\n")
    return {**taught, "base": save_muzero(tmp_path / "base")}


def test_an_agent_is_trained_from_the_command_line_and_plays(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "SHIPPED", tmp_path / "shipped")
    out = tmp_path / "run"
    options = [part for key, path in files.items() for part in (f"--{key}", path)]
    told = [
        "train", "muzero", *options, "--out", out, "--chunks", 2, "--clone-updates", 4, "--simulations", 8,
        "--episodes", 3, "--updates", 2, "--session-steps", 2, "--dev", files["questions"], "--dev-limit", 2,
        "--judge-chunks", 1, "--threads", 1, "--publish",
    ]  # fmt: skip
    result = CliRunner().invoke(app, list(map(str, told)))
    if result.exception is not None:
        raise result.exception
    searched = sum(bool(question.answers) for question in QUESTIONS)
    assert f"{searched} questions;" in result.output  # not the one without a session
    assert "imitation" in result.output
    assert "NDCG@5" in result.output
    agent = folder.load_folder(out / "agent")
    assert folder.load_folder(tmp_path / "shipped").fingerprint == agent.fingerprint
    assert agent.notes["cloned"] is True
    assert str(tmp_path) not in (out / "agent" / "config.json").read_text()
    logged = EventAccumulator(str(out / "logs")).Reload().Tags()["scalars"]
    assert {
        "play/reward", "play/entropy", "play/stops", "play/empty", "play/advised", "loss/policy", "loss/value",
        "loss/reward_loss", "actions/+", "actions/-", "actions/plain", "seconds/playing", "dev/reward", "dev/NDCG@5",
    } <= set(logged)  # fmt: skip
    engine = open_index(files["index"], threads=1)
    entry = make_agent(f"muzero={out / 'agent'}", engine, Settings(steps=2))
    reader = TrainedReader.from_pretrained(files["reader"], threads=1)
    sessions = run_sessions(Environment(engine, reader, entry.settings), entry.agent, QUESTIONS).sessions
    assert all(session.ended == "steps" for session in sessions)


def test_the_paper_s_muzero_is_trained_by_reward_alone_and_plays_under_its_own_name(
    files: dict[str, Path], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    base = save_pointer(tmp_path / "pointer", more=value_model_tensors())  # with a lookahead, which stays unused
    shown = [part for key in ("index", "questions", "reader") for part in (f"--{key}", files[key])]
    told = [
        "train", "muzero", *shown, "--base", base, "--preset", "paper-small", "--out", out, "--chunks", 1,
        "--simulations", 4, "--episodes", 2, "--updates", 2, "--session-steps", 2, "--guided-share", 0, "--threads", 1,
    ]  # fmt: skip
    result = CliRunner().invoke(app, list(map(str, told)))
    if result.exception is not None:
        raise result.exception
    assert "0 demonstrations" in result.output
    assert "play it as muzero-paper=" in "".join(result.output.split("\n"))
    agent = folder.load_folder(out / "agent")
    assert agent.config.is_paper
    assert agent.has_layers
    assert (np.abs(agent.tensors["layers.idf"]) > 0).any()
    assert agent.config.training.guided_share == 0
    assert agent.config.training.episode_length == 20
    assert agent.config.search.discount == 0.9
    engine = open_index(files["index"], threads=1)
    entry = make_agent(f"muzero-paper+sims2={out / 'agent'}", engine, Settings(steps=2))
    reader = TrainedReader.from_pretrained(files["reader"], threads=1)
    sessions = run_sessions(Environment(engine, reader, entry.settings), entry.agent, QUESTIONS[:3]).sessions
    assert all(session.ended == "steps" for session in sessions)
    assert all(session.cost.refinements_scored == 0 for session in sessions)  # no lookahead
    with pytest.raises(AgentNameError, match="was not trained by --preset paper"):
        make_agent(f"muzero-paper={files['base']}", engine)
    with pytest.raises(CheckpointMissingError, match="none ships; muzero, which ships, plans with a lookahead"):
        make_agent("muzero-paper", engine)


def test_imitation_raises_the_probability_of_what_was_shown(embedded: EmbeddedEngine, tmp_path: Path) -> None:
    config = replace(CONFIG, training=replace(CONFIG.training, batch=16, learning_rate=3e-3))
    context = context_of(embedded, config)
    trajectories = play_episodes(
        context.environment(0), context.pipeline, networks_of(context), list(enumerate(context.questions)), seed=1
    )  # fmt: skip
    torch.manual_seed(0)
    model = MuZeroModel(
        config.networks, len(context.grammar), *context.base.encoding_sizes, context.base.word_embeddings
    )
    said: list[ChunkReport] = []
    parts = RunComponents(model, context.grammar, context.index, context.base.word_embeddings, lambda: Actor(context))
    train(config, Run(tmp_path, chunks=0, clone_updates=150), parts, trajectories, said.append)
    losses = [progress.values["policy"] for progress in said]
    assert losses[-1] < losses[0]
