"""The parameters of a ranking: BM25's, weights of title and phrases, stop words, a default refinement; and its files.

A setting is a query and a similarity: every engine that gives its postings can rank by it, and what it adds to a
question is visible in the query.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise, product
from math import exp
from typing import Any, NamedTuple

import numpy as np

from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine, HasPostings, Similarity
from orienteer.errors import QueryError
from orienteer.query import Field, Query, Refinement, parse

FREQUENT = 20  # terms that are tried as default refinements
READ = 20  # first passages of a question that are counted for them
# With which each is tried. A higher boost would bring in passages that hold nothing else of the question.
OPERATORS = ("^0.1", "^0.5", "-")


class Setting(NamedTuple):
    """The parameters of a ranking; the defaults are the engine's own.

    stop_share   terms of the question in more than this share of the passages are left out, if others remain
    refinement   added to every question, in Lucene's syntax; none: ""
    """

    k1: float = 1.2
    b: float = 0.75
    title_weight: float = 0.0
    title_b: float = 0.75
    phrase_weight: float = 0.0
    stop_share: float = 1.0
    refinement: str = ""

    @property
    def similarity(self) -> Similarity:
        return Similarity(self.k1, self.b, self.title_b)

    def query(self, engine: Engine, question: str) -> Query:
        """The question without stop words, its terms in the title and its phrases, weighted."""
        text = without_stop_words(engine, question, self.stop_share)
        terms = list(dict.fromkeys(engine.analyze(text)))
        more: list[Refinement] = []
        if self.title_weight:
            more += [Refinement("^", "title", term, self.title_weight) for term in terms if usable(term)]
        if self.phrase_weight:
            more += [Refinement("^", "contents", pair, self.phrase_weight) for pair in phrases_of(engine, question)]
        if self.refinement:
            more += parse(self.refinement).refinements
        return Query(text, tuple(more))


DEFAULT = Setting()


@dataclass(frozen=True, slots=True)
class Grid:
    """The settings that are tried: every combination."""

    k1: tuple[float, ...] = tuple(np.round(np.linspace(0.2, 4.0, 20), 3).tolist())
    b: tuple[float, ...] = tuple(np.round(np.linspace(0.0, 1.0, 21), 3).tolist())
    title_weight: tuple[float, ...] = (0.0, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
    title_b: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    phrase_weight: tuple[float, ...] = (0.0, 0.1, 0.25, 0.5, 1.0)
    stop_share: tuple[float, ...] = (1.0,)
    refinement: tuple[str, ...] = ("",)

    def settings(self) -> list[Setting]:
        """Without those that differ only in what a weight of 0 switches off; the default is the first."""
        axes = (
            self.k1, self.b, self.title_weight, self.title_b, self.phrase_weight, self.stop_share, self.refinement,
        )  # fmt: skip
        unique = dict.fromkeys([DEFAULT, *(Setting(*row) for row in product(*axes))])
        last = self.title_b[0]
        return [each for each in unique if each == DEFAULT or each.title_weight or each.title_b == last]


def grids(engine: HasPostings, questions: Sequence[Question]) -> tuple[Grid, ...]:
    """What `tune` tries: the whole grid, and coarser ones with stop words and with default refinements.

    The refinements are of the terms that most of the questions' first passages have; judgements have no part in the
    choice, so that it needs no place in the cross-validation.
    """
    some, lengths = (0.6, 1.0, 1.2, 2.0), (0.3, 0.75, 1.0)
    return (
        Grid(),
        Grid(some, lengths, (0.0, 0.3, 1.0), (0.5,), (0.0, 0.25), (0.02, 0.1, 0.3)),
        Grid(some, lengths, (0.0, 0.3), (0.5,), (0.0,), (1.0,), default_refinements(engine, questions)),
    )


def default_refinements(engine: HasPostings, questions: Sequence[Question]) -> tuple[str, ...]:
    """The most frequent terms of first passages that are no stop words, by field, with every operator."""
    counts: Counter[tuple[Field, str]] = Counter()
    fields: tuple[Field, ...] = ("contents", "title")
    for question in questions:
        for passage in engine.passages([hit.id for hit in engine.search(Query(question.question), READ)]):
            for field, text in zip(fields, (passage.contents, passage.title), strict=True):
                counts.update((field, term) for term in set(engine.analyze(text)))
    often = sorted(counts, key=lambda key: (-counts[key], key))
    kept = ((field, term) for field, term in often if usable(term) and _share(engine, field, term) <= 0.1)
    return tuple(
        str(Refinement("-", field, term) if op == "-" else Refinement("^", field, term, float(op[1:])))
        for field, term in islice(kept, FREQUENT) for op in OPERATORS
    )  # fmt: skip


def without_stop_words(engine: Engine, question: str, share: float) -> str:
    """The question's words that have a term in at most this share of the passages; the question, where none has."""
    if share >= 1.0:
        return question
    words = [
        word for word in question.split()
        if any(_share(engine, "contents", term) <= share for term in engine.analyze(word))
    ]  # fmt: skip
    return " ".join(words) or question


