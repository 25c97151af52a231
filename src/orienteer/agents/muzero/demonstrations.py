"""Rocchio's sessions as demonstrations: the rules that write its refinements, and shares for others as good."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from orienteer.agents.imitation import MIN_GAIN
from orienteer.agents.muzero.config import Config
from orienteer.agents.muzero.grammar import (
    OPERATORS,
    STEPS_LEFT,
    USES_INDEX,
    Int32s,
    QueryGrammar,
    TrieTables,
    advance,
    join_tries,
    legal_actions,
    max_legal_actions,
)
from orienteer.agents.muzero.model_files import write
from orienteer.agents.muzero.planning import PlannedStep
from orienteer.agents.muzero.representation import EncodedObservation, ObservationPipeline, TokenizedObservation
from orienteer.agents.muzero.trajectory import Trajectory, TrajectoryStep, make_step, pack, unpack
from orienteer.agents.muzero.tries import LOCAL, LocalTries, Trie, local_tries
from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine
from orienteer.query import FIELDS, Operator, Refinement
from orienteer.reader.protocol import Reader
from orienteer.rocchio.replay import TrainingStep, training_steps
from orienteer.rocchio.sessions import RocchioSession, read_sessions
from orienteer.session import Term
from orienteer.session.observation import Source

TOGETHER = 32  # sessions in one file
TEMPERATURE = 0.05  # of the shares, in units of the score
# Where a word stands in several places, the one that tells most about it.
PRECEDENCE: tuple[Source, ...] = ("answer", "title", "question", "snippet")

Derivation = tuple[int, ...]


class Derivations:
    """The actions that write a refinement, found by walking the grammar: a way for each operator, field and word."""

    def __init__(self, grammar: QueryGrammar, tries: LocalTries, index: Trie) -> None:
        self._grammar = grammar
        self._trie_tables: TrieTables
        self._trie_tables, _ = join_tries([tries], [False], index)
        size = max_legal_actions(grammar, self._trie_tables)
        self._actions, self._nodes = np.empty(size, np.int32), np.empty(size, np.int32)

    def legal_actions(self, state: Int32s) -> list[tuple[int, int]]:
        count = legal_actions(state, 0, self._grammar.tables, self._trie_tables, self._actions, self._nodes)
        return list(zip(self._actions[:count].tolist(), self._nodes[:count].tolist(), strict=True))

    def after(self, state: Int32s, action: int, node: int) -> Int32s:
        out = np.empty_like(state)
        advance(state, 0, action, node, self._grammar.tables, self._trie_tables, out)
        return out

    def of(self, operator: int, field: int, source: int, pieces: Sequence[int], start: Int32s) -> Derivation | None:
        """None where the grammar cannot write it."""
        state, derivation, left = start, [], list(pieces)
        while not state[USES_INDEX]:
            chosen = self._next(state, operator, field, source, left)
            if chosen is None:
                return None
            action, node = chosen
            if action >= len(self._grammar):
                left = left[1:]
            derivation.append(action)
            state = self.after(state, action, node)
        return tuple(derivation)

    def _next(
        self, state: Int32s, operator: int, field: int, source: int, left: Sequence[int]
    ) -> tuple[int, int] | None:
        """The legal action that leads on to the wanted refinement."""
        rules, size = self._grammar.rules, len(self._grammar)
        for action, node in self.legal_actions(state):
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
    rocchio_step: TrainingStep, seen: tuple[TokenizedObservation, EncodedObservation], chosen: Refinement,
    before: float, pipeline: ObservationPipeline,
    grammar: QueryGrammar, index: Trie,
) -> TrajectoryStep | None:  # fmt: skip
    """A turn that takes Rocchio's refinement; None where it cannot be written."""
    tokenized, encoded = seen
    gain = rocchio_step.score - before
    tries = local_tries(tokenized.terms, pipeline.term_tokenizer)
    derivations = Derivations(grammar, tries, index)
    start = grammar.start(max(1, rocchio_step.observation.steps_left))
    terms = {term.text: term for term in tokenized.terms}
    shares: dict[Derivation, float] = {}
    taken: Derivation | None = None
    candidates = [(chosen, gain), *((other, score - before) for other, score in rocchio_step.others)]
    best = max(gain for _, gain in candidates)
    for refinement, own in candidates:
        derivation = (
            _derivation(refinement, terms, derivations, pipeline, start)
            if own > MIN_GAIN or refinement is chosen
            else None
        )
        if derivation is None:
            continue
        taken = derivation if refinement is chosen else taken
        shares[derivation] = shares.get(derivation, 0.0) + float(np.exp((own - best) / TEMPERATURE))
    if taken is None:
        return None
    plan = _plan(taken, shares, derivations, start)
    past = pipeline.action_history(rocchio_step.observation.refinements, pipeline.config.networks.history)
    return make_step(tokenized, encoded, tries, past, plan, gain, int(start[STEPS_LEFT]), False, keep_row=True)


