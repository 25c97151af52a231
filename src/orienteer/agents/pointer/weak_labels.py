"""What refinements could bring, told without reading: the passages they find that hold the answer and are new.

Rocchio reads some hundred passages to label a state, and tells nothing of the candidates that it did not have to read.
Whether a passage holds the answer stands in its text; only how high the reader would rank it does not. So every
refinement of every state that an agent reaches can be labelled for the price of one call to the engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.action_space import SLOTS, grammar_slots, open_slots, usable
from orienteer.agents.pointer.imitation_targets import Label, Moment
from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine
from orienteer.errors import QueryError
from orienteer.query import Grammar, Operator, Query, Refinement
from orienteer.reader.answer_matching import holds_answer
from orienteer.session import Lexicon, Observation
from orienteer.session.score import K

# The score that one more passage with the answer among the best five brings, about: 0.2 · w + 0.6 · w · (one of two is
# read exactly) with the mean weight w = 0.2.
_WORTH = 0.1


class Promises:
    """Labels of states under grammars, from a question and what is seen of its session."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._lexicon = engine, Lexicon(engine)

    def __call__(
        self, states: Sequence[tuple[Question, Observation, Sequence[Grammar]]]
    ) -> list[tuple[Label, ...]]:  # fmt: skip
        """The labels of each state, one a grammar; none where no answer is known.

        States of one question share what is known of its passages.
        """
        known: dict[str, dict[str, bool]] = {question.id: {} for question, _, _ in states}
        return [self._labels(question, known[question.id], seen, grammars) for question, seen, grammars in states]

    def _labels(
        self, question: Question, known: dict[str, bool], seen: Observation, grammars: Sequence[Grammar]
    ) -> tuple[Label, ...]:
        """`known` is what passages, by id, are known to hold the answer or not; those that are met are added."""
        if not question.answers:
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
        gains = [(r, _WORTH * count) for r, count in zip(refinements, holding, strict=True) if count]
        return tuple(
            Label(grammar, tuple((r, gain) for r, gain in gains if Operator(r.op, r.weight) in grammar.operators))
            for grammar in grammars
        )

    def _judge(self, question: Question, known: dict[str, bool], ids: Iterable[str]) -> None:
        unknown = [id for id in dict.fromkeys(ids) if id not in known]
        for id, passage in zip(unknown, self._engine.passages(unknown), strict=True):
            known[id] = holds_answer(passage.text, question.answers)

    def _refinements(self, seen: Observation, allowed: NDArray[np.bool_]) -> list[Refinement]:
        terms = usable(seen, self._lexicon)
        places = np.argwhere(open_slots(terms) & allowed).tolist() if terms else []
        return [SLOTS[slot][0].apply(SLOTS[slot][1], terms[term].text) for term, slot in places]


def promised(moments: Sequence[Moment], questions: Mapping[str, Question], promises: Promises) -> list[Moment]:
    """Recorded moments with all that they promise: Rocchio tells the gain of what it has read, and no more.

    `questions` are by id. Where Rocchio stopped, nothing is added: it knew of nothing better.
    """
    refining = [any(label.gains for label in moment.labels) for moment in moments]
    states = [
        (questions[each.question_id], each.observation, [label.grammar for label in each.labels])
        for each, yes in zip(moments, refining, strict=True)
        if yes
    ]
    told = iter(promises(states))
    return [
        replace(moment, labels=tuple(map(_joined, moment.labels, next(told))) or moment.labels) if yes else moment
        for moment, yes in zip(moments, refining, strict=True)
    ]


def _joined(recorded: Label, promise: Label) -> Label:
    if not recorded.gains:
        return recorded
    return Label(recorded.grammar, tuple({**dict(promise.gains), **dict(recorded.gains)}.items()))
