"""Beam search over plans: several refinements, one after the other; many sessions at once.

The value of a plan is the sum of γ^i · v_i, where v_i is what its i-th step is expected to bring. A plan may end after
any of its steps, and may begin by undoing some of the refinements that are in force.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from orienteer.errors import OrienteerError
from orienteer.query import Refinement
from orienteer.session import NO_COST, AgentCost


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """How far an agent plans.

    depth      refinements of a plan at most
    beam       plans of each length that are continued
    discount   γ: what a gain is worth one step later
    """

    depth: int = 2
    beam: int = 4
    discount: float = 0.9

    def __post_init__(self) -> None:
        if self.depth < 1 or self.beam < 1:
            raise OrienteerError(f"plans of depth {self.depth} with a beam of {self.beam}; expected 1 or more of each")
        if not 0 < self.discount <= 1:
            raise OrienteerError(f"a discount of {self.discount}; expected more than 0, at most 1")


class State(Protocol):
    """A state of a session, real or imagined."""

    @property
    def steps_left(self) -> int: ...


S = TypeVar("S", bound=State)
S_co = TypeVar("S_co", bound=State, covariant=True)


class Choices(Protocol[S_co]):
    """What can be done in a state.

    values   [refinements]: what each is expected to bring at once; 0 where it finds nothing new
    cost     of finding that out
    """

    @property
    def cost(self) -> AgentCost: ...

    @property
    def values(self) -> NDArray[np.float64]: ...

    def refinement(self, place: int) -> Refinement: ...

    def new_passages(self, place: int) -> frozenset[str]:
        """The unread passages that a refinement finds."""
        ...

    def after(self, place: int) -> S_co:
        """The state once these passages are read."""
        ...


class Plan(NamedTuple):
    """A sequence of refinements after `undos` undone ones, and what it is worth."""

    value: float
    undos: int
    refinements: tuple[Refinement, ...]


class Planned(NamedTuple):
    """Of one session: the best plan of each length, the shortest first, and what planning cost."""

    plans: list[Plan]
    cost: AgentCost


class _Node(NamedTuple, Generic[S]):
    """A state that planning has reached, by a plan of this value; `weight` is γ^steps."""

    state: S
    plan: Plan
    weight: float
    passages: frozenset[str]


def best_plans(
    roots: Sequence[Sequence[S]],
    expand: Callable[[Sequence[S]], Sequence[Choices[S] | None]],
    settings: PlanSettings,
) -> list[Planned]:
    """The best plans of each session; none where nothing can be done.

    Args:
      roots: of each session, its state, then that after one undo, after two …
      expand: what can be done in states; None where nothing can. Called once for each length of plans.
    """
    found: list[list[Plan]] = [[] for _ in roots]
    costs = [NO_COST] * len(roots)
    levels = [
        [
            _Node(state, Plan(0.0, undos, ()), settings.discount**undos, frozenset())
            for undos, state in enumerate(states)
        ]
        for states in roots
    ]
    for depth in range(1, settings.depth + 1):
        levels = [[node for node in level if node.state.steps_left > 0] for level in levels]
        if not any(levels):
            break
        expanded = iter(expand([node.state for level in levels for node in level]))
        for session, level in enumerate(levels):
            choices = [(node, options) for node in level if (options := next(expanded)) is not None]
            costs[session] = sum((options.cost for _, options in choices), costs[session])
            ranked = _Ranked(choices)
            if len(ranked):
                found[session].append(ranked.plan(0))
            more = depth < settings.depth
            levels[session] = [ranked.node(rank, settings) for rank in ranked.diverse(settings.beam)] if more else []
    return [Planned(plans, cost) for plans, cost in zip(found, costs, strict=True)]


class _Ranked(Generic[S]):
    """Every choice in every node of one session's level, the best plan first; of equals, the first."""

    def __init__(self, choices: Sequence[tuple[_Node[S], Choices[S]]]) -> None:
        self._choices = choices
        values = [node.plan.value + node.weight * options.values for node, options in choices]
        self._totals = np.concatenate([np.empty(0), *values])
        self._order = np.argsort(-self._totals, kind="stable")
        self._ends = np.cumsum([len(each) for each in values], dtype=np.int64)

    def __len__(self) -> int:
        return len(self._order)

    def _at(self, rank: int) -> tuple[_Node[S], Choices[S], int]:
        number = int(self._order[rank])
        which = int(np.searchsorted(self._ends, number, side="right"))
        return (*self._choices[which], number - (int(self._ends[which - 1]) if which else 0))

    def plan(self, rank: int) -> Plan:
        node, options, place = self._at(rank)
        taken = (*node.plan.refinements, options.refinement(place))
        return Plan(float(self._totals[self._order[rank]]), node.plan.undos, taken)

    def node(self, rank: int, settings: PlanSettings) -> _Node[S]:
        node, options, place = self._at(rank)
        read = node.passages | options.new_passages(place)
        return _Node(options.after(place), self.plan(rank), node.weight * settings.discount, read)

    def diverse(self, count: int) -> list[int]:
        """The ranks of the best plans, first those that read other passages than any better one."""
        first: dict[frozenset[str], int] = {}
        same = []
        for rank, passages in enumerate(self._passages()):
            if passages in first:
                same.append(rank)
            else:
                first[passages] = rank
            if len(first) == count:
                break
        return [*first.values(), *same][:count]

    def _passages(self) -> Iterator[frozenset[str]]:
        for rank in range(len(self)):
            node, options, place = self._at(rank)
            yield node.passages | options.new_passages(place)
