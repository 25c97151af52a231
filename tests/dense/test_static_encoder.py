"""The static encoder, and encoders by their addresses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from bare_bert import save_bare

from orienteer.dense import StaticEncoder, TextEncoder, open_encoder
from orienteer.dense.static_encoder import SHIPPED, write_static_encoder
from orienteer.errors import ModelCorruptError, ModelMissingError
from orienteer.models.model_folder import read_folder

TEXTS = ["paris is the capital of france", "who wrote war and peace", "", "the seine \ud800", "war and peace " * 90]


@pytest.fixture(scope="module")
def shipped() -> StaticEncoder:
    return StaticEncoder.from_pretrained()


def test_a_vector_is_the_weighted_sum_of_its_wordpieces(shipped: StaticEncoder) -> None:
    from orienteer.models.bert_encoder import plain_tokenizer

    model = read_folder(SHIPPED, ("static_encoder",))
    tokenizer, vectors = plain_tokenizer(model.tokenizer), model.tensors["vectors"].astype(np.float64)
    for side, encode in (("passage", shipped.encode), ("question", shipped.encode_questions)):
        for text in (TEXTS[0], TEXTS[1], TEXTS[4]):
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            total = (vectors[ids] * model.tensors[f"{side}_weights"][ids, None]).sum(0)
            assert encode([text])[0] == pytest.approx(total / np.linalg.norm(total), abs=1e-5)


def test_vectors_have_length_one_and_an_empty_text_none(shipped: StaticEncoder) -> None:
    lengths = np.linalg.norm(shipped.encode(TEXTS), axis=1)
    assert lengths == pytest.approx([1, 1, 0, 1, 1], abs=1e-5)
    assert shipped.encode([]).shape == shipped.encode_questions([]).shape == (0, shipped.width)


def test_a_vector_does_not_depend_on_the_company(shipped: StaticEncoder) -> None:
    many = shipped.encode(TEXTS * 300)
    alone = np.concatenate([shipped.encode([text]) for text in TEXTS])
    assert (many == np.tile(alone, (300, 1))).all()


def test_progress_counts_every_text(shipped: StaticEncoder) -> None:
    told: list[int] = []
    shipped.encode(["a lamp"] * 1500, told.append)
    assert told == [1024, 1500]


def test_a_question_is_nearest_to_the_passage_that_answers_it(shipped: StaticEncoder) -> None:
    passages = ["The Seine flows through Paris to the English Channel.", "Sodium was first isolated by Humphry Davy.",
                "War and Peace is a novel by the Russian author Leo Tolstoy."]  # fmt: skip
    questions = ["which river flows through paris", "who discovered sodium metal", "who wrote war and peace"]
    likeness = shipped.encode_questions(questions) @ shipped.encode(passages).T
    assert likeness.argmax(1).tolist() == [0, 1, 2]


def test_encoders_are_opened_by_their_addresses(tmp_path: Path, encoder_folder: Path, shipped: StaticEncoder) -> None:
    assert open_encoder("static").fingerprint == shipped.fingerprint
    assert open_encoder("static").address == "static"
    bert = open_encoder(encoder_folder, threads=1)
    assert isinstance(bert, TextEncoder)
    assert open_encoder(bert.address, threads=1).fingerprint == bert.fingerprint
    vectors, ones = np.random.default_rng(0).normal(size=(30522, 4)).astype(np.float32), np.ones(30522, np.float32)
    write_static_encoder(tmp_path, vectors, ones, ones, (SHIPPED / "tokenizer.json").read_text(), {})
    own = open_encoder(tmp_path)
    assert isinstance(own, StaticEncoder)
    assert own.width == 4
    assert own.fingerprint != shipped.fingerprint


def test_the_bi_encoder_of_the_shipped_reader_is_opened_by_its_address() -> None:
    encoder = open_encoder("reader", threads=1)
    assert encoder.address == "reader"
    cosines = encoder.encode([*TEXTS[:2], "tolstoy's novel of war and peace"]) @ encoder.encode_questions([TEXTS[1]])[0]
    assert cosines[2] > cosines[0]
    assert open_encoder("reader", threads=1).fingerprint == encoder.fingerprint


@pytest.mark.parametrize("address", ["nowhere", "./no/where", "/no-such-folder"])
def test_an_address_that_is_none_says_what_is_expected(address: str) -> None:
    with pytest.raises(ModelMissingError, match=r"`static`, `reader`, a folder with config.json"):
        open_encoder(address)


def test_a_damaged_static_encoder_is_an_error_of_ours(tmp_path: Path) -> None:
    ones = np.ones(5, np.float32)
    write_static_encoder(
        tmp_path, np.ones((5, 4), np.float32), ones, ones, (SHIPPED / "tokenizer.json").read_text(), {}
    )
    with pytest.raises(ModelCorruptError, match="5 vectors and 30522 wordpieces"):
        open_encoder(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"cut")
    with pytest.raises(ModelCorruptError, match="checksum"):
        open_encoder(tmp_path)


def test_a_bert_says_how_its_states_are_pooled_and_what_stands_before_questions(tmp_path: Path) -> None:
    mean = TextEncoder.from_pretrained(save_bare(tmp_path / "a"), threads=1)
    folder = save_bare(tmp_path / "b")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"prompts": {"query": "who wrote "}}))
    first = TextEncoder.from_pretrained(folder, threads=1)
    assert first.fingerprint.startswith(mean.fingerprint.partition("-")[0])
    assert first.fingerprint != mean.fingerprint
    assert (first.encode(TEXTS) != mean.encode(TEXTS)).any()
    assert (first.encode_questions(["war and peace"]) == first.encode(["who wrote war and peace"])).all()
    assert (mean.encode_questions(["war and peace"]) == mean.encode(["war and peace"])).all()
    (folder / "1_Pooling" / "config.json").write_text("[")
    with pytest.raises(ModelCorruptError, match="1_Pooling"):
        TextEncoder.from_pretrained(folder)
