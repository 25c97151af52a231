"""A trained text-to-text model, without torch: sources in, the likeliest targets out, by constrained beam search."""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.t5.decoder import Decoder, EncodedSource, KVCache
from orienteer.agents.t5.encoder import SourceEncoder
from orienteer.agents.t5.model_files import Codec, ModelFiles, seq2seq_shapes
from orienteer.errors import ModelCorruptError
from orienteer.models.bert_encoder import Compute
from orienteer.models.checks import check_bert, check_shapes, check_vocabulary, plain_tokenizer
from orienteer.models.model_folder import dequantise


class Constraint(Protocol):
    """Which tokens may follow; a node stands for the tokens so far."""

    @property
    def root(self) -> Any: ...

    def allowed(self, node: Any) -> Sequence[int]:
        """The tokens that may come next, the end not among them."""
        ...

    def value(self, node: Any) -> Hashable | None:
        """What the tokens so far mean, where a target may end here; else None."""
        ...

    def advance(self, node: Any, token: int) -> Any: ...


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A target: its tokens without the end, its log-probability, and the constraint's value of it."""

    tokens: tuple[int, ...]
    log_probability: float
    value: Any = None


class Generator:
    """Each source is encoded and decoded alone, on one core: its targets do not depend on the rest of the batch."""

    def __init__(
        self, files: ModelFiles, max_source: int, max_target: int, *, compute: Compute = "int8", threads: int = 0
    ) -> None:
        """`threads` = 0 takes one for each core this process may use."""
        threads = threads or len(os.sched_getaffinity(0))
        self.max_source, self.max_target = max_source, max_target
        try:
            tokenizer = plain_tokenizer(files.tokenizer)
            check_vocabulary(tokenizer, files.config.vocabulary)
            if files.config.architecture == "bert":
                check_bert(files.config.bert or {}, files.tensors, tokenizer)
            check_shapes(files.tensors, seq2seq_shapes(files.config))
            self.codec = Codec(tokenizer, files.config)
            self._encoder = SourceEncoder(files.config, files.tensors, self.codec.vocabulary, compute, threads)
            self._decoder = Decoder(files.config, dequantise(files.tensors), max_target)
        except (KeyError, RuntimeError, ValueError) as error:
            raise ModelCorruptError(f"these weights do not make the model: {error!r}; train it again") from None
        self._workers = ThreadPoolExecutor(threads, "generator") if threads > 1 else None

    def generate(
        self, texts: Sequence[str], constraints: Sequence[Constraint | None], width: int = 4
    ) -> list[list[Hypothesis]]:
        """For each text the likeliest targets that its constraint allows, likeliest first; None allows all."""
        sources = self.codec.encode_sources(texts, self.max_source)
        alone = len(sources) == 1

        def one(source: list[int], constraint: Constraint | None) -> list[Hypothesis]:
            states = self._encoder(source, alone=alone)
            return beam_search(self._decoder, self._decoder.prepare(states, source), constraint, width)

        mapped = self._workers.map if self._workers and not alone else map
        return list(mapped(one, sources, constraints))


@dataclass(frozen=True, slots=True)
class _Beam:
    tokens: tuple[int, ...]
    log_probability: float
    node: Any = None


def beam_search(decoder: Decoder, source: EncodedSource, constraint: Constraint | None, width: int) -> list[Hypothesis]:
    """The likeliest targets that the constraint allows, at most `width` of them, likeliest first.

    Scores are the model's own log-probabilities over its whole vocabulary: the probability of forbidden tokens is not
    given to the others. The end counts where a longer target could follow. The first of equals comes first.
    """
    cache = KVCache(decoder.config, decoder.max_length)
    beams = [_Beam((), 0.0, None if constraint is None else constraint.root)]
    done: list[Hypothesis] = []
    while beams and cache.length < decoder.max_length:
        tokens = np.array([beam.tokens[-1] if beam.tokens else decoder.config.start for beam in beams])
        logs = decoder.log_probabilities(source, decoder.step(source, cache, tokens))  # [B, vocabulary]
        done += _ended(beams, logs[:, decoder.config.end], constraint)
        open_beams: list[tuple[int, _Beam]] = []
        for number, beam in _continuations(beams, logs, constraint, decoder.config.end, width):
            if constraint is None or constraint.allowed(beam.node):
                open_beams.append((number, beam))
            elif (value := constraint.value(beam.node)) is not None:  # a dead end without a value is dropped
                done.append(Hypothesis(beam.tokens, beam.log_probability, value))
        done = sorted(done, key=lambda each: -each.log_probability)[:width]
        # A longer target is never likelier than its beginning.
        worst = done[-1].log_probability if len(done) == width else -np.inf
        open_beams = [each for each in open_beams if each[1].log_probability > worst]
        cache.select(np.array([number for number, _ in open_beams], np.int64))
        beams = [beam for _, beam in open_beams]
    return done


def _ended(beams: Sequence[_Beam], ends: NDArray[np.float32], constraint: Constraint | None) -> list[Hypothesis]:
    """The beams that may end where they are, though they could go on."""
    values = [() if constraint is None else constraint.value(beam.node) for beam in beams]
    return [
        Hypothesis(beam.tokens, beam.log_probability + float(end), value)
        for beam, end, value in zip(beams, ends, values, strict=True)
        if value is not None
    ]


def _continuations(
    beams: Sequence[_Beam], logs: NDArray[np.float32], constraint: Constraint | None, end: int, width: int
) -> list[tuple[int, _Beam]]:
    """The likeliest continuations, each with the number of the beam that it continues."""
    scored: list[tuple[float, int, int]] = []  # log-probability, beam, token
    for number, beam in enumerate(beams):
        row = logs[number]
        if constraint is None:
            best = np.argpartition(-row, width)[: width + 1].tolist()
            tokens: Sequence[int] = [token for token in best if token != end]
        else:
            tokens = constraint.allowed(beam.node)
        gains = row[np.array(tokens, np.int64)].tolist()
        scored += [(beam.log_probability + gain, number, token) for gain, token in zip(gains, tokens, strict=True)]
    scored.sort(key=lambda each: (-each[0], each[1], each[2]))
    return [
        (number, _Beam(
            (*beams[number].tokens, token), score,
            None if constraint is None else constraint.advance(beams[number].node, token),
        ))
        for score, number, token in scored[:width]
    ]  # fmt: skip
