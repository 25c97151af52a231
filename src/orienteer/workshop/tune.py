"""The ranking's parameters for judged questions, by direct evaluation: k1, b, the title's weight and b, phrase boosts,
stop words, a default refinement.

A ranking is BM25 of the question's terms in `contents`, plus `title_weight` times that in `title`, plus `phrase_weight`
times that of the question's pairs of neighbouring words as phrases, plus the default refinement's. Postings hold
frequency and length of a passage, not a score, so other parameters are another table, not another index.

A question's *pool* is its best passages under a few settings far apart, and all its judged ones. In a pool, a setting's
scores are a weighted sum of four precomputed rows; a kernel ranks the judged passages of all pools for all settings.
What is reported is then computed again over all passages, with every rounding of the engine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import log2
from time import monotonic
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from orienteer.data.passage import Question
from orienteer.engine.embedded.bm25 import LENGTHS
from orienteer.engine.embedded.kernels.compile import kernel
from orienteer.engine.protocol import Engine, HasPostings
from orienteer.errors import OrienteerError, UnknownPassageError
from orienteer.query import Field, Refinement, parse
from orienteer.workshop.ranking_setting import DEFAULT, Grid, Setting, grids, phrases_of, usable, without_stop_words

DEPTH = 10  # of nDCG
POOL = 100  # passages of each of the settings that make a pool
FOLDS = 5
DRAWS = 200  # of questions, for the interval

Floats = NDArray[np.float64]
Row = TypeVar("Row", bound=tuple[object, ...])


class TuneError(OrienteerError):
    """A tuning that cannot be done with these questions."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """What tuning found; values are nDCG@10, means over questions.

    best           the setting of the highest mean over all questions, and that mean: an optimistic figure
    estimate       cross-validated: each fold's questions ranked by the setting that was best on the other folds
    difference     estimate less default
    low, high      95 % interval of what tuning gains, from a bootstrap of the whole procedure: the setting is chosen
                   anew for every draw of questions and judged on those that were not drawn. Folds share most of their
                   questions, so an interval of their differences alone would leave out the luck of the choice.
    shown_better   whether the interval is above 0; if not, keep the default
    recommended    `best` where it is shown to be better, else the default
    by_fold        the setting chosen for each fold
    curves         parameter → (value, best mean with that value), for the eye
    """

    questions: int
    settings: int
    default_value: float
    best: Setting
    best_value: float
    estimate: float
    difference: float
    low: float
    high: float
    shown_better: bool
    by_fold: tuple[Setting, ...]
    curves: dict[str, list[tuple[float, float]]]
    seconds: float

    @property
    def recommended(self) -> Setting:
        return self.best if self.shown_better else DEFAULT


def tune(
    engine: Engine, questions: Sequence[Question], grid: Grid | None = None, *, folds: int = FOLDS, seed: int = 0
) -> Tuning:
    """The best setting of the grid for judged questions, with a cross-validated estimate of what it gains."""
    if not isinstance(engine, HasPostings):
        raise TuneError("this engine does not give its postings; use an index of orienteer")
    started = monotonic()
    judged = judged_in(engine, questions)
    if len(judged) < folds:
        raise TuneError(f"{len(judged)} questions with judged passages in the index; expected {folds} or more")
    tried = (grid,) if grid else grids(engine, judged)
    settings = list(dict.fromkeys(setting for each in tried for setting in each.settings()))
    values = evaluate_settings(engine, judged, settings)  # [settings, questions]
    fold_of = np.random.default_rng(seed).permutation(len(judged)) % folds
    chosen: list[int] = []
    estimate = np.empty(len(judged))
    exact: dict[int, Floats] = {}
    for fold in range(folds):
        row = first_best(values[:, fold_of != fold].mean(axis=1))
        chosen.append(row)
        if row not in exact:
            exact[row] = exact_values(engine, judged, settings[row])
        estimate[fold_of == fold] = exact[row][fold_of == fold]
    default = exact_values(engine, judged, DEFAULT)
    means = values.mean(axis=1)
    best = first_best(means)
    best_value = float((exact[best] if best in exact else exact_values(engine, judged, settings[best])).mean())
    low, high = procedure_interval(values, seed)
    return Tuning(
        len(judged), len(settings), float(default.mean()), settings[best], best_value, float(estimate.mean()),
        float((estimate - default).mean()), low, high, low > 0, tuple(settings[row] for row in chosen),
        _curves(settings, means), monotonic() - started,
    )  # fmt: skip


def as_dict(result: Tuning) -> dict[str, Any]:
    """Plain data for JSON."""
    row = asdict(result)
    return row | {
        "best": result.best._asdict(), "by_fold": [each._asdict() for each in result.by_fold],
        "recommended": result.recommended._asdict(),
    }  # fmt: skip


def exact_values(engine: HasPostings, questions: Sequence[Question], setting: Setting) -> Floats:
    """nDCG@10 of each question over all passages, with the engine's own arithmetic."""
    rows = (
        ndcg_of(engine, each, engine.scores_with(setting.query(engine, each.question), setting.similarity))
        for each in questions
    )
    return np.fromiter(rows, np.float64, len(questions))


