"""The configuration of pointer training, which is also the command line of `orienteer train pointer`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from orienteer.agents.pointer.dataset import StreamConfig
from orienteer.agents.pointer.model_files import Layout
from orienteer.training.config import LoopConfig, option


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig(LoopConfig):
    """What is learned from first, then the model, then rates; what has no help text is for Python alone.

    head_factor        the new head learns so much faster
    freeze_embeddings  of words and places; marks and kinds always learn
    part               sequences a thread takes at once
    """

    grammar: str = option("G0 to G4, several with commas, or all: whose sessions it learns", "all")
    plays: str = option("the grammar that the bare name `pointer` plays", "G4")
    base: str = option("a BERT, a reader or a pointer: folder, hub name, shipped reader", "shipped")
    dev: Path | None = option("questions to judge progress on, by real sessions", None)
    dev_limit: int = option("how many of them", 100, min=1)
    snippet: int = option("words of a passage that the agent sees", 30, min=1)
    pieces: int = option("wordpieces of an observation at most", 320, min=64, max=512)
    learning_rate: float = option("of the encoder, at the end of the warm-up", 1e-4)
    temperature: float = option("of the soft targets, in units of the score", 0.05)
    freeze_layers: int = option("lowest layers that stay as they are", 0, min=0)
    layers: tuple[int, ...] = option("layers of the base that are kept, such as 0,2,3,5; none: all", ())
    promise: bool = option("also learn what refinements promise that Rocchio did not read", True)
    dagger: int = option("rounds in which states that the agent reaches are labelled", 0)
    dagger_questions: int = option("questions that the agent plays a round", 500, min=1)
    dagger_states: int = option("states of each that are labelled", 6, min=1)
    dagger_labels: str = option(
        "promise: by passages that hold the answer, unread; rocchio: exact, expensive", "promise"
    )
    dagger_minutes: float = option("of training a round", 20.0)
    stop: float = option("probability of stopping at which the agent stops, where it may", 0.5)
    head_factor: float = 5.0
    warmup: float = 0.04  # of the schedule
    weight_decay: float = 0.01
    clip: float = 1.0
    gain_weight: float = 1.0
    part: int = 4
    freeze_embeddings: bool = True
    stream: StreamConfig = field(default_factory=StreamConfig)

    @property
    def layout(self) -> Layout:
        return Layout(self.pieces, self.snippet, self.plays)