def _derivation(
    refinement: Refinement,
    terms: Mapping[str, Term],
    derivations: Derivations,
    pipeline: ObservationPipeline,
    start: Int32s,
) -> Derivation | None:
    term = terms.get(refinement.term)
    if term is None:
        return None
    operator = OPERATORS.index(Operator(refinement.op, refinement.weight))
    field = FIELDS.index(refinement.field)
    for source in PRECEDENCE:
        if source in term.sources:
            pieces = pipeline.term_tokenizer.pieces(term.text)
            if derivation := derivations.of(operator, field, LOCAL.index(source), pieces, start):
                return derivation
    return None


def _plan(
    taken: Derivation, shares: Mapping[Derivation, float], derivations: Derivations, start: Int32s
) -> PlannedStep:
    """The rules of one way, at each of them the shares of all ways that agree so far."""
    plan, state = PlannedStep(done=True), start
    for position, action in enumerate(taken):
        follows: dict[int, float] = {}
        for derivation, share in shares.items():
            if derivation[:position] == taken[:position] and len(derivation) > position:
                follows[derivation[position]] = follows.get(derivation[position], 0.0) + share
        wanted = sorted(follows)
        weights: NDArray[np.float64] = np.array([follows[each] for each in wanted])
        node = next(node for each, node in derivations.legal_actions(state) if each == action)
        plan.states.append(state)
        plan.actions.append(action)
        plan.nodes.append(node)
        plan.policies.append((np.array(wanted, np.int32), weights / weights.sum()))
        plan.values.append(0.0)
        state = derivations.after(state, action, node)
    return plan


def demonstrations(
    folder: Path, file: Path, questions: Mapping[str, Question], engine: Engine, reader: Reader,
    pipeline: ObservationPipeline,
    grammar: QueryGrammar, index: Trie, limit: int = 0, rows: bool = True,
) -> Iterator[Trajectory]:  # fmt: skip
    """The sessions of a file as episodes, encoded at most once: parts that are there already are read.

    Only sessions of the agent's own grammar count. `rows` keeps the tokens in memory, which only training h wants.
    """
    header, sessions = read_sessions(file)
    own = (session for session in sessions if session.variant.grammar == grammar.grammar and session.steps)
    wanted: Iterator[RocchioSession] = islice(own, limit) if limit else own
    home = folder / f"{file.name.split('.')[0]}-{_digest(file, pipeline.config, pipeline)}"
    number = 0
    while batch := list(islice(wanted, TOGETHER)):
        part = home / f"{number:05}.safetensors"
        if not part.exists():
            asked = [question for s in batch if (question := questions.get(s.id))]
            rebuilt = training_steps(header, batch, asked, engine, reader, snippet=pipeline.config.snippet)
            # All of a part are seen together, on every core.
            shown = list(rebuilt)
            seen = iter(
                pipeline.see([rocchio_step.observation for rocchio_steps in shown for rocchio_step in rocchio_steps])
            )
            made = [
                trajectory
                for position, (session, rocchio_steps) in enumerate(zip(batch, shown, strict=True))
                if (
                    trajectory := _episode(
                        number * TOGETHER + position, session, rocchio_steps, seen, pipeline, grammar, index
                    )
                )
            ]
            write(part, pack(made), {})
        for trajectory in unpack(load_file(part)):
            bare = tuple(replace(step, token_row=None) for step in trajectory.steps)
            yield trajectory if rows else replace(trajectory, steps=bare)
        number += 1


def _episode(
    number: int, session: RocchioSession, rocchio_steps: Sequence[TrainingStep],
    seen: Iterator[tuple[TokenizedObservation, EncodedObservation]],
    pipeline: ObservationPipeline, grammar: QueryGrammar, index: Trie,
) -> Trajectory | None:  # fmt: skip
    """An episode as far as the grammar can write it; takes as many of `seen` as there are steps."""
    assert session.start is not None
    steps: list[TrajectoryStep] = []
    before = first = session.start.score.total
    for rocchio_step, own in zip(rocchio_steps, list(islice(seen, len(rocchio_steps))), strict=True):
        if rocchio_step.refinement is None:
            break
        step = demonstration(rocchio_step, own, rocchio_step.refinement, before, pipeline, grammar, index)
        if step is None:
            break
        steps.append(step)
        before = rocchio_step.score
    return Trajectory(-1 - number, tuple(steps), "demonstration", first, before) if steps else None


def _digest(file: Path, config: Config, pipeline: ObservationPipeline) -> str:
    with file.open("rb") as opened:
        own = hashlib.file_digest(opened, "sha256").hexdigest()
    told = config.as_dict()
    names = ("grammar", "shape", "fields", "snippet", "title_pieces", "max_pieces", "decoding")
    kept = {name: told[name] for name in names}
    text = json.dumps(
        [
            own,
            kept,
            config.networks.history,
            config.networks.lookahead_scale,
            pipeline.term_tokenizer.digest,
            pipeline.encoder.fingerprint,
        ],
        sort_keys=True,
    )
    return hashlib.sha256(text.encode()).hexdigest()[:12]
