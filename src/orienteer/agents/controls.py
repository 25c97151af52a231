"""Controls: agents that lack one thing each, so that a table shows what that thing brings.

    random        refines without choosing: any legal refinement is as likely as any other
    pages         chooses nothing and refines nothing: the next five passages that the question finds, and the next
    cascade@N     chooses as the lookahead does, and refines nothing: the value model over the question's first 500

The other parts of an agent are theirs too: the environment, the reader, five passages a step, steps and budget.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Protocol

import numpy as np

from orienteer.agents.action_space import SLOTS, can_refine, grammar_slots, open_slots, usable_terms
from orienteer.agents.spec import AgentNameError, AgentRequest, AgentSpec, Checkpoint, ConfiguredAgent
from orienteer.engine.protocol import Engine
from orienteer.errors import QueryError
from orienteer.query import GRAMMARS, Grammar, Query
from orienteer.session import STOP, Action, AgentCost, Lexicon, Observation, Read

DEPTH = 500  # passages of the question's own query that a cascade chooses among: about as many as a step's lookahead
_CACHED_QUESTIONS = 512
_MOST_PASSAGES = 10_000
_PASSAGES = "cascade@22"  # the example: what `pointer` reads


class RandomRefinements:
    """Takes any legal refinement of the grammar, each with the same probability."""

    def __init__(self, engine: Engine, grammar: Grammar) -> None:
        self._lexicon, self._allowed = Lexicon(engine), grammar_slots(grammar)

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        return [self._choose(observation) for observation in observations]

    def _choose(self, observation: Observation) -> Action:
        terms = usable_terms(observation, self._lexicon)
        legal = np.flatnonzero(open_slots(terms) & self._allowed)
        if not len(legal) or not can_refine(observation, self._lexicon):
            return STOP
        drawn = int(np.random.default_rng(observation.seed).choice(legal))
        term, slot = divmod(drawn, len(SLOTS))
        operator, field = SLOTS[slot]
        return operator.apply(field, terms[term].text)


class Ranking(Protocol):
    """Which passages of the question's own are read next."""

    def __call__(self, observation: Observation, ids: Sequence[str]) -> tuple[Sequence[str], int]:
        """The unread `ids`, the best first, and how many of them a value model scored."""
        ...


class ReadOn:
    """Reads on in the hits of the question itself, `page` passages a step, until it has read `count`."""

    def __init__(self, engine: Engine, ranking: Ranking, *, count: int, page: int, depth: int) -> None:
        self._ranking, self._count, self._page = ranking, count, page

        def hits(question: str) -> tuple[str, ...]:
            try:
                return tuple(hit.id for hit in engine.search(Query(question), depth))
            except QueryError:
                return ()

        self._hits = lru_cache(_CACHED_QUESTIONS)(hits)

    @property
    def fingerprint(self) -> str:
        return str(getattr(self._ranking, "fingerprint", ""))

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        return [action for action, _ in self.act_with_costs(observations)]

    def act_with_costs(self, observations: Sequence[Observation]) -> list[tuple[Action, AgentCost]]:
        return [self._choose(observation) for observation in observations]

    def _choose(self, observation: Observation) -> tuple[Action, AgentCost]:
        # One deep search a session, at its first step; later steps have it from the cache.
        queries = int(observation.step == 0)
        unread = [id for id in self._hits(observation.question) if id not in observation.seen]
        room = min(self._page, self._count - len(observation.seen))
        if not unread or room <= 0:
            return STOP, AgentCost(queries)
        ranked, scored = self._ranking(observation, unread)
        return Read(tuple(ranked[:room])), AgentCost(queries, passages_scored=scored)


def _engines_order(observation: Observation, ids: Sequence[str]) -> tuple[Sequence[str], int]:
    return ids, 0


def _random(request: AgentRequest) -> ConfiguredAgent:
    grammar = GRAMMARS[request.options["grammar"] or "G4"]
    return ConfiguredAgent(request.name, RandomRefinements(request.engine, grammar), request.settings)


def _pages(request: AgentRequest) -> ConfiguredAgent:
    settings = request.settings
    count = _count(request) or settings.hits * (settings.steps + 1)
    return _reading_on(request, _engines_order, count, depth=count)


def _cascade(request: AgentRequest) -> ConfiguredAgent:
    from orienteer.agents.pointer.model_files import SHIPPED, load_folder
    from orienteer.agents.pointer.value_ranking import ValueRanking

    files = load_folder(request.folder or SHIPPED)
    return _reading_on(request, ValueRanking(files, request.engine), _count(request), depth=DEPTH)


def _count(request: AgentRequest) -> int:
    try:
        return int(request.options["count"] or 0)
    except ValueError:
        raise AgentNameError(
            f"the agent {request.name!r}: count = {request.options['count']!r}; expected a whole number"
        ) from None


def _reading_on(request: AgentRequest, ranking: Ranking, count: int, depth: int) -> ConfiguredAgent:
    settings, bare = request.settings, re.split(r"[@=\[]", request.name)[0]
    most = min(_MOST_PASSAGES, settings.hits * (settings.steps + 1))
    if not settings.hits <= count <= most:
        needed = -(-count // settings.hits) - 1
        raise AgentNameError(
            f"the agent {request.name!r} would read {count} passages; with {settings.hits} a step and at most "
            f"{settings.steps} steps expected {settings.hits} to {most}: write {bare}@{most} or "
            f"{bare}@{count}[steps={needed}]"
        )
    agent = ReadOn(request.engine, ranking, count=count, page=settings.hits, depth=depth)
    # It stops where the question finds no more.
    return ConfiguredAgent(request.name, agent, replace(settings, allow_stop=True))


SPECS: tuple[AgentSpec, ...] = (
    AgentSpec("random, random-G0…G4", "control: each step takes any legal refinement, all equally likely; "
           "[seed=1] draws others", "reader", re.compile("random(-(?P<grammar>G[0-4]))?"), _random, ("random",)),
    AgentSpec("pages, pages@N", "control: refines nothing; reads the question's next five passages, the next five …, "
           "with @N until it has read N", "reader", re.compile("pages(@(?P<count>[0-9]{1,9}))?"), _pages, ("pages",)),
    AgentSpec("cascade@N", f"control: refines nothing; of the question's first {DEPTH} passages reads the five that "
           "the pointer's lookahead values most, values again …, until it has read N", "reader, checkpoint",
           re.compile("cascade@(?P<count>[0-9]{1,9})"), _cascade, (_PASSAGES,), Checkpoint("orienteer train pointer")),
)  # fmt: skip