def ndcg_of(engine: HasPostings, question: Question, scores: NDArray[np.float32]) -> float:
    """nDCG@10 of the ranking by these scores of all passages."""
    return ndcg([engine.id_at(number) for number in best_numbers(scores, DEPTH)], question.grades)


def ndcg(ids: Sequence[str], grades: Mapping[str, int]) -> float:
    """nDCG of the first passages of a ranking, of which some are judged."""
    gains = [grades.get(id, 0) for id in ids]
    return sum(gain / log2(rank + 1) for rank, gain in enumerate(gains, 1)) / _ideal(grades.values())


def search(engine: HasPostings, setting: Setting, question: str, k: int) -> list[tuple[str, float]]:
    """The first k passages of a setting's ranking, with their scores; walks the postings of all its terms."""
    scores = engine.scores_with(setting.query(engine, question), setting.similarity)
    return [(engine.id_at(number), float(scores[number])) for number in best_numbers(scores, k)]


def evaluate_settings(
    engine: HasPostings, questions: Sequence[Question], settings: Sequence[Setting]
) -> NDArray[np.float32]:
    """[settings, questions]: nDCG@10 in each question's pool."""
    values = np.zeros((len(settings), len(questions)), np.float32)
    contents_row, contents = _numbered([(s.k1, s.b, s.stop_share) for s in settings])
    title_row, title = _numbered([(s.k1, s.title_b, s.stop_share) for s in settings])
    refined_row, refined = _numbered([_refined(s) for s in settings])
    weights = np.array([(s.title_weight, s.phrase_weight) for s in settings])
    shares, added = sorted({s.stop_share for s in settings}), _added(settings)
    for place, question in enumerate(questions):
        pool = _Pool.of(engine, question, shares, added)
        rank_settings(
            pool.contents(contents), pool.title(title), pool.phrases(contents), pool.refined(refined), contents_row,
            title_row, refined_row, weights, pool.relevant, pool.grades, _ideal(question.grades.values()),
            values[:, place],
        )  # fmt: skip
    return values


def _refined(setting: Setting) -> tuple[str, float, float, float]:
    """What decides the scores of a setting's default refinement."""
    if not setting.refinement:
        return "", 0.0, 0.0, 0.0
    return setting.refinement, setting.k1, setting.b, setting.title_b


def _added(settings: Sequence[Setting]) -> dict[str, Refinement]:
    """The default refinements by their text."""
    added: dict[str, Refinement] = {}
    for text in dict.fromkeys(setting.refinement for setting in settings if setting.refinement):
        refinements = parse(text).refinements
        if len(refinements) != 1 or refinements[0].op not in ("^", "-"):
            raise TuneError(f"{text!r} cannot be tuned; expected one refinement, a boost or an exclusion")
        added[text] = refinements[0]
    return added


@kernel
def rank_settings(
    contents: Floats, title: Floats, phrase: Floats, refined: Floats, contents_row: NDArray[np.int64],
    title_row: NDArray[np.int64], refined_row: NDArray[np.int64], weights: Floats, relevant: NDArray[np.int64],
    grades: Floats, ideal: float, out: NDArray[np.float32],
) -> None:  # fmt: skip
    """nDCG@10 of every setting in one pool.

    contents, phrase [(k1, b, stop share), pool], title [(k1, title_b, stop share), pool], refined [refinements, pool]:
    scores; contents_row, title_row, refined_row [settings]: the rows of each setting; weights [settings, 2]; relevant:
    places in the pool, which is in index order; out [settings].
    """
    size = contents.shape[1]
    scores = np.empty(size)
    for setting in range(out.size):
        a, t, r = contents_row[setting], title_row[setting], refined_row[setting]
        title_weight, phrase_weight = weights[setting, 0], weights[setting, 1]
        for place in range(size):
            scores[place] = contents[a, place] + title_weight * title[t, place] + phrase_weight * phrase[a, place]
            scores[place] += refined[r, place]
        total = 0.0
        for at in range(relevant.size):
            own = scores[relevant[at]]
            if own <= 0.0:
                continue
            rank = 1
            for place in range(size):
                if scores[place] > own or (scores[place] == own and place < relevant[at]):
                    rank += 1
                    if rank > 10:
                        break
            if rank <= 10:
                total += grades[at] / np.log2(rank + 1.0)
        out[setting] = total / ideal


