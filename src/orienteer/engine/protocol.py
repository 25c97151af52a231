"""The `Engine` protocol, everything Orienteer asks of a search engine, and the optional abilities of engines.

An ability is a Protocol of its own. Code that can use one asks `isinstance(engine, Explains)`, never for a class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from orienteer.data.passage import Passage
from orienteer.errors import FilterError
from orienteer.query import Field, Query, Refinement


class Hit(NamedTuple):
    """A passage found, with its BM25 score (a float32 value)."""

    id: str
    score: float


@runtime_checkable
class Engine(Protocol):
    """Hits come best first; equal scores in the order in which the passages were indexed."""

    def search(self, query: Query, k: int) -> Sequence[Hit]:
        """The top k passages of one query."""
        ...

    def search_many(self, queries: Sequence[Query], k: int) -> Sequence[Sequence[Hit]]:
        """`search` for each query, in one call."""
        ...

    def refine(self, query: Query, refinements: Sequence[Refinement], k: int) -> Sequence[Sequence[Hit]]:
        """The top k of query + r for every r, exactly as `search` would give them."""
        ...

    def passages(self, ids: Sequence[str]) -> list[Passage]:
        """The stored passages with these ids, in their order."""
        ...

    def idf(self, field: str, term: str) -> float:
        """Lucene's BM25 idf of an index term in a field; that of df = 0 where no passage has it."""
        ...

    def analyze(self, text: str) -> list[str]:
        """The index terms of a text, in order, stop words removed."""
        ...


@runtime_checkable
class HasFingerprint(Protocol):
    """Names its content: an engine its passages, a model its weights."""

    @property
    def fingerprint(self) -> str: ...


def fingerprint_of(part: object) -> str:
    """The fingerprint of an engine, a reader or an agent; empty where it has none."""
    return str(part.fingerprint) if isinstance(part, HasFingerprint) else ""


@runtime_checkable
class RefinesMany(Protocol):
    """Refines many queries in one call."""

    def refine_many(
        self, queries: Sequence[Query], refinements: Sequence[Sequence[Refinement]], k: int
    ) -> Sequence[Sequence[Sequence[Hit]]]:
        """`refine` for each query with its own refinements."""
        ...


def refine_many(
    engine: Engine, queries: Sequence[Query], refinements: Sequence[Sequence[Refinement]], k: int
) -> Sequence[Sequence[Sequence[Hit]]]:
    """`engine.refine` for each query, in one call where the engine can."""
    if isinstance(engine, RefinesMany):
        return engine.refine_many(queries, refinements, k)
    return [engine.refine(query, options, k) for query, options in zip(queries, refinements, strict=True)]


@runtime_checkable
class AnalyzesMany(Protocol):
    """Analyses many texts in one call."""

    def analyze_many(self, texts: Sequence[str]) -> list[list[str]]: ...


def analyze_many(engine: Engine, texts: Sequence[str]) -> list[list[str]]:
    """`engine.analyze` of each text, in one call where the engine can."""
    if isinstance(engine, AnalyzesMany):
        return engine.analyze_many(texts)
    return [engine.analyze(text) for text in texts]


@dataclass(frozen=True, slots=True)
class ClauseScore:
    """One clause's share of a score; `frequency` and `score` are 0 where the passage lacks the term."""

    occur: Literal["must", "should", "must_not"]
    field: str
    term: str
    boost: float
    idf: float
    frequency: int
    score: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """A passage's score for a query; 0 and not `matches` where the query does not return it."""

    matches: bool
    score: float
    shares: tuple[ClauseScore, ...]


@runtime_checkable
class Explains(Protocol):
    """Splits a score into the shares of the query's clauses."""

    def explain(self, query: Query, passage_id: str) -> Explanation: ...


@runtime_checkable
class StoresTerms(Protocol):
    """Keeps the index terms of every passage, by number, and their frequencies."""

    @property
    def vocabulary_size(self) -> int: ...

    def term(self, number: int) -> str: ...

    def term_numbers(self, terms: Sequence[str]) -> list[int]:
        """Below 0 for a term that no passage has."""
        ...

    def passage_terms(self, passage_id: str) -> NDArray[np.int64]:
        """The terms of `contents` in order, stop words removed; empty for an unknown passage."""
        ...

    def term_idf(self, number: int) -> float:
        """In `contents`."""
        ...

    def term_probability(self, number: int) -> float:
        """P(w | C): the term's share of all occurrences in `contents`."""
        ...


@runtime_checkable
class StoresTermsInBulk(Protocol):
    """Gives the terms of many passages, and many terms, in one call each: what `StoresTerms` gives one by one."""

    def terms_of_passages(self, ids: Sequence[str]) -> list[NDArray[np.int64]]: ...

    def term_texts(self, numbers: NDArray[np.int64]) -> list[str]: ...

    def term_idfs(self, numbers: NDArray[np.int64]) -> list[float]: ...


@runtime_checkable
class SuggestsTerms(Protocol):
    """Finds terms that are spelled nearly like a word."""

    def nearest_terms(self, word: str, count: int) -> list[str]:
        """Terms within a typing error or two of the word: the fewest edits first, of equals the most frequent."""
        ...


