"""What h is given of an observation: the cloned agent's row of typed tokens, and beside it two layers of numbers.

Every token has a type, the idf of its word and the PS of its passage (`tab:mz_observation_example`). Both numbers come
in even steps, so that type, idf and PS together are one of a few thousand kinds: an encoder that knows only kinds, as
the one that plays does, then computes the very same as the one that learns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from orienteer.agents.action_space import SLOTS, usable
from orienteer.agents.pointer.features import Features
from orienteer.agents.pointer.rendering import KINDS, MAX_TITLE, PS_BOUNDS, Rendered, Renderer, mark_ids
from orienteer.engine.protocol import Engine
from orienteer.reader.encoding import pieces
from orienteer.session import Lexicon, Observation, Term

IDF_STEPS, IDF_STEP = 32, 0.5
PS_STEPS = 16
LAYERED_KINDS = KINDS * IDF_STEPS * PS_STEPS


@dataclass(frozen=True, slots=True)
class Look:
    """The encoder's row, the terms that may be used, and what is known of them and of the moment without an encoder.

    idf, ps   [L] uint8: by step
    """

    terms: tuple[Term, ...]
    rendered: Rendered
    idf: NDArray[np.uint8]
    ps: NDArray[np.uint8]
    of_terms: NDArray[np.float32]  # [terms, features]
    of_moment: NDArray[np.float32]  # [features]


class Looker:
    """Looks at observations, with what tokenizer and engine gave remembered."""

    def __init__(self, tokenizer: Tokenizer, engine: Engine, max_pieces: int, title_pieces: int = MAX_TITLE) -> None:
        self.lexicon = Lexicon(engine)
        self._tokenizer, self._title_pieces = tokenizer, title_pieces
        self._renderer = Renderer(tokenizer, self.lexicon, max_pieces)
        self._features = Features(engine, self.lexicon)
        self._ps_marks = np.array(mark_ids(tokenizer)[len(SLOTS) : len(SLOTS) + len(PS_BOUNDS) + 1])

    def __call__(self, observation: Observation) -> Look:
        if self._title_pieces < MAX_TITLE:
            observation = self._with_short_titles(observation)
        terms = tuple(usable(observation, self.lexicon))
        numbers = {term.text: number for number, term in enumerate(terms)}
        for text in observation.idf:
            numbers.setdefault(text, len(numbers))
        rendered = self._renderer.render(observation, numbers)
        own = rendered.occurrences[rendered.occurrences[:, 0] < len(terms)]
        return Look(
            terms,
            Rendered(rendered.ids, rendered.types, own),
            self._idf(rendered, observation, list(numbers)),
            self._ps(rendered, observation),
            self._features.of_terms(observation, terms),
            self._features.of_moment(observation, terms),
        )

    def _idf(self, rendered: Rendered, observation: Observation, texts: list[str]) -> NDArray[np.uint8]:
        """The idf of the word that a piece belongs to, on every piece; 0 for marks and signs."""
        of_term = np.array([observation.idf.get(text, 0.0) for text in texts], np.float32)
        layer = np.zeros(len(rendered.ids), np.uint8)
        found = rendered.occurrences
        if len(found):
            steps = np.clip(np.rint(of_term / IDF_STEP), 0, IDF_STEPS - 1).astype(np.uint8)
            layer[found[:, 2]] = steps[found[:, 0]]
        return layer

    def _ps(self, rendered: Rendered, observation: Observation) -> NDArray[np.uint8]:
        """The PS of a passage on all of its tokens; 0 for question and refinements."""
        passage = np.cumsum(np.isin(rendered.ids, self._ps_marks))  # each passage begins with its mark
        scores = [0.0, *(each.score for each in observation.passages)]
        steps = np.clip(np.rint(np.array(scores) * (PS_STEPS - 1)), 0, PS_STEPS - 1).astype(np.uint8)
        layer: NDArray[np.uint8] = steps[np.minimum(passage, len(steps) - 1)]
        return layer

    def _with_short_titles(self, observation: Observation) -> Observation:
        titles = pieces(self._tokenizer, [each.title for each in observation.passages])
        most = self._title_pieces
        cut = (
            replace(each, title=each.title[: found.offsets[most - 1][1]] if len(found.ids) > most else each.title)
            for each, found in zip(observation.passages, titles, strict=True)
        )
        return replace(observation, passages=tuple(cut))


def layered_kinds(types: NDArray[np.uint8], idf: NDArray[np.uint8], ps: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Type, idf and PS of each token as one number."""
    return (types.astype(np.int32) * IDF_STEPS + idf) * PS_STEPS + ps


def layered_table(kinds: NDArray[np.float32], idf: NDArray[np.float32], ps: NDArray[np.float32]) -> NDArray[np.float32]:
    """The vectors [LAYERED_KINDS, width] of all of them: kinds [KINDS, width], idf and ps [width] for each unit."""
    idf_steps, ps_steps = idf_values(), ps_values()
    table = kinds[:, None, None] + idf_steps[None, :, None, None] * idf + ps_steps[None, None, :, None] * ps
    flat: NDArray[np.float32] = table.reshape(-1, kinds.shape[1]).astype(np.float32)
    return flat


def idf_values() -> NDArray[np.float32]:
    """What each step of idf stands for, in a scale of about 1."""
    return (np.arange(IDF_STEPS) * IDF_STEP / 12).astype(np.float32)


def ps_values() -> NDArray[np.float32]:
    return (np.arange(PS_STEPS) / (PS_STEPS - 1)).astype(np.float32)
