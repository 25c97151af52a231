"""The shape of a model of text to text, as its folder tells it: T5's own encoder or a BERT's, T5's decoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

Architecture = Literal["t5", "bert"]

SMALL = "small"  # the base that is no model: a small T5 from scratch, with the shipped reader's vocabulary


@dataclass(frozen=True, slots=True)
class Shape:
    """All that the weights do not say themselves.

    architecture   of the encoder; the decoder is always T5's
    heads          of decoder and T5 encoder, each `head_width` wide
    activation     of the feed-forward layers, as transformers names it; `gated` where it is multiplied by a second map
    input_scale    what word vectors are multiplied by where the decoder reads them
    output_scale   what the decoder's states are multiplied by before they meet the word vectors
    start          the token that a target begins after; `end` the one that it ends with
    bert           the configuration of a BERT encoder
    writes         tokens that a decoder which copies may write without having read them; None: it writes any token
    """

    architecture: Architecture
    vocabulary: int
    width: int
    inner: int
    heads: int
    head_width: int
    encoder_layers: int
    decoder_layers: int
    buckets: int = 32
    max_distance: int = 128
    activation: str = "relu"
    gated: bool = False
    epsilon: float = 1e-6
    input_scale: float = 1.0
    output_scale: float = 1.0
    pad: int = 0
    start: int = 0
    end: int = 1
    bert: Mapping[str, Any] | None = None
    writes: tuple[int, ...] | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Shape:
        """Raises TypeError or ValueError where the row is no shape."""
        if unknown := set(row) - {field.name for field in fields(cls)}:
            raise ValueError(f"a shape with {', '.join(sorted(unknown))}")
        writes = row.get("writes")
        shape = cls(**{**row, "writes": None if writes is None else tuple(map(int, writes))})
        if shape.architecture not in ("t5", "bert"):
            raise ValueError(f"an encoder of the kind {shape.architecture!r}")
        return shape

    @property
    def words(self) -> str:
        """The name of the word table among the weights."""
        return "encoder.embeddings.word_embeddings.weight" if self.architecture == "bert" else "shared.weight"

    @property
    def parameters(self) -> int:
        """How many weights a T5 of this shape has: word vectors, layers and norms, relative places."""
        attention = 4 * self.width * self.heads * self.head_width + self.width
        feed = (3 if self.gated else 2) * self.width * self.inner + self.width
        layers = self.encoder_layers * (attention + feed) + self.decoder_layers * (2 * attention + feed)
        return self.vocabulary * self.width + layers + 2 * (self.width + self.buckets * self.heads)
