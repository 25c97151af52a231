"""The second opinion: what refinements are likely to bring, seen what they find; no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.pointer.head import layers_of, relu
from orienteer.agents.pointer.linear import Floats, linear
from orienteer.agents.pointer.preview import Preview

PREVIEW_LAYERS = ("hit", "mixed", "candidate", "worth")


class PreviewHead:
    """As `PreviewModel` has it."""

    def __init__(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        self._layers = layers_of(tensors, [f"preview.{name}" for name in PREVIEW_LAYERS])

    def __call__(self, preview: Preview) -> Floats:
        """[candidates], to be added to their log-probabilities."""
        count, hits = preview.new.shape
        each = preview.of_hits.reshape(count * hits, -1)
        for name in ("preview.hit", "preview.mixed"):
            each = relu(linear(each, *self._layers[name]))
        each = each.reshape(count, hits, -1) * preview.new[:, :, None]
        found = np.concatenate([each.sum(1), each.max(1), preview.of_candidates], 1)
        hidden = relu(linear(found, *self._layers["preview.candidate"]))
        return linear(hidden, *self._layers["preview.worth"])[:, 0]
