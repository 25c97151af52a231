"""Trajectories as learning needs them: every step of a played session, as arrays, and how they are stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.muzero.grammar import STATE_SIZE, Int32s
from orienteer.agents.muzero.networks import Float32s
from orienteer.agents.muzero.planning import PlannedStep
from orienteer.agents.muzero.representation import EncodedObservation, TokenizedObservation
from orienteer.agents.muzero.tries import LOCAL, LocalTries, Trie
from orienteer.session import Term
from orienteer.session.observation import Source


@dataclass(frozen=True, slots=True)
class TrajectoryStep:
    """One refinement: the encoded observation, the available terms, the grammar actions taken, and the reward.

    The encoding (see `EncodedObservation`): summary, terms and slot_scores (in half precision), stop_score.
    sources       [terms] bit set of the sources in which each term occurs
    piece ... word, roots   the trie of the terms (see `Trie`, `LocalTries`)
    history       earlier grammar actions of the session
    states        [actions, STATE_SIZE] grammar state before each action
    actions, nodes, values   [actions]: what was taken, the trie node it leads to, the search's root value
    policy_actions, policy_shares   the search policies of all actions, concatenated; policy_ends [actions]: where
                  each one ends
    reward        of the refinement
    token_row     the encoder's input, kept only where the encoder is trained too
    """

    summary: Float32s
    terms: NDArray[np.float16]
    slot_scores: NDArray[np.float16]
    stop_score: float
    sources: NDArray[np.uint8]
    piece: NDArray[np.uint16]
    first_child: Int32s
    num_children: NDArray[np.uint16]
    flags: NDArray[np.uint8]
    word: Int32s
    roots: Int32s
    history: Int32s
    states: Int32s
    actions: Int32s
    nodes: Int32s
    values: Float32s
    policy_actions: Int32s
    policy_shares: Float32s
    policy_ends: Int32s
    reward: float
    steps_left: int
    may_stop: bool
    token_row: TokenRow | None = None

    @property
    def tries(self) -> LocalTries:
        trie = Trie(self.piece, self.first_child, self.num_children, self.flags, self.word)
        return LocalTries(trie, self.roots.reshape(2, -1))

    @property
    def encoded(self) -> EncodedObservation:
        slot_scores = self.slot_scores.astype(np.float32)
        return EncodedObservation(self.summary, self.terms.astype(np.float32), slot_scores, self.stop_score)

    @property
    def term_sources(self) -> list[Term]:
        """The terms as far as a root state needs them: only their sources are kept."""
        return [Term("", 0.0, _sources(int(bits))) for bits in self.sources]

    def policy(self, number: int) -> tuple[Int32s, Float32s]:
        """The search policy before action `number`: grammar actions and their shares."""
        start = int(self.policy_ends[number - 1]) if number else 0
        end = int(self.policy_ends[number])
        return self.policy_actions[start:end], self.policy_shares[start:end]

    def with_new_search(self, planned: PlannedStep) -> TrajectoryStep:
        """With the policies and values of a newer search along the same actions."""
        if len(planned.actions) != len(self.actions):
            return self
        return replace(self, **_search_targets(planned))


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A tokenized observation (see `TokenizedObservation`) as the encoder's trainer needs it."""

    ids: Int32s
    types: NDArray[np.uint8]
    idf: NDArray[np.uint8]
    ps: NDArray[np.uint8]
    occurrences: NDArray[np.int16]
    term_features: Float32s
    state_features: Float32s


@dataclass(frozen=True, slots=True)
class Trajectory:
    """A played session. `number` is unique in a run; `ended` and the scores are for the log.

    empty    refinements that returned no hits
    guided   whether it was played with guided exploration
    """

    number: int
    steps: tuple[TrajectoryStep, ...]
    ended: str
    first_score: float
    last_score: float
    empty: int = 0
    guided: bool = False

    @property
    def gain(self) -> float:
        return self.last_score - self.first_score


def make_step(
    tokenized: TokenizedObservation, encoded: EncodedObservation, tries: LocalTries, history: Sequence[int],
    planned: PlannedStep, reward: float, steps_left: int, may_stop: bool, keep_row: bool = False,
) -> TrajectoryStep:  # fmt: skip
    return TrajectoryStep(
        encoded.summary, encoded.terms.astype(np.float16), encoded.slot_scores.astype(np.float16),
        float(encoded.stop_score), np.array([_bits(term.sources) for term in tokenized.terms], np.uint8),
        *tries.trie, tries.roots.reshape(-1), np.array(history, np.int32),
        np.array(planned.states, np.int32).reshape(-1, STATE_SIZE), np.array(planned.actions, np.int32),
        np.array(planned.nodes, np.int32), reward=float(reward), steps_left=steps_left, may_stop=may_stop,
        token_row=_token_row(tokenized) if keep_row else None, **_search_targets(planned),
    )  # fmt: skip


