"""Runs of parts of an index, joined to one: the top passages of the whole are among the top passages of its parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, pairwise
from pathlib import Path

from orienteer.dense.errors import DenseError, EmbeddingsMismatchError, EmbeddingsMissingError
from orienteer.dense.ranges import as_options, count, gaps, joined
from orienteer.dense.runs import RunNotes, check_name, notes_file, read_lists, read_notes, store_run

_ALIKE = {
    "passages_fingerprint": "is of other passages",
    "passages": "is of another number of passages",
    "encoder": "is by another encoder",
    "depth": "is of another depth",
    "questions": "has other questions",
}


def join_runs(parts: Sequence[Path], file: Path, *, partial: bool = False) -> RunNotes:
    """The run that one search of all the parts' passages gives, byte for byte.

    Together the parts cover every passage of the index once; with `partial`, a range of them without a gap.
    """
    check_name(file)
    if not parts:
        raise DenseError("no parts to join; give the runs that `orienteer dense-run --partial` wrote")
    runs = _in_order([(part, _notes(part)) for part in parts])
    first = runs[0][1]
    covers = joined(notes.covers[0] for _, notes in runs)
    missing = gaps(covers, first.passages)
    if partial:
        missing = tuple(gap for gap in missing if covers[0][0] < gap[0] < covers[-1][0])
    if missing:
        raise EmbeddingsMissingError(
            f"no part covers {count(missing):,} of the {first.passages:,} passages; make them with `orienteer embed` "
            f"{as_options(missing)} and write a run of them with `orienteer dense-run --partial`"
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


def _notes(part: Path) -> RunNotes:
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


def _in_order(runs: Sequence[tuple[Path, RunNotes]]) -> list[tuple[Path, RunNotes]]:
    """The parts in the order of their passages; an error where they do not fit together."""
    part, wanted = runs[0]
    for other, notes in runs[1:]:
        for field, what in _ALIKE.items():
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
