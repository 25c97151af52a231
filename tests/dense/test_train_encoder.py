"""A bi-encoder learns which passages hold an answer, with encoders of a few thousand weights."""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from bare_bert import save_bare

sys.path.insert(0, str(Path(__file__).parent.parent / "reader"))

from tiny import WORDS

from orienteer.dense import TextEncoder
from orienteer.dense.config import TrainConfig
from orienteer.dense.train import Asked, losses, train
from orienteer.errors import TrainingError
from orienteer.reader.mining import Evidence, TrainingRow
from orienteer.training.loop import Progress


def rows(count: int = 120) -> list[TrainingRow]:
    """A question names a word; the passage that repeats it, among others, is the right one."""
    draw, words = random.Random(0), WORDS.split()
    made = []
    for _ in range(count):
        asked, *others = draw.sample(words, 4)
        right, *wrong = (f"{word} {word} {' '.join(draw.choices(words, k=4))}" for word in (asked, *others))
        passages = [Evidence("", right, ((0, 1),), 2.0), *(Evidence("", text, (), -2.0) for text in wrong)]
        made.append(TrainingRow(f"what is {asked}", ("x",), "test", passages[0], (), tuple(passages[1:])))
    return made


def config(out: Path, steps: int) -> TrainConfig:
    base = str(save_bare(out.parent / "base", 0))
    return TrainConfig(out=out, rows=(), base=base, steps=steps, threads=1, batch=4, held_out=40, learning_rate=3e-3)


def test_a_trained_encoder_ranks_better_and_the_runtime_opens_it(tmp_path: Path) -> None:
    def right(folder: Path) -> int:
        """How many questions have their own passage nearest."""
        encoder = TextEncoder.from_pretrained(folder, threads=1)
        count = 0
        for row in rows():
            cosines = encoder.encode([each.text for each in row.passages]) @ encoder.encode_questions([row.question])[0]
            count += int(cosines.argmax() == 0)
        return count

    train(rows(), config(tmp_path / "student", 120))
    assert right(tmp_path / "student") > right(tmp_path / "base") + 20


def test_a_training_that_was_stopped_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    parts = replace(config(tmp_path / "parts", 6), judge_steps=2, checkpoint_minutes=0.0)
    straight = train(rows(), config(tmp_path / "whole", 6)).state_dict()
    seen: list[int] = []

    def stop_at_four(progress: Progress) -> None:
        seen.append(progress.step)
        if progress.step == 4:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        train(rows(), parts, stop_at_four)
    resumed = train(rows(), parts, lambda progress: seen.append(progress.step)).state_dict()
    assert seen == [2, 4, 4, 6]  # it went on after its last checkpoint, that of the third step
    assert all((straight[name] == resumed[name]).all() for name in straight)


def test_few_rows_teach_nothing(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="44 or more"):
        train(rows(43), config(tmp_path / "student", 1))


def test_the_losses_are_those_of_their_definition() -> None:
    logits = torch.tensor([[2.0, 1.0, 0.5, -1.0], [0.0, 0.3, 1.5, 0.7]])
    asked = [Asked([], [[], []], (True, False), (1.0, -1.0)), Asked([], [[], []], (True, True), None)]
    nearest, taught = losses(logits, asked)
    first = torch.log_softmax(logits[0], 0)[0]
    second = torch.log_softmax(logits[1, [2, 0, 1]], 0)[0]  # its other right passage is left out
    assert nearest.item() == pytest.approx(-(first + second).item() / 2)
    wanted = torch.softmax(torch.tensor([1.0, -1.0]), 0)
    assert taught.item() == pytest.approx(-(wanted * torch.log_softmax(logits[0, :2], 0)).sum().item() / 2)


def test_a_student_of_one_layer_copies_the_vectors_of_the_encoder_that_it_is_cut_from(tmp_path: Path) -> None:
    def apart(taught: bool) -> float:
        made = config(tmp_path / f"{taught}", 60)
        made = replace(made, layers=(1,), teacher=made.base if taught else "", learning_rate=1e-3)
        train(rows(), made)
        texts = [each.text for row in rows()[:40] for each in row.passages]
        ours, theirs = (TextEncoder.from_pretrained(each, threads=1).encode(texts) for each in (made.out, made.base))
        return float(1 - (ours * theirs).sum(1).mean())

    assert apart(True) < apart(False)
