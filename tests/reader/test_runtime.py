"""The reader at work: offsets, windows, odd texts, damaged folders."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import save_tiny, tiny_tensors, tiny_tokenizer

from orienteer.data import Passage
from orienteer.errors import ModelCorruptError, ModelMissingError
from orienteer.models.model_folder import dequantise, levels, quantise
from orienteer.reader import Reader, TrainedReader
from orienteer.reader.encoding import MAX_PIECES, Marks, pieces, windows
from orienteer.reader.folder import load_folder

QUESTION = "what is the capital of france"
PARIS = Passage("p", "Paris", "Paris is the capital of France. It lies on the Seine.")


def test_a_trained_reader_keeps_the_protocol(tiny_reader: TrainedReader):
    assert isinstance(tiny_reader, Reader)


def test_an_answer_is_the_text_between_its_offsets(tiny_reader: TrainedReader):
    [reading] = tiny_reader.read(QUESTION, [PARIS])
    assert reading.answer == PARIS.text[reading.start : reading.end] != ""
    assert 0 <= reading.score <= 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "word " * 10_000,
        "שלום עולם, פריז היא בירת צרפת",
        "🙂🙃 Paris 👩‍👩‍👧 is",
        "a\ud800b Paris",
        "\x00\x01",
        "İstanbul ﬁne",
    ],
)
def test_odd_texts_give_a_sensible_reading(tiny_reader: TrainedReader, text: str):
    [reading] = tiny_reader.read(QUESTION, [Passage("p", text[:100], text)])
    assert 0 <= reading.score <= 1
    assert reading.answer == text[reading.start : reading.end]


def test_a_question_of_500_words_and_an_empty_one_are_read(tiny_reader: TrainedReader):
    for question in ("who wrote " * 250, ""):
        [reading] = tiny_reader.read(question, [PARIS])
        assert np.isfinite(reading.logit)


def test_no_passages_and_no_questions_are_no_readings(tiny_reader: TrainedReader):
    assert tiny_reader.read(QUESTION, []) == []
    assert tiny_reader.read_many([]) == []
    assert tiny_reader.read_many([(QUESTION, []), (QUESTION, [PARIS])])[0] == []


@given(
    st.lists(
        st.tuples(
            st.sampled_from([QUESTION, "who wrote war and peace", ""]),
            st.lists(st.text(alphabet="ab paris.", max_size=400), max_size=5),
        ),
        max_size=5,
    )
)
def test_a_reading_does_not_depend_on_what_is_read_beside_it(tiny_reader: TrainedReader, drawn):
    batch = [(question, [Passage(str(i), "", text) for i, text in enumerate(texts)]) for question, texts in drawn]
    together = tiny_reader.read_many(batch)
    for (question, passages), readings in zip(batch, together, strict=True):
        for passage, reading in zip(passages, readings, strict=True):
            [alone] = tiny_reader.read(question, [passage])
            assert reading == alone


def test_windows_cover_every_piece_of_a_long_text_and_overlap():
    tokenizer = tiny_tokenizer()
    question, title, text = pieces(tokenizer, [QUESTION, "Paris", "paris lies on the river . " * 200])
    cut = windows(question, title, text, Marks.of(tokenizer))
    covered = [offset for window in cut for offset in window.offsets]
    assert set(covered) == set(text.offsets)
    assert len(covered) > len(text.offsets)
    assert all(len(window.ids) <= MAX_PIECES for window in cut)
    assert all(window.ids[window.text_from - 1] == window.ids[-1] == Marks.of(tokenizer).sep for window in cut)


def test_a_long_passage_scores_as_its_best_window(tiny_reader: TrainedReader):
    filler = "the river lies on . " * 300
    text = filler + PARIS.text + filler
    [long] = tiny_reader.read(QUESTION, [Passage("l", "", text)])
    tokenizer = tiny_tokenizer()
    cut = windows(*pieces(tokenizer, [QUESTION, "", text]), Marks.of(tokenizer))
    logits = [logit for logit, _, _ in tiny_reader.run(cut)]
    best = cut[int(np.argmax(logits))]
    assert len(set(logits)) > 1
    assert long.logit == max(logits)
    assert best.offsets[0][0] <= long.start < long.end <= best.offsets[-1][1]
    assert text[long.start : long.end] == long.answer


def test_int8_stays_near_float32(tiny_folder: Path):
    words = ("paris", "lies", "on", "the", "river", "who", ".")
    rng = np.random.default_rng(0)
    passages = [Passage(str(i), "", " ".join(rng.choice(words, size=12))) for i in range(40)]
    exact, small = (
        [each.logit for each in TrainedReader.from_pretrained(tiny_folder, compute, threads=1).read(QUESTION, passages)]
        for compute in ("float32", "int8")
    )
    assert np.abs(np.subtract(exact, small)).max() < 0.4
    assert np.corrcoef(exact, small)[0, 1] > 0.98


def test_the_fingerprint_names_weights_and_precision(tmp_path: Path, tiny_folder: Path):
    other = save_tiny(tmp_path / "other", seed=1)
    prints = {
        TrainedReader.from_pretrained(folder, compute, threads=1).fingerprint
        for folder in (tiny_folder, other)
        for compute in ("int8", "float32")
    }
    assert len(prints) == 4


def test_quantising_and_back_moves_no_weight_by_more_than_half_a_step():
    tensors = tiny_tensors()
    back = dequantise(quantise(tensors))
    assert back.keys() == tensors.keys()
    for name, value in tensors.items():
        step = np.abs(value).max(-1, keepdims=True) / levels(name) if value.ndim == 2 else 0
        assert (np.abs(back[name] - value) <= step / 2 + 1e-6).all()


def test_a_missing_folder_is_one_clear_error(tmp_path: Path):
    with pytest.raises(ModelMissingError, match="no reader there"):
        TrainedReader.from_pretrained(tmp_path / "nowhere")


def test_a_bare_encoder_is_told_from_a_reader(tmp_path: Path):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(ModelMissingError, match="train one from it"):
        TrainedReader.from_pretrained(tmp_path)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
@pytest.mark.parametrize("damage", ["cut", "flip", "gone"])
def test_a_damaged_file_is_one_clear_error(tmp_path: Path, name: str, damage: str):
    path = save_tiny(tmp_path) / name
    data = bytearray(path.read_bytes())
    if damage == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "flip":
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    else:
        path.unlink()
    expected = ModelMissingError if damage == "gone" else ModelCorruptError
    with pytest.raises(expected, match=name):
        load_folder(tmp_path)


def test_a_config_that_is_not_json_is_one_clear_error(tmp_path: Path):
    (save_tiny(tmp_path) / "config.json").write_text("{")
    with pytest.raises(ModelCorruptError, match="invalid JSON"):
        load_folder(tmp_path)


def test_reading_imports_no_torch():
    code = "import sys, orienteer.reader; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
