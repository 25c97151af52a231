"""A refinement, rule by rule: a search before each, then the root moves on by g, until a query is whole.

h runs once for an observation; what follows inside a refinement the model has to think up by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise, starmap

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.muzero.grammar import CROSSED, FIELD, NODE, OPERATOR, OPERATORS, STACK, Ints
from orienteer.agents.muzero.learned_model import LearnedWorld, Scene
from orienteer.agents.muzero.mcts import Forest, SearchSettings, policy_of, root_noise, sample, search
from orienteer.agents.muzero.root import Mind
from orienteer.query import FIELDS, Refinement
from orienteer.session import STOP, Stop, Term

Floats = NDArray[np.float64]


@dataclass(slots=True)
class Plan:
    """What was decided in one turn, a list entry for every rule.

    states    of the grammar before each action, with the tries numbered as the session's own
    nodes     the trie node that a piece leads to; -1 for a rule
    policies  actions and their shares, as the search found them
    values    of the root, as the search found it
    word      number of the term; -1 for stop
    """

    states: list[Ints] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)
    policies: list[tuple[Ints, Floats]] = field(default_factory=list)
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
class Grown:
    """A search of a turn, for whoever wants to see its tree; `place` is the child that was taken, -1 for none."""

    forest: Forest
    tree: int
    place: int


def plan_turns(
    mind: Mind,
    scenes: Sequence[Scene],
    settings: SearchSettings,
    draws: Sequence[np.random.Generator] | None = None,
    temperature: float = 0.0,
    along: Sequence[Sequence[int]] | None = None,
    grown: Sequence[list[Grown]] | None = None,
    threads: int = 1,
    together: int = 128,
) -> list[Plan]:
    """One refinement for every scene, searched in lock-step; a stop where there is no word at all.

    draws   chance, one generator a scene: with noise at the root and a choice by visits; None: neither
    along   the actions to take whatever the search says, as when old turns are thought over again
    grown   a list for every scene, to which its searches are added, one a rule
    threads that share the scenes among them, at most `together` in one lock-step (with more, states no longer fit the
            caches); what is planned depends on neither
    """
    count = min(len(scenes), max(threads, -(-len(scenes) // together)))
    if count > 1:
        bounds = [len(scenes) * part // count for part in range(count + 1)]

        def some(part: slice) -> list[Plan]:
            own = [each[part] if each is not None else None for each in (draws, along, grown)]
            return plan_turns(mind, scenes[part], settings, own[0], temperature, own[1], own[2], together=together)  # type: ignore[arg-type]

        with ThreadPoolExecutor(threads) as workers:
            return [plan for plans in workers.map(some, starmap(slice, pairwise(bounds))) for plan in plans]
    plans = [Plan() for _ in scenes]
    now = list(scenes)
    going = list(range(len(scenes)))
    while going:
        world = LearnedWorld(
            [now[i] for i in going], mind.vocabulary, mind.grammar, mind.net, settings.simulations, settings.children
        )
        roots = world.roots()
        noise = None
        if draws is not None:
            noise = [root_noise(int(n), settings, draws[i]) for i, n in zip(going, roots.counts, strict=True)]
        elif settings.gumbel:
            noise = [root_noise(int(n), settings, None) for n in roots.counts]
        forest = search(world, settings, noise, roots, least=2)
        wanted = [along[i][len(plans[i].actions)] if along else -1 for i in going]
        places = np.array(
            [
                _choice(forest, tree, draws[i] if draws else None, temperature, wanted[tree])
                for tree, i in enumerate(going)
            ],
            np.int32,
        )
        for tree, i in enumerate(going if grown is not None else ()):
            assert grown is not None
            grown[i].append(Grown(forest, tree, int(places[tree])))
        _move_on(mind, world, forest, places, [plans[i] for i in going], now, going)
        ended = {i for i in going if along and len(plans[i].actions) == len(along[i])}
        going = [i for i in going if not plans[i].done and i not in ended]
    return plans


def _choice(forest: Forest, tree: int, draw: np.random.Generator | None, temperature: float, wanted: int) -> int:
    """The place of the child to take; -1 where there is none."""
    if not len(forest.actions(tree)):
        return -1
    if wanted >= 0:
        found = np.flatnonzero(forest.actions(tree) == wanted)
        return int(found[0]) if len(found) else -1
    if draw is None or temperature == 0 or forest.settings.gumbel:
        return forest.chosen(tree)
    visits = forest.visits(tree)
    shares = policy_of(visits, temperature) if visits.any() else _normed(forest.priors(tree))
    return sample(shares, draw)


def _move_on(
    mind: Mind, world: LearnedWorld, forest: Forest, places: Ints, plans: Sequence[Plan], now: list[Scene],
    going: Sequence[int],
) -> None:  # fmt: skip
    """Notes each choice and moves its scene on by g; a choice of -1, no longer possible, ends its plan."""
    kept = np.flatnonzero(places >= 0).astype(np.int32)
    for gone in np.flatnonzero(places < 0).tolist():
        plans[gone].done = True
    if not len(kept):
        return
    trees = forest.trees
    chosen = places[kept]
    edges, actions = trees.edge[kept, 0, chosen], trees.action[kept, 0, chosen]
    spare = world.latents.shape[1] - 1
    world.step(kept, np.zeros(len(kept), np.int32), edges, actions, np.full(len(kept), spare, np.int32))
    for tree, edge, action in zip(kept.tolist(), edges.tolist(), actions.tolist(), strict=True):
        plan, before, after = plans[tree], world.states[tree, 0], world.states[tree, spare].copy()
        node = world.local(tree, int(world.nodes[tree, 0, edge]))
        plan.states.append(_own(before, world, tree))
        plan.actions.append(action)
        plan.nodes.append(node)
        plan.policies.append(_policy(forest, tree))
        plan.values.append(forest.value(tree))
        scene = now[going[tree]]
        if after[CROSSED] and not before[CROSSED]:
            last = node if action >= len(mind.grammar) else world.local(tree, int(before[NODE]))
            plan.operator, plan.field, plan.word = int(before[OPERATOR]), int(before[FIELD]), _word(scene, last)
            plan.done = True
        elif after[STACK] == mind.grammar.tables.stopped:
            plan.done = True
        now[going[tree]] = scene._replace(latent=world.latents[tree, spare].copy(), state=_own(after, world, tree))


def _word(scene: Scene, node: int) -> int:
    return int(scene.tries.trie.word[node])


def _own(state: Ints, world: LearnedWorld, tree: int) -> Ints:
    """A grammar state with the tries numbered as the session's own."""
    own = state.copy()
    if not own[CROSSED]:
        own[NODE] = world.local(tree, int(own[NODE]))
    return own


def _policy(forest: Forest, tree: int) -> tuple[Ints, Floats]:
    """The target that the search gives the policy: visits, or Gumbel's improved policy; priors where it is none."""
    actions, visits, priors = forest.actions(tree).copy(), forest.visits(tree), forest.priors(tree)
    if not visits.any():
        return actions, _normed(priors)
    if forest.settings.gumbel:
        return actions, forest.improved_policy(tree, np.log(np.maximum(priors.astype(np.float64), 1e-30)))
    tried = visits > 0
    return actions[tried], policy_of(visits[tried])


def _normed(priors: NDArray[np.float32]) -> Floats:
    shares = priors.astype(np.float64)
    normed: Floats = shares / shares.sum()
    return normed
