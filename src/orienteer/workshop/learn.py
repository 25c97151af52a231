"""Learning from thumbs: a refit of the ranking, synonyms and boosts of terms, judged by leaving one question out.

Each question's value is nDCG@10 by its thumbs. Its estimate is that of a ranking learned from all *other* questions:
what a new question may expect. Nothing is switched on here; a proposal is data, shown to a person, and a file.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine, HasPostings
from orienteer.errors import OrienteerError, QueryError, UnknownPassageError
from orienteer.query import Query, Refinement
from orienteer.workshop.ranking_setting import DEFAULT, Grid, Setting, setting_of, usable
from orienteer.workshop.tune import (
    evaluate_settings,
    exact_values,
    first_best,
    interval,
    judged_in,
    ndcg_of,
    procedure_interval,
)

LEAST = 5  # questions with a thumb up
SYNONYM_WEIGHT = 0.3
SYNONYMS = 3  # of a term
SUPPORT = 2  # questions that must speak for a synonym, or gain by a boost
BOOSTS = (0.5, 1.0, 2.0)  # added to a term's weight of 1
KINDS = ("refit", "synonyms", "boosts", "all")

# Coarser than a tuning: a few thumbs decide little.
GRID = Grid((0.6, 0.9, 1.2, 1.6, 2.0), (0.3, 0.5, 0.75, 0.9), (0.0, 0.25, 0.5, 1.0), (0.5,), (0.0, 0.25, 0.5))

Synonyms = Mapping[str, tuple[str, ...]]
Boosts = Mapping[str, float]
# Term → its questions by their places, each with nDCG@10 gained by each of `BOOSTS`
_Gains = Mapping[str, Mapping[int, NDArray[np.float64]]]


class LearnError(OrienteerError):
    """Too few thumbs to learn from."""


@dataclass(frozen=True, slots=True)
class Changes:
    """A ranking that differs from the engine's own.

    setting    the parameters
    synonyms   term → terms to add to a question that has it, each as `^0.3`
    boosts     term → weight to add to it in a question that has it, as `^weight`
    """

    setting: Setting = DEFAULT
    synonyms: Synonyms = field(default_factory=dict)
    boosts: Boosts = field(default_factory=dict)

    def only(self, kind: str) -> Changes:
        """The part that a kind of `KINDS` stands for."""
        return Changes(
            self.setting if kind in ("refit", "all") else DEFAULT,
            self.synonyms if kind in ("synonyms", "all") else {},
            self.boosts if kind in ("boosts", "all") else {},
        )


@dataclass(frozen=True, slots=True)
class Estimate:
    """A leave-one-out mean of nDCG@10, and its difference to doing nothing with a 95 % interval.

    The refit's interval is of the whole procedure, as in tuning: it holds the luck of choosing among settings. Those of
    synonyms and of boosts resample the differences only; questions left out share nearly all they learn from, so they
    may be too narrow. That of all together adds the refit's to that of what synonyms and boosts change in it.
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

    changes     learned from all questions
    nothing     nDCG@10 of the ranking as it is
    estimates   by kind: the refit alone, synonyms alone, boosts alone, all together
    recommended the kind with the best estimate of those shown to be better than doing nothing, or "nothing"
    """

    questions: int
    thumbs: int
    changes: Changes
    nothing: float
    estimates: Mapping[str, Estimate]

    @property
    def recommended(self) -> str:
        shown = [kind for kind in KINDS if self.estimates[kind].shown_better]
        return max(shown, key=lambda kind: self.estimates[kind].value, default="nothing")


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
    gains = _boost_gains(engine, judged)
    rows = [first_best((values.sum(axis=1) - values[:, place]) / (len(judged) - 1)) for place in range(len(judged))]
    found = {kind: np.empty(len(judged)) for kind in KINDS}
    for place, (question, row) in enumerate(zip(judged, rows, strict=True)):
        others = [each for other, each in enumerate(judged) if other != place]
        changes = Changes(settings[row], synonyms_of(engine, others), _best_boosts(gains, without=place))
        for kind in KINDS:
            found[kind][place] = value_with(engine, question, changes.only(kind))
    best = first_best(values.mean(axis=1))
    changes = Changes(settings[best], synonyms_of(engine, judged), _best_boosts(gains))
    refit, more = procedure_interval(values, seed), interval(found["all"] - found["refit"], seed)
    limits = {
        "refit": refit, "synonyms": interval(found["synonyms"] - nothing, seed),
        "boosts": interval(found["boosts"] - nothing, seed), "all": (refit[0] + more[0], refit[1] + more[1]),
    }  # fmt: skip
    estimates = {
        kind: Estimate(float(own.mean()), float((own - nothing).mean()), *limits[kind]) for kind, own in found.items()
    }
    thumbs = sum(len(question.judgements) for question in judged)
    return Proposal(len(judged), thumbs, changes, float(nothing.mean()), estimates)


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


def boosts_of(engine: HasPostings, questions: Sequence[Question]) -> Boosts:
    """Term → the boost with which the questions that have it gain most, where two or more of them gain."""
    return _best_boosts(_boost_gains(engine, questions))


def expanded(engine: Engine, changes: Changes, question: str) -> Query:
    """The question as the proposal asks it: every change is a refinement that can be seen and removed."""
    asked = dict.fromkeys(engine.analyze(question))
    others = (each for term in asked for each in changes.synonyms.get(term, ()))
    more = dict.fromkeys(each for each in others if each not in asked and usable(each))
    weights = dict.fromkeys(more, SYNONYM_WEIGHT)
    weights |= {term: changes.boosts[term] for term in asked if term in changes.boosts and usable(term)}
    refinements = (Refinement("^", "contents", term, weight) for term, weight in weights.items())
    return changes.setting.query(engine, question).refine(*refinements)


def value_with(engine: HasPostings, question: Question, changes: Changes) -> float:
    """nDCG@10 of the question as the changes ask it."""
    query = expanded(engine, changes, question.question)
    return ndcg_of(engine, question, engine.scores_with(query, changes.setting.similarity))


def changes_of(row: Mapping[str, Any]) -> Changes:
    """What `changes_as_dict` wrote, and a person may have edited."""
    try:
        setting = setting_of(row["setting"])
        synonyms = {str(term): tuple(map(str, each)) for term, each in row.get("synonyms", {}).items()}
        boosts = {str(term): float(weight) for term, weight in row.get("boosts", {}).items()}
    except (KeyError, TypeError, ValueError, AttributeError, QueryError):
        raise LearnError("not a ranking; expected `setting`, `synonyms` and `boosts` as `learn` writes them") from None
    return Changes(setting, synonyms, boosts)


def changes_as_dict(changes: Changes) -> dict[str, Any]:
    synonyms = {term: list(others) for term, others in changes.synonyms.items()}
    return {"setting": changes.setting._asdict(), "synonyms": synonyms, "boosts": dict(changes.boosts)}


def as_dict(proposal: Proposal) -> dict[str, Any]:
    """Plain data for JSON, and the file that a person can edit or delete."""
    return {
        "questions": proposal.questions, "thumbs": proposal.thumbs, **changes_as_dict(proposal.changes),
        "nothing": proposal.nothing, "estimates": {kind: asdict(each) for kind, each in proposal.estimates.items()},
        "recommended": proposal.recommended,
    }  # fmt: skip


def _boost_gains(engine: HasPostings, questions: Sequence[Question]) -> _Gains:
    """Terms of two or more questions; a clause's score grows with its weight, so one pass serves all weights."""
    asked = [dict.fromkeys(engine.analyze(each.question)) for each in questions]
    counts = Counter(term for terms in asked for term in terms)
    gains: dict[str, dict[int, NDArray[np.float64]]] = {}
    for place, (question, terms) in enumerate(zip(questions, asked, strict=True)):
        shared = [term for term in terms if counts[term] >= SUPPORT and usable(term)]
        if not shared:
            continue
        scores = engine.scores_with(Query(question.question), None)
        before = ndcg_of(engine, question, scores)
        for term in shared:
            alone = engine.scores_with(Query("", (Refinement("^", "contents", term, 1.0),)), None)
            alone = np.where(alone > -np.inf, alone, np.float32(0))
            after = [ndcg_of(engine, question, scores + np.float32(weight) * alone) for weight in BOOSTS]
            gains.setdefault(term, {})[place] = np.array(after) - before
    return gains


def _best_boosts(gains: _Gains, without: int | None = None) -> dict[str, float]:
    found = {}
    for term, by_place in sorted(gains.items()):
        rows = [own for place, own in by_place.items() if place != without]
        if len(rows) < SUPPORT:
            continue
        table = np.array(rows)  # [questions, boosts]
        totals = np.where((table > 0).sum(axis=0) >= SUPPORT, table.sum(axis=0), 0.0)
        best = first_best(totals)
        if totals[best] > 1e-7:
            found[term] = BOOSTS[best]
    return found


def _terms(engine: Engine, ids: Sequence[str]) -> set[str]:
    found: set[str] = set()
    for id in ids:
        try:
            found.update(engine.analyze(engine.passages([id])[0].contents))
        except UnknownPassageError:
            continue
    return found
