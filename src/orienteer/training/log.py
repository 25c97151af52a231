"""What training tells of itself as it goes: a file of lines, and a TensorBoard where that is installed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CURVE = "curve.jsonl"


class TrainingLog:
    """Writes to `FOLDER/curve.jsonl`, {"step": …, name: value, …} a line, and the same to `FOLDER/logs`.

    A run that was killed goes on from its checkpoint and tells some steps again: of two values the later one counts.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._curve = folder / CURVE
        if self._curve.exists() and not self._curve.read_bytes().endswith(b"\n"):
            self._write("\n")  # ends the line that a kill has torn
        self._writer: Any = None
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            return
        self._writer = SummaryWriter(str(folder / "logs"))

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Values by name; what stands before a `/` groups them."""
        self._write(json.dumps({"step": step, **{name: float(value) for name, value in values.items()}}) + "\n")
        if self._writer is not None:
            for name, value in values.items():
                self._writer.add_scalar(name, value, step)

    def _write(self, text: str) -> None:
        with self._curve.open("a", encoding="utf-8") as opened:
            opened.write(text)


def read_curve(file: Path) -> dict[str, dict[int, float]]:
    """{name: {step: value}}, steps in order; a last line that a kill has torn does not count."""
    curves: dict[str, dict[int, float]] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        step = row.pop("step")
        for name, value in row.items():
            curves.setdefault(name, {})[step] = value
    return {name: dict(sorted(values.items())) for name, values in curves.items()}
