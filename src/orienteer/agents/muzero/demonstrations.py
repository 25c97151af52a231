"""Rocchio sessions as demonstrations: trajectories whose policy targets share among all refinements with a gain."""

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
from orienteer.agents.muzero.replay import Trajectory, TrajectoryStep, make_step, pack, unpack
from orienteer.agents.muzero.representation import EncodedObservation, ObservationPipeline, TokenizedObservation
from orienteer.agents.muzero.tries import LOCAL, LocalTries, Trie, local_tries
from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine
from orienteer.query import FIELDS, Operator, Refinement
from orienteer.reader.protocol import Reader
from orienteer.rocchio.replay import TrainingStep, training_steps
from orienteer.rocchio.sessions import RocchioSession, read_sessions
from orienteer.session import Term
from orienteer.session.observation import Source

BATCH = 32  # sessions in one file
TEMPERATURE = 0.05  # of the policy targets, in units of the score
# The source to use for a term that occurs in several, the most informative first.
PRECEDENCE: tuple[Source, ...] = ("answer", "title", "question", "snippet")

Derivation = tuple[int, ...]


class Derivations:
    """Derivations of refinements in the grammar: the actions that write an operator, a field and a word."""

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
        """The derivation of a refinement; None where the grammar has none."""
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
        """The legal action on the way to the refinement; None if there is none."""
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
                # END, or in the paper's shape the choice whether the next piece is the last.
                if not rule.right and left:
                    continue
                if rule.right and (len(rule.right) > 1) != (len(left) > 1):
                    continue
            return action, node
        return None


def demonstration(
    rocchio_step: TrainingStep, observation: tuple[TokenizedObservation, EncodedObservation], chosen: Refinement,
    before: float, pipeline: ObservationPipeline, grammar: QueryGrammar, index: Trie,
) -> TrajectoryStep | None:  # fmt: skip
    """A step that takes Rocchio's refinement; None where the grammar cannot derive it."""
    tokenized, encoded = observation
    gain = rocchio_step.score - before
    tries = local_tries(tokenized.terms, pipeline.term_tokenizer)
    derivations = Derivations(grammar, tries, index)
    start = grammar.start(max(1, rocchio_step.observation.steps_left))
    terms = {term.text: term for term in tokenized.terms}
    shares: dict[Derivation, float] = {}
    taken: Derivation | None = None
    candidates = [(chosen, gain), *((other, score - before) for other, score in rocchio_step.others)]
    best = max(gain for _, gain in candidates)
    for refinement, candidate_gain in candidates:
        derivation = (
            _derivation(refinement, terms, derivations, pipeline, start)
            if candidate_gain > MIN_GAIN or refinement is chosen
            else None
        )
        if derivation is None:
            continue
        taken = derivation if refinement is chosen else taken
        shares[derivation] = shares.get(derivation, 0.0) + float(np.exp((candidate_gain - best) / TEMPERATURE))
    if taken is None:
        return None
    plan = _plan(taken, shares, derivations, start)
    history = pipeline.action_history(rocchio_step.observation.refinements, pipeline.config.networks.history)
    return make_step(tokenized, encoded, tries, history, plan, gain, int(start[STEPS_LEFT]), False, keep_row=True)


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
    """The actions of one derivation, each with the shares of all derivations with the same prefix."""
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
    pipeline: ObservationPipeline, grammar: QueryGrammar, index: Trie, limit: int = 0, rows: bool = True,
) -> Iterator[Trajectory]:  # fmt: skip
    """The sessions of a file as trajectories, encoded at most once: batches that are in `folder` already are read.

    Only sessions of the agent's own grammar are used. `rows` keeps the tokens, which only training of h needs.
    """
    header, sessions = read_sessions(file)
    matching = (session for session in sessions if session.variant.grammar == grammar.grammar and session.steps)
    wanted: Iterator[RocchioSession] = islice(matching, limit) if limit else matching
    home = folder / f"{file.name.split('.')[0]}-{_digest(file, pipeline.config, pipeline)}"
    number = 0
    while batch := list(islice(wanted, BATCH)):
        part = home / f"{number:05}.safetensors"
        if not part.exists():
            answered = [question for s in batch if (question := questions.get(s.id))]
            rebuilt = list(training_steps(header, batch, answered, engine, reader, snippet=pipeline.config.snippet))
            # The observations of a batch are encoded together, on all cores.
            observations = iter(
                pipeline.encode(
                    [rocchio_step.observation for rocchio_steps in rebuilt for rocchio_step in rocchio_steps]
                )
            )
            trajectories = [
                trajectory
                for position, (session, rocchio_steps) in enumerate(zip(batch, rebuilt, strict=True))
                if (
                    trajectory := _trajectory(
                        number * BATCH + position, session, rocchio_steps, observations, pipeline, grammar, index
                    )
                )
            ]
            write(part, pack(trajectories), {})
        for trajectory in unpack(load_file(part)):
            bare = tuple(replace(step, token_row=None) for step in trajectory.steps)
            yield trajectory if rows else replace(trajectory, steps=bare)
        number += 1


def _trajectory(
    number: int, session: RocchioSession, rocchio_steps: Sequence[TrainingStep],
    observations: Iterator[tuple[TokenizedObservation, EncodedObservation]],
    pipeline: ObservationPipeline, grammar: QueryGrammar, index: Trie,
) -> Trajectory | None:  # fmt: skip
    """A trajectory as far as the grammar can derive it; consumes one of `observations` per step."""
    assert session.start is not None
    steps: list[TrajectoryStep] = []
    before = first = session.start.score.total
    for rocchio_step, observation in zip(rocchio_steps, list(islice(observations, len(rocchio_steps))), strict=True):
        if rocchio_step.refinement is None:
            break
        step = demonstration(rocchio_step, observation, rocchio_step.refinement, before, pipeline, grammar, index)
        if step is None:
            break
        steps.append(step)
        before = rocchio_step.score
    return Trajectory(-1 - number, tuple(steps), "demonstration", first, before) if steps else None


def _digest(file: Path, config: Config, pipeline: ObservationPipeline) -> str:
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    stored = config.as_dict()
    names = ("grammar", "shape", "fields", "snippet", "title_pieces", "max_pieces", "decoding")
    kept = {name: stored[name] for name in names}
    text = json.dumps(
        [
            digest,
            kept,
            config.networks.history,
            config.networks.lookahead_scale,
            pipeline.term_tokenizer.digest,
            pipeline.encoder.fingerprint,
        ],
        sort_keys=True,
    )
    return hashlib.sha256(text.encode()).hexdigest()[:12]
