"""An agent's `Summary` as a file, without any text of questions or passages, to be judged again without its sessions.

    OUT/summaries/AGENT.json   what it is of, then the numbers

Every float is read back to the bit, and counts keep their order: what follows from a summary that was read is what
follows from the sessions themselves.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from orienteer.agents import ConfiguredAgent
from orienteer.data.atomic import atomic_write
from orienteer.data.passage import Question
from orienteer.engine.protocol import fingerprint_of
from orienteer.evaluation.errors import EvaluationError
from orienteer.evaluation.journal import MEND
from orienteer.evaluation.measures import MEASURES
from orienteer.evaluation.summary import Summary
from orienteer.session.record import Provenance

FORMAT, VERSION = "orienteer summary", 1


def told(entry: ConfiguredAgent, played: Provenance, questions: str) -> dict[str, Any]:
    """What a summary is of; `questions` is their fingerprint, that of the weights is empty where there are none.

    Sessions do not tell with which weights they were played: the weights are those of the agent when it is judged.
    """
    return {
        "format": FORMAT, "version": VERSION,
        "agent": played.agent, "weights": fingerprint_of(entry.agent),
        "index": played.index, "reader": played.reader, "questions": questions, "settings": played.settings.as_dict(),
    }  # fmt: skip


def questions_fingerprint(questions: Sequence[Question]) -> str:
    rows = [[question.id, question.question, list(question.answers)] for question in questions]
    return blake2b(json.dumps(rows).encode(), digest_size=16).hexdigest()


def save(file: Path, told: Mapping[str, Any], summary: Summary) -> None:
    row = {
        **told,
        "values": {name: [None if np.isnan(v) else v for v in column] for name, column in summary.values.items()},
        **{name: list(getattr(summary, name).items()) for name in ("lengths", "actions", "endings")},
        "gains": summary.gains,
        "depths": summary.depths, "final_depths": summary.final_depths,
        "dead_ends": summary.dead_ends, "judged": summary.judged,
        "step_sums": summary.step_sums.tolist(),
        "final": summary.final,
    }  # fmt: skip
    atomic_write(file, json.dumps(row, allow_nan=False, separators=(",", ":")) + "\n")


def load(file: Path, expected: Mapping[str, Any], entry: ConfiguredAgent, questions: int) -> Summary:
    """The summary that a file holds, checked to be of `expected`, as `told` tells it, and of so many questions."""
    try:
        row = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise EvaluationError(f"{file}: not JSON that can be read: {error}; {MEND}") from None
    if not isinstance(row, dict) or (row.get("format"), row.get("version")) != (FORMAT, VERSION):
        raise EvaluationError(f"{file}: not an {FORMAT} of version {VERSION}, which this program reads; {MEND}")
    for what, now in expected.items():
        if (was := row.get(what)) != now:
            raise EvaluationError(f"{file}: judged with the {what} {was!r}, this is {now!r}; {MEND}")
    try:
        return _summary(row, entry, questions)
    except (KeyError, TypeError, ValueError) as error:
        raise EvaluationError(f"{file}: a damaged summary: {type(error).__name__}: {error}; {MEND}") from None


def _summary(row: Mapping[str, Any], entry: ConfiguredAgent, questions: int) -> Summary:
    found = Summary(
        entry,
        values={name: [np.nan if v is None else float(v) for v in row["values"][name]] for name in MEASURES},
        lengths=Counter({int(length): int(count) for length, count in row["lengths"]}),
        actions=Counter({str(kind): int(count) for kind, count in row["actions"]}),
        endings=Counter({str(ending): int(count) for ending, count in row["endings"]}),
        gains=[[float(gain) for gain in step] for step in row["gains"]],
        depths=[int(count) for count in row["depths"]],
        final_depths=[int(count) for count in row["final_depths"]],
        final=[[(str(id), int(a), int(b), float(ps)) for id, a, b, ps in passages] for passages in row["final"]],
        dead_ends=int(row["dead_ends"]),
        judged=int(row["judged"]),
    )
    sums = np.array(row["step_sums"], np.float64)
    empty = Summary(entry)
    for what, has, wanted in (
        ("step_sums", sums.shape, empty.step_sums.shape),
        ("final", len(found.final), questions),
        *((name, len(column), questions) for name, column in found.values.items()),
        *((name, len(getattr(found, name)), len(getattr(empty, name))) for name in ("depths", "final_depths")),
    ):
        if has != wanted:
            raise ValueError(f"{what} of size {has}, expected {wanted}")
    found.step_sums = sums
    return found
