"""Targets of imitation learning: which refinements improve a state, and by how much.

Recorded Rocchio sessions give exact gains of the candidates that Rocchio read. Weak labels cover all others: whether a
new passage holds the answer is in its text, only how high the reader would rank it is not. So every refinement of
every state can be labelled for one call to the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.action_space import SLOTS, grammar_slots, open_slots, usable_terms
from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine
from orienteer.errors import QueryError, TrainingError
from orienteer.query import GRAMMARS, Grammar, Operator, Query, Refinement
from orienteer.query.refinement import clean
from orienteer.reader.protocol import Reader
from orienteer.rocchio.sessions import Header, RocchioSession
from orienteer.session import Lexicon, Observation
from orienteer.session.relevance import is_relevant
from orienteer.session.score import K

MIN_GAIN = 1e-6  # session files round scores to this
SESSIONS_PER_BATCH = 64  # those of one question stand together in a file, so that their common states meet in a batch
# The score that one more passage with the answer among the best five brings, about: 0.2 · w + 0.6 · w · (one of two is
# read exactly) with the mean weight w = 0.2.
_GAIN_PER_PASSAGE = 0.1

BackendLoader = Callable[[], tuple[Engine, Reader]]


@dataclass(frozen=True, slots=True)
class Label:
    """The improving refinements of one grammar with their gains; none where an agent should stop."""

    grammar: Grammar
    gains: tuple[tuple[Refinement, float], ...]


@dataclass(frozen=True, slots=True)
class LabelledState:
    """An observation with its labels, one for each of one or more grammars."""

    question_id: str
    observation: Observation
    labels: tuple[Label, ...]


def label(
    grammar: Grammar,
    before: float,
    chosen: tuple[Refinement, float] | None,
    others: Iterable[tuple[Refinement, float]] = (),
) -> Label:
    """From the scores that the chosen refinement and the others lead to; `before` is the score without any."""
    if chosen is None:
        return Label(grammar, ())
    reached = [chosen, *others]
    gains = tuple((refinement, score - before) for refinement, score in reached if score - before > MIN_GAIN)
    return Label(grammar, gains or ((chosen[0], MIN_GAIN),))


def labelled_states(
    header: Header,
    sessions: Iterable[RocchioSession],
    questions: Mapping[str, Question],
    engine: Engine,
    reader: Reader,
    *,
    snippet: int,
) -> Iterator[list[LabelledState]]:
    """The states of recorded sessions, a list for each `SESSIONS_PER_BATCH` sessions; `questions` are by id.

    Sessions of one question under several grammars begin alike: a state that they share is made once, with a label
    for each grammar.
    """
    from orienteer.rocchio.replay import training_steps

    remaining = iter(sessions)
    while batch := list(islice(remaining, SESSIONS_PER_BATCH)):
        known = [question for id in dict.fromkeys(s.id for s in batch) if (question := questions.get(id))]
        states: dict[object, LabelledState] = {}
        replayed = training_steps(header, batch, known, engine, reader, snippet=snippet)
        for session, steps in zip(batch, replayed, strict=True):
            assert session.start is not None or not steps
            recorded = [session.start, *(step.state for step in session.steps)]
            for step, before in zip(steps, recorded, strict=False):
                assert before is not None
                chosen = None if step.refinement is None else (step.refinement, step.score)
                new = label(session.variant.grammar, before.score.total, chosen, step.others)
                key = (session.id, step.observation.refinements, step.observation.used)
                labels = (*states[key].labels, new) if key in states else (new,)
                states[key] = LabelledState(session.id, step.observation, labels)
        yield list(states.values())


def by_id(questions: Iterable[Question]) -> dict[str, Question]:
    """Questions by their id, as sessions name them."""
    return {clean(question.id): question for question in questions}


def grammars_of(names: str) -> tuple[Grammar, ...]:
    """The grammars of "G1", "G1,G4" or "all"."""
    wanted = list(GRAMMARS) if names.strip().lower() == "all" else [name.strip() for name in names.split(",")]
    for name in wanted:
        if name not in GRAMMARS:
            raise TrainingError(f"no grammar is called {name!r}; expected {', '.join(GRAMMARS)}, or all")
    return tuple(GRAMMARS[name] for name in dict.fromkeys(wanted))


class WeakLabeller:
    """Labels from the texts of what refinements find: the new passages that hold the answer. Nothing is read."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._lexicon = engine, Lexicon(engine)

    def __call__(
        self, states: Sequence[tuple[Question, Observation, Sequence[Grammar]]]
    ) -> list[tuple[Label, ...]]:  # fmt: skip
        """The labels of each state, one per grammar; none where neither answers nor judgements are known.

        States of one question share what is known of its passages.
        """
        known: dict[str, dict[str, bool]] = {question.id: {} for question, _, _ in states}
        return [self._labels(question, known[question.id], seen, grammars) for question, seen, grammars in states]

    def _labels(
        self, question: Question, known: dict[str, bool], seen: Observation, grammars: Sequence[Grammar]
    ) -> tuple[Label, ...]:
        """`known` says which passages, by id, hold the answer; those that are met are added."""
        if not question.is_judged:
            return ()
        best = [each.id for each in seen.passages]
        self._judge(question, known, best)
        room = K - sum(known[id] for id in best)
        allowed = np.any([grammar_slots(grammar) for grammar in grammars], axis=0)
        refinements = self._refinements(seen, allowed) if room else []
        try:
            lists = self._engine.refine(Query(seen.question, seen.refinements), refinements, K) if refinements else []
        except QueryError:
            return ()
        new = [[hit.id for hit in hits if hit.id not in seen.seen] for hits in lists]
        self._judge(question, known, chain.from_iterable(new))
        holding = [min(room, sum(known[id] for id in ids)) for ids in new]
        gains = [(r, _GAIN_PER_PASSAGE * count) for r, count in zip(refinements, holding, strict=True) if count]
        return tuple(
            Label(grammar, tuple((r, gain) for r, gain in gains if Operator(r.op, r.weight) in grammar.operators))
            for grammar in grammars
        )

    def _judge(self, question: Question, known: dict[str, bool], ids: Iterable[str]) -> None:
        unknown = [id for id in dict.fromkeys(ids) if id not in known]
        for id, passage in zip(unknown, self._engine.passages(unknown), strict=True):
            known[id] = bool(is_relevant(question, passage))

    def _refinements(self, seen: Observation, allowed: NDArray[np.bool_]) -> list[Refinement]:
        terms = usable_terms(seen, self._lexicon)
        actions = np.argwhere(open_slots(terms) & allowed).tolist() if terms else []
        return [SLOTS[slot][0].apply(SLOTS[slot][1], terms[term].text) for term, slot in actions]


def add_weak_labels(
    states: Sequence[LabelledState], questions: Mapping[str, Question], labeller: WeakLabeller
) -> list[LabelledState]:
    """Recorded states with weak labels for the refinements that Rocchio did not read.

    `questions` are by id. Where Rocchio stopped, nothing is added: it knew of nothing better.
    """
    refining = [any(label.gains for label in state.labels) for state in states]
    wanted = [
        (questions[each.question_id], each.observation, [label.grammar for label in each.labels])
        for each, yes in zip(states, refining, strict=True)
        if yes
    ]
    weak = iter(labeller(wanted))
    return [
        replace(state, labels=tuple(map(_merged, state.labels, next(weak))) or state.labels) if yes else state
        for state, yes in zip(states, refining, strict=True)
    ]


def _merged(recorded: Label, weak: Label) -> Label:
    if not recorded.gains:
        return recorded
    return Label(recorded.grammar, tuple({**dict(weak.gains), **dict(recorded.gains)}.items()))