def _search_targets(planned: PlannedStep) -> dict[str, Any]:
    sizes = [len(actions) for actions, _ in planned.policies]
    actions = np.concatenate([actions for actions, _ in planned.policies] or [np.zeros(0, np.int32)])
    shares = np.concatenate([shares for _, shares in planned.policies] or [np.zeros(0)])
    return {
        "values": np.array(planned.values, np.float32),
        "policy_actions": actions.astype(np.int32),
        "policy_shares": shares.astype(np.float32),
        "policy_ends": np.cumsum(sizes).astype(np.int32),
    }


def _token_row(tokenized: TokenizedObservation) -> TokenRow:
    row = tokenized.rendered
    return TokenRow(
        row.ids, row.types, tokenized.idf, tokenized.ps, row.occurrences, tokenized.term_features,
        tokenized.state_features,
    )  # fmt: skip


def _bits(sources: Iterable[Source]) -> int:
    return sum(1 << LOCAL.index(source) for source in sources)


def _sources(bits: int) -> frozenset[Source]:
    return frozenset(source for position, source in enumerate(LOCAL) if bits >> position & 1)


# Fields whose names in stored trajectories differ.
_STORED = {
    "summary": "whole", "slot_scores": "slots", "first_child": "first", "num_children": "degree", "flags": "told",
    "history": "past", "term_features": "of_terms", "state_features": "of_moment",
}  # fmt: skip
_SCALARS = ("stop_score", "reward", "steps_left", "may_stop")
# Stored name of every array -> field.
_ARRAYS = {
    _STORED.get(f.name, f.name): f.name for f in fields(TrajectoryStep) if f.name not in (*_SCALARS, "token_row")
}
_ROW_ARRAYS = {f"row.{_STORED.get(f.name, f.name)}": f.name for f in fields(TokenRow)}


def pack(trajectories: Sequence[Trajectory]) -> dict[str, NDArray[Any]]:
    """Trajectories as a few long arrays, for a file."""
    steps = [step for trajectory in trajectories for step in trajectory.steps]
    counts = [(each.number, len(each.steps), each.empty, each.guided) for each in trajectories]
    packed: dict[str, NDArray[Any]] = {
        "episode": np.array(counts, np.int64).reshape(-1, 4),
        "scores": np.array([(each.first_score, each.last_score) for each in trajectories], np.float64).reshape(-1, 2),
        "ended": np.frombuffer("\n".join(each.ended for each in trajectories).encode(), np.uint8),
        "numbers": np.array([[getattr(step, name) for name in _SCALARS] for step in steps], np.float64).reshape(-1, 4),
        "rows": np.array([step.token_row is not None for step in steps], np.bool_),
    }
    rows = [step.token_row for step in steps if step.token_row is not None]
    columns: list[tuple[str, list[NDArray[Any]]]] = [
        *((stored, [getattr(step, name) for step in steps]) for stored, name in _ARRAYS.items()),
        *((stored, [getattr(row, name) for row in rows]) for stored, name in _ROW_ARRAYS.items()),
    ]
    for stored, values in columns:
        if values:
            packed[stored] = np.concatenate([value.reshape(-1) for value in values])
            packed[f"{stored}.shape"] = np.array([value.shape for value in values], np.int64).reshape(len(values), -1)
    return packed


def unpack(packed: Mapping[str, NDArray[Any]]) -> list[Trajectory]:
    """Inverse of `pack`."""
    rows = iter(_split(packed, _ROW_ARRAYS, int(packed["rows"].sum())))
    steps = []
    for arrays, (stop_score, reward, steps_left, may_stop), has_row in zip(
        _split(packed, _ARRAYS, len(packed["rows"])), packed["numbers"], packed["rows"], strict=True
    ):
        steps.append(
            TrajectoryStep(
                **arrays, stop_score=float(stop_score), reward=float(reward), steps_left=int(steps_left),
                may_stop=bool(may_stop), token_row=TokenRow(**next(rows)) if has_row else None,
            )
        )  # fmt: skip
    endings = packed["ended"].tobytes().decode().split("\n")
    trajectories, start = [], 0
    for (number, size, empty, guided), (first, last), ended in zip(
        packed["episode"].tolist(), packed["scores"].tolist(), endings, strict=False
    ):
        own = tuple(steps[start : start + size])
        trajectories.append(Trajectory(number, own, ended, first, last, empty, bool(guided)))
        start += size
    return trajectories


def _split(packed: Mapping[str, NDArray[Any]], names: Mapping[str, str], count: int) -> list[dict[str, NDArray[Any]]]:
    """The arrays of every step (or row), by field."""
    parts: list[dict[str, NDArray[Any]]] = [{} for _ in range(count)]
    for stored, name in names.items() if count else ():
        shapes = packed[f"{stored}.shape"]
        ends = np.cumsum(shapes.prod(1))
        for part, shape, end in zip(parts, shapes.tolist(), ends.tolist(), strict=True):
            size = int(np.prod(shape))
            part[name] = packed[stored][end - size : end].reshape(shape)
    return parts
