"""Which files hold the rows, and in which format: told by path, suffix and, for `.json`, content."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from orienteer.data import beir, jsonl, texts
from orienteer.data.bad_rows import Fault, OnBad, Report
from orienteer.data.compression import plain_name, read_blocks, shown, unreadable
from orienteer.data.rows import parse_object
from orienteer.errors import DataError

Format = Literal["jsonl", "tsv", "squad", "text"]
AnyPath = str | os.PathLike[str]

_EACH = "each plain or as .gz, .xz or .zst"
_PASSAGE_FORMATS = (
    "expected .jsonl with id, title and text, .tsv with DPR's header, .json as SQuAD has it, .txt or .md, "
    f"{_EACH}; or a folder in BEIR's layout or of .txt and .md files"
)
_QUESTION_FORMATS = (
    "expected .jsonl with id, question and answers, .json as SQuAD has it, .txt with a question a line, "
    f"BEIR's qrels/SPLIT.tsv, {_EACH}; or a folder in BEIR's layout"
)


@dataclass(frozen=True, slots=True)
class Source:
    """One file to read; `name` is what its rows' ids start with where the format has none of its own."""

    path: Path
    format: Format
    name: str = ""

    def place(self, number: int) -> str:
        """Where a row stands, for people: `file:line`."""
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


def passage_sources(paths: AnyPath | Iterable[AnyPath]) -> list[Source]:
    """Every file of passages behind the paths, in their order; raises for the first that is not one."""
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    sources: list[Source] = []
    for path in map(Path, paths):
        sources += _folder_sources(path) if _is_folder(path) else [_passage_source(path)]
    return sources


def question_source(path: AnyPath) -> tuple[Source, list[Source]]:
    """The file of questions behind a path, and the files of BEIR's judgements that go with it."""
    path = Path(path)
    if _is_folder(path):
        return _beir_queries(path), [Source(file, "tsv") for file in beir.judgement_files(path)]
    name = plain_name(path).lower()
    if name.endswith(".tsv"):
        return _beir_queries(path.absolute().parent.parent), [Source(path, "tsv")]
    if name.endswith(texts.PLAIN):
        return Source(path, "text"), []
    return _json_source(path) or _unknown(path, _QUESTION_FORMATS), []


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
    if files := texts.text_files(folder):
        return [Source(file, "text", file.relative_to(folder).as_posix()) for file in files]
    try:
        names = sorted(file.name for file in folder.iterdir())
    except OSError as error:
        raise unreadable(folder, error) from None
    if not names:
        raise DataError(f"{shown(folder)}: the folder is empty; {_PASSAGE_FORMATS}")
    raise DataError(
        f"{shown(folder)}: a folder without corpus.jsonl and without .txt or .md files (it has "
        f"{', '.join(names[:3])}{', …' if len(names) > 3 else ''}); give files of passages one by one, "
        "such as FOLDER/*.jsonl"
    )


def _passage_source(path: Path) -> Source:
    name = plain_name(path).lower()
    if name.endswith(".tsv"):
        return Source(path, "tsv")
    if name.endswith(texts.PLAIN + texts.MARKDOWN):
        return Source(path, "text", path.name)
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
