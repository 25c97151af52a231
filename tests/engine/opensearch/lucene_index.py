"""An index of the test double: documents in real Lucene, one Lucene index a shard, searches in the services' JSON.

What a service adds to Lucene is done as they do it: a query of exclusions only gets every document added, statistics
are each shard's own unless the search asks for all, and the older scoring has its factor of k1 + 1.
"""

from __future__ import annotations

import threading
import zlib
from typing import Any, ClassVar

import numpy as np

from orienteer.engine.adapters.lucene import _Java

LEGACY = np.float32(1) + np.float32(1.2)


class Lucene(_Java):
    """The classes of the Lucene adapter, and those that a service needs beside them."""

    _PLACES: ClassVar = {
        **_Java._PLACES,
        "index": (*_Java._PLACES["index"], "MultiReader", "IndexReader"),
        "document": (*_Java._PLACES["document"], "LongPoint", "NumericDocValuesField"),
        "search": (
            *_Java._PLACES["search"], "BooleanQuery", "BooleanClause", "BoostQuery", "MatchAllDocsQuery",
            "MatchNoDocsQuery", "Sort", "SortField",
        ),
        "store": (*_Java._PLACES["store"], "ByteBuffersDirectory"),
        "util": (*_Java._PLACES["util"], "QueryBuilder"),
        "analysis.miscellaneous": ("PerFieldAnalyzerWrapper",),
        "analysis.tokenattributes": (
            "CharTermAttribute", "OffsetAttribute", "PositionIncrementAttribute",
        ),
    }  # fmt: skip

    def __init__(self, jar: str):
        super().__init__(jar)
        import jpype

        self.LongArray = jpype.JArray(jpype.JLong)
        self.ReaderArray = jpype.JArray(self.IndexReader)
        self.HashMap = jpype.JClass("java.util.HashMap")
        try:  # Lucene 9.1 brought the first, Lucene 10 took the second away
            self.FieldExistsQuery = jpype.JClass("org.apache.lucene.search.FieldExistsQuery")
        except TypeError:
            self.FieldExistsQuery = jpype.JClass("org.apache.lucene.search.NormsFieldExistsQuery")


class BadRequestError(Exception):
    """What a service answers with status 400."""


