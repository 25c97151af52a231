"""A query as Lucene rewrites it: MUST, SHOULD and MUST_NOT clauses, each a list of postings with a weight.

The same term twice as SHOULD (or twice as MUST) is one clause with the boosts added; a clause whose text is only
stop words disappears; a term that no passage has makes a MUST clause, and so the query, match nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from orienteer.engine.embedded import scan
from orienteer.engine.embedded.analysis import MAX_TOKEN_UNITS, STOP_WORDS, analyze, analyze_terms
from orienteer.engine.embedded.index import FIELD_NUMBER, NO_TERM, Index
from orienteer.engine.embedded.kernels import search as kernels
from orienteer.engine.embedded.structure import damaged
from orienteer.errors import TooManyClausesError
from orienteer.query import Query, Refinement
from orienteer.query.refinement import MAX_CLAUSES


class FieldTerms(NamedTuple):
    """What a clause looks for: index terms at places, in a field (0 contents, 1 title)."""

    field: int
    terms: tuple[str, ...]
    places: tuple[int, ...] = (0,)


class Postings(NamedTuple):
    """A list: a range of the index's postings, or of the query's own (`extra`), its idf and highest saturation."""

    term: int  # its number in the vocabulary; -1 for a phrase
    start: int
    end: int
    extra: bool
    idf: np.float32
    highest: np.float32
    row: int = -1  # its place among the index's long lists; -1 for a short one


class Clause(NamedTuple):
    text: FieldTerms
    postings: Postings
    boost: float

    @property
    def weight(self) -> np.float32:
        return np.float32(self.boost) * self.postings.idf

    @property
    def most(self) -> float:
        """The highest score a posting of the clause can have."""
        weight = self.weight
        return float(weight - weight / self.postings.highest)


class Rows(NamedTuple):
    """Clauses as the kernels take them."""

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    extra: NDArray[np.bool_]
    weight: NDArray[np.float32]

    @classmethod
    def of(cls, clauses: Sequence[Clause]) -> Rows:
        if not clauses:
            return _NO_ROWS
        lists = [clause.postings for clause in clauses]
        return cls(
            np.array([postings.start for postings in lists], np.int64),
            np.array([postings.end for postings in lists], np.int64),
            np.array([postings.extra for postings in lists], np.bool_),
            np.array([clause.weight for clause in clauses], np.float32),
        )


_NO_ROWS = Rows(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.bool_), np.empty(0, np.float32))


class Lists:
    """The postings that one query's texts need: found in the index, or made for it (phrases)."""

    def __init__(self, index: Index):
        self.index = index
        self.documents = [_EMPTY_DOCUMENTS]
        self.codes = [np.empty(0, index.array("codes").dtype)]
        self.length = 0
        self._pairs: dict[tuple[int, int, int], int] = {}
        self._known: dict[FieldTerms, Postings | None] = {}

    def find(self, texts: Iterable[FieldTerms]) -> dict[FieldTerms, Postings | None]:
        """Each text's postings; None where no passage has it."""
        new = []
        remembered = self.index.remembered
        for text in dict.fromkeys(texts):
            if text not in self._known:
                if text in remembered:
                    self._known[text] = remembered[text]
                else:
                    new.append(text)
        if not new:
            return self._known
        found = find_terms(self.index, [term for text in new for term in text.terms])
        words, phrases, numbers, at = [], [], [], 0
        for text in new:
            if len(text.terms) == 1:
                words.append(text)
                numbers.append(at)
            else:
                phrases.append((text, found[at : at + len(text.terms)].tolist()))
            at += len(text.terms)
        fields = np.array([text.field for text in words], np.int64)
        postings = dict(zip(words, self._terms(words, fields, found[numbers]), strict=True))
        self.index.remember(postings)
        self._known.update(postings)
        if phrases:
            self._known.update(self._phrases(phrases))
        return self._known

    def idf(self, field: int, term: str, frequency: int) -> np.float32:
        """Of a term that so many of the index's passages have."""
        return self.index.idf(field, frequency)

    def _terms(
        self, words: list[FieldTerms], fields: NDArray[np.int64], terms: NDArray[np.int64]
    ) -> list[Postings | None]:
        index = self.index
        numbers = np.where(terms == NO_TERM, 0, fields * index.terms + terms)
        offsets = index.array("offsets")
        if offsets.size < 2:
            return [None] * len(numbers)
        index.check_lists(numbers)
        starts, ends = offsets[numbers].tolist(), offsets[numbers + 1].tolist()
        highest = index.saturation[index.array("best_codes")[numbers]]
        rows = self._rows(numbers).tolist()
        return [
            Postings(term, start, end, False, self.idf(text.field, text.terms[0], end - start), top, row)
            if term != NO_TERM and end > start
            else None
            for text, term, start, end, top, row in zip(words, terms.tolist(), starts, ends, highest, rows, strict=True)
        ]

    def _rows(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Each list's place among the long ones, -1 for a short list."""
        longs = self.index.array("long_lists")
        if longs.size == 0:
            return np.full(numbers.size, -1)
        row = np.minimum(np.searchsorted(longs, numbers), longs.size - 1)
        return np.where(longs[row] == numbers, row, -1)

    def _phrases(self, phrases: list[tuple[FieldTerms, list[int]]]) -> dict[FieldTerms, Postings | None]:
        index = self.index
        found: dict[FieldTerms, Postings | None] = {text: None for text, _ in phrases}
        possible, frequencies = [], []
        offsets = index.array("offsets")
        if offsets.size < 2:
            return found
        numbers = np.array([term + text.field * index.terms for text, terms in phrases for term in terms])
        held = np.array([term != NO_TERM for _, terms in phrases for term in terms])
        index.check_lists(numbers * held)
        lengths = np.where(held, offsets[numbers * held + 1] - offsets[numbers * held], 0).tolist()
        at = 0
        for text, terms in phrases:
            own = lengths[at : at + len(terms)]
            at += len(terms)
            if all(own):
                possible.append((text, terms))
                frequencies.append(own)
        if not possible:
            return found
        # One pass over all text costs more than looking into a phrase's passages, and cheaper than doing so for many.
        positions = index.manifest.counts["contents_length"]
        words_each = positions // max(1, index.size)
        apart = sum(min(own) * words_each + PHRASE_COST for own in frequencies)
        search = self._phrases_at_once if apart > 2 * positions else self._phrases_apart
        which, documents, counts = search(possible, frequencies)
        fields = np.array([text.field for text, _ in possible], np.int64)[which]
        norms = index.array("norms")[fields * index.size + documents]
        kinds, kind_of = np.unique(fields << 40 | counts.astype(np.int64) << 8 | norms, return_inverse=True)
        kind_codes = [self._code(kind >> 40, kind >> 8 & 0xFFFFFFFF, kind & 255) for kind in kinds.tolist()]
        codes = np.array(kind_codes, np.int64)[kind_of]
        saturation = self.saturation()[codes]
        ends = np.searchsorted(which, np.arange(len(possible) + 1)).tolist()
        for (text, _), own, start, end in zip(possible, frequencies, ends, ends[1:], strict=False):
            if end > start:
                # Lucene adds the terms' float32 idf in double.
                pairs = zip(text.terms, own, strict=True)
                idf = np.float32(sum(float(self.idf(text.field, term, frequency)) for term, frequency in pairs))
                place = self.length + start, self.length + end
                found[text] = Postings(NO_TERM, *place, True, idf, saturation[start:end].max())
        self.documents.append(documents)
        self.codes.append(codes.astype(self.codes[0].dtype))
        self.length += documents.size
        return found

    def _phrases_apart(
        self, phrases: list[tuple[FieldTerms, list[int]]], frequencies: list[list[int]]
    ) -> tuple[Any, Any, Any]:
        """Each posting's phrase, passage and frequency, from the passages that have all terms of a phrase."""
        index = self.index
        parts: list[tuple[Any, Any, Any]] = []
        for number, ((text, terms), own) in enumerate(zip(phrases, frequencies, strict=True)):
            lists = [text.field * index.terms + term for _, term in sorted(set(zip(own, terms, strict=True)))]
            found, counts = np.empty(min(own), np.uint32), np.empty(min(own), np.uint32)
            size = kernels.phrase_list(
                index.array("documents"), index.array("offsets"), *index.packed, index.array("stream_ends"),
                index.array("title_positions"), np.array(lists, np.int64), np.array(terms, np.int32),
                np.array(text.places, np.int64), text.field == 1, found, counts,
            )  # fmt: skip
            parts.append((np.full(size, number), found[:size], counts[:size]))
        which, documents, frequency = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return which, documents, frequency

    def _phrases_at_once(
        self, phrases: list[tuple[FieldTerms, list[int]]], frequencies: list[list[int]]
    ) -> tuple[Any, Any, Any]:
        """The same from one pass over the text of all passages."""
        index = self.index
        # A phrase is looked for wherever its rarest term stands, beginning with the next rarest beside it.
        rare = [sorted(range(len(own)), key=own.__getitem__)[:2] for own in frequencies]
        key = np.array([terms[one] for (_, terms), (one, _) in zip(phrases, rare, strict=True)], np.int64)
        order = np.argsort(key, kind="stable")
        chosen = [(*phrases[i], *rare[i]) for i in order.tolist()]
        first = np.full(index.terms + 1, -1, np.int32)
        first[key[order][::-1] + 1] = np.arange(len(phrases), dtype=np.int32)[::-1]
        try:
            which, documents, counts = kernels.phrase_pass(
                *index.packed, index.array("stream_ends"), index.array("title_positions"), first,
                np.append(key[order], NO_TERM).astype(np.int32),
                np.array([terms[other] for _, terms, _, other in chosen], np.int32),
                np.array([text.places[other] - text.places[one] for text, _, one, other in chosen], np.int64),
                np.array([text.places[one] for text, _, one, _ in chosen], np.int64),
                np.array([term for _, terms, _, _ in chosen for term in terms], np.int32),
                np.array([place for text, *_ in chosen for place in text.places], np.int64),
                np.cumsum([0, *(len(terms) for _, terms, _, _ in chosen)]),
                np.array([text.field == 1 for text, *_ in chosen]),
            )  # fmt: skip
        except IndexError as error:
            raise damaged("stream", str(error)) from None
        which = order[which]
        by_phrase = np.argsort(which, kind="stable")
        return which[by_phrase], documents[by_phrase], counts[by_phrase]

    def _code(self, field: int, frequency: int, norm: int) -> int:
        """A pair's code; a phrase may have a frequency that no single term has: its code is the query's own."""
        if (code := self.index.code_of.get((field, frequency, norm))) is not None:
            return code
        return self._pairs.setdefault((field, frequency, norm), len(self.index.code_of) + len(self._pairs))

    def saturation(self) -> NDArray[np.float32]:
        return self.index.saturation_with(list(self._pairs)) if self._pairs else self.index.saturation

    def pairs(self) -> list[tuple[int, int, int]]:
        """What each code stands for: field, frequency, norm."""
        return [*self.index.code_of, *self._pairs]

    def arrays(self) -> tuple[Any, Any, Any, Any, Any]:
        """The kernels' first arguments: postings of the index, of the query, and what their codes stand for."""
        if self.length == 0:
            documents, codes = self.documents[0], self.codes[0]
        else:
            documents, codes = np.concatenate(self.documents), np.concatenate(self.codes)
        documents.flags.writeable = codes.flags.writeable = False
        index = self.index
        return index.array("documents"), index.array("codes"), documents, codes, self.saturation()


@dataclass(frozen=True)
class Compiled:
    """A query's clauses; `impossible` when a MUST clause has no postings."""

    must: list[Clause]
    should: list[Clause]
    must_not: list[Clause]
    impossible: bool
    clauses: int  # before equal ones were joined
    lists: Lists


@lru_cache(maxsize=256)  # the shards of a query ask for it one after another; the dicts are only read
def query_texts(query: Query) -> tuple[dict[str, dict[FieldTerms, float]], int]:
    """What the clauses of each kind (`+`, `should`, `-`) look for with which boost, and how many clauses there were."""
    texts: dict[str, dict[FieldTerms, float]] = {"should": {}, "+": {}, "-": {}}
    clauses = 0
    for term in analyze(query.question):
        clauses += 1
        _add(texts["should"], FieldTerms(0, (term,)), 1.0)
    for refinement in query.refinements:
        if (text := text_of(refinement)) is not None:
            clauses += 1
            occur = refinement.op if refinement.op in "+-" else "should"
            _add(texts[occur], text, refinement.weight)
    if clauses > MAX_CLAUSES:
        raise too_many_clauses(clauses)
    return texts, clauses


def compile_query(query: Query, lists: Lists) -> Compiled:
    texts, clauses = query_texts(query)
    known = lists.find(text for group in texts.values() for text in group)

    def rows(group: dict[FieldTerms, float]) -> list[Clause]:
        return [Clause(text, postings, boost) for text, boost in group.items() if (postings := known[text])]

    must = rows(texts["+"])
    return Compiled(must, rows(texts["should"]), rows(texts["-"]), len(must) < len(texts["+"]), clauses, lists)


def too_many_clauses(clauses: int) -> TooManyClausesError:
    return TooManyClausesError(
        f"the query has {clauses} clauses, at most {MAX_CLAUSES} are allowed; shorten the question"
    )


def text_of(refinement: Refinement) -> FieldTerms | None:
    """What a refinement looks for; None where its words are all stop words."""
    return text_of_term(refinement.field, refinement.term)


@lru_cache(maxsize=1 << 16)
def text_of_term(field: str, term: str) -> FieldTerms | None:
    if term.isascii() and term.isalnum() and len(term) <= MAX_TOKEN_UNITS:
        term = term.lower()
        return None if term in STOP_WORDS else FieldTerms(FIELD_NUMBER[field], (term,))
    if term.isascii() and len(term) <= MAX_TOKEN_UNITS and term.replace(" ", "").isalnum():
        tokens = [None if word in STOP_WORDS else word for word in term.lower().split()]
    else:
        tokens = analyze_terms(term)
    placed = [(place, token) for place, token in enumerate(tokens) if token is not None]
    if not placed:
        return None
    first = placed[0][0]
    places = tuple(place - first for place, _ in placed)
    return FieldTerms(FIELD_NUMBER[field], tuple(token for _, token in placed), places)


def find_terms(index: Index, terms: Sequence[str]) -> NDArray[np.int64]:
    """The terms' numbers in the vocabulary, NO_TERM where it has none."""
    words = [term.encode() for term in terms]
    if scan.is_time():
        return scan.find_terms(index, words)
    ends = np.zeros(len(words) + 1, np.int64)
    np.cumsum([len(word) for word in words], out=ends[1:])
    found = np.empty(len(words), np.int64)
    wanted = np.frombuffer(b"".join(words), np.uint8)
    kernels.find_terms(index.array("terms"), index.array("term_ends"), wanted, ends, found)
    return found


def _add(group: dict[FieldTerms, float], text: FieldTerms, boost: float) -> None:
    group[text] = group.get(text, 0.0) + float(np.float32(boost))


_EMPTY_DOCUMENTS = np.empty(0, np.uint32)
PHRASE_COST = 40_000  # what looking for one phrase by itself costs beyond reading text, in words read
