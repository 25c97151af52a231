"""Named settings of training: what ships, what learns from scratch on two cores, and the paper's (`tab:t5_config`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from orienteer.agents.t5.model_files import SMALL, Seq2SeqConfig
from orienteer.agents.t5.rendering import Layout
from orienteer.training.config import LoopConfig, option


@dataclass(frozen=True, slots=True)
class Preset:
    """tokens       of the encoder in a batch
    decay        the last part of the schedule in which the learning rate falls; 0: constant
    freeze_…     encoder and word vectors stay as they are: a new decoder learns alone, many times as fast
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
    freeze_words: bool = False
    freeze_encoder: bool = False
    temperature: float = 0.0
    shape: Seq2SeqConfig | None = None


PRESETS: Mapping[str, Preset] = {
    # As the shipped agent was made, in half an hour of one core (docs/lab-book/t5.md).
    "copying": Preset(
        "pointer", 4096, 0.0, 1e-2, 0.4, Layout(), 3500, freeze_words=True, freeze_encoder=True, temperature=0.05,
    ),
    # A pretrained T5, whose folder --base names.
    "fine-tuned": Preset("", 4096, 0.1, 1e-3, 0.4, Layout(), temperature=0.05),
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Seq2SeqOptions(LoopConfig):
    """What `train t5` and `train answerer` offer alike; None: the preset's value."""

    base: str | None = option(
        "a T5, BERT, reader or pointer: folder, hub name, `shipped` (reader) or `pointer`; small: a T5 from scratch; "
        "none: the preset's",
        None,
    )
    preset: str | None = option(
        "copying, fine-tuned (a pretrained T5), small (a T5 from scratch) or paper: every value of its table; options "
        "change single ones; none: fine-tuned for `train t5`, else copying",
        None,
    )
    dev: Path | None = option("questions to judge progress on, by real sessions", None)
    judge_minutes: float = option("between two judgements on --dev", 20.0)
    learning_rate: float | None = option("AdaFactor's, relative to each matrix's own size; none: the preset's", None)
    decay: float | None = option("last part of training in which the rate falls; 0: constant; none: the preset's", None)
    tokens: int | None = option("tokens of a batch; none: the preset's", None, min=512)
    dropout: float | None = option("none: the preset's", None, min=0.0, max=0.9)  # type: ignore[assignment]
    decoder_layers: int = option("of a new decoder, where the base is an encoder alone", 2, min=1)
    freeze_words: bool | None = option("word vectors stay as they are; none: the preset's", None)
    freeze_encoder: bool | None = option(
        "the decoder learns alone, many times as fast; none: the preset's. To go on: --base OUT/trained", None
    )

    def applied_to(self, preset: Preset) -> Preset:
        """The preset with the values that were given."""
        names = ("base", "learning_rate", "decay", "tokens", "dropout", "freeze_words", "freeze_encoder")
        if self.base not in (None, "pointer", "shipped"):
            # A preset freezes the encoder that it names; another one may have much to learn.
            preset = replace(preset, freeze_words=False, freeze_encoder=False)
        return replace(preset, **{name: value for name in names if (value := getattr(self, name)) is not None})
