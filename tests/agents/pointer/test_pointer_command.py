"""`orienteer train pointer`, from files of sessions to an agent that plays."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_world import QUESTIONS
from taught_world import run, taught_world

from orienteer.agents import make_agent
from orienteer.agents.pointer.model_files import load_folder
from orienteer.engine import open_index
from orienteer.reader import TrainedReader
from orienteer.session import Environment, Settings, run_sessions


@pytest.fixture
def world(tmp_path: Path) -> dict[str, Path]:
    """An index, a tiny reader, Rocchio's sessions with both, and a tiny BERT to start from."""
    pytest.importorskip("torch", reason="training needs the extra [train]")
    transformers = pytest.importorskip("transformers", reason="training needs the extra [train]")
    from tiny_pointer import CONFIG, pointer_tokenizer

    taught = taught_world(tmp_path)
    tokenizer = pointer_tokenizer()
    settings = {**CONFIG, "type_vocab_size": 2, "vocab_size": tokenizer.get_vocab_size()}
    transformers.BertModel(transformers.BertConfig(**settings)).save_pretrained(tmp_path / "base")
    tokenizer.save(str(tmp_path / "base" / "tokenizer.json"))
    return {**taught, "base": tmp_path / "base"}


def test_an_agent_is_trained_from_sessions_labelled_again_and_plays(world: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "pointer"
    options = [part for key, path in world.items() for part in (f"--{key}", path)]
    said = run(
        "train", "pointer", *options, "--out", out, "--steps", 3, "--plays", "G1", "--threads", 1, "--dev",
        world["questions"], "--dev-limit", 2, "--dagger", 1, "--dagger-questions", 3, "--dagger-minutes", 0.02,
    )  # fmt: skip
    assert "dev reward" in said
    assert "round 1" in said
    files = load_folder(out / "int8")
    assert files.layout.grammar == "G1"
    assert str(tmp_path) not in (out / "int8" / "config.json").read_text()
    engine = open_index(world["index"], threads=1)
    entry = make_agent(f"pointer={out / 'int8'}", engine, Settings(steps=3))
    reader = TrainedReader.from_pretrained(world["reader"], threads=1)
    sessions = run_sessions(Environment(engine, reader, entry.settings), entry.agent, QUESTIONS).sessions
    assert all(session.ended == "steps" for session in sessions)
    assert {step.action.op for session in sessions for step in session.steps[1:]} == {"^"}  # type: ignore[union-attr]
