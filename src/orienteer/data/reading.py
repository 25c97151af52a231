"""Passages and questions of every format, one at a time: which files hold them, in which format, and reading them."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from orienteer.data import beir, jsonl, squad, texts, tsv
from orienteer.data.compression import plain_name, read_blocks, shown, unreadable
from orienteer.data.passage import Passage, Question
from orienteer.data.prefetch import prefetch
from orienteer.data.rows import Fault, OnBad, Report, parse_object
from orienteer.data.split import Split
from orienteer.errors import DataError, DuplicateIdError

Format = Literal["jsonl", "tsv", "squad", "text", "document", "unknown"]
AnyPath = str | os.PathLike[str]

_EACH = "each plain or as .gz, .xz or .zst"
_PASSAGE_FORMATS = (
    "expected .jsonl with id, title and text, .tsv with DPR's header, .json as SQuAD has it, or a "
    f"document (.txt .md .rst .html .csv, {_EACH}; .pdf .docx .epub); or a folder in BEIR's layout or of documents"
)
_QUESTION_FORMATS = (
    "expected .jsonl with id, question and answers, .json as SQuAD has it, .txt with a question a line, "
    f"BEIR's qrels/SPLIT.tsv, {_EACH}; or a folder in BEIR's layout"
)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A document that was left out, and why."""

    file: str
    reason: str

    def __str__(self) -> str:
        return f"{self.file}: {self.reason}"


OnUnreadable = Callable[[Unreadable], None]


def _log_unreadable(left_out: Unreadable) -> None:
    logging.getLogger("orienteer.data").warning("not read: %s", left_out)


def read_passages(
    paths: AnyPath | Iterable[AnyPath],
    *,
    skip_bad: bool = False,
    on_bad: OnBad | None = None,
    split: Split | None = None,
    on_unreadable: OnUnreadable = _log_unreadable,
) -> Generator[Passage, None, None]:
    """The passages of one or several files and folders, in order, in bounded memory.

    A path that is missing or of no known format raises `DataError` at once, a bad row when it is reached.
    With `skip_bad` bad rows are left out, and `on_bad` (a `BadRows`, say) is called with each. Two passages with
    one id are the index builder's business: here ids are not remembered. A document that cannot be read never stops
    the others: `on_unreadable` is called with it, or a warning is logged.
    """
    return _only_passages(_placed(passage_sources(paths), skip_bad, on_bad, split, on_unreadable))


def find_ids(paths: AnyPath | Iterable[AnyPath], ids: Iterable[str]) -> dict[str, list[str]]:
    """Where passages with these ids stand, as `file:line`; reads everything once more and skips bad rows."""
    places: dict[str, list[str]] = {id: [] for id in ids}
    for source, number, passage in _placed(passage_sources(paths), True, None, None, lambda left_out: None):
        if passage.id in places:
            places[passage.id].append(source.place(number))
    return places


def read_questions(
    paths: AnyPath | Iterable[AnyPath],
    *,
    qrels: AnyPath | None = None,
    skip_bad: bool = False,
    on_bad: OnBad | None = None,
) -> Generator[Question, None, None]:
    """The questions of one or several files and BEIR folders, in order; an id twice in one of them is a bad row.

    BEIR's questions have their judgements, and as `passage_id` the passage judged best; `qrels/SPLIT.tsv` gives those
    of its split. `qrels` names a file of judgements, TREC's or BEIR's: only questions that it judges are given.
    """
    sources = [question_source(path) for path in _each(paths)]
    if qrels is not None:
        judged = Source(Path(qrels), "tsv")
        _is_folder(judged.path)  # raises where there is no such file
        sources = [QuestionSource(each.source, [judged], split_only=True) for each in sources]
    return _questions(sources, skip_bad, on_bad)


def read_qrels(path: AnyPath) -> beir.Qrels:
    """The judgements of one of BEIR's `qrels/*.tsv`, or of a TREC file: query id → passage id → grade."""
    return _qrels([Source(Path(path), "tsv")], skip_bad=False, on_bad=None)


def _only_passages(
    placed: Generator[tuple[Source, int, Passage], None, None],
) -> Generator[Passage, None, None]:
    try:
        for _, _, passage in placed:
            yield passage
    finally:
        placed.close()


