"""What is remembered of a turn and of an episode: all that learning needs, as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.muzero.deterministic_matmul import Floats
from orienteer.agents.muzero.grammar import LOCAL, STATE
from orienteer.agents.muzero.observation_tokens import Look
from orienteer.agents.muzero.planning import Plan
from orienteer.agents.muzero.representation import Sight
from orienteer.agents.muzero.tries import LocalTries, Trie
from orienteer.session import Term
from orienteer.session.observation import Source

Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Turn:
    """One refinement: what h saw, the words there were, the rules taken, what came of it.

    whole, terms, slots   as h saw them; `terms` and `slots` in half precision
    sources               [terms] bits: where each word stands
    trie, roots           the words as pieces
    past                  the actions of the session before
    states, actions, nodes, values   [rules]
    policy_actions, policy_shares, policy_ends   the search's shares of all rules, end to end, and where each ends
    reward                of the query that the rules made
    row                   ids, types, idf and PS of the tokens, occurrences and features: what h is trained with
    """

    whole: Floats
    terms: NDArray[np.float16]
    slots: NDArray[np.float16]
    stop: float
    sources: NDArray[np.uint8]
    piece: NDArray[np.uint16]
    first: Ints
    degree: NDArray[np.uint16]
    told: NDArray[np.uint8]
    word: Ints
    roots: Ints
    past: Ints
    states: Ints
    actions: Ints
    nodes: Ints
    values: Floats
    policy_actions: Ints
    policy_shares: Floats
    policy_ends: Ints
    reward: float
    left: int
    may_stop: bool
    row: Row | None = None

    @property
    def tries(self) -> LocalTries:
        return LocalTries(Trie(self.piece, self.first, self.degree, self.told, self.word), self.roots.reshape(2, -1))

    @property
    def sight(self) -> Sight:
        return Sight(self.whole, self.terms.astype(np.float32), self.slots.astype(np.float32), self.stop)

    @property
    def where(self) -> list[Term]:
        """The terms as far as scenes ask for them: where each stands."""
        return [Term("", 0.0, _sources(int(bits))) for bits in self.sources]

    def policy(self, rule: int) -> tuple[Ints, Floats]:
        start = int(self.policy_ends[rule - 1]) if rule else 0
        end = int(self.policy_ends[rule])
        return self.policy_actions[start:end], self.policy_shares[start:end]

    def rethought(self, plan: Plan) -> Turn:
        """With the policies and values of a newer search along the same actions."""
        if len(plan.actions) != len(self.actions):
            return self
        return replace(self, **_searched(plan))


@dataclass(frozen=True, slots=True)
class Row:
    """A token row as the encoder's trainer wants it."""

    ids: Ints
    types: NDArray[np.uint8]
    idf: NDArray[np.uint8]
    ps: NDArray[np.uint8]
    occurrences: NDArray[np.int16]
    of_terms: Floats
    of_moment: Floats


@dataclass(frozen=True, slots=True)
class Episode:
    """A session as learning sees it. `number` is unique in a run; `ended` and the scores are for the log."""

    number: int
    turns: tuple[Turn, ...]
    ended: str
    before: float
    after: float
    empty: int = 0
    advised: bool = False

    @property
    def gain(self) -> float:
        return self.after - self.before


def turn_of(
    look: Look, sight: Sight, tries: LocalTries, past: Sequence[int], plan: Plan, reward: float, left: int,
    may_stop: bool, keep_row: bool = False,
) -> Turn:  # fmt: skip
    return Turn(
        sight.whole, sight.terms.astype(np.float16), sight.slots.astype(np.float16), float(sight.stop),
        np.array([_bits(term.sources) for term in look.terms], np.uint8),
        *tries.trie, tries.roots.reshape(-1), np.array(past, np.int32),
        np.array(plan.states, np.int32).reshape(-1, STATE), np.array(plan.actions, np.int32),
        np.array(plan.nodes, np.int32), reward=float(reward), left=left, may_stop=may_stop,
        row=_row(look) if keep_row else None, **_searched(plan),
    )  # fmt: skip


