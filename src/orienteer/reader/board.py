"""What training tells of itself as it goes: a TensorBoard, where that is installed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Board:
    """Writes to `FOLDER/logs`; without tensorboard it keeps silent."""

    def __init__(self, folder: Path) -> None:
        self._writer: Any = None
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            return
        self._writer = SummaryWriter(str(folder / "logs"))

    def show(self, step: int, values: Mapping[str, float]) -> None:
        """Values by name; what stands before a `/` groups them."""
        if self._writer is not None:
            for name, value in values.items():
                self._writer.add_scalar(name, value, step)
