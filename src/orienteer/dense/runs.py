"""Stored runs: the top passages of known questions, which stand in for embeddings where there are none.

    DIR/NAME.trec[.xz|.gz|.zst]     TREC's format: question Q0 passage rank score tag
    DIR/NAME.json                   of which passages, by which encoder, how deep, and the text of each question

A session asks with a question's words, a TREC file knows its id: the second file joins them. An id with white space in
it is written percent-encoded.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from orienteer.data.compression import SUFFIXES, compressed, plain_name, read_blocks
from orienteer.data.passage import Question
from orienteer.dense.embeddings import write_whole
from orienteer.dense.errors import (
    DenseError,
    EmbeddingsCorruptError,
    EmbeddingsMismatchError,
    EmbeddingsMissingError,
    NotInRunError,
)
from orienteer.dense.retriever import DECIMALS, Retriever
from orienteer.engine.protocol import Hit
from orienteer.query.refinement import clean

FORMAT, VERSION = "orienteer-run", 1
DEPTH = 100
TREC = ".trec"


@dataclass(frozen=True, slots=True)
class RunNotes:
    """What the TREC file does not say; `questions` is {id: text}, `blake2b` of the lines uncompressed."""

    passages_fingerprint: str
    encoder: str
    depth: int
    questions: Mapping[str, str]
    blake2b: str


def write_run(
    file: Path, retriever: Retriever, passages_fingerprint: str, questions: Iterable[Question], depth: int = DEPTH,
    tag: str = "dense",
) -> RunNotes:  # fmt: skip
    """The top `depth` of every question as `file`, NAME.trec or compressed, and NAME.json beside it."""
    if not plain_name(file).endswith(TREC):
        raise DenseError(f"{file}: a run file's name ends in {TREC}, or in {TREC}.xz, {TREC}.gz, {TREC}.zst")
    asked = {each.id: clean(each.question) for each in questions}
    texts = list(asked.values())
    found = retriever.search_many([text for text in texts if text], depth)
    lists = iter(found)
    lines = "".join(
        f"{_token(id)} Q0 {_token(hit.id)} {rank} {hit.score:.{DECIMALS}f} {tag}\n"
        for id, text in asked.items()
        for rank, hit in enumerate(next(lists) if text else [], 1)
    ).encode()
    notes = RunNotes(passages_fingerprint, retriever.fingerprint, depth, asked, _digest(lines))

    def write_lines(opened: Any) -> None:
        with compressed(opened, file) as out:
            out.write(lines)

    text = json.dumps({"format": FORMAT, "version": VERSION, **asdict(notes)}, indent=1, ensure_ascii=False) + "\n"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, write_lines)
        # Last: a run without its notes is no run yet.
        write_whole(_notes_file(file), lambda opened: opened.write(text.encode()))
    except OSError as error:
        raise DenseError(f"{file}: cannot be written: {error.strerror}; choose another place") from None
    return notes


class RunRetriever:
    """Replays runs of a folder: all that were made of these passages, by one encoder."""

    def __init__(self, folder: Path, passages_fingerprint: str | None = None) -> None:
        """Without a fingerprint, for an engine that has none, every run of the folder counts."""
        self._folder = folder
        runs = {file: notes for file in runs_in(folder) if (notes := _read_notes(file)) is not None}
        if not runs:
            raise EmbeddingsMissingError(f"no runs in {folder}; write some with `orienteer dense-run`")
        fitting = {
            file: notes
            for file, notes in runs.items()
            if passages_fingerprint in (None, notes.passages_fingerprint)
        }  # fmt: skip
        if not fitting:
            raise EmbeddingsMismatchError(
                f"the runs in {folder} are of other passages than the index holds; write its own with "
                "`orienteer embed` and `orienteer dense-run`"
            )
        encoders = sorted({notes.encoder for notes in fitting.values()})
        if len(encoders) > 1:
            raise EmbeddingsMismatchError(
                f"the runs in {folder} are by several encoders, {', '.join(encoders)}; keep those of one there"
            )
        [self.fingerprint] = encoders
        self._hits: dict[str, list[Hit]] = {}
        self._depths: dict[str, int] = {}
        for file, notes in fitting.items():
            lists = _read_lines(file, notes)
            for id, text in notes.questions.items():
                if notes.depth > self._depths.get(text, 0):
                    self._hits[text], self._depths[text] = lists.get(id, []), notes.depth

    def search_many(self, questions: Sequence[str], k: int) -> list[list[Hit]]:
        return [self._search(clean(question), k) for question in questions]

    def _search(self, question: str, k: int) -> list[Hit]:
        if question not in self._hits:
            raise NotInRunError(
                f"the runs in {self._folder} do not have the question {question[:80]!r}; make embeddings with "
                "`orienteer embed` to ask any question, or write a run of yours with `orienteer dense-run`"
            )
        if k > self._depths[question]:
            raise NotInRunError(
                f"the runs in {self._folder} hold {self._depths[question]} passages a question, {k} are wanted; "
                "ask for fewer, or make embeddings with `orienteer embed`"
            )
        return self._hits[question][:k]


def runs_in(folder: Path) -> list[Path]:
    """The run files of a folder that have notes beside them, by name."""
    found = (folder.glob(f"*{TREC}{suffix}") for suffix in ("", *SUFFIXES))
    return sorted(file for files in found for file in files if _notes_file(file).is_file())


def _notes_file(file: Path) -> Path:
    return file.with_name(plain_name(file).removesuffix(TREC) + ".json")


def _read_notes(file: Path) -> RunNotes | None:
    """None where the file beside the run is not about runs."""
    notes = _notes_file(file)
    try:
        raw = json.loads(notes.read_bytes())
        if not isinstance(raw, dict) or raw.pop("format", None) != FORMAT:
            return None
        if (version := raw.pop("version")) != VERSION:
            raise EmbeddingsCorruptError(f"{notes} has version {version!r}, expected {VERSION}; write the run again")
        return RunNotes(**raw)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EmbeddingsCorruptError(f"{notes} is damaged: {error}; write the run again") from None


def _read_lines(file: Path, notes: RunNotes) -> Mapping[str, list[Hit]]:
    """{question's id: hits}, in the file's order."""
    data = b"".join(read_blocks(file))
    if _digest(data) != notes.blake2b:
        raise EmbeddingsCorruptError(f"{file} is not the run that {_notes_file(file).name} tells of; write it again")
    lists: defaultdict[str, list[Hit]] = defaultdict(list)
    for line in data.decode().splitlines():
        question, _, passage, _, score, _ = line.split(" ")
        lists[unquote(question)].append(Hit(unquote(passage), float(score)))
    return lists


def _token(id: str) -> str:
    """An id as one field of a line; a percent sign is encoded too, so that every id comes back as it was."""
    return quote(id, safe="") if not id or "%" in id or any(c.isspace() for c in id) else id


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
