"""Whether an index of a service is fit for Orienteer, and how near its scores are to the embedded engine's."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

import numpy as np

from orienteer.data.passage import Passage
from orienteer.data.split import WORDS, words
from orienteer.engine.adapters.opensearch.engine import OpenSearchEngine
from orienteer.engine.adapters.opensearch.index_info import KEEPS_STOP_WORDS, OTHER, STANDARD, FieldInfo
from orienteer.engine.adapters.opensearch.service import Service
from orienteer.engine.adapters.opensearch.statistics import LEGACY_FACTOR, explained_numbers, read_passage
from orienteer.engine.check import EngineContractError, check_engine
from orienteer.engine.embedded import bm25
from orienteer.engine.embedded.analysis import analyze
from orienteer.engine.protocol import Engine
from orienteer.errors import OrienteerError, UnknownPassageError
from orienteer.query import G4, Query

STEP = 600  # refinements that an agent looks at in a step
LONG = 400  # words: a reader reads such a text in three or four windows
_LISTED = 6  # names in a finding
_LOAD_AGAIN = "load the passages again with `orienteer index --to` for the embedded engine's results"
Level = Literal["good", "fair", "bad"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at. `fair`: agents work, but not exactly as on the embedded engine; `bad`: they do not."""

    level: Level
    what: str
    advice: str = ""


def examine(
    service: Service, embedded: Engine | None = None, *, sample: int = 100, thorough: bool = False, seed: int = 0
) -> Iterator[Finding]:
    """Findings as they are made; the last ones take the longest. Ends early where nothing further can be said."""
    try:
        yield from _service(service)
        engine = OpenSearchEngine(service)
    except OrienteerError as error:
        yield Finding("bad", str(error))
        return
    yield from _index(engine)
    yield from _reach(service, engine)
    passages = _sample(service, sample)
    if not passages:
        yield Finding("bad", "the index holds no passage with a text", "load some: orienteer index PASSAGES --to URL")
        return
    yield _lengths(service, passages)
    yield _scores(service, engine, passages, random.Random(seed))
    yield from _speed(engine, passages)
    if embedded is not None:
        yield _agreement(engine, embedded, passages, random.Random(seed))
    if thorough:
        yield _contract(engine, passages)


def _service(service: Service) -> Iterator[Finding]:
    about = service.about()
    version = about.get("version", {}) if isinstance(about, dict) else {}
    name = "OpenSearch" if version.get("distribution") == "opensearch" else "Elasticsearch"
    yield Finding("good", f"{name} {version.get('number', 'of unknown version')} at {service.address.base}")
    service.describe()  # a missing index is a clearer finding than its health
    status = service.health().get("status")
    advice = "some primary shards are missing: searches will fail" if status == "red" else ""
    yield Finding("bad" if status == "red" else "good", f"index {service.address.index} is {status}", advice)


def _index(engine: OpenSearchEngine) -> Iterator[Finding]:
    info = engine.info
    yield from _field("contents", info.contents)
    if info.title is None:
        yield Finding("fair", "no title field: refinements of titles find nothing", "name it: ORIENTEER_SEARCH_FIELDS")
    else:
        yield from _field("title", info.title)
    if info.ordered:
        yield Finding("good", "passages know their place: ties come in the order of indexing")
    else:
        yield Finding("fair", "passages do not know their place: ties come in the service's order")
    if info.meta and not info.meta.get("complete"):
        yield Finding("bad", "loading was broken off", "run the same `orienteer index … --to` again: it goes on")
    measured = engine.measured["contents"]
    if abs(measured.factor - LEGACY_FACTOR) < 1e-3:
        yield Finding("good", f"scores have the older factor {LEGACY_FACTOR}; boosts are sent smaller by it")
    yield Finding("good", f"{measured.passages:,} passages in {info.shards} shard{'s' if info.shards > 1 else ''}")


