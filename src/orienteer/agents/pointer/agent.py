"""The pointer at work, without torch: observations in, CTranslate2 in int8, refinements out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np

from orienteer.agents.action_space import grammar_bits, grammar_slots
from orienteer.agents.lookahead.candidates import Looker, Sight
from orienteer.agents.lookahead.value_model import Doubles, Weigher, values, worth
from orienteer.agents.pointer.decoding import Choices, choices, has_room, wants_stop
from orienteer.agents.pointer.featurize import View, Viewer
from orienteer.agents.pointer.head import Head, Scores
from orienteer.agents.pointer.model_files import SHIPPED, PointerFiles, load_folder
from orienteer.engine.protocol import Engine
from orienteer.errors import ModelCorruptError, OrienteerError
from orienteer.models.bert_encoder import Compute, plain_tokenizer
from orienteer.models.ct2_format import model_files
from orienteer.models.model_folder import dequantise, quantise
from orienteer.query import GRAMMARS, Grammar
from orienteer.session import STOP, UNDO, Action, Observation

_TOLD = 5  # of the likeliest refinements, how many the notes name


class PointerAgent:
    """An `Agent` from a folder that training wrote; the shipped one unless told otherwise."""

    def __init__(
        self,
        files: PointerFiles,
        engine: Engine,
        grammar: Grammar | None = None,
        *,
        compute: Compute = "int8",
        threads: int = 0,
    ) -> None:
        tokenizer = plain_tokenizer(files.tokenizer)
        self.layout, self.decoding = files.layout, files.decoding
        self.grammar = grammar or GRAMMARS[files.layout.grammar]
        self._allowed, self._bits = grammar_slots(self.grammar), grammar_bits(self.grammar)
        self.view = Viewer(tokenizer, engine, files.layout.max_pieces)
        threads = threads or len(os.sched_getaffinity(0))
        ids = tokenizer.get_vocab()
        try:
            tensors = quantise(files.tensors) if compute == "int8" else dequantise(files.tensors)
            model = model_files(files.config, tensors, sorted(ids, key=ids.__getitem__))
            self._encoder = _encoder(model, compute, rows=threads, cores=1)
            # A row that comes alone is shared by all cores; its states are the same to the bit.
            self._for_one = _encoder(model, compute, rows=1, cores=threads) if threads > 1 else self._encoder
            exact = dequantise(files.tensors)
            self._head = Head(exact)
            table = exact["encoder.embeddings.word_embeddings.weight"]
            self._looker = cache(lambda: Looker(engine, self.view.lexicon, ids, table))
            self._weigher = Weigher(exact) if "weigher.centre" in exact else None
        except (KeyError, RuntimeError, ValueError) as error:
            raise ModelCorruptError(f"these weights do not make a pointer: {error!r}; train it again") from None
        self._workers = ThreadPoolExecutor(threads, "pointer") if threads > 1 else None
        self.fingerprint = f"{files.fingerprint}-{self.grammar.name}-{compute}"

    @classmethod
    def from_pretrained(
        cls,
        folder: str | Path | None,
        engine: Engine,
        grammar: Grammar | None = None,
        *,
        compute: Compute = "int8",
        threads: int = 0,
    ) -> PointerAgent:
        """`threads` = 0 takes one for each core this process may use."""
        files = load_folder(Path(folder) if folder else SHIPPED)
        return cls(files, engine, grammar, compute=compute, threads=threads)

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        return [action for action, _ in self.act_with_explanations(observations)]

    def act_with_explanations(self, observations: Sequence[Observation]) -> list[tuple[Action, dict[str, Any]]]:
        """Each action with the likeliest refinements, the probability of stopping, the gain expected."""
        views = _Kept(map(self.view, observations))
        scored = self.scores(views, len(observations))
        # A view is there once its scores are; the next moments are scored while one is decided.
        return [self._decide(*each) for each in zip(observations, scored, views.seen, strict=True)]

    def scores(self, views: Iterable[View], count: int = 0) -> Iterator[Scores]:
        """The model's scores of moments, in their order.

        Each goes through the encoder alone, one core each: an action does not depend on what is decided beside it.
        The first are under way while the later views are made; `count` says how many will come, where it is known.
        """
        if count == 1:
            return (self._score(view, self._for_one) for view in views)
        mapped = self._workers.map if self._workers else map
        return mapped(self._score, views)

    def _score(self, view: View, encoder: Any = None) -> Scores:
        stored, rendered = ctranslate2.StorageView.from_array, view.rendered
        ids, size = stored(rendered.ids[None]), stored(np.array([len(rendered.ids)], np.int32))
        result = (encoder or self._encoder).forward_batch(ids, size, token_type_ids=[rendered.types.tolist()])
        states = np.array(result.last_hidden_state)[0]  # [L, width]
        return self._head(states, rendered.occurrences, view.of_terms, view.of_moment, self._bits)

    def choices(self, view: View, scores: Scores) -> Choices:
        return choices(scores, view.open & self._allowed, view.terms)

    def _decide(self, observation: Observation, scores: Scores, view: View) -> tuple[Action, dict[str, Any]]:
        found = self.choices(view, scores)
        top = [(found.refinement(rank), found.log_probabilities[rank]) for rank in range(min(_TOLD, len(found)))]
        notes = {
            "likeliest": [[str(refinement), round(float(np.exp(log)), 4)] for refinement, log in top],
            "stop": round(found.stop, 4),
            "gain": round(scores.gain, 4),
        }
        if wants_stop(found, observation, self.decoding) or not has_room(observation, self.view.lexicon):
            return STOP, notes
        sight = self.look(observation, found) if self.looks and self.decoding.look else None
        if sight is None:
            return found.refinement(0), notes
        promised = self.worth(sight)
        first = [int(rank) for rank in np.argsort(-promised, kind="stable")[:_TOLD] if promised[rank] > 0]
        notes["promising"] = [[str(found.refinement(rank)), round(float(promised[rank]), 4)] for rank in first]
        return _after_a_look(observation, found, promised, self.decoding.back), notes

    def look(self, observation: Observation, found: Choices) -> Sight | None:
        """What all refinements would find; None where the engine cannot answer them."""
        return self._looker()(observation, found)

    @property
    def looks(self) -> bool:
        """Whether it has learned to look."""
        return self._weigher is not None

    def worth(self, sight: Sight) -> Doubles:
        """What each refinement brings, to be expected; -inf where it finds nothing new."""
        return worth(sight, self._learned(), self.decoding)

    def values(self, sight: Sight) -> Doubles:
        """What reading each passage within sight brings, less its price."""
        return values(sight, self._learned(), self.decoding)

    def _learned(self) -> Weigher:
        if self._weigher is None:
            raise OrienteerError("this pointer has not learned to look; `orienteer train look` teaches it")
        return self._weigher


def _after_a_look(observation: Observation, found: Choices, worth: Doubles, back: float) -> Action:
    """The refinement that promises most.

    Where none promises enough: back to the query before, from where other passages are within sight; from the question
    itself, an end where there may be one, else the likeliest refinement that costs no reading.
    """
    best = int(np.argmax(worth))
    if worth[best] > (back if observation.refinements else 0.0):
        return found.refinement(best)
    if observation.refinements:
        return UNDO
    if observation.may_stop:
        return STOP
    idle = np.flatnonzero(np.isneginf(worth))
    return found.refinement(int(idle[0]) if len(idle) else best)


def _encoder(model: dict[str, bytes], compute: Compute, rows: int, cores: int) -> Any:
    """An encoder of so many rows at a time, each on so many cores."""
    return ctranslate2.Encoder(
        "pointer", device="cpu", compute_type=compute, inter_threads=rows, intra_threads=cores, files=model
    )


class _Kept:
    """Views as they pass by."""

    def __init__(self, views: Iterable[View]) -> None:
        self._views = views
        self.seen: list[View] = []

    def __iter__(self) -> Iterator[View]:
        for view in self._views:
            self.seen.append(view)
            yield view
