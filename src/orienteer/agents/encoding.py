"""An observation as model input: one row of wordpieces, features of terms and of the state, and the legal slots.

The row, and where in it each term stands:

    [CLS] question [SEP] OP term OP term … [SEP] PS title [SEP] snippet PS title [SEP] snippet … [SEP]

OP and PS are single tokens that BERT's vocabulary keeps unused: an operator with its field, and how high PS is. Token
types tell question, refinements, titles, snippets and answers apart; an answer is part of its snippet.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from orienteer.agents.action_space import OPERATORS, SLOTS, nearest_slot, open_slots, usable_terms
from orienteer.agents.passage_terms import passage_terms
from orienteer.engine.protocol import Engine
from orienteer.errors import ModelCorruptError
from orienteer.models.checks import linear_shapes
from orienteer.reader.encoding import Marks, pieces
from orienteer.session import Lexicon, Observation, ObservedPassage, Term
from orienteer.session.score import K

MAX_PIECES = 320
MAX_QUESTION, MAX_TITLE, MAX_TERM = 48, 16, 8
MAX_REFINEMENTS = 80  # pieces; the latest refinements stay

QUESTION, REFINEMENT, TITLE, SNIPPET, ANSWER = range(5)
KINDS = 5
# The places that states are pooled by, as `Term.sources` names them.
SOURCES = ("question", "title", "answer", "snippet")
_SOURCE_OF = {QUESTION: 0, TITLE: 1, ANSWER: 2, SNIPPET: 3}

PS_BOUNDS = (0.01, 0.03, 0.08, 0.15, 0.25, 0.4, 0.55, 0.7, 0.85)
MARKS = len(SLOTS) + len(PS_BOUNDS) + 1

_CACHED_TEXTS = 1 << 12  # passages and titles recur at every step; some five kilobytes each


_IDF, _LETTERS = 12.0, 10.0  # scales that bring values to about 1
# Rocchio's sessions are short, an agent's are not: counts are cut to what training has seen.
_MAX_STEPS, _MAX_COUNT = 10, 5

TERM_FEATURES = (
    "idf in contents", "idf in title",
    "in question", "in a title", "in an answer", "in a snippet",
    "times in question", "times in titles", "times in answers", "times in snippets",
    "passages with it", "titles with it", "best PS with it", "mean PS with it", "PS with it of all PS",
    *(f"in passage {n + 1}" for n in range(K)),
    *(f"in answer {n + 1}" for n in range(K)),
    "hits with it", "hits with it in the title", "a number", "letters",
)  # fmt: skip

STATE_FEATURES = (
    *(f"PS {n + 1}" for n in range(K)),
    "passages", "titles", "passages with the commonest answer", "PS of all answers equal to the first",
    "step", "steps left", "plain terms", "required", "excluded", "boosted", "without effect", "usable terms",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rendered:
    """The encoder's input, and the occurrences of terms in it, by term and then by source.

    ids, types    [L]
    occurrences   [N, 3]: number of the term, number of the source, place of one piece
    """

    ids: NDArray[np.int32]
    types: NDArray[np.uint8]
    occurrences: NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class Text:
    """A text as wordpieces, and its index terms with the pieces [first, last) of each, in order."""

    ids: tuple[int, ...]
    words: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class Snippet:
    """A snippet's pieces; those from `start` up to `end` are the answer."""

    text: Text
    start: int
    end: int


