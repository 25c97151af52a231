"""Decoding: beam search finds what an exhaustive search finds, under any constraint."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_seq2seq import save_seq2seq, seq2seq_tokenizer, tiny_files, tiny_shape, tiny_tensors

from orienteer.agents.t5.beam import write
from orienteer.agents.t5.codec import Codec
from orienteer.agents.t5.config import Shape
from orienteer.agents.t5.decoder import Decoder, Hypotheses, Memory
from orienteer.agents.t5.generator import Writer
from orienteer.agents.t5.model_files import load_folder, quantise
from orienteer.agents.t5.trie import Trie
from orienteer.errors import ModelCorruptError, ModelMissingError
from orienteer.models.model_folder import dequantise


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    files = tiny_files(tmp_path_factory.mktemp("beam"))
    return Decoder(files.shape, files.tensors, 12)


@pytest.fixture(scope="module")
def memory(decoder: Decoder) -> Memory:
    return decoder.remember(np.random.default_rng(0).normal(size=(9, decoder.shape.width)).astype(np.float32), range(9))


def log_probability(decoder: Decoder, memory: Memory, tokens: tuple[int, ...]) -> float:
    """Of tokens, one after another, without the end."""
    so_far = Hypotheses(decoder.shape, decoder.most)
    total, before = 0.0, decoder.shape.start
    for token in tokens:
        total += float(decoder.log_probabilities(memory, decoder.step(memory, so_far, np.array([before])))[0, token])
        before = token
    return total


_SEQUENCES = st.lists(
    st.lists(st.integers(4, 9), min_size=1, max_size=5).map(tuple), min_size=1, max_size=12, unique=True
)


@settings(max_examples=30)
@given(_SEQUENCES)
def test_a_wide_beam_ranks_all_that_the_trie_holds(sequences: list[tuple[int, ...]]) -> None:
    files = tiny_shape()
    decoder, memory = _cached()
    found = write(decoder, memory, Trie((each, each) for each in sequences), 50)
    assert {each.name for each in found} == set(sequences)
    assert all(each.name == each.tokens for each in found)
    for each in found:
        longer = any(other[: len(each.tokens)] == each.tokens and other != each.tokens for other in sequences)
        wanted = log_probability(decoder, memory, (*each.tokens, *([files.end] if longer else [])))
        assert each.log_probability == pytest.approx(wanted, abs=1e-4)
    assert [each.log_probability for each in found] == sorted((e.log_probability for e in found), reverse=True)


_KEPT: list[tuple[Decoder, Memory]] = []


def _cached() -> tuple[Decoder, Memory]:
    if not _KEPT:
        shape = tiny_shape()
        tensors = tiny_tensors(shape)
        made = Decoder(shape, tensors, 12)
        states = np.random.default_rng(0).normal(size=(9, shape.width)).astype(np.float32)
        _KEPT.append((made, made.remember(states, range(9))))
    return _KEPT[0]


def copying() -> tuple[Decoder, Memory]:
    """One that may write 4, 5 and the end, and what it has read: 7 twice, 8, 5."""
    shape = tiny_shape(writes=(tiny_shape().end, 4, 5))
    tensors = {**tiny_tensors(shape), "copy.weight": np.eye(shape.width, dtype=np.float32)}
    decoder = Decoder(shape, tensors, 12)
    states = np.random.default_rng(0).normal(size=(4, shape.width)).astype(np.float32)
    return decoder, decoder.remember(states, [7, 8, 7, 5])


def test_what_copies_writes_what_it_has_read_and_a_few_tokens_more() -> None:
    decoder, memory = copying()
    state = decoder.step(memory, Hypotheses(decoder.shape, 12), np.array([0]))
    [found] = np.exp(decoder.log_probabilities(memory, state))
    can = sorted({4, 5, 7, 8, decoder.shape.end})
    assert found[can].sum() == pytest.approx(1, abs=1e-5)
    assert np.delete(found, can).max() < 1e-12
    words = tiny_tensors(decoder.shape)["shared.weight"]
    ways = np.exp([*(words[[decoder.shape.end, 4, 5]] @ state[0] * 0.2), *(state[0] @ memory.states)])
    ways /= ways.sum()
    assert found[[4, 5, 7, 8]] == pytest.approx([ways[1], ways[2] + ways[6], ways[3] + ways[5], ways[4]], rel=1e-4)


def test_what_copies_still_keeps_to_a_constraint_that_it_has_not_read() -> None:
    decoder, memory = copying()
    assert [each.name for each in write(decoder, memory, Trie([((9, 6), "unread")]), 4)] == ["unread"]
    assert write(decoder, memory, Trie([((9, 6), "unread"), ((7, 8), "read")]), 4)[0].name == "read"
    free = write(decoder, memory, None, 4)
    assert all(set(each.tokens) <= {4, 5, 7, 8} for each in free)


def test_an_empty_trie_writes_nothing(decoder: Decoder, memory: Memory) -> None:
    assert write(decoder, memory, Trie(), 4) == []


def test_without_a_constraint_targets_end_and_come_likeliest_first(decoder: Decoder, memory: Memory) -> None:
    found = write(decoder, memory, None, 4)
    assert len(found) == 4
    for each in found:
        wanted = log_probability(decoder, memory, (*each.tokens, decoder.shape.end))
        assert each.log_probability == pytest.approx(wanted, abs=1e-4)
        assert decoder.shape.end not in each.tokens
    assert found == sorted(found, key=lambda each: -each.log_probability)


def test_names_of_equal_sequences_are_those_that_came_first(decoder: Decoder, memory: Memory) -> None:
    [found] = write(decoder, memory, Trie([((5, 6), "first"), ((5, 6), "second")]), 4)
    assert found.name == "first"


@pytest.mark.parametrize("architecture", ["t5", "bert"])
@pytest.mark.parametrize("compute", ["int8", "float32"])
def test_what_is_written_does_not_depend_on_company_or_threads(architecture: str, compute: str, tmp_path: Path) -> None:
    files = load_folder(save_seq2seq(tmp_path, architecture))  # type: ignore[arg-type]
    texts = ["who lit the lamp", "", "the tower of ardle " * 9, "\ud800 灯塔"]
    one, two = (Writer(files, 24, 8, compute=compute, threads=threads) for threads in (1, 2))  # type: ignore[arg-type]
    together = one.write(texts, [None] * 4)
    assert together == two.write(texts, [None] * 4)
    assert together == [one.write([text], [None])[0] for text in texts]
    assert together == [two.write([text], [None])[0] for text in texts]


def test_a_source_too_long_loses_its_tail_and_keeps_its_end() -> None:
    shape = tiny_shape("bert")
    codec = Codec(seq2seq_tokenizer(), shape)
    [ids] = codec.sources(["lamp tower reef " * 10], 8)
    assert len(ids) == 8
    assert ids[-1] == shape.end
    assert ids[0] == seq2seq_tokenizer().token_to_id("[CLS]")
    assert Codec(seq2seq_tokenizer(), tiny_shape()).sources(["lamp"], 8) == [codec.sources(["lamp"], 8)[0][1:]]


def test_int8_and_back_is_near(tmp_path: Path) -> None:
    tensors = tiny_files(tmp_path).tensors
    back = dequantise(quantise(tensors))
    assert back.keys() == tensors.keys()
    for name, value in tensors.items():
        assert np.abs(back[name] - value).max() <= np.abs(value).max() / 127


def test_damaged_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelMissingError, match="no t5 there"):
        load_folder(tmp_path / "nowhere")
    folder = save_seq2seq(tmp_path / "model")
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(ModelCorruptError, match="checksum"):
        load_folder(folder)
    (folder / "model.safetensors").write_bytes(whole)
    (folder / "config.json").write_text("{")
    with pytest.raises(ModelCorruptError, match="invalid JSON"):
        load_folder(folder)


def test_a_shape_that_the_weights_do_not_have_is_refused(tmp_path: Path) -> None:
    from dataclasses import replace

    files = tiny_files(tmp_path)
    with pytest.raises(ModelCorruptError, match="train it again"):
        Writer(replace(files, shape=replace(files.shape, decoder_layers=3)), 24, 8, threads=1)


def test_a_shape_reads_back_as_written() -> None:
    shape = tiny_shape("bert", writes=(3, 5))
    assert Shape.from_dict(json.loads(json.dumps(shape.as_dict()))) == shape
    with pytest.raises(ValueError, match="a shape with wings"):
        Shape.from_dict({**shape.as_dict(), "wings": 2})