def stop_words(engine: HasPostings, share: float, read: int = 500) -> list[str]:
    """Terms of more than this share of the passages, as far as a sample of passages has them."""
    numbers = np.unique(np.linspace(0, len(engine) - 1, read).astype(np.int64)).tolist()
    passages = engine.passages([engine.id_at(number) for number in numbers])
    terms = {term for passage in passages for term in engine.analyze(passage.contents)}
    return sorted(term for term in terms if _share(engine, "contents", term) > share)


def _share(engine: Engine, field: Field, term: str) -> float:
    """Of the passages that have the field, how many have the term: BM25's idf is ln((N + 1) / (df + 0.5))."""
    return exp(-engine.idf(field, term))


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


def setting_of(row: Mapping[str, Any]) -> Setting:
    """What `Setting._asdict` wrote, and a person may have edited; raises `QueryError`, `TypeError` or `ValueError`."""
    given = dict(row)
    refinement = str(given.pop("refinement", ""))
    if refinement:
        parse(refinement)
    return Setting(**{name: float(value) for name, value in given.items()}, refinement=refinement)


def embedded_settings(setting: Setting) -> dict[str, Any]:
    """The settings file that `setting_of` reads again."""
    return {"ranking": setting._asdict()}


def opensearch_settings(
    setting: Setting, left_out: Sequence[str] = (), contents: str = "contents", title: str = "title"
) -> dict[str, Any]:
    """Index settings with mapping, and a search template, for OpenSearch and Elasticsearch.

    `left_out`: the stop words of the setting. The template's parameters are the `question` and, where phrases count,
    `pairs`: the list of its pairs of neighbouring words. Where a service multiplies BM25 by k1 + 1 all clauses grow
    alike, so the order is the same.
    """
    settings: dict[str, Any] = {
        "similarity": {
            "orienteer_contents": {"type": "BM25", "k1": setting.k1, "b": setting.b},
            "orienteer_title": {"type": "BM25", "k1": setting.k1, "b": setting.title_b},
        }
    }
    fields = {
        contents: {"type": "text", "similarity": "orienteer_contents"},
        title: {"type": "text", "similarity": "orienteer_title"},
    }
    analyzer: dict[str, Any] = {}
    if left_out:
        settings["analysis"] = {
            "filter": {"orienteer_stop": {"type": "stop", "stopwords": list(left_out)}},
            "analyzer": {
                "orienteer_question": {
                    "type": "custom", "tokenizer": "standard", "filter": ["lowercase", "orienteer_stop"],
                }
            },
        }  # fmt: skip
        analyzer = {"analyzer": "orienteer_question"}  # of the question alone: phrases keep their stop words
    should: list[dict[str, Any]] = [{"match": {contents: {"query": "{{question}}", **analyzer}}}]
    if setting.title_weight:
        should.append({"match": {title: {"query": "{{question}}", "boost": setting.title_weight, **analyzer}}})
    more: dict[str, Any] = {"minimum_should_match": 1}
    for each in parse(setting.refinement).refinements if setting.refinement else ():
        name = contents if each.field == "contents" else title
        if each.op == "-":
            more.setdefault("must_not", []).append({"match_phrase": {name: each.term}})
        else:
            should.append({"match_phrase": {name: {"query": each.term, "boost": each.weight}}})
    source: Any = {"query": {"bool": {"should": should, **more}}}
    if setting.phrase_weight:
        # Only a template that is text can repeat a clause.
        pair = {"match_phrase": {contents: {"query": "{{.}}", "boost": setting.phrase_weight}}}
        clauses = ", ".join(map(json.dumps, should)) + "{{#pairs}}, " + json.dumps(pair) + "{{/pairs}}"
        source = '{"query": {"bool": {"should": [' + clauses + "], " + json.dumps(more)[1:] + "}}"
    return {
        "index": {"settings": {"index": settings}, "mappings": {"properties": fields}},
        "search_template": {"script": {"lang": "mustache", "source": source}},
    }
