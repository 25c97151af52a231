"""Stored runs: the top passages of known questions, which stand in for embeddings where there are none.

    DIR/NAME.trec[.xz|.gz|.zst]     TREC's format: question Q0 passage rank score tag
    DIR/NAME.json                   of which passages, by which encoder, how deep, and a checksum of each question

A session asks with a question's words, a TREC file knows its id: the second file joins them. An id with white space in
it is written percent-encoded. A score has the digits that give its float32 back to the bit.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, pairwise
from pathlib import Path
from urllib.parse import quote, unquote

import numpy as np

from orienteer.data.atomic import atomic_write
from orienteer.data.compression import SUFFIXES, plain_name, read_blocks
from orienteer.data.passage import Question
from orienteer.dense.embeddings import (
    DenseError,
    EmbeddingsCorruptError,
    EmbeddingsMismatchError,
    EmbeddingsMissingError,
    Ranges,
    as_options,
    count_passages,
    gaps,
    join_ranges,
)
from orienteer.dense.search import EmbeddingRetriever, on_grid
from orienteer.engine.protocol import Hit
from orienteer.query.refinement import clean

FORMAT, VERSION = "orienteer-run", 1
DEPTH = 100
TREC = ".trec"
_TAG = "dense"
_DIGITS = 9  # decide a float32
_SHARED = {
    "passages_fingerprint": "is of other passages",
    "passages": "is of another number of passages",
    "encoder": "is by another encoder",
    "depth": "is of another depth",
    "questions": "has other questions",
}


class NotInRunError(DenseError):
    """A question, or a depth, that a stored run does not have."""


@dataclass(frozen=True, slots=True)
class RunNotes:
    """What the TREC file does not say.

    `covers` are the ranges searched of the index's `passages`; `question_vectors` checksums of what was asked, several
    in a run joined of parts that do not agree; `questions` is {id: checksum of its text}; `blake2b` is of the lines
    uncompressed.
    """

    passages_fingerprint: str
    encoder: str
    depth: int
    passages: int
    covers: Ranges
    question_vectors: tuple[str, ...]
    questions: Mapping[str, str]
    blake2b: str = ""


def write_run(file: Path, retriever: EmbeddingRetriever, questions: Iterable[Question], depth: int = DEPTH) -> RunNotes:
    """The top `depth` of every question as `file`, NAME.trec or compressed, and NAME.json beside it."""
    check_name(file)
    asked = {each.id: clean(each.question) for each in questions}
    vectors = retriever.vectors([text for text in asked.values() if text])
    found = iter(retriever.search_vectors(vectors, depth))
    made = retriever.manifest
    notes = RunNotes(
        made.passages_fingerprint, made.encoder, depth, made.passages, made.covered,
        (_digest(on_grid(vectors).astype("<i2").tobytes()),),
        {id: _digest(text.encode()) for id, text in asked.items()},
    )  # fmt: skip
    return store_run(file, notes, {id: next(found) if text else [] for id, text in asked.items()})


def store_run(file: Path, notes: RunNotes, lists: Mapping[str, Sequence[Hit]]) -> RunNotes:
    """Hits by question's id as a run, with these notes and the checksum of its lines."""
    lines = "".join(
        f"{_token(id)} Q0 {_token(hit.id)} {rank} {hit.score:.{_DIGITS}g} {_TAG}\n"
        for id, hits in lists.items()
        for rank, hit in enumerate(hits, 1)
    ).encode()
    notes = replace(notes, blake2b=_digest(lines))

    text = json.dumps({"format": FORMAT, "version": VERSION, **asdict(notes)}, indent=1, ensure_ascii=False) + "\n"
    atomic_write(file, lines)
    atomic_write(notes_file(file), text)  # last: a run without its notes is no run yet
    return notes


def check_name(file: Path) -> None:
    if not plain_name(file).endswith(TREC):
        raise DenseError(f"{file}: a run file's name ends in {TREC}, or in {TREC}.xz, {TREC}.gz, {TREC}.zst")


class RunRetriever:
    """Replays runs of a folder: all that were made of these passages, by one encoder."""

    def __init__(self, folder: Path, passages_fingerprint: str | None = None) -> None:
        """Without a fingerprint, for an engine that has none, every run of the folder counts."""
        self._folder = folder
        runs = {file: notes for file in runs_in(folder) if (notes := read_notes(file)) is not None}
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
        for file, notes in fitting.items():
            _check_whole(file, notes)
        encoders = sorted({notes.encoder for notes in fitting.values()})
        if len(encoders) > 1:
            raise EmbeddingsMismatchError(
                f"the runs in {folder} are by several encoders, {', '.join(encoders)}; keep those of one there"
            )
        [self.fingerprint] = encoders
        self._hits: dict[str, list[Hit]] = {}
        self._depths: dict[str, int] = {}
        for file, notes in fitting.items():
            lists = read_lists(file, notes)
            for id, asked in notes.questions.items():
                if notes.depth > self._depths.get(asked, 0):
                    self._hits[asked], self._depths[asked] = lists.get(id, []), notes.depth

    def search_many(self, questions: Sequence[str], k: int) -> list[list[Hit]]:
        return [self._search(clean(question), k) for question in questions]

    def _search(self, question: str, k: int) -> list[Hit]:
        asked = _digest(question.encode())
        if asked not in self._hits:
            raise NotInRunError(
                f"the runs in {self._folder} do not have the question {question[:80]!r}; make embeddings with "
                "`orienteer embed` to ask any question, or write a run of yours with `orienteer dense-run`"
            )
        if k > self._depths[asked]:
            raise NotInRunError(
                f"the runs in {self._folder} hold {self._depths[asked]} passages a question, {k} are wanted; "
                "ask for fewer, or make embeddings with `orienteer embed`"
            )
        return self._hits[asked][:k]


