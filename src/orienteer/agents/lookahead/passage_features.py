"""Features of candidate passages, from their words and from the refinements that find them; nothing is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.passage_terms import passage_terms
from orienteer.data.passage import Passage
from orienteer.engine.embedded.kernels.compile import kernel
from orienteer.engine.protocol import Engine
from orienteer.models.layers import Float32s
from orienteer.query import Query, Refinement
from orienteer.session import Lexicon, Observation, ObservedPassage
from orienteer.session.observation import is_stop_word
from orienteer.session.score import K

TEXT_FEATURES = (
    "share of the question", "share, saturated", "share as BM25 saturates it", "share in the title",
    "share in 16 words", "share in 40 words", "rarest word missing",
    "likeness", "likeness cubed", "likeness of other words",
    *(f"holds answer {n + 1}" for n in range(K)),
    "best PS whose answer it holds", "PS of the answers it holds", "share in 40 words, by that PS",
    "share around an answer, by its PS", "best PS with its title", "title known",
    "like the best passages", "most like one", "like the first",
    "length", "years, asked for", "figures, asked for", "asked who",
)  # fmt: skip
# Of the refinements that find a passage.
FOUND_FEATURES = (
    "refinements that find it", "best rank", "rarest word required", "probability of what finds it",
    "highest probability",
)  # fmt: skip
HIT_FEATURES = (*FOUND_FEATURES, "rank for the question", "score for the question")
STATE_FEATURES = (*(f"PS {n + 1}" for n in range(K)), "step", "passages read")
FEATURES = (*TEXT_FEATURES, *HIT_FEATURES, *STATE_FEATURES)

NARROW, WIDE = 16, 40  # words of a window
YEAR, NUMBER = 2, 1
_QUESTION_DEPTH = 200  # hits of the question itself whose ranks are known
_IDF, _LENGTH, _MEAN_LENGTH, _STEPS, _READ = 12.0, 150.0, 100.0, 10, 50.0  # scales that bring values to about 1
_WHEN, _COUNTED = ("when", "what year", "what date"), ("how many", "how much", "how long", "how old", "how far")
_CACHED_QUESTIONS = 256  # a batch of sessions, about 300 kB each
_CACHED_PASSAGES = 1 << 15  # a step's passages come back at the next
_UNKNOWN = -2


class TermTable:
    """Index terms by number, with three arrays by number that grow as terms are met."""

    def __init__(self, engine: Engine, pieces: Mapping[str, int]) -> None:
        self._terms, self._pieces = passage_terms(engine), pieces
        self._streams: dict[str, NDArray[np.int64]] = {}  # by passage
        self.idf = np.zeros(0, np.float32)
        self.piece = np.zeros(0, np.int32)  # row of the word vectors; -1: no such word
        self.kind = np.zeros(0, np.int8)  # YEAR, NUMBER or 0

    def numbers(self, terms: Sequence[str]) -> NDArray[np.int64]:
        """The numbers of those terms that the index has."""
        numbers = np.array(self._terms.numbers(terms), np.int64)
        return self.add(numbers[numbers >= 0])

    def streams(self, passages: Sequence[Passage]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The passages' terms end to end, and where each passage ends."""
        if len(self._streams) > _CACHED_PASSAGES:
            self._streams = {}  # another thread may still read the old one
        cached = self._streams
        if new := [passage for passage in passages if passage.id not in cached]:
            streams = self._terms.streams(new)
            self.add(np.concatenate([np.empty(0, np.int64), *streams]))
            cached.update(zip((passage.id for passage in new), streams, strict=True))
        rows = [cached[passage.id] for passage in passages]
        flat = np.concatenate([np.empty(0, np.int64), *rows])
        return flat, np.cumsum([len(row) for row in rows], dtype=np.int64)

    def in_order(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Sorted by the terms' bytes."""
        return self._terms.in_order(numbers)

    def add(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Fills the arrays for terms that are new; returns the same numbers."""
        highest = int(numbers.max(initial=-1))
        if highest >= len(self.piece):
            more = max(highest + 1, 2 * len(self.piece)) - len(self.piece)
            self.idf = np.append(self.idf, np.zeros(more, np.float32))
            self.piece = np.append(self.piece, np.full(more, _UNKNOWN, np.int32))
            self.kind = np.append(self.kind, np.zeros(more, np.int8))
        new = numbers[self.piece[numbers] == _UNKNOWN]
        if new.size:
            new = np.unique(new)
            texts = self._terms.texts(new)
            self.idf[new] = self._terms.idfs(new)
            self.kind[new] = [_kind(text) if text.isdigit() else 0 for text in texts]
            self.piece[new] = [self._pieces.get(text, -1) for text in texts]  # last: now they are known
        return numbers


def _kind(figures: str) -> int:
    return YEAR if len(figures) == 4 and figures[0] in "12" else NUMBER


@dataclass(frozen=True, slots=True)
class QuestionTerms:
    """A question: its terms with each one's share of their idf, words like them, and its own hits."""

    numbers: NDArray[np.int64]  # [terms]
    share: Float32s  # [terms], sums to 1
    by_term: dict[str, float]
    alike: NDArray[np.uint8]  # [word vectors, terms]: cosine, 255 where they are the same
    rank: dict[str, float]  # 1 / log2(rank + 1) of its hits
    score: dict[str, float]  # BM25 relative to the first hit
    lowest: float  # relative score of what is not among the hits
    years: bool
    figures: bool
    who: bool
    of_titles: dict[str, float] = field(default_factory=dict)  # shares of the question in titles met so far


class PassageFeatures:
    """`vectors` are those of the table's words, of length 1."""

    def __init__(self, engine: Engine, lexicon: Lexicon, table: TermTable, vectors: Float32s) -> None:
        self._engine, self._lexicon, self._table, self._vectors = engine, lexicon, table, vectors
        self._question_terms = lru_cache(_CACHED_QUESTIONS)(self._make_question_terms)

    def __call__(
        self,
        observation: Observation,
        passages: Sequence[Passage],
        best_passages: Sequence[Passage],
        hits: NDArray[np.int64],
        refinements: Sequence[Refinement],
        log_probabilities: NDArray[np.float64],
    ) -> Float32s:
        """[passages, features]; `best_passages` are the observation's in full, `hits` as in `Candidates`."""
        question = self._question_terms(observation.question)
        ids = [passage.id for passage in passages]
        return np.concatenate(
            [
                self._text_features(question, observation.passages[:K], passages, best_passages),
                self._hit_features(question, ids, hits, refinements, log_probabilities),
                np.tile(_state_features(observation), (len(passages), 1)),
            ],
            1,
        ).astype(np.float32)

    def _make_question_terms(self, question: str) -> QuestionTerms:
        table, lexicon = self._table, self._lexicon
        terms = [t for t in dict.fromkeys(lexicon.terms(question)) if not is_stop_word(t) and lexicon.holds(t)]
        numbers = table.numbers(terms)
        total = float(table.idf[numbers].sum()) or 1.0
        pieces = table.piece[numbers]
        alike = np.clip(self._vectors @ self._vectors[pieces].T, 0, 1) * (pieces >= 0)
        hits, lower = self._engine.search(Query(question), _QUESTION_DEPTH), question.lower()
        first = hits[0].score if hits else 1.0
        return QuestionTerms(
            numbers, table.idf[numbers] / np.float32(total),
            {term: lexicon.idf(term) / total for term in terms}, np.ascontiguousarray(255 * alike + 0.5, np.uint8),
            {hit.id: 1 / np.log2(rank + 1) for rank, hit in enumerate(hits, 1)},
            {hit.id: hit.score / first for hit in hits}, 0.9 * (hits[-1].score / first) if hits else 0.0,
            any(map(lower.__contains__, _WHEN)), any(map(lower.__contains__, _COUNTED)), lower.startswith("who"),
        )  # fmt: skip

    def _text_features(
        self,
        question: QuestionTerms,
        best: Sequence[ObservedPassage],
        passages: Sequence[Passage],
        best_passages: Sequence[Passage],
    ) -> Float32s:
        table, size = self._table, len(question.numbers)
        flat, ends = table.streams(passages)
        best_flat, best_ends = table.streams(best_passages)
        answers = [table.numbers(tuple(dict.fromkeys(self._lexicon.terms(each.answer)))) for each in best]
        others = table.in_order(np.setdiff1d(np.concatenate([best_flat, *answers]), question.numbers))
        column = np.full(len(table.piece), -1, np.int32)
        column[question.numbers] = np.arange(size)
        column[others] = size + np.arange(len(others))
        rarest = np.array(
            [column[terms[table.idf[terms].argmax()]] if len(terms) else -1 for terms in answers], np.int32
        )
        by_number = column, size + len(others), table.piece, table.kind, question.share, question.alike, rarest
        counts, likest, covered, near, figures = scan(flat, ends, *by_number)
        best_counts, *_ = scan(best_flat, best_ends, *by_number)
        ps = np.zeros(K, np.float32)
        ps[: len(best)] = [each.score for each in best]
        held = np.zeros((len(passages), K), np.float32)
        for place, terms in enumerate(answers):
            held[:, place] = len(terms) > 0 and (counts[:, column[terms]] > 0).all(1)
        held_ps = (held * ps).max(1)
        weight = table.idf[np.concatenate([question.numbers, others])] ** 2
        like = np.zeros((len(passages), K), np.float32)
        like[:, : len(best)] = _likeness(counts * weight / (counts + 1), best_counts * weight / (best_counts + 1))
        tf, lengths = counts[:, :size], np.diff(ends, prepend=0).astype(np.float32)
        titles = {each.title: each.score for each in reversed(best)}  # of equal titles, the best counts
        title_ps = np.array([titles.get(passage.title, -1.0) for passage in passages], np.float32)
        in_title = [self._share_of_title(question, passage.title) for passage in passages]
        # OpenBLAS's AVX-512 kernel for float32 matrices of five columns sets the flag "invalid", though no NaN results.
        with np.errstate(invalid="ignore"):
            columns = [
                (tf > 0) @ question.share, tf / (tf + 1) @ question.share,
                tf / (tf + 0.9 * (0.6 + 0.4 * lengths[:, None] / _MEAN_LENGTH)) @ question.share, in_title,
                covered[:, 0], covered[:, 1],
                np.where(tf == 0, table.idf[question.numbers], 0).max(1, initial=0) / _IDF,
                likest @ question.share, likest**3 @ question.share, (likest * (tf == 0)) @ question.share,
                *held.T,
                held_ps, held @ ps / (ps.sum() or 1.0), held_ps * covered[:, 1],
                (near * ps[: len(best)]).max(1, initial=0), np.maximum(title_ps, 0), title_ps >= 0,
                like @ ps / (ps.sum() or 1.0), (like * ps).max(1), like[:, 0],
                lengths / _LENGTH, (1 + np.log1p(figures[:, 1])) * question.years,
                (1 + np.log1p(figures.sum(1))) * question.figures, np.full(len(passages), question.who),
            ]  # fmt: skip
        return np.stack(columns, 1).astype(np.float32)

    def _share_of_title(self, question: QuestionTerms, title: str) -> float:
        if (share := question.of_titles.get(title)) is None:
            terms = dict.fromkeys(self._lexicon.terms(title))
            share = question.of_titles[title] = sum(question.by_term.get(term, 0.0) for term in terms)
        return share

    def _hit_features(
        self,
        question: QuestionTerms,
        ids: Sequence[str],
        hits: NDArray[np.int64],
        refinements: Sequence[Refinement],
        log_probabilities: NDArray[np.float64],
    ) -> Float32s:
        rows, ranks = np.nonzero(hits >= 0)
        places, size = hits[rows, ranks], len(ids)
        best = np.full(size, K + 1)
        np.minimum.at(best, places, ranks + 1)
        required = np.array([self._lexicon.idf(each.term) if each.op == "+" else 0.0 for each in refinements])
        rarest, highest = np.zeros(size), np.zeros(size)
        np.maximum.at(rarest, places, required[rows])
        np.maximum.at(highest, places, np.exp(log_probabilities)[rows])
        summed = np.bincount(places, np.exp(log_probabilities)[rows], size)
        columns = [
            np.log1p(np.bincount(places, minlength=size)) / K, best / K, rarest / _IDF,
            *((np.log(each + 1e-6) + 14) / K for each in (summed, highest)),
            [question.rank.get(id, 0.0) for id in ids], [question.score.get(id, question.lowest) for id in ids],
        ]  # fmt: skip
        return np.stack(columns, 1).astype(np.float32)


def _state_features(observation: Observation) -> Float32s:
    ps = [each.score for each in observation.passages[:K]]
    values = [*ps, *[0.0] * (K - len(ps)), min(observation.step, _STEPS) / _STEPS, len(observation.seen) / _READ]
    return np.array(values, np.float32)


def _likeness(passages: Float32s, best: Float32s) -> Float32s:
    """[passages, best]: how much of what is rare in the best passages occurs in each candidate."""
    unit = best / (np.linalg.norm(best, axis=1, keepdims=True) + 1e-9)
    # Words that no best passage has are not counted; a constant stands for them.
    likeness: Float32s = passages @ unit.T / (np.linalg.norm(passages, axis=1, keepdims=True) + 20)
    return likeness


def directions(table: Float32s, frequent: int = 12_000, common: int = 2, kept: int = 96) -> Float32s:
    """Word vectors made comparable: of length 1, without their mean and the axes that nearly all of them share."""
    signs = 1000 if len(table) > frequent else 0  # a BERT's first rows are special tokens and single characters
    centred = table - table[signs:].mean(0)
    some = centred[signs:frequent]
    _, axes = np.linalg.eigh(some.T @ some)
    turned = centred @ axes[:, ::-1][:, common : common + kept]
    vectors: Float32s = turned / (np.linalg.norm(turned, axis=1, keepdims=True) + 1e-6)
    return vectors.astype(np.float32)


@kernel
def scan(
    flat: NDArray[np.int64],  # numbers of terms, passage after passage
    ends: NDArray[np.int64],  # [passages]
    column: NDArray[np.int32],  # by number: the question's terms first, others of interest next; -1
    columns: int,
    piece: NDArray[np.int32],  # by number: row of `alike`; below 0: none
    kind: NDArray[np.int8],  # by number
    share: Float32s,  # [question's terms]: of its idf, 1 in all
    alike: NDArray[np.uint8],  # [rows, question's terms]: 255 for the same word
    rarest: NDArray[np.int32],  # [answers]: column of its rarest term; -1
) -> tuple[Float32s, Float32s, Float32s, Float32s, Float32s]:
    """One pass over the terms of all passages; of each passage:

    counts    [columns]
    likest    [question's terms]: the nearest word that it has, 0 to 1
    covered   [2]: the most of the question in a narrow window and in a wide one
    near      [answers]: the most of it around an answer
    figures   [2]: numbers, years
    """
    passages, question_terms, answers = len(ends), len(share), len(rarest)
    counts = np.zeros((passages, columns), np.float32)
    likest = np.zeros((passages, question_terms), np.uint8)
    covered = np.zeros((passages, 2), np.float32)
    near = np.zeros((passages, answers), np.float32)
    figures = np.zeros((passages, 2), np.float32)
    last = np.empty(question_terms, np.int64)
    longest, begin = 0, 0
    for end in ends:
        longest, begin = max(longest, end - begin), end
    wide = np.empty(longest, np.float32)  # what the window that ends here covers
    begin = 0
    for row in range(passages):
        last[:] = -WIDE
        inner, outer = np.float32(0), np.float32(0)
        change = -1  # until there, no term of the question enters or leaves a window
        for place in range(begin, ends[row]):
            at, number = place - begin, flat[place]
            if kind[number] > 0:
                figures[row, kind[number] - 1] += 1
            if piece[number] >= 0:
                for q in range(question_terms):
                    likest[row, q] = max(likest[row, q], alike[piece[number], q])
            term_column = column[number]
            if term_column >= 0:
                counts[row, term_column] += 1
                if term_column < question_terms:
                    last[term_column] = at
                    likest[row, term_column] = 255
                    change = at
            if at == change:
                inner, outer = np.float32(0), np.float32(0)
                change = longest
                for q in range(question_terms):
                    if last[q] > at - WIDE:
                        outer += share[q]
                        leaves = last[q] + WIDE
                        if last[q] > at - NARROW:
                            inner += share[q]
                            leaves = last[q] + NARROW
                        change = min(change, leaves)
                covered[row, 0] = max(covered[row, 0], inner)
                covered[row, 1] = max(covered[row, 1], outer)
            wide[at] = outer
        for answer in range(answers):
            if rarest[answer] >= 0 and counts[row, rarest[answer]] > 0:
                for place in range(begin, ends[row]):
                    if column[flat[place]] == rarest[answer]:
                        around = min(place + WIDE // 2, ends[row]) - 1 - begin
                        near[row, answer] = max(near[row, answer], wide[max(around, place - begin)])
        begin = ends[row]
    return counts, likest * np.float32(1 / 255), covered, near, figures