def _reach(service: Service, engine: OpenSearchEngine) -> Iterator[Finding]:
    """In plain words: what an agent searches here, and what is kept from it."""
    names, info = service.settings.names, engine.info
    if service.settings.filter is not None:
        allowed = service.search({"size": 0, "track_total_hits": True})["hits"]["total"]["value"]
        what = f"every search carries the filter {service.settings.filter}; {allowed:,} documents are within it"
        yield Finding("good" if allowed else "bad", what, "" if allowed else "it lets nothing through: check it")
    if service.several:
        yield Finding("fair", f"{service.address.index} stands for several indexes, searched as one")
    fields = " and ".join(f"{name} (weight {weight:g})" for name, weight in names.weighted("contents"))
    titles = "words of the title alone too" if info.title is not None else "the title not by itself"
    exact = info.contents.analyzer != OTHER
    terms = (
        "as they are written" if exact else f"as {info.contents.analyzer_name!r} changes them, which costs a request"
    )
    yield Finding("good", f"an agent can search words and phrases of {fields}, {titles}; terms are taken {terms}")
    used = {name for field in ("contents", "title") for name, _ in names.weighted(field)} | set(names.stored)
    others = sorted(name for name, kind in info.kinds.items() if kind == "text" and name not in used)
    if others:
        advice = f"add some, with a weight: ORIENTEER_SEARCH_FIELDS=contents={names.contents}+{others[0]}^0.5,…"
        yield Finding("good", f"it does not search the text fields {_listed(others)}", advice)
    shut = sorted(f"{name} ({kind})" for name, kind in info.kinds.items() if kind not in ("text", "match_only_text"))
    shut = [each for each in shut if not each.startswith(f"{names.order} (")]
    if shut:
        yield Finding("good", f"it has no words for {_listed(shut)}; a filter may use them")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_LISTED]) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")


