"""What every refinement of a moment promises, because the engine shows what it would find before one is taken.

A learned model can hardly predict from words alone what a query brings, but the engine answers all refinements of a
state in one pass (`agents/lookahead`). So the policy starts from what the lookahead predicts for each refinement, and
in the tree the reward of the first refinement begins with a share of that prediction, which f corrects.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.action_space import grammar_slots, open_slots
from orienteer.agents.lookahead.candidates import Looker
from orienteer.agents.lookahead.value_model import Weigher, worth
from orienteer.agents.muzero.config import Config
from orienteer.agents.muzero.deterministic_matmul import Floats
from orienteer.agents.muzero.observation_tokens import Look
from orienteer.agents.muzero.representation import Sight
from orienteer.agents.pointer.decoding import Decoding, choices
from orienteer.agents.pointer.head import Scores
from orienteer.engine.protocol import Engine
from orienteer.query import Grammar
from orienteer.session import Lexicon, Observation

IDLE = -0.01  # a refinement that finds nothing new costs a step and no reading


def promises_little(sight: Sight, config: Config) -> bool:
    """Whether it looked, and nothing within sight is worth going on from here; as the pointer has it."""
    look = config.sizes.look
    return look > 0 and not (sight.slots > look * config.decoding.back).any()


class Foresight:
    """`pieces` numbers the rows of `table`, the encoder's word vectors."""

    def __init__(
        self, engine: Engine, lexicon: Lexicon, pieces: Mapping[str, int], table: Floats, weigher: Weigher,
        grammar: Grammar, decoding: Decoding,
    ) -> None:  # fmt: skip
        self._looker, self._weigher, self._decoding = Looker(engine, lexicon, pieces, table), weigher, decoding
        self._allowed = grammar_slots(grammar)

    def __call__(self, observation: Observation, look: Look, sight: Sight) -> Floats | None:
        """[terms, slots], `IDLE` where nothing new is found; None where the engine cannot answer them."""
        found = choices(Scores(sight.slots, sight.stop, 0.0), open_slots(look.terms) & self._allowed, look.terms)
        if not len(found) or (seen := self._looker(observation, found)) is None:
            return None
        promised: NDArray[np.float32] = np.full(sight.slots.size, IDLE, np.float32)
        worths = worth(seen, self._weigher, self._decoding)
        promised[found.places] = np.where(np.isneginf(worths), IDLE, worths)
        return promised.reshape(sight.slots.shape)
