"""What the words of passages tell of them before anything is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.lookahead.feature_kernels import scan
from orienteer.agents.lookahead.term_table import Words
from orienteer.agents.pointer.linear import Floats
from orienteer.data.passage import Passage
from orienteer.engine.protocol import Engine
from orienteer.query import Query, Refinement
from orienteer.session import Lexicon, Observation, ObservedPassage
from orienteer.session.observation import is_stop_word
from orienteer.session.score import K

OF_WORDS = (
    "share of the question", "share, saturated", "share as BM25 saturates it", "share in the title",
    "share in 16 words", "share in 40 words", "rarest word missing",
    "likeness", "likeness cubed", "likeness of other words",
    *(f"holds answer {n + 1}" for n in range(K)),
    "best PS whose answer it holds", "PS of the answers it holds", "share in 40 words, by that PS",
    "share around an answer, by its PS", "best PS with its title", "title known",
    "like the best passages", "most like one", "like the first",
    "length", "years, asked for", "figures, asked for", "asked who",
)  # fmt: skip
OF_FINDING = (
    "refinements that find it", "best rank", "rarest word required", "probability of what finds it",
    "highest probability", "rank for the question", "score for the question",
)  # fmt: skip
OF_MOMENT = (*(f"PS {n + 1}" for n in range(K)), "step", "passages read")
FEATURES = (*OF_WORDS, *OF_FINDING, *OF_MOMENT)

_DEEP = 200  # ranks for the question itself that are known
_IDF, _LENGTH, _USUAL, _STEPS, _READ = 12.0, 150.0, 100.0, 10, 50.0  # scales that bring values to about 1
_WHEN, _COUNTED = ("when", "what year", "what date"), ("how many", "how much", "how long", "how old", "how far")
_TOGETHER = 256  # questions in lock-step, some 300 kB each


@dataclass(frozen=True, slots=True)
class Asked:
    """A question: its terms with the share of each in all their idf, what resembles them, what it finds by itself."""

    numbers: NDArray[np.int64]  # [terms]
    share: Floats  # [terms]
    by_term: dict[str, float]
    alike: NDArray[np.uint8]  # [word vectors, terms], 255 where they are the same
    rank: dict[str, float]
    score: dict[str, float]
    lowest: float  # score of what is not among these
    years: bool
    figures: bool
    who: bool
    of_titles: dict[str, float] = field(default_factory=dict)  # their shares of the question, as far as met


class PassageFeatures:
    """`vectors` are those of the words that `words` knows, of length 1."""

    def __init__(self, engine: Engine, lexicon: Lexicon, words: Words, vectors: Floats) -> None:
        self._engine, self._lexicon, self._words, self._vectors = engine, lexicon, words, vectors
        self._asked = lru_cache(_TOGETHER)(self._ask)

    def __call__(
        self,
        observation: Observation,
        passages: Sequence[Passage],
        read: Sequence[Passage],
        found: NDArray[np.int64],
        tried: Sequence[Refinement],
        logs: NDArray[np.float64],
    ) -> Floats:
        """[passages, features]; `read` are the observation's passages as a whole, `found` as in `Sight`."""
        asked = self._asked(observation.question)
        return np.concatenate(
            [
                self._of_words(asked, observation.passages[:K], passages, read),
                self._of_finding(asked, [passage.id for passage in passages], found, tried, logs),
                np.tile(_of_moment(observation), (len(passages), 1)),
            ],
            1,
        ).astype(np.float32)

    def _ask(self, question: str) -> Asked:
        words, lexicon = self._words, self._lexicon
        terms = [t for t in dict.fromkeys(lexicon.terms(question)) if not is_stop_word(t) and lexicon.holds(t)]
        numbers = words.numbers(terms)
        total = float(words.idf[numbers].sum()) or 1.0
        pieces = words.piece[numbers]
        alike = np.clip(self._vectors @ self._vectors[pieces].T, 0, 1) * (pieces >= 0)
        hits, lower = self._engine.search(Query(question), _DEEP), question.lower()
        first = hits[0].score if hits else 1.0
        return Asked(
            numbers, words.idf[numbers] / np.float32(total),
            {term: lexicon.idf(term) / total for term in terms}, np.ascontiguousarray(255 * alike + 0.5, np.uint8),
            {hit.id: 1 / np.log2(rank + 1) for rank, hit in enumerate(hits, 1)},
            {hit.id: hit.score / first for hit in hits}, 0.9 * (hits[-1].score / first) if hits else 0.0,
            any(map(lower.__contains__, _WHEN)), any(map(lower.__contains__, _COUNTED)), lower.startswith("who"),
        )  # fmt: skip

    def _of_words(
        self, asked: Asked, best: Sequence[ObservedPassage], passages: Sequence[Passage], read: Sequence[Passage]
    ) -> Floats:
        words, size = self._words, len(asked.numbers)
        flat, ends = words.streams(passages)
        of_read, read_ends = words.streams(read)
        answers = [words.numbers(tuple(dict.fromkeys(self._lexicon.terms(each.answer)))) for each in best]
        others = np.setdiff1d(np.concatenate([of_read, *answers]), asked.numbers)
        column = np.full(len(words.piece), -1, np.int32)
        column[asked.numbers] = np.arange(size)
        column[others] = size + np.arange(len(others))
        rarest = np.array([column[own[words.idf[own].argmax()]] if len(own) else -1 for own in answers], np.int32)
        table = column, size + len(others), words.piece, words.kind, asked.share, asked.alike, rarest
        counts, likest, covered, near, figures = scan(flat, ends, *table)
        counts_read, *_ = scan(of_read, read_ends, *table)
        ps = np.zeros(K, np.float32)
        ps[: len(best)] = [each.score for each in best]
        held = np.zeros((len(passages), K), np.float32)
        for place, terms in enumerate(answers):
            held[:, place] = len(terms) > 0 and (counts[:, column[terms]] > 0).all(1)
        of_held = (held * ps).max(1)
        weight = words.idf[np.concatenate([asked.numbers, others])] ** 2
        like = np.zeros((len(passages), K), np.float32)
        like[:, : len(best)] = _likeness(counts * weight / (counts + 1), counts_read * weight / (counts_read + 1))
        own, lengths = counts[:, :size], np.diff(ends, prepend=0).astype(np.float32)
        titles = {each.title: each.score for each in reversed(best)}  # of equal titles, the best counts
        of_title = np.array([titles.get(passage.title, -1.0) for passage in passages], np.float32)
        in_title = [self._of_title(asked, passage.title) for passage in passages]
        columns = [
            (own > 0) @ asked.share, own / (own + 1) @ asked.share,
            own / (own + 0.9 * (0.6 + 0.4 * lengths[:, None] / _USUAL)) @ asked.share, in_title,
            covered[:, 0], covered[:, 1], np.where(own == 0, words.idf[asked.numbers], 0).max(1, initial=0) / _IDF,
            likest @ asked.share, likest**3 @ asked.share, (likest * (own == 0)) @ asked.share,
            *held.T,
            of_held, held @ ps / (ps.sum() or 1.0), of_held * covered[:, 1],
            (near * ps[: len(best)]).max(1, initial=0), np.maximum(of_title, 0), of_title >= 0,
            like @ ps / (ps.sum() or 1.0), (like * ps).max(1), like[:, 0],
            lengths / _LENGTH, (1 + np.log1p(figures[:, 1])) * asked.years,
            (1 + np.log1p(figures.sum(1))) * asked.figures, np.full(len(passages), asked.who),
        ]  # fmt: skip
        return np.stack(columns, 1).astype(np.float32)

    def _of_title(self, asked: Asked, title: str) -> float:
        if (share := asked.of_titles.get(title)) is None:
            terms = dict.fromkeys(self._lexicon.terms(title))
            share = asked.of_titles[title] = sum(asked.by_term.get(term, 0.0) for term in terms)
        return share

    def _of_finding(
        self,
        asked: Asked,
        ids: Sequence[str],
        found: NDArray[np.int64],
        tried: Sequence[Refinement],
        logs: NDArray[np.float64],
    ) -> Floats:
        rows, ranks = np.nonzero(found >= 0)
        places, size = found[rows, ranks], len(ids)
        best = np.full(size, K + 1)
        np.minimum.at(best, places, ranks + 1)
        required = np.array([self._lexicon.idf(each.term) if each.op == "+" else 0.0 for each in tried])
        rarest, likeliest = np.zeros(size), np.zeros(size)
        np.maximum.at(rarest, places, required[rows])
        np.maximum.at(likeliest, places, np.exp(logs)[rows])
        likely = np.bincount(places, np.exp(logs)[rows], size)
        columns = [
            np.log1p(np.bincount(places, minlength=size)) / K, best / K, rarest / _IDF,
            *((np.log(each + 1e-6) + 14) / K for each in (likely, likeliest)),
            [asked.rank.get(id, 0.0) for id in ids], [asked.score.get(id, asked.lowest) for id in ids],
        ]  # fmt: skip
        return np.stack(columns, 1).astype(np.float32)


