"""h without torch: from an observation to typed tokens, to the encoder's output, and to the lookahead's prior.

Every token has a type, the idf of its word and the PS of its passage (`tab:mz_observation_example`). Both numbers are
quantised, so that type, idf and PS together are one of a few thousand token types: the encoder that plays (CTranslate2
in int8) knows only token types, and computes the same as the one that is trained.

A learned model can hardly predict from words alone what a query returns, but the engine answers all refinements of a
state in one pass (`agents/lookahead`). So the policy starts from what the lookahead predicts for each refinement, and
in the tree the reward of the first refinement starts from a share of that prediction, which f corrects.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from orienteer.agents.action_space import (
    SLOTS,
    Decoding,
    grammar_bits,
    grammar_slots,
    nearest_slot,
    open_slots,
    rank_actions,
    usable_terms,
)
from orienteer.agents.encoding import MAX_TITLE, PS_BOUNDS, FeatureExtractor, Rendered, Renderer, mark_ids
from orienteer.agents.lookahead.candidates import Lookahead
from orienteer.agents.lookahead.value_model import ValueModel, has_value_model, refinement_values
from orienteer.agents.muzero.config import Config
from orienteer.agents.muzero.grammar import INDEX, OPERATORS, QueryGrammar
from orienteer.agents.muzero.networks import Float32s
from orienteer.agents.muzero.tries import TermTokenizer
from orienteer.agents.pointer.agent import BLIND, Head
from orienteer.engine.protocol import Engine
from orienteer.errors import ModelCorruptError
from orienteer.models.bert_encoder import Bounds, Compute, Ct2Encoder, vocabulary
from orienteer.models.checks import check_bert, check_shapes
from orienteer.models.ct2_format import bert_files
from orienteer.models.model_folder import dequantise, quantise
from orienteer.query import FIELDS, GRAMMARS, Grammar, Refinement
from orienteer.reader.encoding import pieces
from orienteer.session import NO_COST, AgentCost, Lexicon, Observation, Term

IDF_STEPS, IDF_STEP = 32, 0.5
PS_STEPS = 16


@dataclass(frozen=True, slots=True)
class TokenizedObservation:
    """The encoder's input, the terms that may be used, and features that need no encoder.

    idf, ps          [tokens] quantised
    term_features    [terms, features]
    state_features   [features]
    """

    terms: tuple[Term, ...]
    rendered: Rendered
    idf: NDArray[np.uint8]
    ps: NDArray[np.uint8]
    term_features: NDArray[np.float32]
    state_features: NDArray[np.float32]


class ObservationTokenizer:
    """Tokenizes observations; caches the answers of tokenizer and engine."""

    def __init__(self, tokenizer: Tokenizer, engine: Engine, max_pieces: int, title_pieces: int = MAX_TITLE) -> None:
        self.lexicon = Lexicon(engine)
        self._tokenizer, self._title_pieces = tokenizer, title_pieces
        self._renderer = Renderer(tokenizer, self.lexicon, max_pieces)
        self._features = FeatureExtractor(engine, self.lexicon)
        self._ps_marks = np.array(mark_ids(tokenizer)[len(SLOTS) : len(SLOTS) + len(PS_BOUNDS) + 1])

    def __call__(self, observation: Observation) -> TokenizedObservation:
        if self._title_pieces < MAX_TITLE:
            observation = self._with_short_titles(observation)
        terms = tuple(usable_terms(observation, self.lexicon))
        numbers = {term.text: number for number, term in enumerate(terms)}
        for text in observation.idf:
            numbers.setdefault(text, len(numbers))
        rendered = self._renderer.render(observation, numbers)
        occurrences = rendered.occurrences[rendered.occurrences[:, 0] < len(terms)]
        return TokenizedObservation(
            terms,
            Rendered(rendered.ids, rendered.types, occurrences),
            self._idf(rendered, observation, list(numbers)),
            self._ps(rendered, observation),
            self._features.term_features(observation, terms),
            self._features.state_features(observation, terms),
        )

    def _idf(self, rendered: Rendered, observation: Observation, texts: list[str]) -> NDArray[np.uint8]:
        """The idf of the word that each piece belongs to; 0 for markers and punctuation."""
        of_term = np.array([observation.idf.get(text, 0.0) for text in texts], np.float32)
        layer = np.zeros(len(rendered.ids), np.uint8)
        occurrences = rendered.occurrences
        if len(occurrences):
            steps = np.clip(np.rint(of_term / IDF_STEP), 0, IDF_STEPS - 1).astype(np.uint8)
            layer[occurrences[:, 2]] = steps[occurrences[:, 0]]
        return layer

    def _ps(self, rendered: Rendered, observation: Observation) -> NDArray[np.uint8]:
        """The PS of the passage that each token belongs to; 0 for question and refinements."""
        passage = np.cumsum(np.isin(rendered.ids, self._ps_marks))  # each passage begins with its marker
        scores = [0.0, *(each.score for each in observation.passages)]
        steps = np.clip(np.rint(np.array(scores) * (PS_STEPS - 1)), 0, PS_STEPS - 1).astype(np.uint8)
        layer: NDArray[np.uint8] = steps[np.minimum(passage, len(steps) - 1)]
        return layer

    def _with_short_titles(self, observation: Observation) -> Observation:
        titles = pieces(self._tokenizer, [each.title for each in observation.passages])
        most = self._title_pieces
        cut = (
            replace(each, title=each.title[: encoding.offsets[most - 1][1]] if len(encoding.ids) > most else each.title)
            for each, encoding in zip(observation.passages, titles, strict=True)
        )
        return replace(observation, passages=tuple(cut))


def layered_kinds(types: NDArray[np.uint8], idf: NDArray[np.uint8], ps: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Type, idf and PS of each token as one token type."""
    return (types.astype(np.int32) * IDF_STEPS + idf) * PS_STEPS + ps


