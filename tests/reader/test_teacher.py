"""Teachers' scores of mined rows: kept, joined, learned from."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from orienteer.reader.mining import Evidence, TrainingRow, read_rows, write_rows
from orienteer.reader.teacher import CHUNK, fit_teachers, score_rows, with_teacher


def rows(count: int) -> list[TrainingRow]:
    """Half of the passages hold the answer; a passage's length tells which, most of the time."""
    rng = np.random.default_rng(3)
    made = []
    for number in range(count):
        held = Evidence("", "x" * int(rng.integers(20, 60)), ((0, 1),))
        others = tuple(Evidence("", "x" * int(rng.integers(1, 30))) for _ in range(3))
        made.append(TrainingRow(f"question {number}", ("x",), "nq", held, (), others))
    return made


def by_length(question: str, passages: Sequence[Evidence]) -> list[float]:
    return [float(len(each.text)) for each in passages]


def noise(question: str, passages: Sequence[Evidence]) -> list[float]:
    return np.random.default_rng(zlib.crc32(question.encode())).normal(size=len(passages)).tolist()


def test_a_killed_scoring_goes_on_after_its_last_chunk(tmp_path: Path) -> None:
    every = rows(2 * CHUNK + 7)
    asked: list[str] = []

    def dies(question: str, passages: Sequence[Evidence]) -> list[float]:
        asked.append(question)
        if question == f"question {CHUNK + 3}" and len(asked) < 2 * CHUNK:
            raise KeyboardInterrupt
        return by_length(question, passages)

    with pytest.raises(KeyboardInterrupt):
        score_rows(every, [dies], tmp_path, lambda done: None)
    first = len(asked)
    asked *= CHUNK
    begin = len(asked)
    scores = score_rows(every, [dies], tmp_path, lambda done: None)
    assert first == CHUNK + 4
    assert asked[begin] == f"question {CHUNK}"
    assert scores == score_rows(every, [by_length], tmp_path / "whole", lambda done: None)


def test_a_teacher_that_knows_weighs_more_than_noise_and_its_logit_is_kept_in_the_rows(tmp_path: Path) -> None:
    every = rows(200)
    scores = score_rows(every, [by_length, noise], tmp_path / "scores", lambda done: None)
    weights = fit_teachers(every, scores)
    assert weights[0] * 15 > 5 * abs(weights[1])  # a standard deviation of lengths is about 15
    write_rows(tmp_path / "rows.jsonl.zst", with_teacher(every, scores, weights))
    for row, each in zip(read_rows(tmp_path / "rows.jsonl.zst"), scores, strict=True):
        expected = np.array(each).T @ weights[:-1] + weights[-1]
        np.testing.assert_allclose([evidence.teacher for evidence in row.passages], expected)


def test_an_order_as_the_teachers_costs_least() -> None:
    torch = pytest.importorskip("torch", reason="needs orienteer[train]")
    from orienteer.reader.batches import Example
    from orienteer.reader.encoding import Window
    from orienteer.reader.train import order_loss

    window = Window([1, 2], 1, ((0, 1),), 1)
    part = [Example(window, (), True, 0, logit) for logit in (2.0, 0.0, -1.0)]
    same = order_loss(torch.tensor([3.0, 1.0, 0.0]), part)  # a constant more: the same order and distances
    assert order_loss(torch.tensor([0.0, 2.0, -1.0]), part) > same + 1
    assert order_loss(torch.tensor([9.0, 0.0, -9.0]), part) > same
    untold = [Example(window, (), True, 0) for _ in part]
    assert float(order_loss(torch.tensor([0.0, 2.0, -1.0]), untold)) == 0.0
