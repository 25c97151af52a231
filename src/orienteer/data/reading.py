"""Passages and questions of every format, one at a time."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from orienteer.data import beir, jsonl, squad, texts, tsv
from orienteer.data.bad_rows import Fault, OnBad, Report
from orienteer.data.compression import read_blocks, shown
from orienteer.data.passage import Passage, Question
from orienteer.data.prefetch import open_ahead
from orienteer.data.sources import AnyPath, Source, passage_sources, question_source
from orienteer.errors import DataError, DuplicateIdError


def read_passages(
    paths: AnyPath | Iterable[AnyPath], *, skip_bad: bool = False, on_bad: OnBad | None = None
) -> Generator[Passage, None, None]:
    """The passages of one or several files and folders, in order, in bounded memory.

    A path that is missing or of no known format raises `DataError` at once, a bad row when it is reached.
    With `skip_bad` bad rows are left out, and `on_bad` (a `BadRows`, say) is told of each. Two passages with
    one id are the index builder's business: here ids are not remembered.
    """
    return _only_passages(_placed(passage_sources(paths), skip_bad, on_bad))


def find_ids(paths: AnyPath | Iterable[AnyPath], ids: Iterable[str]) -> dict[str, list[str]]:
    """Where passages with these ids stand, as `file:line`; reads everything once more and skips bad rows."""
    places: dict[str, list[str]] = {id: [] for id in ids}
    for source, number, passage in _placed(passage_sources(paths), skip_bad=True, on_bad=None):
        if passage.id in places:
            places[passage.id].append(source.place(number))
    return places


def read_questions(
    path: AnyPath, *, skip_bad: bool = False, on_bad: OnBad | None = None
) -> Generator[Question, None, None]:
    """The questions of a file or BEIR folder, in order; a second question with an id counts as a bad row.

    BEIR's questions name as `passage_id` the passage judged best; `qrels/SPLIT.tsv` gives those of its split.
    """
    source, judgements = question_source(path)
    split_only = len(judgements) == 1 and judgements[0].path == Path(path)
    return _questions(source, judgements, split_only, skip_bad, on_bad)


def read_qrels(path: AnyPath) -> beir.Qrels:
    """The judgements of one of BEIR's `qrels/*.tsv`: query id → passage id → grade."""
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
    sources: list[Source], skip_bad: bool, on_bad: OnBad | None
) -> Generator[tuple[Source, int, Passage], None, None]:
    with open_ahead([source.path for source in sources]) as files:
        for source, blocks in zip(sources, files, strict=True):
            with _naming(source):
                for number, passage in _passages(source, blocks, source.report(skip_bad, on_bad)):
                    yield source, number, passage


def _passages(source: Source, blocks: Iterable[bytes], bad: Report) -> Iterator[tuple[int, Passage]]:
    match source.format:
        case "jsonl":
            return jsonl.passages(blocks, bad)
        case "tsv":
            return tsv.passages(blocks, bad)
        case "squad":
            return squad.passages(blocks, bad, source.name)
        case "text":
            return texts.passages(blocks, bad, source.name)


def _questions(
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
            yield beir.with_gold(question, qrels)


def _all_questions(source: Source, blocks: Iterable[bytes], bad: Report) -> Iterator[tuple[int, Question]]:
    match source.format:
        case "jsonl":
            return jsonl.questions(blocks, bad)
        case "squad":
            return squad.questions(blocks, bad, source.name)
        case "text":
            return texts.questions(blocks, bad)
        case "tsv":
            raise AssertionError("a table holds judgements, never questions")


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
