"""What training tells of itself can be read without TensorTrainingLog."""

from __future__ import annotations

from pathlib import Path

from orienteer.training.log import CURVE, TrainingLog, read_curve


def test_a_curve_has_every_value_at_its_step(tmp_path: Path) -> None:
    board = TrainingLog(tmp_path / "run")
    board.add(40, {"play/reward": 0.5, "loss/policy": 3})
    board.add(40, {"dev/reward": 0.25})
    board.add(80, {"play/reward": 0.75})
    assert read_curve(tmp_path / "run" / CURVE) == {
        "play/reward": {40: 0.5, 80: 0.75}, "loss/policy": {40: 3.0}, "dev/reward": {40: 0.25},
    }  # fmt: skip


def test_what_is_told_again_after_a_kill_counts_once_and_a_torn_line_not_at_all(tmp_path: Path) -> None:
    first = TrainingLog(tmp_path)
    first.add(40, {"reward": 1})
    first.add(80, {"reward": 2})
    with (tmp_path / CURVE).open("a") as opened:
        opened.write('{"step": 120, "rew')
    again = TrainingLog(tmp_path)
    again.add(80, {"reward": 3})
    again.add(120, {"reward": 4})
    assert read_curve(tmp_path / CURVE) == {"reward": {40: 1.0, 80: 3.0, 120: 4.0}}