def _lengths(service: Service, passages: Sequence[Passage]) -> Finding:
    sizes = sorted(words(passage.text) for passage in passages)
    middle, longest = sizes[len(sizes) // 2], sizes[-1]
    what = f"texts have {middle:,} words in the middle, {longest:,} at most"
    if (split := service.settings.split) is not None:
        return Finding("good", f"{what}; long ones are read in pieces of about {split}")
    if longest <= LONG:
        return Finding("good", what)
    advice = f"a passage has some {WORDS}; to read long texts in pieces: ORIENTEER_SEARCH_SPLIT={WORDS}"
    return Finding("fair", f"{what}: a reader reads every word of what is found", advice)


def _field(name: str, field: FieldInfo) -> Iterator[Finding]:
    if field.analyzer == STANDARD:
        yield Finding("good", f"{name} ({field.name}): StandardAnalyzer with English stop words")
    elif field.analyzer == KEEPS_STOP_WORDS:
        yield Finding("fair", f"{name} ({field.name}): StandardAnalyzer, but stop words are in the index", _LOAD_AGAIN)
    else:
        what = f"{name} ({field.name}): the analyser {field.analyzer_name!r} makes other terms than agents have learned"
        yield Finding("fair", what, _LOAD_AGAIN)
    if field.analyzer_name != field.indexed_as:
        what = f"{name} ({field.name}): passages were indexed with another analyser, {field.indexed_as!r}"
        advice = "words are found as searches read them; passages count as longer, and a phrase may not be found"
        yield Finding("fair", what, advice)
    level: Level = "good" if field.fit else "fair"
    yield Finding(level, f"{name} ({field.name}): {field.similarity}", "" if field.fit else _LOAD_AGAIN)


def _sample(service: Service, size: int) -> list[Passage]:
    names = service.settings.names
    body = {"size": size, "query": {"exists": {"field": names.of("contents")}}, "_source": names.stored}
    rows = service.search(body)["hits"]["hits"]
    found = [read_passage(names, str(row["_id"]), row.get("_source", {})) for row in rows]
    return [passage for passage in found if passage.text]


def _scores(service: Service, engine: OpenSearchEngine, passages: Sequence[Passage], rng: random.Random) -> Finding:
    """Score words of the passages with our BM25 from the service's own statistics, and compare with its scores."""
    pairs = [(p, rng.choice(terms)) for p in passages if (terms := analyze(p.contents))]
    name = service.settings.names.of("contents")
    legacy = abs(engine.measured["contents"].factor - LEGACY_FACTOR) < 1e-3
    bodies = [
        {
            "size": 1, "explain": True, "_source": False,
            "query": {"bool": {"filter": [{"ids": {"values": [p.id]}}], "must": [{"term": {name: {"value": term}}}]}},
        }
        for p, term in pairs
    ]  # fmt: skip
    same = 0
    why = ""
    for (passage, term), answer in zip(pairs, service.search_many(bodies), strict=True):
        fault = _difference(passage, term, answer["hits"]["hits"], LEGACY_FACTOR if legacy else 1.0)
        same += not fault
        why = why or fault
    what = f"{same} of {len(pairs)} scores of a word in a passage are those of the embedded engine"
    return Finding("good" if same == len(pairs) else "fair", what, why and f"the first that is not: {why}")


def _difference(passage: Passage, term: str, hits: Sequence[Any], factor: float) -> str:
    """How a word's score in a passage differs from ours; nothing where it does not."""
    where = f"{term!r} in {passage.id!r}: "
    if not hits:
        return where + "not found there; is the title part of the contents, and the analyser the standard one?"
    numbers = explained_numbers(hits[0].get("_explanation"))
    if not {"n", "N", "avgdl"} <= set(numbers):
        return where + "the service explains its score in words that Orienteer does not know"
    terms = analyze(passage.contents)
    weight = np.float32(factor) * bm25.idf(int(numbers["N"]), int(numbers["n"]))
    length = bm25.LENGTHS[bm25.encode_length(len(terms))]
    inverse = np.float32(1) / (bm25.K1 * ((np.float32(1) - bm25.B) + bm25.B * length / np.float32(numbers["avgdl"])))
    ours = bm25.term_score(weight, Counter(terms)[term], inverse)
    theirs = np.float32(hits[0]["_score"])
    if abs(float(ours) - float(theirs)) <= 1e-6 * float(ours):
        return ""
    return (
        f"{where}{theirs} there, {ours} here; frequency {numbers.get('freq', 0):g} there, {Counter(terms)[term]} here; "
        f"length {numbers.get('dl', 0):g} there, {length:g} here"
    )


def _speed(engine: OpenSearchEngine, passages: Sequence[Passage]) -> Iterator[Finding]:
    questions = [Query(" ".join(analyze(passage.text)[:6])) for passage in passages[:20]]
    times = []
    for query in questions:
        started = time.perf_counter()
        engine.search(query, 5)
        times.append(time.perf_counter() - started)
    terms = list(dict.fromkeys(analyze(passages[0].contents)))[:40]
    refinements = [each for term in terms for each in G4.refinements("contents", term)]
    started = time.perf_counter()
    engine.refine(questions[0], refinements, 5)
    each = (time.perf_counter() - started) / max(1, len(refinements))
    yield Finding("good", f"a search takes {median(times) * 1e3:.1f} ms, a refinement among many {each * 1e3:.2f} ms")
    step = each * STEP
    yield Finding(
        "good",
        f"so a step, which looks at some {STEP} refinements, takes {step:.1f} s",
        "" if step < 1 else "a pool (pool:URL) sends a tenth of the searches, a mirror (orienteer mirror) one a step",
    )


def _agreement(engine: Engine, embedded: Engine, passages: Sequence[Passage], rng: random.Random) -> Finding:
    """The same queries, with operators, to both engines."""
    queries = [_query(passage, rng) for passage in passages]
    same, first = 0, ""
    for query, theirs, ours in zip(
        queries, engine.search_many(queries, 5), embedded.search_many(queries, 5), strict=True
    ):
        equal = [hit.id for hit in theirs] == [hit.id for hit in ours] and np.allclose(
            [hit.score for hit in theirs], [hit.score for hit in ours], rtol=1e-5
        )
        same += equal
        if not equal and not first:
            first = f"the first that is not: {query} gives {list(theirs)[:2]} there, {list(ours)[:2]} here"
    what = f"{same} of {len(queries)} queries have the embedded index's passages, order and scores"
    return Finding("good" if same == len(queries) else "fair", what, first)


def _query(passage: Passage, rng: random.Random) -> Query:
    terms = list(dict.fromkeys(analyze(passage.contents)))
    query = Query(" ".join(rng.sample(terms, min(4, len(terms)))))
    for _ in range(rng.randint(0, 3)):
        query = query.refine(rng.choice(list(G4.refinements(rng.choice(("contents", "title")), rng.choice(terms)))))
    return query


def _contract(engine: OpenSearchEngine, passages: Sequence[Passage]) -> Finding:
    try:
        check_engine(engine, passages[:40])
    except (EngineContractError, UnknownPassageError) as error:
        return Finding("fair", "the Engine contract is not kept to the letter", str(error))
    return Finding("good", "the Engine contract is kept")