def _searched(plan: Plan) -> dict[str, Any]:
    sizes = [len(actions) for actions, _ in plan.policies]
    return {
        "values": np.array(plan.values, np.float32),
        "policy_actions": np.concatenate([a for a, _ in plan.policies] or [np.zeros(0, np.int32)]).astype(np.int32),
        "policy_shares": np.concatenate([s for _, s in plan.policies] or [np.zeros(0)]).astype(np.float32),
        "policy_ends": np.cumsum(sizes).astype(np.int32),
    }


def _row(look: Look) -> Row:
    r = look.rendered
    return Row(r.ids, r.types, look.idf, look.ps, r.occurrences, look.of_terms, look.of_moment)


def _bits(sources: Iterable[Source]) -> int:
    return sum(1 << LOCAL.index(source) for source in sources)


def _sources(bits: int) -> frozenset[Source]:
    return frozenset(source for place, source in enumerate(LOCAL) if bits >> place & 1)


_ROW = tuple(f.name for f in fields(Row))
_ARRAYS = tuple(f.name for f in fields(Turn) if f.name not in ("stop", "reward", "left", "may_stop", "row"))


def pack(episodes: Sequence[Episode]) -> dict[str, NDArray[Any]]:
    """Episodes as a few long arrays, for a file."""
    turns = [turn for episode in episodes for turn in episode.turns]
    packed: dict[str, NDArray[Any]] = {
        "episode": np.array([(e.number, len(e.turns), e.empty, e.advised) for e in episodes], np.int64).reshape(-1, 4),
        "scores": np.array([(e.before, e.after) for e in episodes], np.float64).reshape(-1, 2),
        "ended": np.frombuffer("\n".join(e.ended for e in episodes).encode(), np.uint8),
        "numbers": np.array([(t.stop, t.reward, t.left, t.may_stop) for t in turns], np.float64).reshape(-1, 4),
        "rows": np.array([t.row is not None for t in turns], np.bool_),
    }
    kept = [turn.row for turn in turns if turn.row is not None]
    named: list[tuple[str, list[NDArray[Any]]]] = [
        *((name, [getattr(turn, name) for turn in turns]) for name in _ARRAYS),
        *((f"row.{name}", [getattr(row, name) for row in kept]) for name in _ROW),
    ]
    for key, values in named:
        if not values:
            continue
        packed[key] = np.concatenate([value.reshape(-1) for value in values])
        shapes = np.array([value.shape for value in values], np.int64).reshape(len(values), -1)
        packed[f"{key}.shape"] = shapes
    return packed


def unpack(packed: Mapping[str, NDArray[Any]]) -> list[Episode]:
    """What `pack` was given."""
    rows = iter(_split(packed, [f"row.{name}" for name in _ROW], int(packed["rows"].sum())))
    arrays = _split(packed, _ARRAYS, len(packed["rows"]))
    turns = []
    for own, (stop, reward, left, may_stop), has_row in zip(arrays, packed["numbers"], packed["rows"], strict=True):
        row = Row(**{n.removeprefix("row."): v for n, v in next(rows).items()}) if has_row else None
        turns.append(
            Turn(**own, stop=float(stop), reward=float(reward), left=int(left), may_stop=bool(may_stop), row=row)
        )
    endings = packed["ended"].tobytes().decode().split("\n")
    episodes, at = [], 0
    for (number, size, empty, advised), (before, after), ended in zip(
        packed["episode"].tolist(), packed["scores"].tolist(), endings, strict=False
    ):
        episodes.append(Episode(number, tuple(turns[at : at + size]), ended, before, after, empty, bool(advised)))
        at += size
    return episodes


def _split(packed: Mapping[str, NDArray[Any]], names: Sequence[str], count: int) -> list[dict[str, NDArray[Any]]]:
    parts: list[dict[str, NDArray[Any]]] = [{} for _ in range(count)]
    for name in names if count else ():
        shapes = packed[f"{name}.shape"]
        ends = np.cumsum(shapes.prod(1))
        for part, shape, end in zip(parts, shapes.tolist(), ends.tolist(), strict=True):
            size = int(np.prod(shape))
            part[name] = packed[name][end - size : end].reshape(shape)
    return parts