def layered_table(kinds: NDArray[np.float32], idf: NDArray[np.float32], ps: NDArray[np.float32]) -> NDArray[np.float32]:
    """Embeddings [LAYERED_KINDS, width] of all combined token types: kinds [KINDS, width], idf and ps [width]."""
    idf_steps, ps_steps = idf_values(), ps_values()
    table = kinds[:, None, None] + idf_steps[None, :, None, None] * idf + ps_steps[None, None, :, None] * ps
    flat: NDArray[np.float32] = table.reshape(-1, kinds.shape[1]).astype(np.float32)
    return flat


def idf_values() -> NDArray[np.float32]:
    """The value of each quantised idf, scaled to about 1."""
    return (np.arange(IDF_STEPS) * IDF_STEP / 12).astype(np.float32)


def ps_values() -> NDArray[np.float32]:
    return (np.arange(PS_STEPS) / (PS_STEPS - 1)).astype(np.float32)


_KINDS = "encoder.embeddings.token_type_embeddings.weight"
_LAYERS = ("layers.idf", "layers.ps")


class EncodedObservation(NamedTuple):
    """The output of h.

    summary      [size] the first token's state, the state features, the maximum over terms,
    and the stop and gain scores
    terms        [terms, width] each usable term, pooled over its occurrences in every source
    slot_scores  [terms, slots] and `stop_score`: scores of the cloned agent; with a lookahead, its scaled predictions
    cost         of the lookahead
    """

    summary: Float32s
    terms: Float32s
    slot_scores: Float32s
    stop_score: float
    cost: AgentCost = NO_COST


