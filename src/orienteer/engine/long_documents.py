"""Documents longer than a passage: a hit is the piece of the document that suits the query best.

An index of somebody else finds and scores whole documents; a reader and an agent want passages. The documents stay as
they are there: they are cut here, and a piece's id names its document. Which documents are found, in which order and
with which scores, is the engine's answer; another refinement may bring another piece of the same document.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orienteer.data.passage import Passage
from orienteer.data.split import Split, cut, words
from orienteer.engine.protocol import Engine, Hit, analyze_many, fingerprint_of
from orienteer.engine.request_counters import Counters, CountsRequests
from orienteer.errors import UnknownPassageError
from orienteer.query import Query, Refinement

PIECE = "#piece-"  # between a document's id and the number of a piece
_DOCUMENTS = 1 << 12  # kept in memory

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Document:
    """A document in pieces; how often each term stands in each."""

    pieces: tuple[Passage, ...]
    counts: tuple[Mapping[str, int], ...]

    def share(self, terms: Sequence[str]) -> Floats:
        """[pieces]: how much of these terms each has, a saturated frequency; of a phrase, that of its rarest word."""
        often = np.array([[count.get(term, 0) for count in self.counts] for term in terms], np.float64).min(0)
        return np.asarray(often / (often + 1.0), np.float64)


class SplitEngine:
    """`Engine` over one of long documents; a document of no more than one and a half times `words` stays whole."""

    def __init__(self, engine: Engine, words: int):
        self._engine, self._split = engine, Split(words)
        self._documents: dict[str, _Document] = {}
        self._lock = threading.Lock()
        self.fingerprint = f"{fingerprint_of(engine)}-split-{words}"

    @property
    def counters(self) -> Counters:
        """What the engine sent to a service, where it does."""
        return self._engine.counters if isinstance(self._engine, CountsRequests) else Counters()

    def close(self) -> None:
        if (close := getattr(self._engine, "close", None)) is not None:
            close()

    def search(self, query: Query, k: int = 5) -> list[Hit]:
        return self._of_pieces([self._engine.search(query, k)], [query])[0]

    def search_many(self, queries: Sequence[Query], k: int = 5) -> list[list[Hit]]:
        return self._of_pieces(self._engine.search_many(queries, k), queries)

    def refine(self, query: Query, refinements: Sequence[Refinement], k: int = 5) -> list[list[Hit]]:
        lists = self._engine.refine(query, refinements, k)
        documents = self._cut(hit.id for hits in lists for hit in hits)
        base = {id: self._suits(document, query) for id, document in documents.items()}
        more: dict[tuple[str, str, str], Floats] = {}
        found = []
        for refinement, hits in zip(refinements, lists, strict=True):
            row = []
            for hit in hits:
                document = documents[hit.id]
                key = hit.id, refinement.field, refinement.term
                if key not in more:
                    more[key] = self._part(document, refinement.field, self._words(refinement.term))
                suits = base[hit.id] if refinement.op == "-" else base[hit.id] + refinement.weight * more[key]
                row.append(Hit(document.pieces[int(suits.argmax())].id, hit.score))
            found.append(row)
        return found

    def passages(self, ids: Sequence[str]) -> list[Passage]:
        documents = self._cut(_document_of(each) for each in ids)
        found = []
        for each in ids:
            pieces = documents[_document_of(each)].pieces
            piece = next((piece for piece in pieces if piece.id == each), None)
            if piece is None:
                raise UnknownPassageError(f"no passage {each!r}: its document has {len(pieces)} pieces")
            found.append(piece)
        return found

    def idf(self, field: str, term: str) -> float:
        return self._engine.idf(field, term)

    def analyze(self, text: str) -> list[str]:
        return self._engine.analyze(text)

    def _of_pieces(self, lists: Sequence[Sequence[Hit]], queries: Sequence[Query]) -> list[list[Hit]]:
        documents = self._cut(hit.id for hits in lists for hit in hits)
        return [
            [
                Hit(documents[hit.id].pieces[int(self._suits(documents[hit.id], query).argmax())].id, hit.score)
                for hit in hits
            ]
            for hits, query in zip(lists, queries, strict=True)
        ]

    def _suits(self, document: _Document, query: Query) -> Floats:
        """[pieces]: how well each suits the query; of equal ones the first is taken."""
        suits = np.zeros(len(document.pieces))
        for term in self._words(query.question):
            suits += self._part(document, "contents", [term])
        for refinement in query.refinements:
            if refinement.op != "-":
                suits += refinement.weight * self._part(document, refinement.field, self._words(refinement.term))
        return suits

    def _part(self, document: _Document, field: str, terms: Sequence[str]) -> Floats:
        """What a clause adds; a title is the same for all pieces."""
        if field == "title" or not terms or len(document.pieces) == 1:
            return np.zeros(len(document.pieces))
        return sum(self._engine.idf("contents", term) for term in terms) * document.share(terms)

    def _words(self, text: str) -> list[str]:
        return self._engine.analyze(text)

    def _cut(self, ids: Iterable[str]) -> dict[str, _Document]:
        """The documents of these ids, cut."""
        wanted = list(dict.fromkeys(ids))
        with self._lock:
            if len(self._documents) > _DOCUMENTS:
                self._documents = {}
            known = self._documents
        new = [each for each in wanted if each not in known]
        whole = self._engine.passages(new) if new else []
        cuts = [_pieces(document, self._split) for document in whole]
        terms = iter(analyze_many(self._engine, [piece.text for pieces in cuts for piece in pieces if len(pieces) > 1]))
        for document, pieces in zip(whole, cuts, strict=True):
            counts = [Counter(next(terms)) for _ in pieces] if len(pieces) > 1 else [Counter[str]()]
            known[document.id] = _Document(tuple(pieces), tuple(counts))
        return {each: known[each] for each in wanted}


def _pieces(document: Passage, split: Split) -> list[Passage]:
    if words(document.text) <= split.longest:
        return [document]
    texts = [text for text in cut(document.text, split) if text.strip()]
    return [
        Passage(f"{document.id}{PIECE}{number}", document.title, text.strip(), document.metadata)
        for number, text in enumerate(texts, 1)
    ]


def _document_of(passage_id: str) -> str:
    """The document of a piece; an id that names no piece is a document's."""
    document, between, number = passage_id.rpartition(PIECE)
    return document if between and number.isdigit() else passage_id
