"""Rocchio's sessions as demonstrations: the rules that write its refinements, and shares for others as good."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from orienteer.agents.muzero.config import Config
from orienteer.agents.muzero.grammar import CROSSED, LEFT, LOCAL, OPERATORS, Ints, QueryGrammar
from orienteer.agents.muzero.legal_actions import Rooms, advance, join, legal, most_actions
from orienteer.agents.muzero.observation_tokens import Look
from orienteer.agents.muzero.planning import Plan
from orienteer.agents.muzero.representation import Sight
from orienteer.agents.muzero.self_play import Senses
from orienteer.agents.muzero.trajectory import Episode, Turn, pack, turn_of, unpack
from orienteer.agents.muzero.tries import LocalTries, Trie, local_tries
from orienteer.agents.muzero.weight_sync import write
from orienteer.agents.pointer.imitation_targets import LEAST_GAIN
from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine
from orienteer.query import FIELDS, Operator, Refinement
from orienteer.reader.protocol import Reader
from orienteer.rocchio.output import RocchioSession, read_sessions
from orienteer.rocchio.replay import TrainingStep, training_steps
from orienteer.session import Term
from orienteer.session.observation import Source

TOGETHER = 32  # sessions in one file
TEMPERATURE = 0.05  # of the shares, in units of the score
# Where a word stands in several places, the one that tells most about it.
PRECEDENCE: tuple[Source, ...] = ("answer", "title", "question", "snippet")

Way = tuple[int, ...]


class Ways:
    """The actions that write a refinement, found by walking the grammar: a way for each operator, field and word."""

    def __init__(self, grammar: QueryGrammar, tries: LocalTries, index: Trie) -> None:
        self._grammar = grammar
        self._rooms: Rooms
        self._rooms, _ = join([tries], [False], index)
        size = most_actions(grammar, self._rooms)
        self._actions, self._nodes = np.empty(size, np.int32), np.empty(size, np.int32)

    def legal(self, state: Ints) -> list[tuple[int, int]]:
        count = legal(state, 0, self._grammar.tables, self._rooms, self._actions, self._nodes)
        return list(zip(self._actions[:count].tolist(), self._nodes[:count].tolist(), strict=True))

    def after(self, state: Ints, action: int, node: int) -> Ints:
        out = np.empty_like(state)
        advance(state, 0, action, node, self._grammar.tables, self._rooms, out)
        return out

    def of(self, operator: int, field: int, source: int, pieces: Sequence[int], start: Ints) -> Way | None:
        """None where the grammar cannot write it."""
        state, way, left = start, [], list(pieces)
        while not state[CROSSED]:
            chosen = self._next(state, operator, field, source, left)
            if chosen is None:
                return None
            action, node = chosen
            if action >= len(self._grammar):
                left = left[1:]
            way.append(action)
            state = self.after(state, action, node)
        return tuple(way)

    def _next(self, state: Ints, operator: int, field: int, source: int, left: Sequence[int]) -> tuple[int, int] | None:
        """The legal action that leads on to the wanted refinement."""
        rules, size = self._grammar.rules, len(self._grammar)
        for action, node in self.legal(state):
            if action >= size:
                if left and action - size == left[0]:
                    return action, node
                continue
            rule = rules[action]
            if rule.operator not in (-1, operator) or rule.field not in (-1, field) or rule.source not in (-1, source):
                continue
            if rule.left == "Q" and (
                not rule.right or rule.right[0] == ("U" if OPERATORS[operator].op == "or" else "W")
            ):
                continue
            if rule.left[0] in "WR" and rule.left[1:]:
                # END, or in the paper's shape whether the next piece is the last.
                if not rule.right and left:
                    continue
                if rule.right and (len(rule.right) > 1) != (len(left) > 1):
                    continue
            return action, node
        return None


def demonstration(
    step: TrainingStep, seen: tuple[Look, Sight], chosen: Refinement, before: float, senses: Senses,
    grammar: QueryGrammar, index: Trie,
) -> Turn | None:  # fmt: skip
    """A turn that takes Rocchio's refinement; None where it cannot be written."""
    look, sight = seen
    gain = step.score - before
    tries = local_tries(look.terms, senses.spelling)
    ways = Ways(grammar, tries, index)
    start = grammar.start(max(1, step.observation.steps_left))
    terms = {term.text: term for term in look.terms}
    shares: dict[Way, float] = {}
    taken: Way | None = None
    candidates = [(chosen, gain), *((other, score - before) for other, score in step.others)]
    best = max(gain for _, gain in candidates)
    for refinement, own in candidates:
        way = _way(refinement, terms, ways, senses, start) if own > LEAST_GAIN or refinement is chosen else None
        if way is None:
            continue
        taken = way if refinement is chosen else taken
        shares[way] = shares.get(way, 0.0) + float(np.exp((own - best) / TEMPERATURE))
    if taken is None:
        return None
    plan = _plan(taken, shares, ways, start)
    past = senses.memory(step.observation.refinements, senses.config.sizes.past)
    return turn_of(look, sight, tries, past, plan, gain, int(start[LEFT]), False, keep_row=True)


