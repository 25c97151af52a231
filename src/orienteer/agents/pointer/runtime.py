"""The pointer at work, without torch: observations in, CTranslate2 in int8, refinements out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
from tokenizers import Tokenizer

from orienteer.agents.pointer.decoding import Choices, choices, has_room, wants_stop
from orienteer.agents.pointer.folder import SHIPPED, PointerFiles, load_folder
from orienteer.agents.pointer.head import Head, Scores
from orienteer.agents.pointer.preview import Preview, Previewer
from orienteer.agents.pointer.preview_head import PreviewHead
from orienteer.agents.pointer.slots import grammar_bits, grammar_slots
from orienteer.agents.pointer.view import View, Viewer
from orienteer.engine.protocol import Engine
from orienteer.query import GRAMMARS, Grammar
from orienteer.reader.ct2_format import model_files
from orienteer.reader.errors import ModelCorruptError
from orienteer.reader.model_folder import dequantise, quantise
from orienteer.reader.runtime import Compute
from orienteer.session import STOP, Action, Observation

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
        self._viewer = Viewer(tokenizer, engine, files.layout.max_pieces)
        self._previewer = Previewer(engine, self._viewer.lexicon)
        threads = threads or len(os.sched_getaffinity(0))
        ids = tokenizer.get_vocab()
        try:
            tensors = quantise(files.tensors) if compute == "int8" else dequantise(files.tensors)
            model = model_files(files.config, tensors, sorted(ids, key=ids.__getitem__))
            self._encoder = _encoder(model, compute, rows=threads, cores=1)
            # A row that comes alone is shared by all cores; its states are the same to the bit.
            self._for_one = _encoder(model, compute, rows=1, cores=threads) if threads > 1 else self._encoder
            self._head = Head(dequantise(files.tensors))
            self._second = PreviewHead(files.tensors) if "preview.worth.weight" in files.tensors else None
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
        return [action for action, _ in self.act_with_notes(observations)]

    def act_with_notes(self, observations: Sequence[Observation]) -> list[tuple[Action, dict[str, Any]]]:
        """Each action with the likeliest refinements, the probability of stopping, the gain expected."""
        views = _Kept(map(self._viewer, observations))
        scored = self.scores(views, len(observations))
        return [self._decide(*each) for each in zip(observations, views.seen, scored, strict=True)]

    def view(self, observation: Observation) -> View:
        return self._viewer(observation)

    def scores(self, views: Iterable[View], count: int = 0) -> list[Scores]:
        """The model's scores of moments, in their order.

        Each goes through the encoder alone, one core each: an action does not depend on what is decided beside it.
        The first are under way while the later views are made; `count` says how many will come, where it is known.
        """
        if count == 1:
            return [self._score(view, self._for_one) for view in views]
        mapped = self._workers.map if self._workers else map
        return list(mapped(self._score, views))

    def _score(self, view: View, encoder: Any = None) -> Scores:
        stored, rendered = ctranslate2.StorageView.from_array, view.rendered
        ids, size = stored(rendered.ids[None]), stored(np.array([len(rendered.ids)], np.int32))
        result = (encoder or self._encoder).forward_batch(ids, size, token_type_ids=[rendered.types.tolist()])
        states = np.array(result.last_hidden_state)[0]  # [L, width]
        return self._head(states, rendered.occurrences, view.of_terms, view.of_moment, self._bits)

    def choices(self, view: View, scores: Scores) -> Choices:
        return choices(scores, view.open & self._allowed, view.terms)

    def _decide(self, observation: Observation, view: View, scores: Scores) -> tuple[Action, dict[str, Any]]:
        found = self.choices(view, scores)
        top = [(found.refinement(rank), found.log_probabilities[rank]) for rank in range(min(_TOLD, len(found)))]
        notes = {
            "likeliest": [[str(refinement), round(float(np.exp(log)), 4)] for refinement, log in top],
            "stop": round(found.stop, 4),
            "gain": round(scores.gain, 4),
        }
        if wants_stop(found, observation, self.decoding) or not has_room(observation, self._viewer.lexicon):
            return STOP, notes
        return found.refinement(self._after_a_look(observation, found)), notes

    def _after_a_look(self, observation: Observation, found: Choices) -> int:
        """The rank of the refinement to take: of those that find something new, the one that promises most."""
        preview = self.preview(observation, found, self.decoding.look) if self.decoding.look > 1 else None
        if preview is None or not preview.hopeful.any():
            return 0
        worth = found.log_probabilities[: len(preview.new)]
        if self._second is not None:
            worth = worth + self._second(preview)
        return int(np.argmax(np.where(preview.hopeful, worth, -np.inf)))

    def preview(self, observation: Observation, found: Choices, count: int) -> Preview | None:
        """What the `count` likeliest refinements find; None where the engine cannot answer them."""
        return self._previewer(observation, found, count)


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


def plain_tokenizer(text: str) -> Tokenizer:
    """A tokenizer from its JSON, without truncation or padding of its own."""
    tokenizer = Tokenizer.from_str(text)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
