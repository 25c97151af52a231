"""A bi-encoder beside a reader: what it adds to the logit, how it is stored, how its weight is found."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bare_bert import save_bare

sys.path.insert(0, str(Path(__file__).parent.parent / "reader"))

from tiny import save_tiny

from orienteer.data.passage import Passage
from orienteer.dense import TextEncoder
from orienteer.dense.encoder import read_encoder
from orienteer.errors import ModelCorruptError, TrainingError
from orienteer.models.model_folder import quantise
from orienteer.reader import TrainedReader
from orienteer.reader.bi_encoder import Pooling
from orienteer.reader.folder import LikenessFiles, load_folder, save_folder, with_likeness
from orienteer.reader.likeness import Judged, fit_weight

QUESTION = "who wrote war and peace"
PASSAGES = [Passage("a", "tolstoy", "war and peace is a river"), Passage("b", "", "paris lies on the seine")]
PROMPTED = Pooling("cls", question="what is ", passage="the ")


def joined(folder: Path, encoder: Path, pooling: Pooling = PROMPTED, weight: float = 3.0, at: float = 0.25) -> Path:
    found = read_encoder(encoder)
    part = LikenessFiles(found.config, quantise(found.tensors), pooling, weight, at)
    alone = load_folder(save_tiny(folder / "alone"))
    files = with_likeness(replace(alone, tensors=quantise(alone.tensors)), part)
    save_folder(folder / "both", files.config, files.tensors, files.tokenizer, files.calibration, **files.notes)
    return folder / "both"


@pytest.mark.parametrize("seed", [0, 1])  # 0: the reader's own embeddings
def test_the_logit_grows_by_the_weighted_cosine_and_the_answer_stays(tmp_path: Path, seed: int) -> None:
    encoder = save_bare(tmp_path / "encoder", seed)
    files = replace(read_encoder(encoder), pooling=PROMPTED)
    both = TrainedReader.from_pretrained(joined(tmp_path, encoder), threads=1).read(QUESTION, PASSAGES)
    alone = TrainedReader.from_pretrained(tmp_path / "alone", threads=1).read(QUESTION, PASSAGES)
    other = TextEncoder(files, threads=1)
    cosines = other.encode([each.contents for each in PASSAGES]) @ other.encode_questions([QUESTION])[0]
    for fused, bare, cosine in zip(both, alone, cosines, strict=True):
        assert fused.logit == pytest.approx(bare.logit + 3.0 * (cosine - 0.25), abs=1e-5)
        assert fused[2:] == bare[2:]
    assert not np.allclose(cosines, 0.25)


def test_embeddings_of_the_reader_are_stored_once(tmp_path: Path) -> None:
    own, same = (
        set(load_folder(joined(tmp_path / name, save_bare(tmp_path / name / "bert", seed))).tensors)
        for name, seed in (("own", 1), ("same", 0))
    )
    assert {name for name in own - same if "word_embeddings" in name} == {
        "likeness.encoder.embeddings.word_embeddings.weight",
        "likeness.encoder.embeddings.word_embeddings.weight.scale",
    }


def test_the_bi_encoder_belongs_to_the_fingerprint(tmp_path: Path) -> None:
    encoder = save_bare(tmp_path / "encoder")
    fingerprints = {
        TrainedReader.from_pretrained(joined(tmp_path / str(n), encoder, weight=n), threads=1).fingerprint
        for n in (1, 2)
    }
    assert len(fingerprints) == 2


@pytest.mark.parametrize(
    "change",
    [{"weight": "much"}, {"at": None}, {"weight": float("inf")}, {"pooling": "max"}, {"question": 3}, {"config": {}}],
)
def test_a_bi_encoder_that_is_told_wrongly_is_one_clear_error(tmp_path: Path, change: dict[str, Any]) -> None:
    folder = joined(tmp_path, save_bare(tmp_path / "encoder"))
    config = json.loads((folder / "config.json").read_text())
    config["reader"]["likeness"] |= change
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelCorruptError):
        TrainedReader.from_pretrained(folder, threads=1)


def test_the_weight_is_that_which_puts_relevant_passages_first() -> None:
    generator = np.random.default_rng(0)

    def question(weight: float) -> Judged:
        logits, cosines = generator.normal(0, 1, 20), generator.normal(0.7, 0.1, 20)
        drawn = np.argmax(logits + weight * cosines + generator.gumbel(0, 1, 20))
        return Judged(logits, cosines, np.arange(20) == drawn)

    assert fit_weight([question(20.0) for _ in range(500)]) == pytest.approx(20.0, abs=2.0)
    assert fit_weight([question(0.0) for _ in range(500)]) < 2.0


def test_questions_without_a_choice_teach_no_weight() -> None:
    with pytest.raises(TrainingError, match="both relevant and other"):
        fit_weight([Judged(np.zeros(2), np.zeros(2), np.zeros(2, bool))])
