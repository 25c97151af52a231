"""A student learns the vectors of a teacher, on encoders of a few thousand weights."""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from bare_bert import save_bare

sys.path.insert(0, str(Path(__file__).parent.parent / "reader"))

from tiny import WORDS

from orienteer.data.passage import Passage
from orienteer.dense import TextEncoder
from orienteer.dense.config import TrainConfig
from orienteer.dense.train import train
from orienteer.engine import EmbeddedEngine, build_index, open_index
from orienteer.errors import TrainingError
from orienteer.training.loop import Progress


def sentence(draw: random.Random) -> str:
    return " ".join(draw.choices(WORDS.split(), k=draw.randint(3, 12)))


@pytest.fixture(scope="module")
def passages(tmp_path_factory: pytest.TempPathFactory) -> EmbeddedEngine:
    draw, folder = random.Random(0), tmp_path_factory.mktemp("texts") / "index"
    build_index([Passage(str(number), "", sentence(draw)) for number in range(400)], folder)
    return open_index(folder, threads=1)


@pytest.fixture(scope="module")
def questions() -> list[str]:
    draw = random.Random(1)
    return [sentence(draw) for _ in range(400)]


def config(out: Path, steps: int) -> TrainConfig:
    return TrainConfig(
        out=out, index=out, questions=(), teacher=save_bare(out.parent / "teacher", 1), steps=steps, threads=1,
        base=str(save_bare(out.parent / "base", 0)), batch=24, learning_rate=3e-3,
    )  # fmt: skip


def test_a_student_comes_near_to_its_teacher_and_the_runtime_opens_it(
    tmp_path: Path, passages: EmbeddedEngine, questions: list[str]
) -> None:
    def agreement(student: Path) -> float:
        """The correlation of the cosines of all pairs of texts, by the student and by its teacher."""
        texts = questions[:60]
        found = [TextEncoder.from_pretrained(each, threads=1).encode(texts) for each in (student, tmp_path / "teacher")]
        pairs = [(vectors @ vectors.T)[np.triu_indices(len(texts), 1)] for vectors in found]
        return float(np.corrcoef(pairs)[0, 1])

    train(passages, questions, config(tmp_path / "student", 40))
    assert agreement(tmp_path / "student") > agreement(tmp_path / "base") + 0.1


def test_a_training_that_was_stopped_goes_on_to_the_same_weights(
    tmp_path: Path, passages: EmbeddedEngine, questions: list[str]
) -> None:
    whole, parts = tmp_path / "whole", replace(config(tmp_path / "parts", 6), judge_steps=2, checkpoint_minutes=0.0)
    straight = train(passages, questions, config(whole, 6)).state_dict()
    seen: list[int] = []

    def stop_at_four(progress: Progress) -> None:
        seen.append(progress.step)
        if progress.step == 4:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        train(passages, questions, parts, stop_at_four)
    resumed = train(passages, questions, parts, lambda progress: seen.append(progress.step)).state_dict()
    assert seen == [2, 4, 4, 6]  # it went on after its last checkpoint, that of the third step
    assert all((straight[name] == resumed[name]).all() for name in straight)


def test_few_texts_teach_nothing(tmp_path: Path, passages: EmbeddedEngine) -> None:
    with pytest.raises(TrainingError, match="more than 200"):
        train(passages, ["who"], config(tmp_path / "student", 1))