class Encoder:
    """The encoder and the cloned agent's head, from tensors named as a pointer's."""

    def __init__(
        self, bert: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]], tokenizer: Tokenizer,
        *, compute: Compute = "int8", threads: int = 0,
    ) -> None:  # fmt: skip
        threads = threads or len(os.sched_getaffinity(0))
        of_encoder = {name: value for name, value in tensors.items() if not name.startswith("muzero.")}
        try:
            plain = dequantise(of_encoder)
            layers = [plain.get(name) for name in _LAYERS]
            # The idf and PS layers are absent until h is trained: then only the type counts.
            self._layered = layers[0] is not None and layers[1] is not None
            matrices = quantise(of_encoder) if compute == "int8" else dict(plain)
            if layers[0] is not None and layers[1] is not None:
                matrices.pop(f"{_KINDS}.scale", None)
                matrices[_KINDS] = layered_table(plain[_KINDS], layers[0], layers[1])
            check_bert(bert, of_encoder, tokenizer)
            if self._layered:
                check_shapes(of_encoder, dict.fromkeys(_LAYERS, (int(bert["hidden_size"]),)))
            files = bert_files(bert, matrices, vocabulary(tokenizer))
            self._encoder = Ct2Encoder(files, compute, threads, Bounds.of_bert(matrices))
            self.value_model = ValueModel(plain) if has_value_model(plain) else None
            self.word_embeddings = np.ascontiguousarray(plain["encoder.embeddings.word_embeddings.weight"], np.float32)
            self._head = Head(plain)
        except (KeyError, RuntimeError, ValueError) as error:
            raise ModelCorruptError(f"these weights do not make an h: {error!r}; train it again") from None
        digest = hashlib.sha256()
        for name in sorted(of_encoder):
            digest.update(name.encode() + np.ascontiguousarray(of_encoder[name]).tobytes())
        self.fingerprint = f"{digest.hexdigest()[:16]}-{compute}"
        self._workers = ThreadPoolExecutor(threads, "muzero") if threads > 1 else None

    def encode(self, tokenized: Sequence[TokenizedObservation], grammar: Float32s) -> list[EncodedObservation]:
        """Encodes each by itself on one core, so that no output depends on the batch. `grammar`: `grammar_bits`."""
        mapped = self._workers.map if self._workers and len(tokenized) > 1 else map
        return list(mapped(lambda each: self._encode(each, grammar), tokenized))

    def _encode(self, tokenized: TokenizedObservation, grammar: Float32s) -> EncodedObservation:
        row = tokenized.rendered
        kinds = layered_kinds(row.types, tokenized.idf, tokenized.ps) if self._layered else row.types
        states = self._encoder(row.ids, kinds.tolist())  # [L, width]
        scores = self._head(states, row, tokenized.term_features, tokenized.state_features, grammar)
        summary = np.concatenate([scores.context, scores.best, scores.outcome])
        return EncodedObservation(summary, scores.terms, scores.slots, scores.stop)


def encoding_sizes(bert_width: int, state_features: int, hidden: int) -> tuple[int, int]:
    """The lengths of `EncodedObservation.summary` and of a row of `terms`."""
    return bert_width + state_features + hidden + 2, hidden


IDLE_VALUE = -0.01  # of a refinement without new hits: it costs a step and no reading


def below_undo_threshold(encoded: EncodedObservation, config: Config) -> bool:
    """Whether the lookahead predicts for no refinement a gain above the undo threshold; as in the pointer."""
    scale = config.networks.lookahead_scale
    return scale > 0 and not (encoded.slot_scores > scale * config.decoding.undo_threshold).any()


class LookaheadPrior:
    """The lookahead's prediction for every refinement; `pieces` numbers the rows of the encoder's `table`."""

    def __init__(
        self, engine: Engine, lexicon: Lexicon, pieces: Mapping[str, int], table: Float32s, value_model: ValueModel,
        grammar: Grammar, decoding: Decoding,
    ) -> None:  # fmt: skip
        self._lookahead, self._value_model = Lookahead(engine, lexicon, pieces, table), value_model
        self._decoding = decoding
        self._allowed = grammar_slots(grammar)

    def __call__(
        self, observation: Observation, tokenized: TokenizedObservation, encoded: EncodedObservation
    ) -> tuple[Float32s | None, AgentCost]:
        """[terms, slots], `IDLE_VALUE` where there are no new hits; None where the engine refuses. And the cost."""
        legal = open_slots(tokenized.terms) & self._allowed
        ranked = rank_actions(encoded.slot_scores, encoded.stop_score, legal, tokenized.terms)
        if not len(ranked):
            return None, NO_COST
        if (candidates := self._lookahead(observation, ranked)) is None:
            return None, AgentCost(fallbacks={BLIND: 1})
        predictions: NDArray[np.float32] = np.full(encoded.slot_scores.size, IDLE_VALUE, np.float32)
        values = refinement_values(candidates, self._value_model, self._decoding)
        predictions[ranked.actions] = np.where(np.isneginf(values), IDLE_VALUE, values)
        cost = AgentCost(refinements_scored=candidates.asked, passages_scored=len(candidates.ids))
        return predictions.reshape(encoded.slot_scores.shape), cost


