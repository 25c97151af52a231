"""Model folders from strangers: what does not fit is one clear error, never a crash or a silently wrong result."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lexical_reader import LexicalReader
from numpy.typing import NDArray
from small_world import PASSAGES, QUESTIONS
from tiny import CONFIG, save_tiny, tiny_tensors, tiny_tokenizer
from tiny_muzero import save_muzero
from tiny_pointer import save_pointer
from tiny_seq2seq import save_seq2seq
from tokenizers import Tokenizer

from orienteer.agents.muzero.agent import MuZeroAgent
from orienteer.agents.pointer.agent import PointerAgent
from orienteer.agents.t5.agent import T5Agent
from orienteer.data.passage import Passage
from orienteer.dense.static_encoder import StaticEncoder, write_static_encoder
from orienteer.engine import ReferenceEngine
from orienteer.errors import ModelCorruptError, ModelMissingError
from orienteer.models.bert_encoder import Bounds
from orienteer.models.model_folder import CONFIG as CONFIG_FILE
from orienteer.models.model_folder import TOKENIZER, WEIGHTS, read_folder, write_folder
from orienteer.query import G4
from orienteer.reader.encoding import MAX_WINDOWS, encode
from orienteer.reader.folder import save_folder
from orienteer.reader.runtime import TrainedReader
from orienteer.session import Environment, Settings

ENGINE = ReferenceEngine(PASSAGES)
Change = Callable[[dict[str, Any], dict[str, NDArray[Any]]], None]


def changed_reader(folder: Path, change: Change, tokenizer: str | None = None) -> Path:
    """A tiny reader with a change, its checksums right."""
    config, tensors = {**CONFIG, "vocab_size": tiny_tokenizer().get_vocab_size()}, tiny_tensors()
    change(config, tensors)
    save_folder(folder, config, tensors, tokenizer or tiny_tokenizer().to_str())
    return folder


def refused(folder: Path) -> str:
    with pytest.raises(ModelCorruptError) as raised:
        TrainedReader.from_pretrained(folder, threads=1)
    return str(raised.value)


def nothing(config: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> None:
    pass


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_attention_heads", 0), ("num_attention_heads", 3), ("num_attention_heads", -2), ("hidden_size", 16),
        ("hidden_size", "32"), ("num_hidden_layers", 3), ("num_hidden_layers", 10**9), ("intermediate_size", 32),
        ("layer_norm_eps", None), ("hidden_act", "tanh"), ("hidden_act", []),
    ],
)  # fmt: skip
def test_a_number_that_does_not_fit_the_weights_is_refused(tmp_path: Path, name: str, value: Any) -> None:
    def change(config: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> None:
        config[name] = value

    assert "do not make a reader" in refused(changed_reader(tmp_path / "reader", change))


def test_every_tensor_that_is_cut_grown_or_missing_is_refused(tmp_path: Path) -> None:
    names = [name for name in tiny_tensors() if ".layer.1." not in name]
    cuts: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
        "a row less": lambda value: value[:-1], "a column less": lambda value: value[..., :-1],
        "twice": lambda value: np.concatenate([value, value]), "flat": lambda value: value.reshape(-1)[None, None],
    }  # fmt: skip
    for name in names:
        for what, cut in cuts.items():
            if what in ("a row less", "twice") and "embeddings.weight" in name and "token_type" not in name:
                continue  # rows of a table have their own tests

            def change(config: dict[str, Any], tensors: dict[str, NDArray[Any]], n: str = name, c: Any = cut) -> None:
                tensors[n] = c(tensors[n])

            if what == "twice" and "token_type" in name:
                continue  # more types than are used do no harm
            with pytest.raises(ModelCorruptError):
                TrainedReader.from_pretrained(changed_reader(tmp_path / "reader", change), threads=1)

        def remove(config: dict[str, Any], tensors: dict[str, NDArray[Any]], n: str = name) -> None:
            del tensors[n]

        with pytest.raises(ModelCorruptError):
            TrainedReader.from_pretrained(changed_reader(tmp_path / "reader", remove), threads=1)


def test_tokens_beyond_the_word_table_are_refused(tmp_path: Path) -> None:
    def cut(config: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> None:
        name = "encoder.embeddings.word_embeddings.weight"
        tensors[name] = tensors[name][:20]

    assert "word table 20 rows" in refused(changed_reader(tmp_path / "reader", cut))


def test_a_window_longer_than_the_table_of_positions_is_refused(tmp_path: Path) -> None:
    def cut(config: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> None:
        name = "encoder.embeddings.position_embeddings.weight"
        tensors[name] = tensors[name][:100]

    assert "100 rows of position embeddings" in refused(changed_reader(tmp_path / "reader", cut))


@pytest.mark.parametrize(("tokens", "types"), [([[5]], [0]), ([[0, 0, 0]], [0, 0, 0]), ([[0]], [2])])
def test_an_input_without_a_row_in_a_table_never_reaches_the_encoder(tokens: Any, types: list[int]) -> None:
    with pytest.raises(ModelCorruptError, match="this input needs"):
        Bounds(words=5, positions=2, types=2).check(np.array(tokens, np.int32), types)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_no_numbers_are_refused(tmp_path: Path, value: float) -> None:
    def change(config: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> None:
        tensors["span.weight"][1, 3] = value

    assert "not finite" in refused(changed_reader(tmp_path / "reader", change))


def test_int8_rows_with_a_wrong_scale_are_refused(tmp_path: Path) -> None:
    name = "encoder.encoder.layer.0.intermediate.dense.weight"
    scales: list[Any] = [np.zeros(64), -np.ones(64), np.ones(63), np.ones((64, 1)), None]
    for scale in scales:

        def change(config: dict[str, Any], tensors: dict[str, NDArray[Any]], given: Any = scale) -> None:
            tensors[name] = np.ones((64, 32), np.int8)
            if given is not None:
                tensors[f"{name}.scale"] = given.astype(np.float32)

        refused(changed_reader(tmp_path / "reader", change))


@pytest.mark.parametrize(
    "text", ["", "{}", "null", "[" * 3000, '{"model": {"type": "WordPiece"}}', '{"version": "1.0"']
)
def test_a_broken_tokenizer_is_one_clear_error(tmp_path: Path, text: str) -> None:
    folder = changed_reader(tmp_path / "reader", nothing, text or " ")
    assert "tokenizer.json is damaged" in refused(folder)


def test_a_tokenizer_without_its_unknown_token_is_one_clear_error(tmp_path: Path) -> None:
    row = json.loads(tiny_tokenizer().to_str())
    row["model"]["unk_token"] = "no such token"
    assert "tokenizer.json is damaged" in refused(changed_reader(tmp_path / "reader", nothing, json.dumps(row)))


def test_a_tokenizer_that_fails_at_some_text_only_is_one_clear_error() -> None:
    row = json.loads(tiny_tokenizer().to_str())
    row["model"]["unk_token"] = "no such token"
    with pytest.raises(ModelCorruptError, match="is damaged"):
        encode(Tokenizer.from_str(json.dumps(row)), [("who wrote it ☃", [Passage("p", "", "☃")])])


def test_a_pointer_with_a_head_in_half_precision_acts(tmp_path: Path) -> None:
    save_pointer(tmp_path / "pointer")
    found = read_folder(tmp_path / "pointer", ("pointer",))
    half = {name: v if name.startswith("encoder.") else v.astype(np.float16) for name, v in found.tensors.items()}
    entry = {key: value for key, value in found.entry.items() if key != "sha256"}
    write_folder(tmp_path / "pointer", "pointer", found.config, entry, half, found.tokenizer)
    environment = Environment(ENGINE, LexicalReader(), Settings(steps=3))
    agent = PointerAgent.from_pretrained(tmp_path / "pointer", ENGINE, threads=1)
    assert len(agent.act(environment.observe(environment.open(QUESTIONS[:2])))) == 2


def test_a_tokenizer_whose_numbers_have_a_gap_is_refused(tmp_path: Path) -> None:
    row = json.loads(tiny_tokenizer().to_str())
    row["model"]["vocab"]["the"] = 10**6
    assert "not numbered from 0" in refused(changed_reader(tmp_path / "reader", nothing, json.dumps(row)))


@pytest.mark.parametrize("calibration", [None, [], [1], ["a", "b"], {"a": 1}, 7])
def test_a_calibration_that_is_none_is_refused(tmp_path: Path, calibration: Any) -> None:
    folder = save_tiny(tmp_path / "reader")
    found = read_folder(folder, ("reader",))
    write_folder(folder, "reader", found.config, {"calibration": calibration}, found.tensors, found.tokenizer)
    assert "two numbers" in refused(folder)


@pytest.mark.parametrize("name", [CONFIG_FILE, WEIGHTS, TOKENIZER])
def test_a_pipe_in_place_of_a_file_is_refused_and_not_waited_for(tmp_path: Path, name: str) -> None:
    folder = save_tiny(tmp_path / "reader")
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises((ModelCorruptError, ModelMissingError)):
        TrainedReader.from_pretrained(folder, threads=1)


@pytest.mark.parametrize("sums", [None, [], "x", 7, {"model.safetensors": 7}])
def test_checksums_of_another_type_are_refused(tmp_path: Path, sums: Any) -> None:
    folder = save_tiny(tmp_path / "reader")
    config = json.loads((folder / CONFIG_FILE).read_text())
    config["reader"]["sha256"] = sums
    (folder / CONFIG_FILE).write_text(json.dumps(config))
    assert "checksum" in refused(folder)


def _cut_one(folder: Path, kind: str, name: str) -> Path:
    found = read_folder(folder, (kind,))
    tensors = {**found.tensors, name: np.ascontiguousarray(found.tensors[name][..., :-1])}
    told = {key: value for key, value in found.entry.items() if key != "sha256"}
    write_folder(folder, kind, found.config, told, tensors, found.tokenizer)
    return folder


@pytest.mark.parametrize("name", ["term.weight", "slots.bias", "whole.weight", "outcome.weight", "mix.weight"])
def test_a_cut_head_of_a_pointer_is_refused(tmp_path: Path, name: str) -> None:
    save_pointer(tmp_path / "pointer")
    folder = _cut_one(tmp_path / "pointer", "pointer", name)
    with pytest.raises(ModelCorruptError, match="do not make a pointer"):
        PointerAgent.from_pretrained(folder, ENGINE, threads=1)


@pytest.mark.parametrize(
    "name", ["dynamics.state.weight", "past.weight_hh_l0", "policy.out.weight", "basis", "word_key.weight"]
)
def test_a_cut_network_of_muzero_is_refused(tmp_path: Path, name: str) -> None:
    folder = _cut_one(save_muzero(tmp_path / "muzero"), "muzero", f"muzero.{name}")
    with pytest.raises(ModelCorruptError, match="do not make a MuZero"):
        MuZeroAgent.from_pretrained(folder, ENGINE, threads=1)


@pytest.mark.parametrize("name", ["block.0.layer.1.EncDecAttention.k.weight", "final_layer_norm.weight"])
def test_a_cut_decoder_of_t5_is_refused(tmp_path: Path, name: str) -> None:
    folder = _cut_one(save_seq2seq(tmp_path / "t5"), "t5", f"decoder.{name}")
    with pytest.raises(ModelCorruptError, match="do not make the model"):
        T5Agent.from_pretrained(folder, ENGINE, G4, threads=1)


def _with_entry(folder: Path, kind: str, path: str, value: Any) -> Path:
    """The folder with another value at a path of its entry, its checksums right."""
    config = json.loads((folder / CONFIG_FILE).read_text())
    *parts, name = path.split(".")
    row = config[kind]
    for part in parts:
        row = row[part]
    assert name in row
    row[name] = value
    (folder / CONFIG_FILE).write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("name", ["max_source", "max_target", "title_words", "snippet"])
@pytest.mark.parametrize("value", ["12", None, 0.5, True, [1], -1, 1 << 20, 1 << 40])
def test_a_layout_of_t5_with_another_type_of_number_is_refused(tmp_path: Path, name: str, value: Any) -> None:
    folder = _with_entry(save_seq2seq(tmp_path / "t5"), "t5", f"layout.{name}", value)
    with pytest.raises(ModelCorruptError, match=f"{name} = "):
        T5Agent.from_pretrained(folder, ENGINE, G4, threads=1)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("title_pieces", 0.5), ("snippet", "30"), ("max_pieces", None), ("grammar", []), ("shape", {}),
        ("search.simulations", 10.0), ("search.simulations", 1 << 31), ("search.children", True),
        ("search.pb_c_base", 0), ("search.pb_c_init", "1"), ("search.unvisited", 7), ("search.discount", None),
        ("sizes.past", 0.5), ("sizes.words", 1), ("sizes.value.bins", 31.0), ("sizes.look", "x"),
        ("training.recurrent_batch", "64"), ("decoding.stop", "0.5"), ("decoding.look", 2),
    ],
)  # fmt: skip
def test_a_configuration_of_muzero_with_another_type_of_value_is_refused(tmp_path: Path, path: str, value: Any) -> None:
    folder = _with_entry(save_muzero(tmp_path / "muzero"), "muzero", f"config.{path}", value)
    with pytest.raises(ModelCorruptError):
        MuZeroAgent.from_pretrained(folder, ENGINE, threads=1)


@pytest.mark.parametrize(
    ("path", "value"), [("layout.snippet", "30"), ("layout.max_pieces", 0.5), ("decoding.back", [])]
)
def test_an_entry_of_a_pointer_with_another_type_of_value_is_refused(tmp_path: Path, path: str, value: Any) -> None:
    save_pointer(tmp_path / "pointer")
    with pytest.raises(ModelCorruptError):
        PointerAgent.from_pretrained(_with_entry(tmp_path / "pointer", "pointer", path, value), ENGINE, threads=1)


def test_a_static_encoder_with_a_gap_in_its_tokens_is_refused(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    row = json.loads(tokenizer.to_str())
    row["model"]["vocab"]["the"] = 10**6
    size = tokenizer.get_vocab_size()
    ones = np.ones(size, np.float32)
    write_static_encoder(tmp_path / "static", np.ones((size, 4), np.float32), ones, ones, json.dumps(row), {})
    with pytest.raises(ModelCorruptError, match="not numbered"):
        StaticEncoder.from_pretrained(tmp_path / "static")


def test_a_passage_of_a_megabyte_makes_no_more_windows_than_a_reader_reads() -> None:
    tokenizer: Tokenizer = tiny_tokenizer()
    [[windows]] = encode(tokenizer, [("who wrote it", [Passage("p", "war", "peace and war " * 70_000)])])
    assert len(windows) == MAX_WINDOWS