def _way(refinement: Refinement, terms: Mapping[str, Term], ways: Ways, senses: Senses, start: Ints) -> Way | None:
    term = terms.get(refinement.term)
    if term is None:
        return None
    operator = OPERATORS.index(Operator(refinement.op, refinement.weight))
    field = FIELDS.index(refinement.field)
    for source in PRECEDENCE:
        if source in term.sources:
            pieces = senses.spelling.pieces(term.text)
            if way := ways.of(operator, field, LOCAL.index(source), pieces, start):
                return way
    return None


def _plan(taken: Way, shares: Mapping[Way, float], ways: Ways, start: Ints) -> Plan:
    """The rules of one way, at each of them the shares of all ways that agree so far."""
    plan, state = Plan(done=True), start
    for place, action in enumerate(taken):
        follows: dict[int, float] = {}
        for way, share in shares.items():
            if way[:place] == taken[:place] and len(way) > place:
                follows[way[place]] = follows.get(way[place], 0.0) + share
        wanted = sorted(follows)
        weights: NDArray[np.float64] = np.array([follows[each] for each in wanted])
        node = next(node for each, node in ways.legal(state) if each == action)
        plan.states.append(state)
        plan.actions.append(action)
        plan.nodes.append(node)
        plan.policies.append((np.array(wanted, np.int32), weights / weights.sum()))
        plan.values.append(0.0)
        state = ways.after(state, action, node)
    return plan


def demonstrations(
    folder: Path, file: Path, questions: Mapping[str, Question], engine: Engine, reader: Reader, senses: Senses,
    grammar: QueryGrammar, index: Trie, limit: int = 0, rows: bool = True,
) -> Iterator[Episode]:  # fmt: skip
    """The sessions of a file as episodes, encoded at most once: parts that are there already are read.

    Only sessions of the agent's own grammar count. `rows` keeps the tokens in memory, which only training h wants.
    """
    header, sessions = read_sessions(file)
    own = (session for session in sessions if session.variant.grammar == grammar.grammar and session.steps)
    wanted: Iterator[RocchioSession] = islice(own, limit) if limit else own
    home = folder / f"{file.name.split('.')[0]}-{_digest(file, senses.config, senses)}"
    number = 0
    while batch := list(islice(wanted, TOGETHER)):
        part = home / f"{number:05}.safetensors"
        if not part.exists():
            asked = [question for s in batch if (question := questions.get(s.id))]
            rebuilt = training_steps(header, batch, asked, engine, reader, snippet=senses.config.snippet)
            # All of a part are seen together, on every core.
            shown = list(rebuilt)
            seen = iter(senses.see([step.observation for steps in shown for step in steps]))
            made = [
                episode
                for place, (session, steps) in enumerate(zip(batch, shown, strict=True))
                if (episode := _episode(number * TOGETHER + place, session, steps, seen, senses, grammar, index))
            ]
            write(part, pack(made), {})
        for episode in unpack(load_file(part)):
            bare = tuple(replace(turn, row=None) for turn in episode.turns)
            yield episode if rows else replace(episode, turns=bare)
        number += 1


def _episode(
    number: int, session: RocchioSession, steps: Sequence[TrainingStep], seen: Iterator[tuple[Look, Sight]],
    senses: Senses, grammar: QueryGrammar, index: Trie,
) -> Episode | None:  # fmt: skip
    """An episode as far as the grammar can write it; takes as many of `seen` as there are steps."""
    assert session.start is not None
    turns: list[Turn] = []
    before = first = session.start.score.total
    for step, own in zip(steps, list(islice(seen, len(steps))), strict=True):
        if step.refinement is None:
            break
        turn = demonstration(step, own, step.refinement, before, senses, grammar, index)
        if turn is None:
            break
        turns.append(turn)
        before = step.score
    return Episode(-1 - number, tuple(turns), "demonstration", first, before) if turns else None


def _digest(file: Path, config: Config, senses: Senses) -> str:
    with file.open("rb") as opened:
        own = hashlib.file_digest(opened, "sha256").hexdigest()
    told = asdict(config)
    names = ("grammar", "shape", "fields", "snippet", "title_pieces", "max_pieces", "decoding")
    kept = {name: told[name] for name in names}
    text = json.dumps(
        [own, kept, config.sizes.past, config.sizes.look, senses.spelling.digest, senses.eyes.fingerprint],
        sort_keys=True,
    )
    return hashlib.sha256(text.encode()).hexdigest()[:12]