class LuceneIndex:
    def __init__(self, java: Lucene, name: str, body: dict[str, Any], legacy: bool):
        self.java, self.name, self.legacy = java, name, legacy
        settings = body.get("settings", {})
        self.settings: dict[str, Any] = {"uuid": f"uuid-of-{name}", **settings.get("index", settings)}
        self.mappings: dict[str, Any] = body.get("mappings", {})
        self.sources: dict[str, dict[str, Any]] = {}
        self.order: dict[str, int] = {}
        self._lock = threading.Lock()
        self._analyzers = {
            field: self._analyzer(spec.get("analyzer", "standard"))
            for field, spec in self.mappings.get("properties", {}).items()
            if spec.get("type") == "text"
        }
        per_field = java.HashMap()
        for field, analyzer in self._analyzers.items():
            per_field.put(field, analyzer)
        self.analyzer = java.PerFieldAnalyzerWrapper(java.StandardAnalyzer(), per_field)
        self.writers = []
        for _ in range(int(self.settings.get("number_of_shards", 1))):
            config = java.IndexWriterConfig(self.analyzer)
            config.setSimilarity(self._similarity())
            self.writers.append(java.IndexWriter(java.ByteBuffersDirectory(), config))
        self._searchers: list[Any] = []
        self.refresh()

    def _analyzer(self, name: str) -> Any:
        java = self.java
        made = self.settings.get("analysis", {}).get("analyzer", {}).get(name, {"type": name})
        if made["type"] == "standard":
            if made.get("stopwords") == "_english_":
                return java.analyzer()
            return java.StandardAnalyzer()
        if made["type"] == "english":
            return java.EnglishAnalyzer()
        raise BadRequestError(f"the test double knows no analyser {name!r}")

    def _similarity(self) -> Any:
        made = {"k1": 1.2, "b": 0.75}
        for each in self.settings.get("similarity", {}).values():
            made |= {name: float(each[name]) for name in ("k1", "b") if name in each}
        return self.java.BM25Similarity(made["k1"], made["b"])

    # Documents

    def create(self, id: str, source: dict[str, Any]) -> int:
        java = self.java
        with self._lock:
            if id in self.sources:
                return 409
            document = java.Document()
            document.add(java.StringField("_id", id, java.YES))
            for field, spec in self.mappings.get("properties", {}).items():
                if field not in source or spec.get("index") is False:
                    continue
                if spec["type"] == "text":
                    document.add(java.TextField(field, source[field], java.NO))
                elif spec["type"] == "long":
                    document.add(java.LongPoint(field, java.LongArray([source[field]])))
                    document.add(java.NumericDocValuesField(field, java.LongArray([source[field]])[0]))
                    self.order[id] = source[field]
            self.writers[zlib.crc32(id.encode()) % len(self.writers)].addDocument(document)
            self.sources[id] = source
            return 201

    def refresh(self) -> None:
        """Make what was written visible, each time as a segment of its own."""
        java = self.java
        readers = [java.DirectoryReader.open(writer) for writer in self.writers]
        with self._lock:
            self._searchers = [self._searcher(java.MultiReader(java.ReaderArray(readers)))]
            self._searchers += [self._searcher(reader) for reader in readers]

    def _searcher(self, reader: Any) -> Any:
        searcher = self.java.IndexSearcher(reader)
        searcher.setSimilarity(self._similarity())
        return searcher

    # Searches

    def search(self, body: dict[str, Any], search_type: str) -> dict[str, Any]:
        query, size = self.query(body["query"]), body.get("size", 10)
        whole = self._searchers[0]
        asked = [whole] if search_type == "dfs_query_then_fetch" else self._searchers[1:]
        by = [next(iter(key)) for key in body.get("sort", [])]
        rows = []
        for shard, searcher in enumerate(asked):
            if by:
                top = searcher.search(query, max(1, size), self._sort(by), True)
            else:
                top = searcher.search(query, max(1, size))
            for hit in top.scoreDocs:
                id = str(self._document(searcher, hit.doc).get("_id"))
                rank = -float(hit.score), self.order.get(id, 0) if by else 0, shard, int(hit.doc)
                rows.append((rank, id, searcher))
        hits = [self._hit(body, query, *row) for row in sorted(rows, key=lambda row: row[0])[:size]]
        shards = {"total": len(self.writers), "successful": len(self.writers), "skipped": 0, "failed": 0}
        answer: dict[str, Any] = {"took": 1, "timed_out": False, "_shards": shards, "status": 200}
        answer["hits"] = {"max_score": None, "hits": hits}
        if body.get("track_total_hits", True):
            answer["hits"]["total"] = {"value": int(whole.count(query)), "relation": "eq"}
        return answer

    def frequency(self, field: str, term: str, shard: int) -> int:
        """In how many of a shard's documents, as its dictionary says."""
        java = self.java
        return int(self._searchers[1 + shard].getIndexReader().docFreq(java.Term(field, java.String(term))))

    def _sort(self, by: list[str]) -> Any:
        sort_field = self.java.SortField
        keys = [sort_field.FIELD_SCORE if name == "_score" else sort_field(name, sort_field.Type.LONG) for name in by]
        return self.java.Sort(keys)

    def _hit(self, body: dict[str, Any], query: Any, rank: tuple[float, int, int, int], id: str, searcher: Any) -> Any:
        hit: dict[str, Any] = {"_index": self.name, "_id": id, "_score": shortest(-rank[0])}
        wanted = body.get("_source", True)
        if wanted is not False:
            names = wanted if isinstance(wanted, list) else list(self.sources[id])
            hit["_source"] = {name: self.sources[id][name] for name in names if name in self.sources[id]}
        fields = {name: [self.order[id]] for name in body.get("docvalue_fields", []) if id in self.order}
        if fields:
            hit["fields"] = fields
        if body.get("sort"):
            hit["sort"] = [hit["_score"], self.order.get(id)]
            if not body.get("track_scores"):
                hit["_score"] = None
        if body.get("explain"):
            hit["_explanation"] = explanation(searcher.explain(query, rank[3]))
        return hit

    def _document(self, searcher: Any, number: int) -> Any:
        if hasattr(searcher, "storedFields"):
            return searcher.storedFields().document(number)
        return searcher.doc(number)

    def query(self, spec: dict[str, Any]) -> Any:
        java = self.java
        [(kind, inside)] = spec.items()
        if kind == "bool":
            return self._bool(inside)
        if kind == "match_all":
            return java.MatchAllDocsQuery()
        if kind == "exists":
            return java.FieldExistsQuery(inside["field"])
        if kind == "ids":
            return self._bool({"should": [{"term": {"_id": {"value": id}}} for id in inside["values"]]})
        [(field, value)] = inside.items()
        if kind == "range":
            return java.LongPoint.newRangeQuery(field, value.get("gte", 0), value["lt"] - 1)
        if kind == "term":
            found = java.TermQuery(java.Term(field, java.String(value["value"])))
        elif kind == "match_phrase":
            analyzer = self._analyzers.get(field, self.analyzer)
            found = java.QueryBuilder(analyzer).createPhraseQuery(field, java.String(value["query"]))
            found = java.MatchNoDocsQuery() if found is None else found
        else:
            raise BadRequestError(f"the test double knows no query {kind!r}")
        boost = np.float32(value.get("boost", 1.0)) * (LEGACY if self.legacy else np.float32(1))
        return java.BoostQuery(found, float(boost)) if boost != 1 else found

    def _bool(self, spec: dict[str, Any]) -> Any:
        java, builder = self.java, self.java.BooleanQuery.Builder()
        occurs = {"must": "MUST", "should": "SHOULD", "must_not": "MUST_NOT", "filter": "FILTER"}
        for name, clauses in spec.items():
            for clause in clauses:
                builder.add(self.query(clause), getattr(java.BooleanClause.Occur, occurs[name]))
        if not any(spec.get(name) for name in ("must", "should", "filter")):
            builder.add(java.MatchAllDocsQuery(), java.BooleanClause.Occur.FILTER)
        return builder.build()

    # Analysis

    def analyze(self, field: str, texts: list[str]) -> list[dict[str, Any]]:
        """As the services do for several texts: positions go on with a gap of 100, offsets with a gap of 1."""
        java, analyzer = self.java, self._analyzers[field]
        tokens = []
        place, start = -1, 0
        for text in texts:
            stream = analyzer.tokenStream(field, java.String(text))
            term = stream.addAttribute(java.CharTermAttribute)
            offset = stream.addAttribute(java.OffsetAttribute)
            step = stream.addAttribute(java.PositionIncrementAttribute)
            stream.reset()
            while stream.incrementToken():
                place += int(step.getPositionIncrement())
                here = {"token": str(term.toString()), "position": place, "type": "<ALPHANUM>"}
                ends = {"start_offset": int(offset.startOffset()), "end_offset": int(offset.endOffset())}
                tokens.append(here | {name: start + end for name, end in ends.items()})
            stream.end()
            place += int(step.getPositionIncrement()) + 100
            start += int(offset.endOffset()) + 1
            stream.close()
        return tokens


def shortest(score: float) -> float:
    """A float32 as a service prints it."""
    return float(str(np.float32(score)))


def explanation(node: Any) -> dict[str, Any]:
    number = float(node.getValue().doubleValue())
    value = int(number) if number == int(number) and abs(number) < 2**53 else shortest(number)
    details = [explanation(each) for each in node.getDetails()]
    return {"value": value, "description": str(node.getDescription()), "details": details}