def _check_whole(file: Path, notes: RunNotes) -> None:
    if missing := gaps(notes.covers, notes.passages):
        raise EmbeddingsMissingError(
            f"{file} covers {count_passages(notes.covers):,} of {notes.passages:,} passages; make the others with "
            f"`orienteer embed` {as_options(missing)}, write a run of them with `orienteer dense-run --partial`, and "
            "join both with `orienteer dense-join`; keep runs of parts in a folder of their own"
        )


def join_runs(parts: Sequence[Path], file: Path, *, partial: bool = False) -> RunNotes:
    """The run that one search of all the parts' passages gives, byte for byte.

    Together the parts cover every passage of the index once; with `partial`, a range of them without a gap.
    """
    check_name(file)
    if not parts:
        raise DenseError("no parts to join; give the runs that `orienteer dense-run --partial` wrote")
    runs = _in_passage_order([(part, _part_notes(part)) for part in parts])
    first = runs[0][1]
    covers = join_ranges(notes.covers[0] for _, notes in runs)
    missing = gaps(covers, first.passages)
    if partial:
        missing = tuple(gap for gap in missing if covers[0][0] < gap[0] < covers[-1][0])
    if missing:
        raise EmbeddingsMissingError(
            f"no part covers {count_passages(missing):,} of the {first.passages:,} passages; make them with "
            f"`orienteer embed` {as_options(missing)} and write a run of them with `orienteer dense-run --partial`"
            + ("" if partial else "; or join what there is with --partial")
        )
    # Parts stand in the order of their passages and the sort is stable: of equal scores the first in the index wins.
    lists = [read_lists(part, notes) for part, notes in runs]
    best = {
        id: sorted(chain.from_iterable(each.get(id, ()) for each in lists), key=lambda hit: -hit.score)[: first.depth]
        for id in first.questions
    }
    vectors = tuple(sorted({digest for _, notes in runs for digest in notes.question_vectors}))
    return store_run(file, replace(first, covers=covers, question_vectors=vectors), best)


def _part_notes(part: Path) -> RunNotes:
    notes = read_notes(part) if notes_file(part).is_file() else None
    if notes is None:
        raise EmbeddingsMissingError(
            f"{part} has no notes of a run beside it, {notes_file(part).name}; give what `orienteer dense-run` wrote, "
            "both files"
        )
    if len(notes.covers) != 1:
        between = gaps(notes.covers, notes.covers[-1][1]) if notes.covers else ()
        raise DenseError(
            f"{part} covers {len(notes.covers)} ranges of passages, a part is one range; fill the gaps with "
            f"`orienteer embed` {as_options(between)} and write the run again"
        )
    return notes


def _in_passage_order(runs: Sequence[tuple[Path, RunNotes]]) -> list[tuple[Path, RunNotes]]:
    """The parts in the order of their passages; an error where they do not fit together."""
    part, wanted = runs[0]
    for other, notes in runs[1:]:
        for field, what in _SHARED.items():
            if getattr(notes, field) != getattr(wanted, field):
                raise EmbeddingsMismatchError(f"{other} {what} than {part}; join runs of the same")
    ordered = sorted(runs, key=lambda run: run[1].covers)
    for (part, before), (other, after) in pairwise(ordered):
        [(_, end)], [(first, last)] = before.covers, after.covers
        if first < end:
            raise DenseError(
                f"passages {first} to {min(end, last)} are in both {part} and {other}; give parts that share none"
            )
    return ordered


def runs_in(folder: Path) -> list[Path]:
    """The run files of a folder that have notes beside them, by name."""
    found = (folder.glob(f"*{TREC}{suffix}") for suffix in ("", *SUFFIXES))
    return sorted(file for files in found for file in files if notes_file(file).is_file())


def notes_file(file: Path) -> Path:
    return file.with_name(plain_name(file).removesuffix(TREC) + ".json")


def read_notes(file: Path) -> RunNotes | None:
    """None where the file beside the run is not about runs."""
    notes = notes_file(file)
    try:
        raw = json.loads(notes.read_bytes())
        if not isinstance(raw, dict) or raw.pop("format", None) != FORMAT:
            return None
        if (version := raw.pop("version")) != VERSION:
            raise EmbeddingsCorruptError(f"{notes} has version {version!r}, expected {VERSION}; write the run again")
        raw["covers"] = tuple((int(first), int(end)) for first, end in raw["covers"])
        return RunNotes(**{**raw, "question_vectors": tuple(raw["question_vectors"])})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EmbeddingsCorruptError(f"{notes} is damaged: {error}; write the run again") from None


def read_lists(file: Path, notes: RunNotes) -> Mapping[str, list[Hit]]:
    """{question's id: hits}, in the file's order."""
    data = b"".join(read_blocks(file))
    if _digest(data) != notes.blake2b:
        raise EmbeddingsCorruptError(f"{file} is not the run that {notes_file(file).name} tells of; write it again")
    lists: defaultdict[str, list[Hit]] = defaultdict(list)
    for line in data.decode().splitlines():
        question, _, passage, _, score, _ = line.split(" ")
        lists[unquote(question)].append(Hit(unquote(passage), float(np.float32(score))))
    return lists


def _token(id: str) -> str:
    """An id as one field of a line; a percent sign is encoded too, so that every id comes back as it was."""
    return quote(id, safe="") if not id or "%" in id or any(c.isspace() for c in id) else id


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
