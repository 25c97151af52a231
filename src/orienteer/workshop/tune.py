"""The ranking's parameters for judged questions, by direct evaluation: k1, b, the title's weight and b, phrase boosts.

A ranking is BM25 of the question's terms in `contents`, plus `title_weight` times that in `title`, plus `phrase_weight`
times that of the question's pairs of neighbouring words as phrases. Postings hold frequency and length of a passage,
not a score, so other parameters are another table, not another index.

A question's *pool* is its best passages under a few settings far apart, and all its judged ones. In a pool, a setting's
scores are a weighted sum of three precomputed rows; a kernel ranks the judged passages of all pools for all settings.
What is reported is then computed again over all passages, with every rounding of the engine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise, product
from math import log2
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from orienteer.data.passage import Question
from orienteer.engine.embedded.bm25 import LENGTHS
from orienteer.engine.embedded.kernels.compile import kernel
from orienteer.engine.protocol import Engine, HasPostings, Similarity
from orienteer.errors import OrienteerError, QueryError, UnknownPassageError
from orienteer.query import Field, Query, Refinement

DEPTH = 10  # of nDCG
POOL = 100  # passages of each of the settings that make a pool
FOLDS = 5
DRAWS = 200  # of questions, for the interval

Floats = NDArray[np.float64]


class TuneError(OrienteerError):
    """A tuning that cannot be done with these questions."""


class Setting(NamedTuple):
    """The parameters of a ranking; the defaults are the engine's own."""

    k1: float = 1.2
    b: float = 0.75
    title_weight: float = 0.0
    title_b: float = 0.75
    phrase_weight: float = 0.0

    @property
    def similarity(self) -> Similarity:
        return Similarity(self.k1, self.b, self.title_b)

    def query(self, engine: Engine, question: str) -> Query:
        """The question with its terms in the title and its phrases, weighted."""
        terms = list(dict.fromkeys(engine.analyze(question)))
        more = []
        if self.title_weight:
            more += [Refinement("^", "title", term, self.title_weight) for term in terms if usable(term)]
        if self.phrase_weight:
            more += [Refinement("^", "contents", pair, self.phrase_weight) for pair in phrases_of(engine, question)]
        return Query(question, tuple(more))


DEFAULT = Setting()


