"""Which examples training takes, in which order: a stream of batches that the seed alone decides."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from orienteer.agents.pointer.examples import Example
from orienteer.errors import TrainingError

_HELD_OUT = 50  # one question of so many


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """stops: of the moments at which every grammar stops, the part that an epoch draws; they teach no refinement."""

    batch: int = 16
    pool: int = 512  # examples sorted by length together
    stops: float = 0.3
    seed: int = 0


def batches(examples: Sequence[Example], config: StreamConfig) -> Iterator[list[Example]]:
    """Endless batches of similar length; the same seed and examples give the same stream."""
    if all(example.only_stops for example in examples):
        raise TrainingError("no training example has a refinement to learn; give sessions that improve on something")
    generator = random.Random(config.seed)
    while True:
        drawn = [e for e in examples if not e.only_stops or generator.random() < config.stops]
        generator.shuffle(drawn)
        for start in range(0, len(drawn), config.pool):
            pool = sorted(drawn[start : start + config.pool], key=lambda example: len(example.ids))
            cut = [pool[at : at + config.batch] for at in range(0, len(pool), config.batch)]
            generator.shuffle(cut)
            yield from cut


def hold_out(examples: Sequence[Example]) -> tuple[list[Example], list[Example]]:
    """Examples to learn from, and those of one question in fifty, to watch the loss on."""
    held = [example for example in examples if example.question % _HELD_OUT == 0]
    return [example for example in examples if example.question % _HELD_OUT], held
