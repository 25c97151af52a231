"""The pointer as an agent, without torch: observations in, CTranslate2 in int8, refinements out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.action_space import RankedActions, can_refine, grammar_bits, grammar_slots, rank_actions
from orienteer.agents.encoding import Featurizer, ModelInput, Rendered, head_shapes, pool
from orienteer.agents.lookahead.candidates import Candidates, Lookahead
from orienteer.agents.lookahead.value_model import (
    Float64s,
    ValueModel,
    expected_ps,
    has_value_model,
    passage_values,
    refinement_values,
)
from orienteer.agents.pointer.model_files import SHIPPED, PointerFiles, load_folder
from orienteer.engine.protocol import Engine
from orienteer.errors import ModelCorruptError, OrienteerError
from orienteer.models.bert_encoder import BertEncoder, Compute, RecentStates, plain_tokenizer
from orienteer.models.checks import check_shapes
from orienteer.models.layers import Float32s, linear, load_layers, relu
from orienteer.models.model_folder import dequantise
from orienteer.query import GRAMMARS, Grammar
from orienteer.session import NO_COST, STOP, UNDO, Action, AgentCost, Observation

BLIND = "blind"  # the fallback of a decision without lookahead, because the engine could not answer the refinements
_NOTED = 5  # refinements that the notes name


class Scores(NamedTuple):
    """What the head makes of a state.

    slots    [terms, slots] logits of refinements, in one softmax with that of stopping
    outcome  [2] the logit of stopping, the expected gain of the best refinement
    context  [width + features] the state of [CLS] and the state's features
    terms    [terms, hidden] each term; `best` is the maximum over them
    """

    slots: Float32s
    outcome: Float32s
    context: Float32s
    terms: Float32s
    best: Float32s

    @property
    def stop(self) -> float:
        return float(self.outcome[0])

    @property
    def gain(self) -> float:
        return float(self.outcome[1])


class Head:
    """The upper part of `PointerModel`: from encoder states to scores."""

    def __init__(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Raises ValueError where the tensors do not fit each other."""
        check_shapes(tensors, head_shapes(tensors))
        self._layers = load_layers(tensors, ("term", "moment", "mix", "slots", "whole", "outcome"))

    def __call__(
        self,
        states: Float32s,  # [L, width]
        row: Rendered,
        term_features: Float32s,  # [terms, features]
        state_features: Float32s,  # [features]
        grammar: Float32s,  # [operators]
    ) -> Scores:
        pooled = np.concatenate([pool(states, row.occurrences, len(term_features)), term_features], 1)
        context = np.concatenate([states[0], state_features])
        hidden = relu(self._linear("term", pooled) + self._linear("moment", context[None]))
        hidden = relu(self._linear("mix", hidden))
        best = hidden.max(0) if len(hidden) else np.zeros(hidden.shape[1], np.float32)
        whole = relu(self._linear("whole", np.concatenate([context, grammar, best])[None]))
        [outcome] = self._linear("outcome", whole)
        return Scores(self._linear("slots", hidden), outcome, context, hidden, best)

    def _linear(self, name: str, x: Float32s) -> Float32s:
        return linear(x, *self._layers[name])


Decision = tuple[Action, dict[str, Any], AgentCost]  # an action, its notes, what it cost


