"""Decoding: beam search finds what an exhaustive search finds, under any constraint."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_seq2seq import save_seq2seq, seq2seq_tokenizer, tiny_config, tiny_files, tiny_tensors

from orienteer.agents.t5.constraints import Trie
from orienteer.agents.t5.decoder import Decoder, EncodedSource, KVCache
from orienteer.agents.t5.generator import Generator, beam_search
from orienteer.agents.t5.model_files import Codec, Seq2SeqConfig, load_folder, quantise
from orienteer.errors import ModelCorruptError, ModelMissingError
from orienteer.models.model_folder import dequantise


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    files = tiny_files(tmp_path_factory.mktemp("beam"))
    return Decoder(files.config, files.tensors, 12)


@pytest.fixture(scope="module")
def source(decoder: Decoder) -> EncodedSource:
    return decoder.prepare(np.random.default_rng(0).normal(size=(9, decoder.config.width)).astype(np.float32), range(9))


def log_probability(decoder: Decoder, source: EncodedSource, tokens: tuple[int, ...]) -> float:
    """Of tokens, one after another, without the end."""
    cache = KVCache(decoder.config, decoder.max_length)
    total, before = 0.0, decoder.config.start
    for token in tokens:
        total += float(decoder.log_probabilities(source, decoder.step(source, cache, np.array([before])))[0, token])
        before = token
    return total


_SEQUENCES = st.lists(
    st.lists(st.integers(4, 9), min_size=1, max_size=5).map(tuple), min_size=1, max_size=12, unique=True
)


@settings(max_examples=30)
@given(_SEQUENCES)
def test_a_wide_beam_ranks_all_that_the_trie_holds(sequences: list[tuple[int, ...]]) -> None:
    files = tiny_config()
    decoder, source = _cached()
    found = beam_search(decoder, source, Trie((each, each) for each in sequences), 50)
    assert {each.value for each in found} == set(sequences)
    assert all(each.value == each.tokens for each in found)
    for each in found:
        longer = any(other[: len(each.tokens)] == each.tokens and other != each.tokens for other in sequences)
        wanted = log_probability(decoder, source, (*each.tokens, *([files.end] if longer else [])))
        assert each.log_probability == pytest.approx(wanted, abs=1e-4)
    assert [each.log_probability for each in found] == sorted((e.log_probability for e in found), reverse=True)


_KEPT: list[tuple[Decoder, EncodedSource]] = []


def _cached() -> tuple[Decoder, EncodedSource]:
    if not _KEPT:
        config = tiny_config()
        tensors = tiny_tensors(config)
        made = Decoder(config, tensors, 12)
        states = np.random.default_rng(0).normal(size=(9, config.width)).astype(np.float32)
        _KEPT.append((made, made.prepare(states, range(9))))
    return _KEPT[0]


def copying() -> tuple[Decoder, EncodedSource]:
    """One that may write 4, 5 and the end, and what it has read: 7 twice, 8, 5."""
    config = tiny_config(writes=(tiny_config().end, 4, 5))
    tensors = {**tiny_tensors(config), "copy.weight": np.eye(config.width, dtype=np.float32)}
    decoder = Decoder(config, tensors, 12)
    states = np.random.default_rng(0).normal(size=(4, config.width)).astype(np.float32)
    return decoder, decoder.prepare(states, [7, 8, 7, 5])


def test_what_copies_writes_what_it_has_read_and_a_few_tokens_more() -> None:
    decoder, source = copying()
    state = decoder.step(source, KVCache(decoder.config, 12), np.array([0]))
    [found] = np.exp(decoder.log_probabilities(source, state))
    can = sorted({4, 5, 7, 8, decoder.config.end})
    assert found[can].sum() == pytest.approx(1, abs=1e-5)
    assert np.delete(found, can).max() < 1e-12
    words = tiny_tensors(decoder.config)["shared.weight"]
    ways = np.exp([*(words[[decoder.config.end, 4, 5]] @ state[0] * 0.2), *(state[0] @ source.states)])
    ways /= ways.sum()
    assert found[[4, 5, 7, 8]] == pytest.approx([ways[1], ways[2] + ways[6], ways[3] + ways[5], ways[4]], rel=1e-4)


def test_what_copies_still_keeps_to_a_constraint_that_it_has_not_read() -> None:
    decoder, source = copying()
    assert [each.value for each in beam_search(decoder, source, Trie([((9, 6), "unread")]), 4)] == ["unread"]
    assert beam_search(decoder, source, Trie([((9, 6), "unread"), ((7, 8), "read")]), 4)[0].value == "read"
    free = beam_search(decoder, source, None, 4)
    assert all(set(each.tokens) <= {4, 5, 7, 8} for each in free)


def test_an_empty_trie_writes_nothing(decoder: Decoder, source: EncodedSource) -> None:
    assert beam_search(decoder, source, Trie(), 4) == []


def test_without_a_constraint_targets_end_and_come_likeliest_first(decoder: Decoder, source: EncodedSource) -> None:
    found = beam_search(decoder, source, None, 4)
    assert len(found) == 4
    for each in found:
        wanted = log_probability(decoder, source, (*each.tokens, decoder.config.end))
        assert each.log_probability == pytest.approx(wanted, abs=1e-4)
        assert decoder.config.end not in each.tokens
    assert found == sorted(found, key=lambda each: -each.log_probability)


def test_names_of_equal_sequences_are_those_that_came_first(decoder: Decoder, source: EncodedSource) -> None:
    [found] = beam_search(decoder, source, Trie([((5, 6), "first"), ((5, 6), "second")]), 4)
    assert found.value == "first"


@pytest.mark.parametrize("architecture", ["t5", "bert"])
@pytest.mark.parametrize("compute", ["int8", "float32"])
def test_what_is_written_does_not_depend_on_batch_or_threads(architecture: str, compute: str, tmp_path: Path) -> None:
    files = load_folder(save_seq2seq(tmp_path, architecture))  # type: ignore[arg-type]
    texts = ["who lit the lamp", "", "the tower of ardle " * 9, "\ud800 灯塔"]
    one, two = (Generator(files, 24, 8, compute=compute, threads=threads) for threads in (1, 2))  # type: ignore[arg-type]
    together = one.generate(texts, [None] * 4)
    assert together == two.generate(texts, [None] * 4)
    assert together == [one.generate([text], [None])[0] for text in texts]
    assert together == [two.generate([text], [None])[0] for text in texts]


def test_a_source_too_long_loses_its_tail_and_keeps_its_end() -> None:
    config = tiny_config("bert")
    codec = Codec(seq2seq_tokenizer(), config)
    [ids] = codec.encode_sources(["lamp tower reef " * 10], 8)
    assert len(ids) == 8
    assert ids[-1] == config.end
    assert ids[0] == seq2seq_tokenizer().token_to_id("[CLS]")
    assert Codec(seq2seq_tokenizer(), tiny_config()).encode_sources(["lamp"], 8) == [
        codec.encode_sources(["lamp"], 8)[0][1:]
    ]


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


def test_a_configuration_that_the_weights_do_not_have_is_refused(tmp_path: Path) -> None:
    from dataclasses import replace

    files = tiny_files(tmp_path)
    with pytest.raises(ModelCorruptError, match="train it again"):
        Generator(replace(files, config=replace(files.config, decoder_layers=3)), 24, 8, threads=1)


def test_a_configuration_reads_back_as_written() -> None:
    config = tiny_config("bert", writes=(3, 5))
    assert Seq2SeqConfig.from_dict(json.loads(json.dumps(config.as_dict()))) == config
    with pytest.raises(ValueError, match="a shape with wings"):
        Seq2SeqConfig.from_dict({**config.as_dict(), "wings": 2})
