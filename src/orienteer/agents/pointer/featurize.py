"""What the model sees of an observation; training and playing share it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from orienteer.agents.action_space import open_slots, usable
from orienteer.agents.pointer.features import Features
from orienteer.agents.pointer.rendering import Rendered, Renderer
from orienteer.engine.protocol import Engine
from orienteer.session import Lexicon, Observation, Term


@dataclass(frozen=True, slots=True)
class View:
    """The encoder's row, the terms that may be used, their features and slots, the features of the moment."""

    terms: tuple[Term, ...]
    rendered: Rendered
    of_terms: NDArray[np.float32]  # [terms, features]
    of_moment: NDArray[np.float32]  # [features]
    open: NDArray[np.bool_]  # [terms, slots]


class Viewer:
    """Views of observations, with what tokenizer and engine gave remembered."""

    def __init__(self, tokenizer: Tokenizer, engine: Engine, max_pieces: int) -> None:
        self.lexicon = Lexicon(engine)
        self._renderer = Renderer(tokenizer, self.lexicon, max_pieces)
        self._features = Features(engine, self.lexicon)

    def __call__(self, observation: Observation) -> View:
        terms = tuple(usable(observation, self.lexicon))
        numbers = {term.text: number for number, term in enumerate(terms)}
        return View(
            terms,
            self._renderer.render(observation, numbers),
            self._features.of_terms(observation, terms),
            self._features.of_moment(observation, terms),
            open_slots(terms),
        )