def _of_moment(observation: Observation) -> Floats:
    ps = [each.score for each in observation.passages[:K]]
    values = [*ps, *[0.0] * (K - len(ps)), min(observation.step, _STEPS) / _STEPS, len(observation.seen) / _READ]
    return np.array(values, np.float32)


def _likeness(of_passages: Floats, of_read: Floats) -> Floats:
    """[passages, read]: how much of what is rare in the read ones stands in the passages."""
    read = of_read / (np.linalg.norm(of_read, axis=1, keepdims=True) + 1e-9)
    # Words that no read passage has are not known here; a constant stands for them.
    likeness: Floats = of_passages @ read.T / (np.linalg.norm(of_passages, axis=1, keepdims=True) + 20)
    return likeness


def directions(table: Floats, frequent: int = 12_000, common: int = 2, kept: int = 96) -> Floats:
    """Vectors of words made comparable: of length 1, without their mean and what nearly all of them share."""
    signs = 1000 if len(table) > frequent else 0  # a BERT's first rows are marks and single signs
    centred = table - table[signs:].mean(0)
    some = centred[signs:frequent]
    _, axes = np.linalg.eigh(some.T @ some)
    turned = centred @ axes[:, ::-1][:, common : common + kept]
    vectors: Floats = turned / (np.linalg.norm(turned, axis=1, keepdims=True) + 1e-6)
    return vectors.astype(np.float32)
