"""The states of texts that a frozen encoder has read: each is read once, whatever epoch asks for it (needs torch)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

MOST_BYTES = 8 << 30

Encode = Callable[[Sequence[int]], NDArray[Any]]  # the tokens of a text in, [L, width] out


class Remembered:
    """States in half precision, by the text's tokens; once memory is full, new texts are read every time."""

    def __init__(self, encode: Encode, most_bytes: int = MOST_BYTES) -> None:
        self._encode, self._room = encode, most_bytes
        self._states: dict[tuple[int, ...], Tensor] = {}  # [L, width]

    def __call__(self, sources: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """What the encoder gives for the sources, to half precision: states [B, L, width], mask [B, L]."""
        rows = [self._row(source) for source in sources]
        states = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).float()
        sizes = torch.tensor([len(row) for row in rows])
        return states, (torch.arange(states.shape[1]) < sizes[:, None]).long()

    def _row(self, source: Sequence[int]) -> Tensor:
        """Each text is read alone, so that its states do not depend on its first batch."""
        key = tuple(source)
        if (known := self._states.get(key)) is not None:
            return known
        row = torch.from_numpy(self._encode(source)).half()
        size = row.numel() * row.element_size()
        if size <= self._room:
            self._room -= size
            self._states[key] = row
        return row