class _Pool:
    """Passages of one question; frequencies and lengths of its terms, phrases and default refinements in them."""

    def __init__(
        self, engine: HasPostings, numbers: NDArray[np.int64], question: str, shares: Sequence[float],
        added: Mapping[str, Refinement], relevant: NDArray[np.int64], grades: Floats,
    ) -> None:  # fmt: skip
        self.relevant, self.grades = np.searchsorted(numbers, relevant), grades
        self._lengths = {"contents": engine.average_length("contents"), "title": engine.average_length("title")}
        # How often the question has each term, by stop share; a word twice counts twice.
        self._counts = {
            share: Counter(filter(usable, engine.analyze(without_stop_words(engine, question, share))))
            for share in shares
        }
        self._terms = list(dict.fromkeys(term for counts in self._counts.values() for term in counts))
        self._contents = _Group.of(engine, numbers, [("contents", term) for term in self._terms])
        self._title = _Group.of(engine, numbers, [("title", term) for term in self._terms])
        self._phrases = _Group.of(engine, numbers, [("contents", pair) for pair in phrases_of(engine, question)])
        self._added = {
            text: (each, _Group.of(engine, numbers, [(each.field, each.term)])) for text, each in added.items()
        }

    @classmethod
    def of(
        cls, engine: HasPostings, question: Question, shares: Sequence[float], added: Mapping[str, Refinement]
    ) -> _Pool:
        numbers = {}
        for id, grade in question.grades.items():
            try:
                numbers[engine.number_of(id)] = grade
            except UnknownPassageError:
                continue
        pooled = set(numbers)
        for setting in _FAR_APART:
            pooled.update(_top(engine, setting, question.question, POOL))
        relevant = np.array(sorted(numbers), np.int64)
        grades = np.array([numbers[number] for number in relevant.tolist()], np.float64)
        return cls(engine, np.array(sorted(pooled), np.int64), question.question, shares, added, relevant, grades)

    def contents(self, rows: Sequence[tuple[float, float, float]]) -> Floats:
        """[rows, pool]: BM25 of the question's terms for each (k1, b, stop share)."""
        return self._scores(self._contents, rows, "contents", lambda share, term: self._counts[share][term])

    def title(self, rows: Sequence[tuple[float, float, float]]) -> Floats:
        return self._scores(self._title, rows, "title", lambda share, term: min(1, self._counts[share][term]))

    def phrases(self, rows: Sequence[tuple[float, float, float]]) -> Floats:
        average = self._lengths["contents"]
        found = [self._phrases.saturation(k1, b, average).sum(axis=0) for k1, b, _ in rows]
        return np.array(found, np.float64)

    def refined(self, rows: Sequence[tuple[str, float, float, float]]) -> Floats:
        """[rows, pool]: what each (refinement, k1, b, title_b) adds; -inf where it excludes the passage."""
        found = np.zeros((len(rows), self._contents.size))
        for row, (text, k1, b, title_b) in enumerate(rows):
            if not text:
                continue
            refinement, group = self._added[text]
            own = group.saturation(k1, title_b if refinement.field == "title" else b, self._lengths[refinement.field])
            found[row] = np.where(own[0] > 0, -np.inf, 0.0) if refinement.op == "-" else refinement.weight * own[0]
        return found

    def _scores(
        self, group: _Group, rows: Sequence[tuple[float, float, float]], field: Field,
        times: Callable[[float, str], int],
    ) -> Floats:  # fmt: skip
        found = np.zeros((len(rows), group.size))
        weights = {share: np.array([times(share, term) for term in self._terms], np.float64) for share in self._counts}
        for row, (k1, b, share) in enumerate(rows):
            found[row] = weights[share] @ group.saturation(k1, b, self._lengths[field])
        return found


