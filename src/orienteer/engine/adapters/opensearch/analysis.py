"""Text to index terms as the service's index has them: by our own analyser where it is the same, else by asking."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from orienteer.engine.adapters.opensearch.service import Service
from orienteer.engine.embedded.analysis import analyze_terms
from orienteer.engine.embedded.batch_analysis import analyze_texts

PositionedTerms = tuple[tuple[int, str], ...]  # index terms and their places, the first at 0
_REMEMBERED = 1 << 16
_MANY = 8  # texts from which on the compiled tokenizer is faster


class Analysis(Protocol):
    def positioned_terms(self, field: str, texts: Sequence[str]) -> list[PositionedTerms]:
        """The terms of each text in a field (`contents` or `title`), stop words gone."""
        ...


class LocalAnalysis:
    """Lucene's StandardAnalyzer, which is ours too; stop words are left out even where the index keeps them."""

    def positioned_terms(self, field: str, texts: Sequence[str]) -> list[PositionedTerms]:
        many = len(texts) >= _MANY
        analysed = analyze_texts(texts) if many else [analyze_terms(text) for text in texts]
        return [_from_zero([(at, term) for at, term in enumerate(terms) if term]) for terms in analysed]


class ServiceAnalysis:
    """The field's own analyser through `_analyze`; answers are remembered.

    `searched`: by field, the analyser of searches where it is not the one that passages were indexed with.
    """

    def __init__(self, service: Service, searched: Mapping[str, str]):
        self._service, self._searched = service, searched
        self._known: dict[tuple[str, str], PositionedTerms] = {}
        self._lock = threading.Lock()

    def positioned_terms(self, field: str, texts: Sequence[str]) -> list[PositionedTerms]:
        with self._lock:
            if len(self._known) > _REMEMBERED:
                self._known = {}
            known = self._known
        new = [text for text in dict.fromkeys(texts) if (field, text) not in known]
        batches = [new[at : at + 64] for at in range(0, len(new), 64)]
        answers = self._service.in_parallel(lambda batch: self._asked(field, batch), batches)
        for text, terms in zip(new, (terms for part in answers for terms in part), strict=True):
            known[field, text] = terms
        return [known[field, text] for text in texts]

    def _asked(self, field: str, texts: Sequence[str]) -> list[PositionedTerms]:
        """One request for many texts: the service counts offsets on from text to text, one unit between them."""
        analyzer = self._searched.get(field)
        how = {"analyzer": analyzer} if analyzer else {"field": self._service.settings.names.of(field)}
        tokens = self._service.ask_list("POST", "/_analyze", {**how, "text": list(texts)}, "tokens")
        found: list[list[tuple[int, str]]] = []
        ends: list[int] = []
        for text in texts:
            ends.append((ends[-1] + 1 if ends else 0) + len(text.encode("utf-16-le", "replace")) // 2)
            found.append([])
        which = 0
        for token in tokens:
            while which < len(ends) - 1 and token["start_offset"] > ends[which]:
                which += 1
            _append(found[which], token)
        return [_from_zero(terms) for terms in found]


def _append(terms: list[tuple[int, str]], token: Any) -> None:
    """Of several terms at one place (synonyms) the first is taken."""
    if not terms or terms[-1][0] != token["position"]:
        terms.append((token["position"], token["token"]))


def _from_zero(terms: list[tuple[int, str]]) -> PositionedTerms:
    return tuple((place - terms[0][0], term) for place, term in terms)