@dataclass(frozen=True, slots=True)
class Grid:
    """The settings that are tried: every combination."""

    k1: tuple[float, ...] = tuple(np.round(np.linspace(0.2, 4.0, 20), 3).tolist())
    b: tuple[float, ...] = tuple(np.round(np.linspace(0.0, 1.0, 21), 3).tolist())
    title_weight: tuple[float, ...] = (0.0, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
    title_b: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    phrase_weight: tuple[float, ...] = (0.0, 0.1, 0.25, 0.5, 1.0)

    def settings(self) -> list[Setting]:
        """Without those that differ only in what a weight of 0 switches off; the default is the first."""
        rows = product(self.k1, self.b, self.title_weight, self.title_b, self.phrase_weight)
        unique = dict.fromkeys([DEFAULT, *(Setting(*row) for row in rows)])
        last = self.title_b[0]
        return [each for each in unique if each == DEFAULT or each.title_weight or each.title_b == last]


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
    settings = (grid or Grid()).settings()
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
    keys = {name: _numbered(rows) for name, rows in {
        "contents": [(s.k1, s.b) for s in settings], "title": [(s.k1, s.title_b) for s in settings],
    }.items()}  # fmt: skip
    weights = np.array([(s.title_weight, s.phrase_weight) for s in settings])
    for place, question in enumerate(questions):
        pool = _Pool.of(engine, question)
        contents, title = (np.array(keys[name][1], np.float64) for name in ("contents", "title"))
        rank_settings(
            pool.scores(0, contents), pool.scores(1, title), pool.scores(2, contents), keys["contents"][0],
            keys["title"][0], weights, pool.relevant, pool.grades, _ideal(question.grades.values()), values[:, place],
        )  # fmt: skip
    return values


@kernel
def rank_settings(
    contents: Floats, title: Floats, phrase: Floats, contents_row: NDArray[np.int64], title_row: NDArray[np.int64],
    weights: Floats, relevant: NDArray[np.int64], grades: Floats, ideal: float, out: NDArray[np.float32],
) -> None:  # fmt: skip
    """nDCG@10 of every setting in one pool.

    contents, phrase [(k1, b), pool], title [(k1, title_b), pool]; contents_row, title_row [settings]: the rows of each
    setting; weights [settings, 2]; relevant: places in the pool, which is in index order; out [settings].
    """
    size = contents.shape[1]
    scores = np.empty(size)
    for setting in range(out.size):
        a, t = contents_row[setting], title_row[setting]
        title_weight, phrase_weight = weights[setting, 0], weights[setting, 1]
        for place in range(size):
            scores[place] = contents[a, place] + title_weight * title[t, place] + phrase_weight * phrase[a, place]
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
    """Passages of one question; frequencies and lengths of its terms in them, in three groups."""

    def __init__(
        self, engine: HasPostings, numbers: NDArray[np.int64], groups: Sequence[Sequence[tuple[Field, str]]],
        relevant: NDArray[np.int64], grades: Floats,
    ) -> None:  # fmt: skip
        self.relevant, self.grades = np.searchsorted(numbers, relevant), grades
        self._averages = [engine.average_length("contents"), engine.average_length("title")]
        self._size = numbers.size
        # By group: idf [terms], frequency [terms, pool], length [terms, pool]
        self._groups = [_frequencies(engine, numbers, terms) for terms in groups]

    @classmethod
    def of(cls, engine: HasPostings, question: Question) -> _Pool:
        text = question.question
        counts = Counter(term for term in engine.analyze(text) if usable(term))  # a word twice counts twice
        terms = list(counts)
        grades = question.grades
        numbers = {}
        for id, grade in grades.items():
            try:
                numbers[engine.number_of(id)] = grade
            except UnknownPassageError:
                continue
        pooled = set(numbers)
        for setting in _FAR_APART:
            pooled.update(_top(engine, setting, text, POOL))
        relevant = np.array(sorted(numbers), np.int64)
        return cls(
            engine, np.array(sorted(pooled), np.int64),
            [
                [("contents", term) for term in counts.elements()], [("title", term) for term in terms],
                [("contents", pair) for pair in phrases_of(engine, text)],
            ],
            relevant, np.array([numbers[number] for number in relevant.tolist()], np.float64),
        )  # fmt: skip

    def scores(self, group: int, rows: Floats) -> Floats:
        """[rows, pool]: the group's BM25 for each (k1, b)."""
        idf, frequency, length = self._groups[group]
        found = np.zeros((len(rows), self._size))
        average = self._averages[1 if group == 1 else 0]
        for row, (k1, b) in enumerate(rows.tolist()):
            saturation = frequency / (k1 * ((1 - b) + b * length / average))
            found[row] = idf @ (saturation / (1 + saturation))
        return found


_FAR_APART = (
    DEFAULT, Setting(0.4, 0.3), Setting(3.0, 0.3), Setting(0.6, 1.0), Setting(3.0, 1.0),
    Setting(1.2, 0.75, 1.0, 0.5), Setting(1.2, 0.75, 3.0, 0.25), Setting(1.2, 0.75, 0.0, 0.75, 1.0),
)  # fmt: skip


def _frequencies(
    engine: HasPostings, numbers: NDArray[np.int64], terms: Sequence[tuple[Field, str]]
) -> tuple[Floats, Floats, Floats]:
    idf = np.zeros(len(terms))
    frequency, length = np.zeros((len(terms), numbers.size)), np.ones((len(terms), numbers.size))
    for row, postings in enumerate(engine.postings(terms)):
        if not postings.passages.size:
            continue
        idf[row] = postings.idf
        place = np.minimum(np.searchsorted(postings.passages, numbers), postings.passages.size - 1)
        held = postings.passages[place] == numbers
        frequency[row, held] = postings.frequencies[place[held]]
        length[row, held] = LENGTHS[postings.norms[place[held]]]
    return idf, frequency, length


def phrases_of(engine: Engine, question: str) -> list[str]:
    """The question's pairs of neighbouring words, where both are index terms."""
    words = [word.strip(".,;:!?()\"'") for word in question.split()]
    pairs = (f"{one} {two}" for one, two in pairwise(words) if len(engine.analyze(f"{one} {two}")) == 2)
    return [pair for pair in dict.fromkeys(pairs) if usable(pair)]


def usable(term: str) -> bool:
    try:
        Refinement("+", "contents", term)
    except QueryError:
        return False
    return True


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


def _numbered(rows: Sequence[tuple[float, float]]) -> tuple[NDArray[np.int64], list[tuple[float, float]]]:
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
    table = np.array(settings)
    curves = {}
    for column, name in enumerate(Setting._fields):
        values = np.unique(table[:, column])
        curves[name] = [(float(v), float(means[table[:, column] == v].max())) for v in values]
    return curves


def embedded_settings(setting: Setting) -> dict[str, Any]:
    """The settings file that `Setting(**…)` reads again."""
    return {"ranking": setting._asdict()}


def opensearch_settings(setting: Setting, contents: str = "contents", title: str = "title") -> dict[str, Any]:
    """Index settings with mapping, and a search template, for OpenSearch and Elasticsearch.

    Where a service multiplies BM25 by k1 + 1 all clauses grow alike, so the order is the same.
    """
    similarity = {
        "orienteer_contents": {"type": "BM25", "k1": setting.k1, "b": setting.b},
        "orienteer_title": {"type": "BM25", "k1": setting.k1, "b": setting.title_b},
    }
    should: list[dict[str, Any]] = [{"match": {contents: {"query": "{{question}}"}}}]
    if setting.title_weight:
        should.append({"match": {title: {"query": "{{question}}", "boost": setting.title_weight}}})
    template: dict[str, Any] = {"query": {"bool": {"must": should[:1], "should": should[1:]}}}
    if setting.title_weight:
        template = {"query": {"bool": {"should": should, "minimum_should_match": 1}}}
    return {
        "index": {
            "settings": {"index": {"similarity": similarity}},
            "mappings": {
                "properties": {
                    contents: {"type": "text", "similarity": "orienteer_contents"},
                    title: {"type": "text", "similarity": "orienteer_title"},
                }
            },
        },
        "search_template": {"script": {"lang": "mustache", "source": template}},
    }
