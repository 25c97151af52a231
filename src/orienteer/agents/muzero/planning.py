"""Plans a refinement rule by rule: a search before each rule, then g moves the root on, until a word is complete.

h encodes an observation once; the states within a refinement are predictions of the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise, starmap

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.muzero.config import SearchSettings
from orienteer.agents.muzero.grammar import FIELD, NODE, OPERATOR, OPERATORS, STACK, USES_INDEX, Int32s
from orienteer.agents.muzero.learned_model import LearnedModel
from orienteer.agents.muzero.mcts import SearchResult, policy_of, root_noise, sample, search
from orienteer.agents.muzero.networks import Networks
from orienteer.agents.muzero.root import RootState
from orienteer.query import FIELDS, Refinement
from orienteer.session import STOP, Stop, Term

Float64s = NDArray[np.float64]


@dataclass(slots=True)
class PlannedStep:
    """The plan of one session step; the lists have an entry for every grammar action.

    states    grammar state before each action, with nodes as numbered in the session's own tries
    nodes     trie node that a piece leads to; -1 for a rule
    policies  of the search: actions and their shares
    values    of the search's root
    word      number of the term; -1 for stop
    """

    states: list[Int32s] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)
    policies: list[tuple[Int32s, Float64s]] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    operator: int = -1
    field: int = -1
    word: int = -1
    done: bool = False

    def action(self, terms: Sequence[Term]) -> Refinement | Stop:
        if self.word < 0:
            return STOP
        return OPERATORS[self.operator].apply(FIELDS[self.field], terms[self.word].text)


@dataclass(frozen=True, slots=True)
class SearchTrace:
    """One search of a step, for display; `child` is the child that was taken, -1 for none."""

    result: SearchResult
    tree: int
    child: int


def plan_steps(
    networks: Networks,
    roots: Sequence[RootState],
    settings: SearchSettings,
    draws: Sequence[np.random.Generator] | None = None,
    temperature: float = 0.0,
    along: Sequence[Sequence[int]] | None = None,
    traces: Sequence[list[SearchTrace]] | None = None,
    threads: int = 1,
    together: int = 128,
) -> list[PlannedStep]:
    """One refinement for every root, searched in batches; a stop where there are no terms.

    draws     one random generator per root, for noise and a choice by visits; None: no noise, the best action
    along     actions to take whatever the search says, for reanalysis
    traces    a list for every root, to which its searches are appended, one per action
    threads   share the roots among them; at most `together` in one batch (with more, states no longer fit the caches).
              The plans depend on neither
    """
    count = min(len(roots), max(threads, -(-len(roots) // together)))
    if count > 1:
        bounds = [len(roots) * part // count for part in range(count + 1)]

        def plan_part(part: slice) -> list[PlannedStep]:
            return plan_steps(
                networks, roots[part], settings, draws and draws[part], temperature, along and along[part],
                traces and traces[part], together=together,
            )  # fmt: skip

        with ThreadPoolExecutor(threads) as workers:
            return [plan for plans in workers.map(plan_part, starmap(slice, pairwise(bounds))) for plan in plans]
    plans = [PlannedStep() for _ in roots]
    current = list(roots)
    active = list(range(len(roots)))
    while active:
        model = LearnedModel(
            [current[i] for i in active],
            networks.vocabulary,
            networks.grammar,
            networks.weights,
            settings.simulations,
            settings.children,
        )
        expansion = model.roots()
        noise = None
        if draws is not None:
            noise = [root_noise(int(n), settings, draws[i]) for i, n in zip(active, expansion.counts, strict=True)]
        elif settings.gumbel:
            noise = [root_noise(int(n), settings, None) for n in expansion.counts]
        result = search(model, settings, noise, expansion, min_actions=2)
        wanted = [along[i][len(plans[i].actions)] if along else -1 for i in active]
        children = np.array(
            [
                _choose_child(result, tree, draws[i] if draws else None, temperature, wanted[tree])
                for tree, i in enumerate(active)
            ],
            np.int32,
        )
        for tree, i in enumerate(active if traces is not None else ()):
            assert traces is not None
            traces[i].append(SearchTrace(result, tree, int(children[tree])))
        _move_on(networks, model, result, children, [plans[i] for i in active], current, active)
        finished = {i for i in active if along and len(plans[i].actions) == len(along[i])}
        active = [i for i in active if not plans[i].done and i not in finished]
    return plans


def _choose_child(
    result: SearchResult, tree: int, draw: np.random.Generator | None, temperature: float, wanted: int
) -> int:
    """The index of the child to take; -1 where there is none."""
    if not len(result.actions(tree)):
        return -1
    if wanted >= 0:
        matches = np.flatnonzero(result.actions(tree) == wanted)
        return int(matches[0]) if len(matches) else -1
    if draw is None or temperature == 0 or result.settings.gumbel:
        return result.best_child(tree)
    visits = result.visits(tree)
    shares = policy_of(visits, temperature) if visits.any() else _normalised(result.priors(tree))
    return sample(shares, draw)


def _move_on(
    networks: Networks, model: LearnedModel, result: SearchResult, children: Int32s, plans: Sequence[PlannedStep],
    current: list[RootState],
    active: Sequence[int],
) -> None:  # fmt: skip
    """Records each choice and moves its root on by g; a choice of -1, no longer legal, ends the plan."""
    kept = np.flatnonzero(children >= 0).astype(np.int32)
    for gone in np.flatnonzero(children < 0).tolist():
        plans[gone].done = True
    if not len(kept):
        return
    trees = result.trees
    best_child = children[kept]
    edges, actions = trees.child_edge[kept, 0, best_child], trees.child_action[kept, 0, best_child]
    spare = model.latents.shape[1] - 1
    model.step(kept, np.zeros(len(kept), np.int32), edges, actions, np.full(len(kept), spare, np.int32))
    for tree, edge, action in zip(kept.tolist(), edges.tolist(), actions.tolist(), strict=True):
        plan, before, after = plans[tree], model.states[tree, 0], model.states[tree, spare].copy()
        node = model.local(tree, int(model.nodes[tree, 0, edge]))
        plan.states.append(_in_own_tries(before, model, tree))
        plan.actions.append(action)
        plan.nodes.append(node)
        plan.policies.append(_policy(result, tree))
        plan.values.append(result.value(tree))
        root = current[active[tree]]
        if after[USES_INDEX] and not before[USES_INDEX]:
            last = node if action >= len(networks.grammar) else model.local(tree, int(before[NODE]))
            plan.operator, plan.field, plan.word = int(before[OPERATOR]), int(before[FIELD]), _word(root, last)
            plan.done = True
        elif after[STACK] == networks.grammar.tables.stopped:
            plan.done = True
        current[active[tree]] = root._replace(
            latent=model.latents[tree, spare].copy(), grammar_state=_in_own_tries(after, model, tree)
        )


def _word(root: RootState, node: int) -> int:
    return int(root.tries.trie.word[node])


def _in_own_tries(state: Int32s, model: LearnedModel, tree: int) -> Int32s:
    """A grammar state with its node as numbered in the session's own tries."""
    local = state.copy()
    if not local[USES_INDEX]:
        local[NODE] = model.local(tree, int(local[NODE]))
    return local


def _policy(result: SearchResult, tree: int) -> tuple[Int32s, Float64s]:
    """The policy target of a search: visits, or Gumbel's improved policy; the priors where nothing was searched."""
    actions, visits, priors = result.actions(tree).copy(), result.visits(tree), result.priors(tree)
    if not visits.any():
        return actions, _normalised(priors)
    if result.settings.gumbel:
        return actions, result.improved_policy(tree, np.log(np.maximum(priors.astype(np.float64), 1e-30)))
    tried = visits > 0
    return actions[tried], policy_of(visits[tried])


def _normalised(priors: NDArray[np.float32]) -> Float64s:
    shares = priors.astype(np.float64)
    normed: Float64s = shares / shares.sum()
    return normed