class Renderer:
    """Rows from observations; caches what tokenizer and analysis made of each text."""

    def __init__(self, tokenizer: Tokenizer, lexicon: Lexicon, max_pieces: int = MAX_PIECES) -> None:
        self._tokenizer, self._lexicon, self._max = tokenizer, lexicon, max_pieces
        self._cls, self._sep = Marks.of(tokenizer)
        marks = mark_ids(tokenizer)
        self._operators, self._ps = marks[: len(SLOTS)], marks[len(SLOTS) :]
        self.text = lru_cache(_CACHED_TEXTS)(self._cut)
        self.snippet = lru_cache(_CACHED_TEXTS)(self._answered)

    def render(self, observation: Observation, numbers: Mapping[str, int]) -> Rendered:
        """`numbers` gives each usable term its number."""
        row = _Row(numbers)
        row.add(QUESTION, [self._cls])
        row.text(QUESTION, self.text(observation.question), MAX_QUESTION)
        row.add(QUESTION, [self._sep])
        row.add(REFINEMENT, [*self._refinements(observation), self._sep])
        titles = [self.text(each.title) for each in observation.passages]
        snippets = [self.snippet(each.snippet, each.answer) for each in observation.passages]
        fixed = sum(2 + min(len(title.ids), MAX_TITLE) for title in titles)
        shares = fair_shares([len(each.text.ids) for each in snippets], self._max - len(row.ids) - fixed - 1)
        for passage, title, snippet, share in zip(observation.passages, titles, snippets, shares, strict=True):
            row.add(TITLE, [self._ps_mark(passage)])
            row.text(TITLE, title, MAX_TITLE)
            row.add(TITLE, [self._sep])
            row.snippet(snippet, share)
        row.add(SNIPPET, [self._sep])
        return row.rendered()

    def _refinements(self, observation: Observation) -> list[int]:
        ids: list[int] = []
        for refinement in reversed(observation.refinements):
            term = self.text(refinement.term).ids[:MAX_TERM]
            if len(ids) + len(term) >= MAX_REFINEMENTS:
                break
            ids = [self._operators[nearest_slot(refinement)], *term, *ids]
        return ids

    def _ps_mark(self, passage: ObservedPassage) -> int:
        return self._ps[bisect_right(PS_BOUNDS, passage.score)]

    def _cut(self, text: str) -> Text:
        [encoded] = pieces(self._tokenizer, [text])
        starts, ends = [start for start, _ in encoded.offsets], [end for _, end in encoded.offsets]
        words = []
        for term, start, end in places(text, self._lexicon.terms(text)):
            first, last = bisect_right(ends, start), bisect_left(starts, end)
            if first < last:
                words.append((term, first, last))
        return Text(tuple(encoded.ids), tuple(words))

    def _answered(self, snippet: str, answer: str) -> Snippet:
        """The snippet with its answer, which stands in its middle; one that is not in it is put before it."""
        answer = " ".join(answer.split())
        if not answer:
            return Snippet(self.text(snippet), 0, 0)
        position = _nearest(snippet, answer, len(snippet) // 2)
        if position is None:
            first, rest = self.text(answer), self.text(snippet)
            shift = len(first.ids)
            words = (*first.words, *((term, a + shift, b + shift) for term, a, b in rest.words))
            return Snippet(Text(first.ids + rest.ids, words), 0, shift)
        [cut] = pieces(self._tokenizer, [snippet])
        touched = [i for i, (s, e) in enumerate(cut.offsets) if s < position + len(answer) and e > position]
        return Snippet(self.text(snippet), *((touched[0], touched[-1] + 1) if touched else (0, 0)))


class _Row:
    """A row as it grows."""

    def __init__(self, numbers: Mapping[str, int]) -> None:
        self.ids: list[int] = []
        self._types: list[int] = []
        self._numbers = numbers
        self._occurrences: list[tuple[int, int, int]] = []

    def add(self, kind: int, ids: Sequence[int]) -> None:
        self.ids += ids
        self._types += [kind] * len(ids)

    def text(self, kind: int, text: Text, most: int) -> None:
        self._note(text, 0, most, lambda first: kind)
        self.add(kind, text.ids[:most])

    def snippet(self, snippet: Snippet, most: int) -> None:
        """As many pieces as there is room for, around the answer."""
        ids, start, end = snippet.text.ids, snippet.start, snippet.end
        low = max(0, min((start + end) // 2 - most // 2, len(ids) - most))
        low = min(low, start) if end - start <= most else start
        high = min(len(ids), low + most)
        cut = [max(low, min(high, place)) for place in (start, end)]
        self._note(snippet.text, low, high, lambda first: ANSWER if start <= first < end else SNIPPET)
        self.add(SNIPPET, ids[low : cut[0]])
        self.add(ANSWER, ids[cut[0] : cut[1]])
        self.add(SNIPPET, ids[cut[1] : high])

    def _note(self, text: Text, low: int, high: int, kind_of: Callable[[int], int]) -> None:
        shift = len(self.ids) - low
        for term, first, last in text.words:
            number = self._numbers.get(term)
            if number is not None and low <= first < high:
                source = _SOURCE_OF[kind_of(first)]
                self._occurrences += [(number, source, place + shift) for place in range(first, min(last, high))]

    def rendered(self) -> Rendered:
        occurrences = np.array(sorted(self._occurrences), np.int16).reshape(-1, 3)
        return Rendered(np.array(self.ids, np.int32), np.array(self._types, np.uint8), occurrences)


def mark_ids(tokenizer: Tokenizer) -> list[int]:
    """The tokens that stand for operators and for PS."""
    ids = []
    for number in range(MARKS):
        mark = tokenizer.token_to_id(f"[unused{number}]")
        if mark is None:
            raise ModelCorruptError(
                f"the tokenizer has no token [unused{number}]; expected a BERT's vocabulary with at least {MARKS} "
                "unused tokens, as MiniLM and bert-base-uncased have"
            )
        ids.append(mark)
    return ids


def fair_shares(sizes: Sequence[int], room: int) -> list[int]:
    """How much of each size fits into the room: all of the small ones, the large ones cut to one length."""
    shares = [0] * len(sizes)
    left, room = len(sizes), max(0, room)
    for place in sorted(range(len(sizes)), key=lambda i: sizes[i]):
        shares[place] = min(sizes[place], room // left)
        room -= shares[place]
        left -= 1
    return shares


def places(text: str, terms: Sequence[str]) -> list[tuple[str, int, int]]:
    """Where the index terms of a text stand in it, as characters [start, end); they come in its order.

    Analysis only splits and lowers, so each term is found by looking on from the one before; one that a rarer rule
    has changed is left out.
    """
    lowered = text.lower()
    if len(lowered) != len(text):  # some letters have a lower case of two
        lowered = "".join(low if len(low := letter.lower()) == 1 else letter for letter in text)
    spans = []
    at = 0
    for term in terms:
        start = _whole_word(lowered, term, at)
        if start >= 0:
            at = start + len(term)
            spans.append((term, start, at))
    return spans


def _whole_word(text: str, term: str, at: int) -> int:
    """The first place of a term that is not a part of a longer word; the first of all where there is none."""
    start = first = text.find(term, at)
    while start >= 0:
        end = start + len(term)
        if not (start and text[start - 1].isalnum()) and not (end < len(text) and text[end].isalnum()):
            return start
        start = text.find(term, start + 1)
    return first


def _nearest(text: str, part: str, middle: int) -> int | None:
    """The start of the occurrence whose middle is nearest to a place."""
    starts = []
    start = text.find(part)
    while start >= 0:
        starts.append(start)
        start = text.find(part, start + 1)
    return min(starts, key=lambda s: abs(s + len(part) // 2 - middle), default=None)


class FeatureExtractor:
    """Features that need no encoder: rarity, counts, the PS of the passages that hold a term."""

    def __init__(self, engine: Engine, lexicon: Lexicon) -> None:
        self._lexicon, self._passage_terms = lexicon, passage_terms(engine)
        self._title_idf: Callable[[str], float] = lru_cache(1 << 16)(lambda term: engine.idf("title", term))

    def term_features(self, observation: Observation, terms: Sequence[Term]) -> NDArray[np.float32]:
        """TERM_FEATURES of each term [terms, features]."""
        table = np.zeros((len(terms), len(TERM_FEATURES)), np.float32)
        if not terms:
            return table
        passages, hits = observation.passages[:K], observation.hits[:K]
        numbers = {term.text: number for number, term in enumerate(terms)}

        def counts(texts: Sequence[str]) -> NDArray[np.float32]:  # [texts, terms]
            return _counts([self._lexicon.terms(text) for text in texts], numbers)

        titles, answers, snippets = (
            counts([getattr(each, part) for each in passages]) for part in ("title", "answer", "snippet")
        )
        held = (titles > 0) | (snippets > 0)
        scores = np.array([each.score for each in passages], np.float32).reshape(-1, 1)
        ps = np.where(held, scores, np.float32(0))
        table[:, 0] = [term.idf / _IDF for term in terms]
        table[:, 1] = [self._title_idf(term.text) / _IDF if "title" in term.sources else 0.0 for term in terms]
        table[:, 2:6] = [[source in term.sources for source in SOURCES] for term in terms]
        table[:, 6] = np.log1p(counts([observation.question])[0])
        for column, occurring in zip((7, 8, 9), (titles, answers, snippets), strict=True):
            table[:, column] = np.log1p(occurring.sum(0))
        table[:, 10] = held.sum(0) / K
        table[:, 11] = (titles > 0).sum(0) / K
        table[:, 12] = ps.max(0, initial=0.0)
        table[:, 13] = ps.sum(0) / np.maximum(1, held.sum(0))
        table[:, 14] = ps.sum(0) / (scores.sum() or 1.0)
        table[:, 15 : 15 + len(passages)] = held.T
        table[:, 20 : 20 + len(passages)] = (answers > 0).T
        table[:, 25] = (_counts([self._passage_terms.counts(hit) for hit in hits], numbers) > 0).sum(0) / K
        table[:, 26] = (counts([hit.title for hit in hits]) > 0).sum(0) / K
        table[:, 27] = [any(map(str.isdigit, term.text)) for term in terms]
        table[:, 28] = [len(term.text) / _LETTERS for term in terms]
        return table

    def state_features(self, observation: Observation, terms: Sequence[Term]) -> NDArray[np.float32]:
        """STATE_FEATURES [features]."""
        passages = observation.passages[:K]
        scores = [each.score for each in passages]
        answers = [" ".join(self._lexicon.terms(each.answer)) for each in passages]
        operators = Counter(refinement.op for refinement in observation.refinements)
        without_effect = len(observation.used) - len(observation.refinements)
        return np.array(
            [
                *scores, *[0.0] * (K - len(scores)),
                len(passages) / K, len({each.title for each in passages}) / K,
                max(Counter(answers).values(), default=0) / K,
                sum(score for score, answer in zip(scores, answers, strict=True) if answer == answers[0]) / K,
                min(observation.step, _MAX_STEPS) / _MAX_STEPS, min(observation.steps_left, _MAX_STEPS) / _MAX_STEPS,
                *(min(operators[op], _MAX_COUNT) / _MAX_COUNT for op in ("or", "+", "-", "^")),
                min(without_effect, _MAX_COUNT) / _MAX_COUNT, len(terms) / 100,
            ],
            np.float32,
        )  # fmt: skip


def _counts(texts: Sequence[Iterable[str]], numbers: Mapping[str, int]) -> NDArray[np.float32]:
    """How often each numbered term occurs in each text [texts, terms]."""
    table = np.zeros((len(texts), len(numbers)), np.float32)
    for row, words in zip(table, texts, strict=True):
        for word in words:
            number = numbers.get(word)
            if number is not None:
                row[number] += 1
    return table


@dataclass(frozen=True, slots=True)
class ModelInput:
    """What a model sees of an observation."""

    terms: tuple[Term, ...]  # the usable ones
    rendered: Rendered
    term_features: NDArray[np.float32]  # [terms, features]
    state_features: NDArray[np.float32]  # [features]
    open_slots: NDArray[np.bool_]  # [terms, slots]


class Featurizer:
    """From observations to model input; training and playing share it."""

    def __init__(self, tokenizer: Tokenizer, engine: Engine, max_pieces: int) -> None:
        self.lexicon = Lexicon(engine)
        self._renderer = Renderer(tokenizer, self.lexicon, max_pieces)
        self._features = FeatureExtractor(engine, self.lexicon)

    def __call__(self, observation: Observation) -> ModelInput:
        terms = tuple(usable_terms(observation, self.lexicon))
        numbers = {term.text: number for number, term in enumerate(terms)}
        return ModelInput(
            terms,
            self._renderer.render(observation, numbers),
            self._features.term_features(observation, terms),
            self._features.state_features(observation, terms),
            open_slots(terms),
        )


def pool(states: NDArray[np.float32], occurrences: NDArray[np.int16], terms: int) -> NDArray[np.float32]:
    """The mean state of each term's pieces in each source, side by side [terms, sources · width]; 0 where none."""
    width = states.shape[1]
    out = np.zeros((terms * len(SOURCES), width), np.float32)
    if len(occurrences):
        groups = occurrences[:, 0].astype(np.int64) * len(SOURCES) + occurrences[:, 1]
        starts = np.flatnonzero(np.diff(groups, prepend=-1))
        counts = np.diff(starts, append=len(groups))
        sums = np.add.reduceat(states[occurrences[:, 2]], starts, axis=0)
        out[groups[starts]] = sums / counts[:, None].astype(np.float32)
    return out.reshape(terms, len(SOURCES) * width)


def head_shapes(tensors: Mapping[str, NDArray[Any]]) -> dict[str, tuple[int, ...]]:
    """The shapes of a pointer's head, which follow from the encoder's width and the length of `mix.bias`."""
    words, mix = tensors.get("encoder.embeddings.word_embeddings.weight"), tensors.get("mix.bias")
    if words is None or words.ndim != 2 or mix is None:
        raise ValueError("the word table or mix.bias is missing")
    width, hidden = words.shape[1], mix.size
    around = width + len(STATE_FEATURES)
    return {
        **linear_shapes("term", hidden, len(SOURCES) * width + len(TERM_FEATURES)),
        **linear_shapes("moment", hidden, around), **linear_shapes("mix", hidden, hidden),
        **linear_shapes("slots", len(SLOTS), hidden),
        **linear_shapes("whole", hidden, around + len(OPERATORS) + hidden), **linear_shapes("outcome", 2, hidden),
    }  # fmt: skip


def check_features(
    folder: Path,
    stored: Sequence[Sequence[str]],
    computed: Sequence[Sequence[str]] = (TERM_FEATURES, STATE_FEATURES),
) -> None:
    """Refuses weights that were trained with other features than this version computes."""
    if list(map(tuple, stored)) != list(map(tuple, computed)):
        raise ModelCorruptError(
            f"{folder}: trained with other features than this program computes; train it again, or use the version "
            "of Orienteer that wrote it"
        )
