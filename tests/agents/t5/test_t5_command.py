"""`orienteer train t5`, from files of sessions to an agent that plays; examples; the paper's preset."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from lexical_reader import LexicalReader
from small_world import QUESTIONS
from tiny_seq2seq import seq2seq_tokenizer
from toy import toy_states
from training_world import make_world, options, run, sessions_file

from orienteer.agents import AgentNameError, make_agent
from orienteer.agents.imitation import Label, LabelledState
from orienteer.agents.t5.dataset import agent_examples, agent_examples_of, agent_row
from orienteer.agents.t5.model_files import SHIPPED, load_folder
from orienteer.agents.t5.presets import PRESETS, Seq2SeqOptions
from orienteer.agents.t5.rendering import Layout
from orienteer.engine import EmbeddedEngine, open_index
from orienteer.errors import OrienteerError, TrainingError
from orienteer.query import G0, G1, G4, GRAMMARS, Refinement
from orienteer.reader import TrainedReader
from orienteer.session import Environment, Settings, run_sessions
from orienteer.training import example_cache


def test_one_state_is_one_example_for_each_grammar_that_labels_it(embedded: EmbeddedEngine) -> None:
    environment = Environment(embedded, LexicalReader(), Settings(steps=3))
    [seen] = environment.observe(environment.open(QUESTIONS[:1]))
    gains = (
        (Refinement("+", "contents", "holt"), 0.3),
        (Refinement("-", "title", "corran"), 0.1),
        (Refinement("^", "contents", "maren", 0.1), 0.2),
    )
    row = agent_row(LabelledState("q1", seen, (Label(G4, gains), Label(G0, ()))), Layout())
    row = json.loads(json.dumps(row))
    taught = list(agent_examples_of(row, list(GRAMMARS.values()), stop_rate=0.25))
    assert [example.prefix for example in taught] == ["Grammar: G0. ", "Grammar: G4. "]
    assert taught[0].source.startswith("Grammar: G0. Query: 'who lit the first lamp on the reef'. Answer: '")
    assert taught[0].targets == (("Stop.", 0.0),)
    assert taught[0].rate == 0.25
    assert [text for text, _ in taught[1].targets] == [
        "Contents must contain: 'holt'.",
        "Contents should contain: 'maren' boost 0.1.",
        "Title cannot contain: 'corran'.",
    ]
    assert taught[1].rate == 1.0


def test_examples_are_rendered_once_and_a_killed_run_goes_on(embedded: EmbeddedEngine, tmp_path: Path) -> None:
    file = sessions_file(tmp_path / "sessions.jsonl", embedded, LexicalReader())
    opened = []

    def world() -> tuple[EmbeddedEngine, LexicalReader]:
        opened.append(1)
        return embedded, LexicalReader()

    def gathered() -> list[object]:
        return list(agent_examples(tmp_path / "examples", [file], lambda: QUESTIONS, [G1, G4], Layout(), world, 0.3))

    first = gathered()
    assert first
    assert len(opened) == 1
    assert gathered() == first
    assert len(opened) == 1
    [folder] = (tmp_path / "examples").iterdir()
    (folder / example_cache.DONE).unlink()
    assert gathered() == first
    (folder / "00000.jsonl.zst").write_bytes(b"\x28\xb5\x2f\xfdbroken")
    with pytest.raises(TrainingError, match=r"damaged examples.*delete"):
        gathered()


def test_the_paper_preset_holds_every_value_of_its_table(shared_data: Path) -> None:
    tex = (shared_data / "paper" / "boosting-search-engines.tex").read_text()
    part = tex[tex.index(r"\label{tab:t5_config}") :].split(r"\end{tabular}")[0]
    table = dict(re.findall(r"^([A-Z][^&\n]*?) *& *\$?([0-9.]+B?|AdaFactor)\$? *\\\\", part, re.MULTILINE))
    preset = PRESETS["paper"]
    shape, layout = preset.shape, preset.layout
    assert shape is not None
    ours = {
        "Number of Parameters": f"{shape.parameters / 1e9:.0f}B", "Encoder/Decoder Layers": shape.encoder_layers,
        "Feed-forward dimension": shape.inner, "KV dimension": shape.head_width, "Model dimension": shape.width,
        "Number of Heads": shape.heads, "Batch Size (in tokens)": preset.tokens, "Dropout Rate": preset.dropout,
        "Learning Rate (constant)": preset.learning_rate, "Optimizer": "AdaFactor",
        "Maximum input length (tokens)": layout.max_source, "Maximum target length (tokens)": layout.max_target,
        "Finetuning steps on NQ Train": preset.steps, "Max. context tokens from document title": layout.title_words,
        "Max. context tokens from document content": layout.snippet,
    }  # fmt: skip
    assert table.keys() == ours.keys()
    for name, value in ours.items():
        assert table[name] == str(value) or float(table[name]) == value, name
    assert preset.decay == 0
    assert shape.decoder_layers == shape.encoder_layers


@pytest.fixture
def world(tmp_path: Path) -> dict[str, Path]:
    return make_world(tmp_path)


def test_an_agent_is_trained_and_plays(world: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "copynet"
    said = run(
        "train", "copynet", *options(world), "--out", out, "--steps", 3, "--plays", "G4", "--threads",
        1, "--dev", world["questions"], "--dev-limit", 2, "--tokens", 1024, "--decoder-layers", 1,
    )  # fmt: skip
    assert "dev reward" in said
    files = load_folder(out / "int8", "t5")
    assert files.entry["layout"]["grammar"] == "G4"
    assert files.entry["training"]["notes"]["base"] == "base"
    assert str(tmp_path) not in (out / "int8" / "config.json").read_text()
    engine = open_index(world["index"], threads=1)
    entry = make_agent(f"copynet-G1={out / 'int8'}", engine, Settings(steps=3))
    reader = TrainedReader.from_pretrained(world["reader"], threads=1)
    sessions = run_sessions(Environment(engine, reader, entry.settings), entry.agent, QUESTIONS).sessions
    assert all(session.ended == "steps" for session in sessions)
    assert {step.action.op for session in sessions for step in session.steps[1:]} == {"^"}  # type: ignore[union-attr]


def test_a_pretrained_t5_is_fine_tuned_and_plays(world: dict[str, Path], tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    base, out = tmp_path / "base-t5", tmp_path / "t5"
    tokenizer = seq2seq_tokenizer()
    config = transformers.T5Config(
        vocab_size=tokenizer.get_vocab_size() + 4, d_model=32, d_kv=12, d_ff=48, num_layers=2, num_heads=2,
        decoder_start_token_id=0, eos_token_id=tokenizer.token_to_id("[SEP]"), feed_forward_proj="gated-gelu",
        tie_word_embeddings=False,
    )  # fmt: skip
    transformers.T5ForConditionalGeneration(config).save_pretrained(base)
    tokenizer.save(str(base / "tokenizer.json"))
    trained = (*options({**world, "base": base}), "--threads", 1, "--tokens", 1024)
    run("train", "t5", *trained, "--steps", 2, "--out", out)
    files = load_folder(out / "int8", "t5")
    assert (files.config.architecture, files.config.gated) == ("t5", True)
    engine = open_index(world["index"], threads=1)
    reader = TrainedReader.from_pretrained(world["reader"], threads=1)
    entry = make_agent(f"t5-G4={out / 'int8'}", engine, Settings(steps=2))
    sessions = run_sessions(Environment(engine, reader, entry.settings), entry.agent, QUESTIONS[:3]).sessions
    assert all(session.ended == "steps" for session in sessions)
    with pytest.raises(AgentNameError, match=f"holds a t5; write t5-G4=.*{re.escape(str(out))}"):
        make_agent(f"copynet-G4={out / 'int8'}", engine)
    with pytest.raises(TrainingError, match="makes a t5; train it by `orienteer train t5`"):
        run("train", "copynet", *trained, "--steps", 1, "--out", tmp_path / "other")


def test_a_t5_needs_a_base_and_a_copynet_is_no_t5(world: dict[str, Path], tmp_path: Path) -> None:
    out = ("--out", tmp_path / "t5", "--steps", 1)
    with pytest.raises(OrienteerError, match="name one: --base FOLDER"):
        run("train", "t5", *options({key: path for key, path in world.items() if key != "base"}), *out)
    with pytest.raises(TrainingError, match="makes a copynet; train it by `orienteer train copynet`"):
        run("train", "t5", *options(world), *out)


def test_one_grammar_trained_alone_is_the_one_that_plays(world: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "copynet"
    run("train", "copynet", *options(world), "--out", out, "--grammar", "G1", "--steps", 1, "--threads", 1)
    assert load_folder(out / "int8", "t5").entry["layout"]["grammar"] == "G1"


def test_the_default_preset_is_how_the_shipped_agent_was_made() -> None:
    shipped = load_folder(SHIPPED, "t5")
    trained, preset = shipped.notes["training"], PRESETS["copying"]
    assert trained["freeze_encoder"] is trained["freeze_words"] is preset.freeze_encoder is preset.freeze_words is True
    assert trained["notes"]["tokens"] == preset.tokens
    assert trained["notes"]["temperature"] == preset.temperature
    assert [trained[name] for name in ("learning_rate", "decay", "dropout")] == [
        preset.learning_rate, preset.decay, preset.dropout,
    ]  # fmt: skip
    assert abs(shipped.notes["step"] - preset.steps) < 100


@pytest.mark.parametrize(("base", "frozen"), [(None, True), ("pointer", True), ("small", False), ("some/t5", False)])
def test_the_default_preset_freezes_no_encoder_that_somebody_else_names(base: str | None, frozen: bool) -> None:
    made = Seq2SeqOptions(out=Path("out"), base=base).applied_to(PRESETS["copying"])
    assert (made.freeze_encoder, made.freeze_words) == (frozen, frozen)
    thawed = Seq2SeqOptions(out=Path("out"), base=base, freeze_encoder=True, freeze_words=False)
    assert thawed.applied_to(PRESETS["copying"]).freeze_encoder
    assert not thawed.applied_to(PRESETS["copying"]).freeze_words


def test_training_from_scratch_says_first_that_nothing_says_when_to_stop(
    world: dict[str, Path], tmp_path: Path
) -> None:
    with pytest.raises(OrienteerError, match="give --minutes or --steps"):
        run("train", "t5", *options(world), "--out", tmp_path / "t5", "--preset", "small")


def test_an_unknown_preset_is_an_error(world: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(OrienteerError, match="expected one of copying, fine-tuned, small, paper"):
        run("train", "t5", *options(world), "--out", tmp_path / "t5", "--preset", "large", "--steps", 1)


def test_toy_states_have_targets(embedded: EmbeddedEngine) -> None:
    environment = Environment(embedded, LexicalReader(), Settings(steps=3))
    found = [agent_row(moment, Layout()) for moment in toy_states(environment, 10)]
    assert {bool(row["targets"]["G4"]) for row in found} == {True, False}