def _placed(
    sources: list[Source], skip_bad: bool, on_bad: OnBad | None, split: Split | None, on_unreadable: OnUnreadable
) -> Generator[tuple[Source, int, Passage], None, None]:
    with prefetch([source.path for source in sources if not source.opens_itself]) as files:
        for source in sources:
            if source.opens_itself:
                yield from document_passages(source, split, on_unreadable)
                continue
            with _naming(source):
                for number, passage in _passages(source, next(files), source.report(skip_bad, on_bad)):
                    yield source, number, passage


def document_passages(
    source: Source, split: Split | None, on_unreadable: OnUnreadable
) -> Iterator[tuple[Source, int, Passage]]:
    """The passages of one document with the lines they start at; `on_unreadable` where it cannot be read."""
    try:
        if source.format == "unknown":
            raise Fault(f"unknown type {source.path.suffix or 'without a suffix'}")
        for number, passage in texts.passages(source.path, source.name, split):
            yield source, number, passage
    except DataError as error:
        reason = str(error).removeprefix(f"{shown(source.path)}: ")
        on_unreadable(Unreadable(shown(Path(source.name)), reason))
    except OSError as error:
        on_unreadable(Unreadable(shown(Path(source.name)), f"cannot be read: {error.strerror or error}"))
    except (ValueError, ArithmeticError, LookupError, RecursionError, MemoryError, AssertionError) as error:
        # What a parser makes of a broken file.
        on_unreadable(Unreadable(shown(Path(source.name)), f"broken: {type(error).__name__}: {error}"[:200]))


def _passages(source: Source, blocks: Iterable[bytes], bad: Report) -> Iterator[tuple[int, Passage]]:
    match source.format:
        case "jsonl":
            return jsonl.passages(blocks, bad)
        case "tsv":
            return tsv.passages(blocks, bad)
        case "squad":
            return squad.passages(blocks, bad, source.name)
        case _:
            raise AssertionError("a document opens its file itself")


def _questions(sources: list[QuestionSource], skip_bad: bool, on_bad: OnBad | None) -> Generator[Question, None, None]:
    for each in sources:
        yield from _questions_of(each.source, each.judgements, each.split_only, skip_bad, on_bad)


def _questions_of(
    source: Source, judgements: list[Source], split_only: bool, skip_bad: bool, on_bad: OnBad | None
) -> Generator[Question, None, None]:
    qrels = _qrels(judgements, skip_bad, on_bad)
    seen: dict[str, int] = {}
    with _naming(source), closing(read_blocks(source.path)) as blocks:
        for number, question in _all_questions(source, blocks, source.report(skip_bad, on_bad)):
            if split_only and question.id not in qrels:
                continue
            if question.id in seen:
                error = DuplicateIdError(
                    f"{source.place(number)}: the id {question.id!r} is already that of "
                    f"{source.place(seen[question.id])}; expected an id of its own for each question"
                )
                if not skip_bad:
                    raise error
                if on_bad is not None:
                    on_bad(error)
                continue
            seen[question.id] = number
            yield beir.with_judgements(question, qrels)


def _all_questions(source: Source, blocks: Iterable[bytes], bad: Report) -> Iterator[tuple[int, Question]]:
    match source.format:
        case "jsonl":
            return jsonl.questions(blocks, bad)
        case "squad":
            return squad.questions(blocks, bad, source.name)
        case "text":
            return texts.questions(blocks, bad)
        case _:
            raise AssertionError("neither a table nor a document holds questions")


def _qrels(sources: list[Source], skip_bad: bool, on_bad: OnBad | None) -> beir.Qrels:
    qrels: beir.Qrels = {}
    for source in sources:
        with _naming(source), closing(read_blocks(source.path)) as blocks:
            beir.judge(qrels, blocks, source.report(skip_bad, on_bad))
    return qrels


@contextmanager
def _naming(source: Source) -> Iterator[None]:
    """Adds the file's name to a fault of the file as a whole."""
    try:
        yield
    except Fault as fault:
        raise DataError(f"{shown(source.path)}: {fault}") from None


@dataclass(frozen=True, slots=True)
class Source:
    """One file to read; `name` is what its rows' ids start with where the format has none of its own."""

    path: Path
    format: Format
    name: str = ""

    @property
    def opens_itself(self) -> bool:
        """A document, whose reader may want more than its bytes in their order."""
        return self.format in ("document", "unknown")

    def place(self, number: int) -> str:
        """Where a row stands, for people: `file:line`."""
        if self.format == "document" and not number:
            return shown(self.path)
        between = ", paragraph " if self.format == "squad" else ":"
        return f"{shown(self.path)}{between}{number}"

    def report(self, skip_bad: bool, on_bad: OnBad | None) -> Report:
        """What to call with a bad row."""

        def report(number: int, fault: Fault) -> None:
            error = DataError(f"{self.place(number)}: {fault}")
            if not skip_bad:
                raise error from None
            if on_bad is not None:
                on_bad(error)

        return report