@runtime_checkable
class StoresPassages(Protocol):
    """Holds its passages by number, from 0 to `len(engine)`, in the order in which they were indexed."""

    def __len__(self) -> int: ...

    def passage_at(self, number: int) -> Passage: ...

    def id_at(self, number: int) -> str: ...

    @property
    def passages_fingerprint(self) -> str:
        """Names ids, titles and texts in their order: an index built again from the same passages has the same."""
        ...


def neighbours(engine: Engine, passage_id: str, around: int) -> list[Passage]:
    """The passage with up to `around` on either side that are of its document, in the order of the index.

    A document is a file, or a title where the passage is from no file. The passage alone where the engine cannot tell.
    """
    [passage] = engine.passages([passage_id])
    document = document_of(passage)
    if not document or not isinstance(engine, StoresPassages) or not isinstance(engine, ScoresAll):
        return [passage]
    number = engine.number_of(passage_id)
    near = range(max(0, number - around), min(len(engine), number + around + 1))
    found = [passage if each == number else engine.passage_at(each) for each in near]
    return [each for each in found if document_of(each) == document]


def document_of(passage: Passage) -> str:
    """What a passage is a part of: its file, else its title; empty where it has neither."""
    return str(passage.metadata.get("file") or passage.title)


@runtime_checkable
class ScoresAll(Protocol):
    """Scores every passage, not only the best k."""

    def __len__(self) -> int: ...

    def number_of(self, passage_id: str) -> int:
        """The passage's number in index order; raises `UnknownPassageError`."""
        ...

    def id_at(self, number: int) -> str: ...

    def scores(self, query: Query) -> NDArray[np.float32]:
        """[passages]: the score by passage number, -inf where the query does not return the passage."""
        ...


@runtime_checkable
class ListsMatches(Engine, Protocol):
    """Lists all passages that hold a term."""

    def __len__(self) -> int: ...

    def number_of(self, passage_id: str) -> int: ...

    def id_at(self, number: int) -> str: ...

    def matches(self, terms: Sequence[tuple[Field, str]]) -> list[NDArray[np.uint32]]:
        """For each term of a field its passages' numbers, rising; several words are a phrase."""
        ...


class Similarity(NamedTuple):
    """BM25's parameters, where they are not Lucene's defaults; b may differ by field."""

    k1: float = 1.2
    b: float = 0.75
    title_b: float = 0.75


class TermPostings(NamedTuple):
    """A term's idf; its passages by number, rising; its frequency in each, and the norm byte of the field's length."""

    idf: float
    passages: NDArray[np.uint32]
    frequencies: NDArray[np.integer]
    norms: NDArray[np.integer]


@runtime_checkable
class HasPostings(Engine, Protocol):
    """Gives what BM25 is computed from, and scores with other parameters of it."""

    def __len__(self) -> int: ...

    def number_of(self, passage_id: str) -> int: ...

    def id_at(self, number: int) -> str: ...

    def postings(self, terms: Sequence[tuple[Field, str]]) -> list[TermPostings]: ...

    def average_length(self, field: Field) -> float: ...

    def scores_with(self, query: Query, similarity: Similarity | None) -> NDArray[np.float32]:
        """[passages]: the score by passage number, -inf where the query does not return the passage."""
        ...


@runtime_checkable
class Filters(Protocol):
    """Searches the passages whose metadata passes a filter, as exactly as all passages."""

    def filtered(self, where: str) -> Engine:
        """The engine for these passages. Statistics such as idf stay those of the whole index, as with Lucene's FILTER.

        `query/where.py` says what a filter is; raises `FilterError` where it cannot be read, or no passage has a field.
        """
        ...


class MetadataColumn(NamedTuple):
    """One field of all passages: `values[numbers[passage]]`, None where a passage has no value."""

    values: list[Any]
    numbers: NDArray[np.int32]


@runtime_checkable
class HasMetadata(Protocol):
    """Gives the metadata of its passages by field."""

    def __len__(self) -> int: ...

    def metadata_fields(self) -> frozenset[str]:
        """Every field that some passage has."""
        ...

    def metadata_columns(self, fields: Sequence[str]) -> list[MetadataColumn]:
        """The fields as a filter sees them: `year` and `type` may be derived."""
        ...


@runtime_checkable
class HasFilter(Protocol):
    """Knows by number which passages may be results."""

    @property
    def allowed(self) -> NDArray[np.bool_]:
        """[passages]; empty where all may be."""
        ...


def allowed_by(engine: object) -> NDArray[np.bool_]:
    """Which passages an engine's filter leaves, by number; empty where it has none."""
    if isinstance(engine, HasFilter):
        return engine.allowed
    mask = np.empty(0, np.bool_)
    mask.flags.writeable = False
    return mask


def filtered(engine: Engine, where: str | None) -> Engine:
    """The engine behind a filter; the engine itself where there is none."""
    if where is None or not where.strip():
        return engine
    if not isinstance(engine, Filters):
        raise FilterError(f"a {type(engine).__name__} has no filters; they need an index of Orienteer's own")
    return engine.filtered(where)


@runtime_checkable
class InFolder(Protocol):
    """Lies in one folder, where more of it may lie, such as vectors."""

    @property
    def folder(self) -> Path | None:
        """None where the index is only in memory."""
        ...
