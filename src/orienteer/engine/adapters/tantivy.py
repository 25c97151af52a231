"""The tantivy adapter: our terms and clauses, tantivy's index and search.

Tantivy scores in float32 sums with a factor of k1 + 1 and counts every passage in a field's statistics,
with or without that field. The adapter takes the factor out, corrects idf by a boost, and pads absent fields
to keep the average length. What remains is rounding: scores agree with Lucene's to about 1e-6 (where
passages lack a title, title scores to one part in the number of title terms), and two passages
closer than that may change places.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from orienteer.data.passage import Passage
from orienteer.engine.embedded import bm25
from orienteer.engine.embedded.analysis import analyze_terms
from orienteer.engine.protocol import Hit
from orienteer.engine.reference import Clause, clauses
from orienteer.errors import (
    DuplicateIdError,
    IndexMissingError,
    MissingExtraError,
    OrienteerError,
    UnknownFieldError,
    UnknownPassageError,
)
from orienteer.query import FIELDS, Query, Refinement

_FACTOR = np.float32(1) + bm25.K1
_HEAP_BYTES = 2_000_000_000  # used as needed; room for a million passages in one segment
_GAP = "the"  # stands for any removed stop word: it takes a position and is not indexed
_PAD = "."  # no analyser makes this a term


class TantivyEngine:
    """An engine over passages, or over a folder that an earlier one wrote (`path` with passages)."""

    def __init__(self, source: Iterable[Passage] | str | Path, path: str | Path | None = None):
        self._tantivy = tantivy = _import()
        if isinstance(source, str | Path):
            if not Path(source).is_dir() or not tantivy.Index.exists(str(source)):
                raise IndexMissingError(f"no tantivy index at {source}; build one from passages with path=")
            self._index = tantivy.Index.open(str(source))
        else:
            self._index = _build(tantivy, list(source), path)
        self._searcher = self._index.searcher()
        if self._searcher.num_segments > 1:
            raise OrienteerError(
                f"the tantivy index has {self._searcher.num_segments} segments, which breaks the order of "
                "ties; expected one: index fewer passages"
            )
        count = self._searcher.num_docs
        self._ids = [self._document(number)["id"][0] for number in range(count)]
        self._number = {id: number for number, id in enumerate(self._ids)}
        self._doc_counts = {field: self._searcher.doc_freq("has", field) for field in FIELDS}

    def search(self, query: Query, k: int) -> list[Hit]:
        found = clauses(query)
        limit = min(k, len(self._ids))
        if limit <= 0 or all(clause.occur == "must_not" for clause in found):
            return []
        occur = self._tantivy.Occur
        occurs = {"must": occur.Must, "should": occur.Should, "must_not": occur.MustNot}
        parts = [(occurs[clause.occur], self._part(clause, float(boost))) for clause, boost in found.items()]
        hits = self._searcher.search(self._tantivy.Query.boolean_query(parts), limit, count=False).hits
        return [Hit(self._ids[address.doc], float(np.float32(score) / _FACTOR)) for score, address in hits]

    def search_many(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        return [self.search(query, k) for query in queries]

    def refine(self, query: Query, refinements: Sequence[Refinement], k: int) -> list[list[Hit]]:
        return [self.search(query.refine(refinement), k) for refinement in refinements]

    def passages(self, ids: Sequence[str]) -> list[Passage]:
        for id in ids:
            if id not in self._number:
                raise UnknownPassageError(f"no passage has the id {id!r}; expected ids as search gives them")
        return [self._passage(id) for id in ids]

    def idf(self, field: str, term: str) -> float:
        if field not in FIELDS:
            raise UnknownFieldError(f"unknown field {field!r}; expected {' or '.join(FIELDS)}")
        return float(bm25.idf(self._doc_counts[field], self._searcher.doc_freq(field, term)))

    def analyze(self, text: str) -> list[str]:
        return [term for term in analyze_terms(text) if term is not None]

    def _passage(self, id: str) -> Passage:
        document = self._document(self._number[id])
        return Passage(id, bytes(document["stored_title"][0]).decode(), bytes(document["text"][0]).decode())

    def _document(self, number: int) -> Any:
        return self._searcher.doc(self._tantivy.DocAddress(0, number))

    def _part(self, clause: Clause, boost: float) -> Any:
        query = self._tantivy.Query
        if len(clause.terms) == 1:
            part = query.term_query(self._index.schema, clause.field, clause.terms[0][1], index_option="freq")
        else:
            part = query.phrase_query(self._index.schema, clause.field, list(clause.terms))
        dfs = [self._searcher.doc_freq(clause.field, term) for _, term in clause.terms]
        wanted = sum(bm25.idf(self._doc_counts[clause.field], df) for df in dfs)
        theirs = sum(bm25.idf(len(self._ids), df) for df in dfs)
        return query.boost_query(part, boost * float(wanted) / float(theirs))


def _build(tantivy: Any, passages: list[Passage], path: str | Path | None) -> Any:
    """A new index of one segment, in memory or in the folder `path`."""
    seen: set[str] = set()
    for passage in passages:
        if passage.id in seen:
            raise DuplicateIdError(f"two passages have the id {passage.id!r}; give each its own")
        seen.add(passage.id)
    schema = tantivy.SchemaBuilder()
    for name in ("id", "has"):
        schema.add_text_field(name, stored=name == "id", tokenizer_name="raw", index_option="basic")
    for name in ("stored_title", "text"):
        schema.add_bytes_field(name, stored=True)
    for name in FIELDS:
        schema.add_text_field(name, tokenizer_name="terms", index_option="position")
    if path is not None:
        Path(path).mkdir(parents=True, exist_ok=True)
    index = tantivy.Index(schema.build(), path=None if path is None else str(path), reuse=False)
    words = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace())
    index.register_tokenizer("terms", words.filter(tantivy.Filter.custom_stopword([_GAP])).build())
    writer = index.writer(heap_size=_HEAP_BYTES, num_threads=1)
    all_contents = _padded([analyze_terms(passage.contents) for passage in passages])
    all_titles = _padded([analyze_terms(passage.title) for passage in passages])
    for passage, contents, title in zip(passages, all_contents, all_titles, strict=True):
        document = tantivy.Document(id=passage.id)
        document.add_bytes("stored_title", passage.title.encode())
        document.add_bytes("text", passage.text.encode())
        for name, (has, text) in zip(FIELDS, (contents, title), strict=True):
            document.add_text(name, text)
            if has:
                document.add_text("has", name)
        writer.add_document(document)
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    return index


def _padded(terms: list[list[str | None]]) -> Iterator[tuple[bool, str]]:
    """For each passage whether it has the field, and the text to index.

    An absent field is given pads, on the whole as many as keep the average length of the present ones.
    """
    lengths = [sum(term is not None for term in passage) for passage in terms]
    present = sum(length > 0 for length in lengths)
    average = sum(lengths) / present if present else 0.0
    pads = pairwise(round(absent * average) for absent in range(len(terms) - present + 1))
    for passage, length in zip(terms, lengths, strict=True):
        if length:
            yield True, " ".join(_GAP if term is None else term for term in passage)
        else:
            before, after = next(pads)
            yield False, " ".join([_PAD] * (after - before))


def _import() -> Any:
    try:
        import tantivy
    except ImportError:
        raise MissingExtraError("tantivy", "tantivy") from None
    return tantivy