class ActionHistory:
    """The refinements of the current query as grammar actions, oldest first, from the observation alone.

    The source of a past term is no longer known, so every past term counts as one of the index.
    """

    def __init__(self, grammar: QueryGrammar, term_tokenizer: TermTokenizer) -> None:
        self._grammar, self._term_tokenizer = grammar, term_tokenizer
        self._rules_of = lru_cache(None)(self._slot_rules)

    def __call__(self, refinements: Sequence[Refinement], most: int) -> list[int]:
        """The last `most` actions."""
        actions: list[int] = []
        for refinement in reversed(refinements):
            if len(actions) >= most:
                break
            pieces = [len(self._grammar) + piece for piece in self._term_tokenizer.pieces(refinement.term)]
            actions = [*self._rules_of(nearest_slot(refinement)), *pieces, *actions]
        return actions[-most:] if most else []

    def _slot_rules(self, slot: int) -> tuple[int, ...]:
        """The rules that choose the operator and the field of a slot."""
        operator, field = OPERATORS.index(SLOTS[slot][0]), FIELDS.index(SLOTS[slot][1])
        joint = [
            number for number, rule in enumerate(self._grammar.rules)
            if (rule.operator, rule.field) == (operator, field) and rule.source in (-1, INDEX)
        ]  # fmt: skip
        if joint:
            return (joint[0],)
        separate = ((operator, -1), (-1, field))
        return tuple(n for n, rule in enumerate(self._grammar.rules) if (rule.operator, rule.field) in separate)


@dataclass(frozen=True, slots=True)
class ObservationPipeline:
    """From observations to what a root state needs: tokens, encodings, term pieces, action history."""

    tokenizer: ObservationTokenizer
    encoder: Encoder
    term_tokenizer: TermTokenizer
    action_history: ActionHistory
    config: Config
    threads: int = 1
    lookahead_prior: LookaheadPrior | None = None

    @classmethod
    def create(
        cls, tokenizer: Tokenizer, engine: Engine, encoder: Encoder, grammar: QueryGrammar, config: Config,
        threads: int = 1
    ) -> ObservationPipeline:  # fmt: skip
        term_tokenizer = TermTokenizer(tokenizer)
        observation_tokenizer = ObservationTokenizer(tokenizer, engine, config.max_pieces, config.title_pieces)
        lookahead_prior = None
        if config.networks.lookahead_scale and encoder.value_model is not None:
            pieces = tokenizer.get_vocab()
            lookahead_prior = LookaheadPrior(
                engine,
                observation_tokenizer.lexicon,
                pieces,
                encoder.word_embeddings,
                encoder.value_model,
                GRAMMARS[config.grammar],
                config.decoding,
            )
        return cls(
            observation_tokenizer,
            encoder,
            term_tokenizer,
            ActionHistory(grammar, term_tokenizer),
            config,
            threads,
            lookahead_prior,
        )

    def encode(self, observations: Sequence[Observation]) -> list[tuple[TokenizedObservation, EncodedObservation]]:
        bits: NDArray[np.float32] = grammar_bits(GRAMMARS[self.config.grammar])
        encoded_observations: list[tuple[TokenizedObservation, EncodedObservation]] = []
        size = self.config.training.initial_batch
        for start in range(0, len(observations), size):
            tokenized = [self.tokenizer(observation) for observation in observations[start : start + size]]
            encoded_observations += zip(tokenized, self.encoder.encode(tokenized, bits), strict=True)
        if self.lookahead_prior is None:
            return encoded_observations
        return [
            (tokenized, self._with_lookahead(observation, tokenized, encoded))
            for observation, (tokenized, encoded) in zip(observations, encoded_observations, strict=True)
        ]

    def _with_lookahead(
        self, observation: Observation, tokenized: TokenizedObservation, encoded: EncodedObservation
    ) -> EncodedObservation:
        """With the lookahead's scaled predictions instead of the cloned agent's scores; 0 for stopping.

        Where the engine cannot answer, the cloned agent's scores stay, raised above the undo threshold.
        """
        assert self.lookahead_prior is not None
        scale = np.float32(self.config.networks.lookahead_scale)
        predictions, cost = self.lookahead_prior(observation, tokenized, encoded)
        if predictions is None:
            predictions = (encoded.slot_scores - encoded.slot_scores.max(initial=0.0)) / scale + np.float32(
                self.config.decoding.undo_threshold + 0.1
            )
        return encoded._replace(slot_scores=predictions * scale, stop_score=0.0, cost=cost)