class PointerAgent:
    """An `Agent` from a folder that training wrote; the shipped one by default."""

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
        self.featurize = Featurizer(tokenizer, engine, files.layout.max_pieces)
        threads = threads or len(os.sched_getaffinity(0))
        try:
            encoder = BertEncoder(files.config, files.tensors, tokenizer, compute, threads, split_single=True)
            self._encoder = RecentStates(encoder)
            exact = dequantise(files.tensors)
            self._head = Head(exact)
            table = exact["encoder.embeddings.word_embeddings.weight"]
            ids = tokenizer.get_vocab()
            self._lookahead = cache(lambda: Lookahead(engine, self.featurize.lexicon, ids, table))
            self._value_model = ValueModel(exact) if has_value_model(exact) else None
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
        """Each action with the most probable refinements, the probability of stopping, the expected gain."""
        return [(action, notes) for action, notes, _ in self._decisions(observations)]

    def act_with_costs(self, observations: Sequence[Observation]) -> list[tuple[Action, AgentCost]]:
        return [(action, cost) for action, _, cost in self._decisions(observations)]

    def _decisions(self, observations: Sequence[Observation]) -> list[Decision]:
        inputs = _Recorded(map(self.featurize, observations))
        scored = self.scores(inputs, len(observations))
        # An input is recorded once its scores are there; the next states are scored while one is decided.
        return [self._decide(*each) for each in zip(observations, scored, inputs.passed, strict=True)]

    def rank(self, observations: Sequence[Observation]) -> Iterator[RankedActions]:
        """The policy in each state."""
        inputs = [self.featurize(observation) for observation in observations]
        return map(self.ranked, inputs, self.scores(inputs))

    def scores(self, inputs: Iterable[ModelInput], count: int = 0) -> Iterator[Scores]:
        """The model's scores of states, in their order.

        Each goes through the encoder alone, on one core: an action does not depend on what is decided beside it. The
        first are under way while later inputs are made; `count` says how many will come, where it is known.
        """
        if count == 1:
            return (self._score(each, alone=True) for each in inputs)
        mapped = self._workers.map if self._workers else map
        return mapped(self._score, inputs)

    def _score(self, inputs: ModelInput, alone: bool = False) -> Scores:
        row = inputs.rendered
        states = self._encoder(row.ids, row.types, alone=alone)
        return self._head(states, row, inputs.term_features, inputs.state_features, self._bits)

    def ranked(self, inputs: ModelInput, scores: Scores) -> RankedActions:
        """The legal actions of the agent's grammar."""
        return rank_actions(scores.slots, scores.stop, inputs.open_slots & self._allowed, inputs.terms)

    def _decide(self, observation: Observation, scores: Scores, inputs: ModelInput) -> Decision:
        ranked = self.ranked(inputs, scores)
        top = [(ranked.refinement(rank), ranked.log_probabilities[rank]) for rank in range(min(_NOTED, len(ranked)))]
        notes = {
            "likeliest": [[str(refinement), round(float(np.exp(log)), 4)] for refinement, log in top],
            "stop": round(ranked.stop, 4),
            "gain": round(scores.gain, 4),
        }
        stops = observation.may_stop and ranked.stop >= self.decoding.stop
        if not len(ranked) or stops or not can_refine(observation, self.featurize.lexicon):
            return STOP, notes, NO_COST
        looks = self.has_value_model and self.decoding.lookahead
        candidates = self.look_ahead(observation, ranked) if looks else None
        if candidates is None:
            return ranked.refinement(0), notes, AgentCost(fallbacks={BLIND: 1}) if looks else NO_COST
        values = self.refinement_values(candidates)
        best = [int(rank) for rank in np.argsort(-values, kind="stable")[:_NOTED] if values[rank] > 0]
        notes["promising"] = [[str(ranked.refinement(rank)), round(float(values[rank]), 4)] for rank in best]
        action = act_on_values(observation, ranked, values, self.decoding.undo_threshold)
        return action, notes, AgentCost(refinements_scored=candidates.asked, passages_scored=len(candidates.ids))

    def look_ahead(self, observation: Observation, actions: RankedActions) -> Candidates | None:
        """What all refinements would find; None where the engine cannot answer them."""
        return self.lookahead(observation, actions)

    @property
    def has_value_model(self) -> bool:
        """Whether it was trained to look ahead."""
        return self._value_model is not None

    def refinement_values(self, candidates: Candidates) -> Float64s:
        """The expected gain of each refinement; -inf where it finds nothing new."""
        return refinement_values(candidates, self._trained_value_model(), self.decoding)

    def passage_values(self, candidates: Candidates) -> Float64s:
        """The expected gain of reading each candidate, minus the cost of reading it."""
        return passage_values(candidates, self._trained_value_model(), self.decoding)

    def expected_ps(self, candidates: Candidates, places: Sequence[int]) -> Float64s:
        """The PS that the reader is expected to give some of the candidates."""
        return expected_ps(self._trained_value_model()(candidates.features[list(places)]))

    @property
    def lookahead(self) -> Lookahead:
        return self._lookahead()

    def _trained_value_model(self) -> ValueModel:
        if self._value_model is None:
            raise OrienteerError("this pointer has no value model for lookahead; `orienteer train lookahead` adds one")
        return self._value_model


def act_on_values(
    observation: Observation, ranked: RankedActions, values: Float64s, undo_threshold: float
) -> Action:  # fmt: skip
    """The refinement of the highest value.

    Where none is worth enough: undo, because the query before finds other candidates; on the question itself, stop
    where the agent may, else take the most probable refinement that finds nothing to read.
    """
    best = int(np.argmax(values))
    if values[best] > (undo_threshold if observation.refinements else 0.0):
        return ranked.refinement(best)
    if observation.refinements:
        return UNDO
    if observation.may_stop:
        return STOP
    free = np.flatnonzero(np.isneginf(values))
    return ranked.refinement(int(free[0]) if len(free) else best)


class _Recorded:
    """Inputs, kept as they pass."""

    def __init__(self, inputs: Iterable[ModelInput]) -> None:
        self._inputs = inputs
        self.passed: list[ModelInput] = []

    def __iter__(self) -> Iterator[ModelInput]:
        for each in self._inputs:
            self.passed.append(each)
            yield each
