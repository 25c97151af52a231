"""The Lucene adapter: real Lucene in this process, through JPype and a jar that the user names.

It is what the other engines are compared with. A process has one Java machine, so all engines of a
process share one jar.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from orienteer.data.passage import Passage
from orienteer.engine.embedded import bm25
from orienteer.engine.protocol import Hit
from orienteer.errors import (
    DuplicateIdError,
    IndexMissingError,
    MissingExtraError,
    OrienteerError,
    QuerySyntaxError,
    TooManyClausesError,
    UnknownFieldError,
    UnknownPassageError,
)
from orienteer.query import FIELDS, Query, Refinement
from orienteer.query.refinement import MAX_CLAUSES

_loaded: list[str] | None = None  # the class path of this process's Java machine


class LuceneError(OrienteerError):
    """Lucene cannot be run: no Java, no such jar, or a jar without Lucene in it."""


class LuceneEngine:
    """An engine over passages, or over the folder of an index that `LuceneEngine` or `lucene_index` wrote.

    `jar` may be several jars joined as in a Java class path. An index of passages is written to `path`,
    by default to a temporary folder that goes with the engine.
    """

    def __init__(self, jar: str | Path, source: Iterable[Passage] | str | Path, path: str | Path | None = None):
        self._java = java = _Java(jar)
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if isinstance(source, str | Path):
            folder = str(source)
        elif path is not None:
            folder = str(path)
        else:
            self._temporary = tempfile.TemporaryDirectory(prefix="orienteer-lucene-")
            folder = self._temporary.name
        if not isinstance(source, str | Path):
            _write(java, source, folder)
        self._directory = java.FSDirectory.open(java.Path.of(folder))
        if not java.DirectoryReader.indexExists(self._directory):
            raise IndexMissingError(f"no Lucene index at {folder}; build one from passages with path=")
        self._reader = java.DirectoryReader.open(self._directory)
        self._searcher = java.IndexSearcher(self._reader)
        self._searcher.setSimilarity(java.BM25Similarity(float(bm25.K1), float(bm25.B)))
        self._analyzer = java.analyzer()

    def close(self) -> None:
        """Release the index's files, and remove a temporary folder."""
        self._reader.close()
        self._directory.close()
        if self._temporary is not None:
            self._temporary.cleanup()

    def search(self, query: Query, k: int) -> list[Hit]:
        text = str(query)
        if k <= 0 or not text:
            return []
        self._check_clauses(query)
        hits = self._searcher.search(self._parse(text), k).scoreDocs
        return [Hit(str(self._document(hit.doc).get("id")), float(hit.score)) for hit in hits]

    def search_many(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        return [self.search(query, k) for query in queries]

    def refine(self, query: Query, refinements: Sequence[Refinement], k: int) -> list[list[Hit]]:
        return [self.search(query.refine(refinement), k) for refinement in refinements]

    def passages(self, ids: Sequence[str]) -> list[Passage]:
        return [self._passage(id) for id in ids]

    def idf(self, field: str, term: str) -> float:
        if field not in FIELDS:
            raise UnknownFieldError(f"unknown field {field!r}; expected {' or '.join(FIELDS)}")
        df = self._reader.docFreq(self._java.Term(field, term))
        return float(bm25.idf(self._reader.getDocCount(field), df))

    def analyze(self, text: str) -> list[str]:
        stream = self._analyzer.tokenStream("contents", text)
        try:
            term = stream.addAttribute(self._java.CharTermAttribute)
            stream.reset()
            terms = []
            while stream.incrementToken():
                terms.append(str(term.toString()))
            stream.end()
            return terms
        finally:
            stream.close()

    def _parse(self, text: str) -> Any:
        # A new one for each query: a parser belongs to one thread, an engine does not.
        parser = self._java.QueryParser("contents", self._analyzer)
        try:
            return parser.parse(text)
        except self._java.ParseException as error:
            raise QuerySyntaxError(f"Lucene cannot read this query: {error.getMessage()}", text) from None

    def _check_clauses(self, query: Query) -> None:
        """Lucene counts clauses before and after it joins equal ones; we count once, before."""
        if len(query.question) + len(query.refinements) <= MAX_CLAUSES:
            return  # a term takes at least a character
        texts = [*query.question.split(), *(refinement.term for refinement in query.refinements)]
        counts = [len(self.analyze(text)) for text in texts]
        words = len(texts) - len(query.refinements)
        if (found := sum(counts[:words]) + sum(map(bool, counts[words:]))) > MAX_CLAUSES:
            raise TooManyClausesError(
                f"the query has {found} clauses once analysed, at most {MAX_CLAUSES} are allowed; shorten the question"
            )

    def _passage(self, id: str) -> Passage:
        found = self._searcher.search(self._java.TermQuery(self._java.Term("id", id)), 1).scoreDocs
        if not len(found):
            raise UnknownPassageError(f"no passage has the id {id!r}; expected ids as search gives them")
        document = self._document(found[0].doc)
        title = document.get("title")
        return Passage(id, "" if title is None else str(title), str(document.get("text")))

    def _document(self, number: int) -> Any:
        # Lucene 9.5 brought the first form, Lucene 10 took the second away.
        if hasattr(self._searcher, "storedFields"):
            return self._searcher.storedFields().document(number)
        return self._searcher.doc(number)


def _write(java: _Java, passages: Iterable[Passage], folder: str) -> None:
    """Index the passages into one segment, in their order."""
    config = java.IndexWriterConfig(java.analyzer())
    config.setSimilarity(java.BM25Similarity(float(bm25.K1), float(bm25.B)))
    config.setOpenMode(java.IndexWriterConfig.OpenMode.CREATE)
    config.setMergePolicy(java.LogDocMergePolicy())  # merges neighbours only, so that ties keep their order
    writer = java.IndexWriter(java.FSDirectory.open(java.Path.of(folder)), config)
    try:
        seen: set[str] = set()
        for passage in passages:
            if passage.id in seen:
                raise DuplicateIdError(f"two passages have the id {passage.id!r}; give each its own")
            seen.add(passage.id)
            writer.addDocument(_document(java, passage))
        writer.forceMerge(1)
        writer.commit()
    finally:
        writer.close()


def _document(java: _Java, passage: Passage) -> Any:
    document = java.Document()
    document.add(java.StringField("id", passage.id, java.YES))
    document.add(java.BinaryDocValuesField("id", java.BytesRef(passage.id)))  # where LuceneBench looks
    document.add(java.StoredField("text", java.String(passage.text)))
    document.add(java.TextField("contents", passage.contents, java.NO))
    if passage.title:
        document.add(java.TextField("title", passage.title, java.YES))
    return document


class _Java:
    """Lucene's classes by name, from the Java machine of this process."""

    _PLACES: ClassVar = {
        "analysis.standard": ("StandardAnalyzer",),
        "analysis.en": ("EnglishAnalyzer",),
        "analysis.tokenattributes": ("CharTermAttribute",),
        "document": ("BinaryDocValuesField", "Document", "Field", "StoredField", "StringField", "TextField"),
        "index": ("DirectoryReader", "IndexWriter", "IndexWriterConfig", "LogDocMergePolicy", "Term"),
        "queryparser.classic": ("ParseException", "QueryParser"),
        "search": ("IndexSearcher", "TermQuery"),
        "search.similarities": ("BM25Similarity",),
        "store": ("FSDirectory",),
        "util": ("BytesRef",),
    }

    def __init__(self, jar: str | Path):
        global _loaded
        jpype = _start(jar)
        for package, names in self._PLACES.items():
            for name in names:
                setattr(self, name, _class(jpype, f"org.apache.lucene.{package}.{name}", jar))
        _loaded = class_path(jar)
        self.String = jpype.JClass("java.lang.String")
        self.Path = jpype.JClass("java.nio.file.Path")
        self.YES, self.NO = self.Field.Store.YES, self.Field.Store.NO

    def __getattr__(self, name: str) -> Any:  # tells the type checker that classes are found by name
        raise AttributeError(name)

    def analyzer(self) -> Any:
        return self.StandardAnalyzer(self.EnglishAnalyzer.ENGLISH_STOP_WORDS_SET)


def class_path(jar: str | Path) -> list[str]:
    """The jars of a class path, each of which must be there."""
    jars = str(jar).split(os.pathsep)
    for path in jars:
        if not Path(path).is_file():
            raise LuceneError(f"no jar at {path!r}; give the path of a jar with Lucene 8, 9 or 10 in it")
    return jars


def _class(jpype: Any, name: str, jar: str | Path) -> Any:
    try:
        return jpype.JClass(name)
    except TypeError:
        raise LuceneError(
            f"no Lucene in {jar}: it lacks {name}; expected a jar with Lucene 8, 9 or 10, "
            "or lucene-core, lucene-analysis-common and lucene-queryparser joined as a class path"
        ) from None
    except jpype.JException as error:
        raise LuceneError(f"this Java cannot run {jar} ({error}); install a newer Java") from None


def _start(jar: str | Path) -> Any:
    """JPype with its Java machine running and the jar on its class path."""
    try:
        import jpype
    except ImportError:
        raise MissingExtraError("JPype1", "lucene") from None
    jars = class_path(jar)
    if _loaded is not None and jars != _loaded:
        raise LuceneError(
            f"this process already runs Lucene from {_loaded[0]} and can run no other; "
            f"use that jar, or open {jars[0]} in a new process"
        )
    if not jpype.isJVMStarted():
        try:
            jpype.startJVM(classpath=jars, convertStrings=False)
        except jpype.JVMNotFoundException:
            raise LuceneError("no Java was found; install version 11 or later, or set JAVA_HOME") from None
    elif _loaded is None:  # somebody else's machine, or ours from before a wrong jar
        for path in jars:
            jpype.addClassPath(path)
    return jpype