@dataclass(frozen=True, slots=True)
class QuestionSource:
    """A file of questions; `split_only`: those that its judgements name."""

    source: Source
    judgements: list[Source] = field(default_factory=list)
    split_only: bool = False


def passage_sources(paths: AnyPath | Iterable[AnyPath]) -> list[Source]:
    """Every file of passages behind the paths, in their order; raises for the first that is not one."""
    sources: list[Source] = []
    for path in map(Path, _each(paths)):
        sources += _folder_sources(path) if _is_folder(path) else [_passage_source(path)]
    return sources


def question_source(path: AnyPath) -> QuestionSource:
    """The file of questions behind a path, and the files of BEIR's judgements that go with it."""
    path = Path(path)
    if _is_folder(path):
        return QuestionSource(_beir_queries(path), [Source(file, "tsv") for file in beir.judgement_files(path)])
    name = plain_name(path).lower()
    if name.endswith(".tsv"):
        return QuestionSource(_beir_queries(path.absolute().parent.parent), [Source(path, "tsv")], split_only=True)
    if name.endswith(texts.PLAIN):
        return QuestionSource(Source(path, "text"))
    return QuestionSource(_json_source(path) or _unknown(path, _QUESTION_FORMATS))


def _each(paths: AnyPath | Iterable[AnyPath]) -> Iterable[AnyPath]:
    return [paths] if isinstance(paths, str | os.PathLike) else paths


def _is_folder(path: Path) -> bool:
    try:
        path.stat()
        return path.is_dir()
    except FileNotFoundError:
        raise DataError(f"{shown(path)}: no such file or folder; check the path") from None
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None


def _folder_sources(folder: Path) -> list[Source]:
    if corpus := beir.part(folder, "corpus.jsonl"):
        return [Source(corpus, "jsonl")]
    files = texts.folder_files(folder)
    if any(map(texts.is_document, files)):
        return [
            Source(file, "document" if texts.is_document(file) else "unknown", file.relative_to(folder).as_posix())
            for file in files
        ]
    try:
        names = sorted(file.name for file in folder.iterdir())
    except OSError as error:
        raise unreadable(folder, error) from None
    if not names:
        raise DataError(f"{shown(folder)}: the folder is empty; {_PASSAGE_FORMATS}")
    raise DataError(
        f"{shown(folder)}: a folder without corpus.jsonl and without documents (it has "
        f"{', '.join(names[:3])}{', …' if len(names) > 3 else ''}); give files of passages one by one, "
        "such as FOLDER/*.jsonl"
    )


def _passage_source(path: Path) -> Source:
    name = plain_name(path).lower()
    if name.endswith(".tsv"):
        return Source(path, "tsv")
    if texts.is_document(path):
        return Source(path, "document", path.name)
    return _json_source(path) or _unknown(path, _PASSAGE_FORMATS)


def _json_source(path: Path) -> Source | None:
    name = plain_name(path).lower()
    if name.endswith(jsonl.SUFFIXES):
        return Source(path, "jsonl")
    if not name.endswith(".json"):
        return None
    return Source(path, "jsonl" if _has_rows(path) else "squad", path.name)


def _has_rows(path: Path) -> bool:
    """Whether a `.json` file is JSONL by another name: its first line is an object with an id."""
    blocks = read_blocks(path)
    try:
        first = next(blocks, b"").removeprefix(b"\xef\xbb\xbf").lstrip().partition(b"\n")[0]
        return not {"id", "_id"}.isdisjoint(parse_object(first))
    except Fault:
        return False
    finally:
        blocks.close()


def _beir_queries(folder: Path) -> Source:
    queries = beir.part(folder, "queries.jsonl")
    if queries is None:
        raise DataError(f"{shown(folder)}: no queries.jsonl in this folder; {_QUESTION_FORMATS}")
    return Source(queries, "jsonl")


def _unknown(path: Path, expected: str) -> Source:
    suffixes = "".join(path.suffixes[-2:])
    raise DataError(f"{shown(path)}: unknown format {suffixes or 'without a suffix'}; {expected}")
