"""The states of texts that a frozen encoder has read: each is read once, whatever epoch asks for it (needs torch)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

MOST_BYTES = 8 << 30

Encode = Callable[[Sequence[Sequence[int]]], tuple[Tensor, Tensor]]


class Remembered:
    """States in half precision, by the text's tokens; once memory is full, new texts are read every time."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._states: dict[tuple[int, ...], Tensor] = {}  # [L, width]
        self._room = most_bytes

    def __call__(self, sources: Sequence[Sequence[int]], encode: Encode) -> tuple[Tensor, Tensor]:
        """What `encode` gives for the sources, to half precision: states [B, L, width], mask [B, L]."""
        rows = [self._row(source, encode) for source in sources]
        states = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).float()
        sizes = torch.tensor([len(row) for row in rows])
        return states, (torch.arange(states.shape[1]) < sizes[:, None]).long()

    def _row(self, source: Sequence[int], encode: Encode) -> Tensor:
        """Each text is read alone, so that its states do not depend on its first batch."""
        key = tuple(source)
        if (known := self._states.get(key)) is not None:
            return known
        with torch.no_grad():
            row = encode([source])[0][0].half()
        size = row.numel() * row.element_size()
        if size <= self._room:
            self._room -= size
            self._states[key] = row
        return row
