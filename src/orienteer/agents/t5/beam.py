"""Beam search over targets, held to what a constraint allows."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.t5.decoder import Decoder, Hypotheses, Memory


class Constraint(Protocol):
    """Which tokens may follow; a node stands for what was written so far."""

    @property
    def root(self) -> Any: ...

    def allowed(self, node: Any) -> Sequence[int]:
        """The tokens that may come next, the end not among them."""
        ...

    def ends(self, node: Any) -> Hashable | None:
        """What was written, where a target may end here."""
        ...

    def advance(self, node: Any, token: int) -> Any: ...


@dataclass(frozen=True, slots=True)
class Written:
    """A target: its tokens without the end, its log-probability, and what the constraint calls it."""

    tokens: tuple[int, ...]
    log_probability: float
    name: Any = None


@dataclass(frozen=True, slots=True)
class _Beam:
    tokens: tuple[int, ...]
    log_probability: float
    node: Any = None


def write(decoder: Decoder, memory: Memory, constraint: Constraint | None, width: int) -> list[Written]:
    """The likeliest targets that the constraint allows, at most `width` of them, likeliest first.

    Scores are the model's own log-probabilities over its whole vocabulary: what is not allowed is left out, not
    handed to the others. The end counts where a longer target could follow. The first of equals comes first.
    """
    so_far = Hypotheses(decoder.shape, decoder.most)
    beams = [_Beam((), 0.0, None if constraint is None else constraint.root)]
    done: list[Written] = []
    while beams and so_far.size < decoder.most:
        tokens = np.array([beam.tokens[-1] if beam.tokens else decoder.shape.start for beam in beams])
        logs = decoder.log_probabilities(memory, decoder.step(memory, so_far, tokens))  # [B, vocabulary]
        done += _ended(beams, logs[:, decoder.shape.end], constraint)
        going: list[tuple[int, _Beam]] = []
        for number, beam in _next(beams, logs, constraint, decoder.shape.end, width):
            if constraint is None or constraint.allowed(beam.node):
                going.append((number, beam))
            elif (name := constraint.ends(beam.node)) is not None:  # a way that leads nowhere is given up
                done.append(Written(beam.tokens, beam.log_probability, name))
        done = sorted(done, key=lambda each: -each.log_probability)[:width]
        # A longer target is never likelier than what it begins with.
        worst = done[-1].log_probability if len(done) == width else -np.inf
        going = [each for each in going if each[1].log_probability > worst]
        so_far.follow(np.array([number for number, _ in going], np.int64))
        beams = [beam for _, beam in going]
    return done


def _ended(beams: Sequence[_Beam], ends: NDArray[np.float32], constraint: Constraint | None) -> list[Written]:
    """The beams that may end where they are, though they could go on."""
    names = [() if constraint is None else constraint.ends(beam.node) for beam in beams]
    return [
        Written(beam.tokens, beam.log_probability + float(end), name)
        for beam, end, name in zip(beams, ends, names, strict=True)
        if name is not None
    ]


def _next(
    beams: Sequence[_Beam], logs: NDArray[np.float32], constraint: Constraint | None, end: int, width: int
) -> list[tuple[int, _Beam]]:
    """The likeliest continuations, each with the number of the beam that it continues."""
    found: list[tuple[float, int, int]] = []  # log-probability, beam, token
    for number, beam in enumerate(beams):
        own = logs[number]
        if constraint is None:
            best = np.argpartition(-own, width)[: width + 1].tolist()
            tokens: Sequence[int] = [token for token in best if token != end]
        else:
            tokens = constraint.allowed(beam.node)
        shares = own[np.array(tokens, np.int64)].tolist()
        found += [(beam.log_probability + share, number, token) for share, token in zip(shares, tokens, strict=True)]
    found.sort(key=lambda each: (-each[0], each[1], each[2]))
    return [
        (number, _Beam(
            (*beams[number].tokens, token), score,
            None if constraint is None else constraint.advance(beams[number].node, token),
        ))
        for score, number, token in found[:width]
    ]  # fmt: skip
