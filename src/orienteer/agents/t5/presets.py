"""Named settings of training: what ships, what learns from scratch on two cores, and the paper's (`tab:t5_config`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orienteer.agents.t5.model_files import SMALL, Seq2SeqConfig
from orienteer.agents.t5.rendering import Layout


@dataclass(frozen=True, slots=True)
class Preset:
    """tokens       of the encoder in a batch
    decay        the last part of the schedule in which the learning rate falls; 0: constant
    frozen       encoder and word vectors stay as they are: a new decoder learns alone, many times as fast
    temperature  of soft targets among the improving refinements, by gain; 0: only the best
    shape        of the base, where the preset names one that must be had
    """

    base: str
    tokens: int
    dropout: float
    learning_rate: float
    decay: float
    layout: Layout
    steps: int = 0
    frozen: bool = False
    temperature: float = 0.0
    shape: Seq2SeqConfig | None = None


PRESETS: Mapping[str, Preset] = {
    # As the shipped agent was made, in half an hour of one core (docs/lab-book/t5.md).
    "copying": Preset("pointer", 4096, 0.0, 1e-2, 0.4, Layout(), 3500, frozen=True, temperature=0.05),
    # A model of this size learns from scratch: its steps are larger than those that fine-tune one of 11 billion.
    "small": Preset(SMALL, 8192, 0.0, 5e-3, 0.3, Layout()),
    "paper": Preset(
        "google-t5/t5-11b", 65536, 0.1, 5e-4, 0.0,
        Layout(max_source=512, max_target=32, title_words=10, snippet=30, grammar="G1"), 41400,
        shape=Seq2SeqConfig(
            "t5", 32128, width=1024, inner=65536, heads=128, head_width=128, encoder_layers=24, decoder_layers=24
        ),
    ),
}  # fmt: skip
