"""Learning from thumbs: a refit of the ranking, and synonyms as refinements, judged by leaving one question out.

Each question's value is nDCG@10 by its thumbs. Its estimate is that of a ranking learned from all *other* questions:
what a new question may expect. Nothing is switched on here; a proposal is data, shown to a person, and a file.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine, HasPostings
from orienteer.errors import OrienteerError, UnknownPassageError
from orienteer.query import Query, Refinement
from orienteer.workshop.tune import (
    DEFAULT,
    Grid,
    Setting,
    evaluate_settings,
    exact_values,
    first_best,
    interval,
    judged_in,
    ndcg_of,
    procedure_interval,
    usable,
)

LEAST = 5  # questions with a thumb up
SYNONYM_WEIGHT = 0.3
SYNONYMS = 3  # of a term
SUPPORT = 2  # questions that must speak for a synonym

# Coarser than a tuning: a few thumbs decide little.
GRID = Grid((0.6, 0.9, 1.2, 1.6, 2.0), (0.3, 0.5, 0.75, 0.9), (0.0, 0.25, 0.5, 1.0), (0.5,), (0.0, 0.25, 0.5))

Synonyms = Mapping[str, tuple[str, ...]]


class LearnError(OrienteerError):
    """Too few thumbs to learn from."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A leave-one-out mean of nDCG@10, and its difference to doing nothing with a 95 % interval.

    The refit's interval is of the whole procedure, as in tuning. That with synonyms resamples the differences only:
    the questions left out share nearly all they learn from, so it may be too narrow.
    """

    value: float
    difference: float
    low: float
    high: float

    @property
    def shown_better(self) -> bool:
        return self.low > 0


@dataclass(frozen=True, slots=True)
class Proposal:
    """What the thumbs suggest.

    setting     the refit of the ranking's parameters on all questions
    synonyms    term → terms to add to a question that has it, each as `^0.3`
    nothing     the ranking as it is
    refit       the estimate of the refit alone, `both` that of refit and synonyms together
    recommended "both", "refit" or "nothing": the best that is shown to be better than doing nothing
    """

    questions: int
    thumbs: int
    setting: Setting
    synonyms: Synonyms
    nothing: float
    refit: Estimate
    both: Estimate

    @property
    def recommended(self) -> str:
        shown = [(each.value, name) for each, name in ((self.both, "both"), (self.refit, "refit")) if each.shown_better]
        return max(shown)[1] if shown else "nothing"


def learn(engine: Engine, questions: Sequence[Question], *, seed: int = 0) -> Proposal:
    """A proposal from questions judged by thumbs."""
    if not isinstance(engine, HasPostings):
        raise LearnError("this engine does not give its postings; use an index of orienteer")
    judged = judged_in(engine, questions)
    if len(judged) < LEAST:
        raise LearnError(
            f"{len(judged)} questions with a thumb up; expected {LEAST} or more before anything is learned"
        )
    settings = GRID.settings()
    values = evaluate_settings(engine, judged, settings).astype(np.float64)  # [settings, questions]
    nothing = exact_values(engine, judged, DEFAULT)
    rows = [first_best((values.sum(axis=1) - values[:, place]) / (len(judged) - 1)) for place in range(len(judged))]
    refit, both = np.empty(len(judged)), np.empty(len(judged))
    for place, (question, row) in enumerate(zip(judged, rows, strict=True)):
        others = [each for other, each in enumerate(judged) if other != place]
        [refit[place]] = exact_values(engine, [question], settings[row])
        both[place] = _value(engine, question, settings[row], synonyms_of(engine, others))
    return Proposal(
        len(judged), sum(len(question.judgements) for question in judged), settings[first_best(values.mean(axis=1))],
        synonyms_of(engine, judged), float(nothing.mean()),
        Estimate(float(refit.mean()), float((refit - nothing).mean()), *procedure_interval(values, seed)),
        Estimate(float(both.mean()), float((both - nothing).mean()), *interval(both - nothing, seed)),
    )  # fmt: skip


def synonyms_of(engine: Engine, questions: Sequence[Question]) -> Synonyms:
    """Term → the terms that passages with a thumb up share across questions that have it, and thumbs down lack."""
    support: dict[str, Counter[str]] = defaultdict(Counter)
    for question in questions:
        up = [id for id, grade in question.judgements if grade > 0]
        down = [id for id, grade in question.judgements if grade <= 0]
        liked, disliked = _terms(engine, up), _terms(engine, down)
        asked = set(engine.analyze(question.question))
        for term in asked:
            support[term].update(liked - disliked - asked)
    found = {}
    for term, counts in sorted(support.items()):
        strong = [each for each, count in counts.items() if count >= SUPPORT and engine.idf("contents", each) > 4]
        strong.sort(key=lambda each: (-counts[each] * engine.idf("contents", each), each))
        if strong:
            found[term] = tuple(strong[:SYNONYMS])
    return found


def expanded(engine: Engine, setting: Setting, synonyms: Synonyms, question: str) -> Query:
    """The question as the proposal asks it: every change is a refinement that can be seen and removed."""
    asked = dict.fromkeys(engine.analyze(question))
    others = (each for term in asked for each in synonyms.get(term, ()))
    more = dict.fromkeys(each for each in others if each not in asked and usable(each))
    refinements = (Refinement("^", "contents", each, SYNONYM_WEIGHT) for each in more)
    return setting.query(engine, question).refine(*refinements)


def as_dict(proposal: Proposal) -> dict[str, Any]:
    """Plain data for JSON, and the file that a person can edit or delete."""
    row = asdict(proposal)
    return row | {"setting": proposal.setting._asdict(), "recommended": proposal.recommended}


def _value(engine: HasPostings, question: Question, setting: Setting, synonyms: Synonyms) -> float:
    query = expanded(engine, setting, synonyms, question.question)
    return ndcg_of(engine, question, engine.scores_with(query, setting.similarity))


def _terms(engine: Engine, ids: Sequence[str]) -> set[str]:
    found: set[str] = set()
    for id in ids:
        try:
            found.update(engine.analyze(engine.passages([id])[0].contents))
        except UnknownPassageError:
            continue
    return found
