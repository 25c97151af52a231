"""What BM25 knows of the collection: in how many passages a term stands, and how many have a field at all."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from orienteer.data.passage import Passage
from orienteer.engine.adapters.opensearch.analysis import Analysis
from orienteer.engine.adapters.opensearch.service import Service
from orienteer.engine.adapters.opensearch.settings import FieldNames
from orienteer.errors import NoServiceIndexError, ServiceAnswerError, ServiceRefusedError

_REMEMBERED = 1 << 20  # frequencies kept
_EXPECTED = 1 << 16  # terms that are likely to be asked for next
_READ = 1 << 14  # of them are read off the dictionary when one is missing: a request of some 100 kB to each shard
_COUNTED = 512  # and where there is none to be read, so many are counted by searches
_LONGEST_WORD = 255  # characters that the services' analyser `whitespace` keeps together
LEGACY_FACTOR = 2.2  # k1 + 1, by which scores of Elasticsearch and OpenSearch 2 are higher


@dataclass(frozen=True, slots=True)
class FieldStatistics:
    """A field as its own scorer sees it, read off an explanation; `passages` is what idf is computed with."""

    passages: int
    factor: float = 1.0
    k1: float | None = None
    b: float | None = None
    average_length: float | None = None


class Statistics:
    """Asked for once and remembered. An index that changes under the engine wants a new engine."""

    def __init__(self, service: Service, shards: int):
        self._service, self._shards = service, shards
        self._known: dict[tuple[str, str], int] = {}
        self._expected: dict[str, None] = {}
        self._has_dictionary = True  # until a request to it fails
        self._lock = threading.Lock()

    def expect(self, terms: Iterable[str]) -> None:
        """Terms of a text just analysed: when one of them is asked for, the others will be."""
        with self._lock:
            self._expected.update(dict.fromkeys(terms))
            while len(self._expected) > _EXPECTED:
                del self._expected[next(iter(self._expected))]

    def frequency(self, field: str, term: str) -> int:
        """In how many passages' field the term stands."""
        with self._lock:
            if (found := self._known.get((field, term))) is not None:
                return found
            if len(self._known) > _REMEMBERED:
                self._known = {}
            others = [other for other in self._expected if (field, other) not in self._known and other != term]
        return self._learn(field, term, others)

    def learn(self, field: str, terms: Iterable[str]) -> None:
        """Ask for these terms' frequencies together, in so far as they are not known."""
        with self._lock:
            new = [each for each in dict.fromkeys(terms) if (field, each) not in self._known]
        if new:
            self._learn(field, new[-1], new[:-1])

    def _learn(self, field: str, term: str, others: list[str]) -> int:
        wanted, counts = self._frequencies(field, term, others)
        with self._lock:
            self._known.update(((field, each), count) for each, count in zip(wanted, counts, strict=True))
        return counts[0]

    def _frequencies(self, field: str, term: str, others: list[str]) -> tuple[list[str], list[int]]:
        """The term's frequency first, then those of others, the last ones, that are as well had with it."""
        names = [name for name, _ in self._service.settings.names.weighted(field)]
        if self._has_dictionary and len(names) == 1 and _in_dictionary(self._service, names[0], term):
            wanted = [term, *(other for other in others[-_READ:] if _is_word(other))]
            try:
                parts = [self._service.document_frequencies(names[0], wanted, shard) for shard in range(self._shards)]
                return wanted, [sum(part.get(each, 0) for part in parts) for each in wanted]
            except (NoServiceIndexError, ServiceAnswerError, ServiceRefusedError):
                self._has_dictionary = False  # hidden from this user, or a service without it: count by searches
        wanted = [term, *others[-_COUNTED:]]
        answers = self._service.search_many([_counting(_in_any(names, each)) for each in wanted])
        return wanted, [int(answer["hits"]["total"]["value"]) for answer in answers]

    def measure(self, field: str, analysis: Analysis) -> FieldStatistics:
        """Learn about a field from the explanation of one score; by counting where there is none to be read.

        Within a filter the passages are counted, as terms are: an explanation counts those outside too.
        """
        measured = self._explained(field, analysis)
        if measured is not None and self._service.settings.filter is None:
            return measured
        exists = {"exists": {"field": self._service.settings.names.of(field)}}
        count = int(self._service.search(_counting(exists))["hits"]["total"]["value"])
        return FieldStatistics(count) if measured is None else replace(measured, passages=count)

    def _explained(self, field: str, analysis: Analysis) -> FieldStatistics | None:
        names = self._service.settings.names
        name, exists = names.of(field), {"exists": {"field": names.of(field)}}
        sample = self._service.search({"size": 8, "query": exists, "_source": [name, *names.stored]})
        for hit in sample["hits"]["hits"]:
            source = hit.get("_source", {})
            passage = read_passage(names, "", source)
            text = _text(value_at(source, name)) or (passage.title if field == "title" else passage.text)
            [terms] = analysis.positioned_terms(field, [text[:2000]])
            if not terms:
                continue
            body = {"size": 1, "query": _term(name, terms[0][1]), "explain": True, "_source": False}
            for found in self._service.search(body)["hits"]["hits"]:
                if (measured := read_explanation(found.get("_explanation"))) is not None:
                    return measured
        return None


def read_explanation(tree: Any) -> FieldStatistics | None:
    """The numbers of Lucene's explanation of one term's score; None where it is worded in another way."""
    found = explained_numbers(tree)
    if "N" not in found:
        return None
    return FieldStatistics(
        int(found["N"]), found.get("boost", 1.0), found.get("k1"), found.get("b"), found.get("avgdl")
    )


def explained_numbers(tree: Any) -> dict[str, float]:
    """The numbers that an explanation names, by Lucene's names for them: n, N, k1, b, freq, dl, avgdl, boost."""
    found: dict[str, float] = {}
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Mapping):
            name = str(node.get("description", "")).split(",")[0]
            if name in ("N", "n", "boost", "k1", "b", "avgdl", "dl", "freq"):
                found.setdefault(name, float(node["value"]))
            waiting += node.get("details", ())
    return found


def read_passage(names: FieldNames, passage_id: str, source: Mapping[str, Any]) -> Passage:
    """A stored document as a passage; several fields of text are joined by line breaks."""
    title, text = (
        "\n".join(found for name in fields if (found := _text(value_at(source, name))))
        for fields in (names.titles, names.texts)
    )
    return Passage(passage_id, title, text)


def _text(value: Any) -> str:
    return "" if value is None else " ".join(map(str, value)) if isinstance(value, list) else str(value)


def value_at(source: Any, name: str) -> Any:
    """A field of a stored document; `a.b` is b inside a, unless a field is written `a.b`."""
    if isinstance(source, Mapping) and name in source:
        return source[name]
    for part in name.split("."):
        source = source.get(part) if isinstance(source, Mapping) else None
    return source


def _term(name: str, term: str) -> dict[str, Any]:
    return {"term": {name: {"value": term}}}


def _in_any(names: Sequence[str], term: str) -> dict[str, Any]:
    clauses = [_term(name, term) for name in names]
    return clauses[0] if len(clauses) == 1 else {"bool": {"should": clauses}}


def _in_dictionary(service: Service, name: str, term: str) -> bool:
    """Whether the term's frequency can be read off the shards' dictionaries: they know nothing of a filter."""
    return service.settings.filter is None and not service.several and "." not in name and _is_word(term)


def _is_word(term: str) -> bool:
    return term.split() == [term] and len(term) <= _LONGEST_WORD


def _counting(query: dict[str, Any]) -> dict[str, Any]:
    return {"size": 0, "track_total_hits": True, "query": query}