@dataclass(frozen=True, slots=True)
class _Group:
    """Of some terms: idf [terms, 1], frequency and length [terms, pool]."""

    idf: Floats
    frequency: Floats
    length: Floats

    @property
    def size(self) -> int:
        return int(self.frequency.shape[1])

    @classmethod
    def of(cls, engine: HasPostings, numbers: NDArray[np.int64], terms: Sequence[tuple[Field, str]]) -> _Group:
        idf = np.zeros((len(terms), 1))
        frequency, length = np.zeros((len(terms), numbers.size)), np.ones((len(terms), numbers.size))
        for row, postings in enumerate(engine.postings(terms)):
            if not postings.passages.size:
                continue
            idf[row] = postings.idf
            place = np.minimum(np.searchsorted(postings.passages, numbers), postings.passages.size - 1)
            held = postings.passages[place] == numbers
            frequency[row, held] = postings.frequencies[place[held]]
            length[row, held] = LENGTHS[postings.norms[place[held]]]
        return cls(idf, frequency, length)

    def saturation(self, k1: float, b: float, average: float) -> Floats:
        """[terms, pool]: BM25 of each term alone."""
        part = self.frequency / (k1 * ((1 - b) + b * self.length / average))
        return self.idf * (part / (1 + part))


_FAR_APART = (
    DEFAULT, Setting(0.4, 0.3), Setting(3.0, 0.3), Setting(0.6, 1.0), Setting(3.0, 1.0),
    Setting(1.2, 0.75, 1.0, 0.5), Setting(1.2, 0.75, 3.0, 0.25), Setting(1.2, 0.75, 0.0, 0.75, 1.0),
)  # fmt: skip


def judged_in(engine: HasPostings, questions: Sequence[Question]) -> list[Question]:
    """Questions that can be searched and of which the index holds a relevant passage."""
    found = []
    for question in questions:
        if engine.analyze(question.question) and any(_holds(engine, id) for id in question.grades):
            found.append(question)
    return found


def _holds(engine: HasPostings, id: str) -> bool:
    try:
        engine.number_of(id)
    except UnknownPassageError:
        return False
    return True


def _top(engine: HasPostings, setting: Setting, question: str, k: int) -> list[int]:
    return best_numbers(engine.scores_with(setting.query(engine, question), setting.similarity), k)


def best_numbers(scores: NDArray[np.float32], k: int) -> list[int]:
    """Passage numbers of the k highest scores, the first of equals first; -inf is none."""
    k = min(k, scores.size)
    least = np.partition(scores, scores.size - k)[scores.size - k]
    places = np.flatnonzero(scores >= least) if least > -np.inf else np.flatnonzero(scores > -np.inf)
    order: list[int] = places[np.argsort(-scores[places], kind="stable")][:k].tolist()
    return order


def _ideal(grades: Any) -> float:
    best = sorted(grades, reverse=True)[:DEPTH]
    return float(sum(grade / log2(rank + 1) for rank, grade in enumerate(best, 1)))


def _numbered(rows: Sequence[Row]) -> tuple[NDArray[np.int64], list[Row]]:
    """Each row's number among the distinct ones, and those."""
    distinct = {row: number for number, row in enumerate(dict.fromkeys(rows))}
    return np.array([distinct[row] for row in rows], np.int64), list(distinct)


def first_best(means: NDArray[np.floating[Any]]) -> int:
    """The first of the best within rounding: the default, where nothing is above it."""
    return int(np.flatnonzero(means >= means.max() - 1e-7)[0])


def procedure_interval(values: NDArray[np.floating[Any]], seed: int) -> tuple[float, float]:
    """95 % of the gains over the default, the first row, on the questions that a draw leaves out."""
    draw, count = np.random.default_rng(seed), values.shape[1]
    gains = []
    for _ in range(DRAWS):
        times = np.bincount(draw.integers(0, count, count), minlength=count)
        out = times == 0
        if out.any():
            row = first_best(values @ times.astype(values.dtype) / count)
            gains.append(float((values[row, out] - values[0, out]).mean()))
    low, high = np.quantile(gains, [0.025, 0.975])
    return float(low), float(high)


def interval(differences: Floats, seed: int) -> tuple[float, float]:
    draws = np.random.default_rng(seed).integers(0, differences.size, (2000, differences.size))
    low, high = np.quantile(differences[draws].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)


def _curves(settings: Sequence[Setting], means: NDArray[np.floating[Any]]) -> dict[str, list[tuple[float, float]]]:
    curves = {}
    for column, name in enumerate(Setting._fields):
        if name == "refinement":  # no number, so no curve
            continue
        table = np.array([setting[column] for setting in settings])
        curves[name] = [(float(v), float(means[table == v].max())) for v in np.unique(table)]
    return curves
