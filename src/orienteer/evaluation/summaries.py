"""Summaries: what is kept of an agent's sessions for tables and figures, by question and step, without any text.

    OUT/summaries/AGENT.json     its identity, then the numbers
    OUT/summaries.jsonl.zst      the same rows, packed: one line an agent (`pack`, `orienteer evaluate --pack`)

Every float is read back to the bit, and counts keep their order: a stored summary gives the same tables and figures as
the sessions themselves. `ranks_of` is the depth of a passage: its BM25 rank under the question (`fig:exploration`).
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orienteer.agents import ConfiguredAgent
from orienteer.agents.registry import sees_answers
from orienteer.data.atomic import atomic_write
from orienteer.data.compression import read_blocks
from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine, Hit, fingerprint_of
from orienteer.errors import OrienteerError, QueryError
from orienteer.evaluation.answer_em import EM_T5, Final, final_passages
from orienteer.evaluation.journal import HOW_TO_FIX, EvaluationError, SessionCosts, file_names
from orienteer.evaluation.measures import BY_STEP, COSTS, COUNTED_BY_AGENTS, MEASURES, QUALITY, SECONDS
from orienteer.query import BOOSTS, Query, Refinement
from orienteer.session import Read, Record, Undo
from orienteer.session.record import Provenance

DEEPEST = 1000
BINS = (5, 10, 20, 50, 100, 200, 500, DEEPEST)  # the last rank of each; deeper ones, and no match at all, come after
LABELS = (*(f"{low + 1}–{high}" for low, high in zip((0, *BINS[:-1]), BINS, strict=True)), f"> {DEEPEST}")

Ranks = Mapping[str, int]


def ranks_of(engine: Engine, questions: Sequence[str]) -> list[Ranks]:
    """For each question the ranks of the first 1,000 passages that it finds by itself; none where it is refused."""
    try:
        lists: Sequence[Sequence[Hit]] = engine.search_many([Query(question) for question in questions], DEEPEST)
    except QueryError:
        lists = [_alone(engine, question) for question in questions]
    return [{hit.id: rank for rank, hit in enumerate(hits, 1)} for hits in lists]


def bin_of(rank: int | None) -> int:
    """The place of a rank in `LABELS`."""
    return next((i for i, last in enumerate(BINS) if rank is not None and rank <= last), len(BINS))


def _alone(engine: Engine, question: str) -> Sequence[Hit]:
    try:
        return engine.search(Query(question), DEEPEST)
    except QueryError:
        return ()


Floats = NDArray[np.float64]


def _boost(weight: float) -> str:
    return f"^{f'{weight:g}'.removeprefix('0')}"


# As the paper names them: by operator and field, a boost by its weight.
ACTION_TYPES = ("or", "+c", "+t", "-c", "-t", *map(_boost, BOOSTS), "undo", "read")


def action_type(action: Refinement | Read | Undo) -> str:
    if isinstance(action, Read):
        return "read"
    if isinstance(action, Undo):
        return "undo"
    match action.op:
        case "or":
            return "or"
        case "^":
            return _boost(action.weight)
        case op:
            return op + action.field[0]


@dataclass(slots=True)
class Summary:
    """An agent's sessions in numbers; `add` takes them one by one, in the questions' order.

    values   measure → its value for each question, NaN where it does not apply
    gains    for each step from the first, S after it less S before, of the sessions that took it
    depths   how many distinct passages seen lie at each depth, and how many of the final five
    final    each question's final passages
    ranking  measure by judgements → its value for each question, NaN where it has none; empty where no question has
    generated   whether the answer generator's answer is exact, for each question; empty where there is no generator
    fallbacks   how many decisions the agent made in another way than its own, by kind
    seconds     what the sessions took; None where they were not timed
    """

    entry: ConfiguredAgent
    values: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in MEASURES})
    lengths: Counter[int] = field(default_factory=Counter)
    actions: Counter[str] = field(default_factory=Counter)
    endings: Counter[str] = field(default_factory=Counter)
    gains: list[list[float]] = field(default_factory=list)
    depths: list[int] = field(default_factory=lambda: [0] * len(LABELS))
    final_depths: list[int] = field(default_factory=lambda: [0] * len(LABELS))
    final: list[list[Final]] = field(default_factory=list)
    ranking: dict[str, list[float]] = field(default_factory=dict)
    generated: list[float] = field(default_factory=list)
    fallbacks: Counter[str] = field(default_factory=Counter)
    seconds: SessionCosts | None = None
    dead_ends: int = 0
    judged: int = 0
    step_sums: Floats = field(init=False)  # [steps + 1, measures], over judged questions

    def __post_init__(self) -> None:
        self.step_sums = np.zeros((self.entry.settings.steps + 1, len(BY_STEP)))

    def add(self, record: Record, ranks: Ranks) -> None:
        for name, measure in MEASURES.items():
            # What a search for the answers computes is not counted.
            unknown = name in COUNTED_BY_AGENTS and sees_answers(self.name)
            value = None if unknown else measure.of(record)
            self.values[name].append(np.nan if value is None else value)
        self.fallbacks.update(record.cost.fallbacks)
        self.final.append(final_passages(record))
        self.lengths[max(0, len(record.steps) - 1)] += 1
        self.endings[record.ended or "open"] += 1
        self.dead_ends += sum(not step.hits for step in record.steps[1:])
        self.actions.update(action_type(step.action) for step in record.steps if step.action is not None)
        for id in record.passages:
            self.depths[bin_of(ranks.get(id))] += 1
        for id in record.best:
            self.final_depths[bin_of(ranks.get(id))] += 1
        if record.question.is_judged:
            self.judged += 1
            self._add_steps(record)

    def _add_steps(self, record: Record) -> None:
        last = max(0, len(record.steps) - 1)
        for step in range(min(last + 1, len(self.step_sums))):
            row = [MEASURES[name].of(record, step) or 0.0 for name in BY_STEP]
            # A session that has ended keeps what it has: its last row counts for all steps after it.
            self.step_sums[step : None if step == last else step + 1] += row
        scores = [step.score.total for step in record.steps if step.score is not None]
        for step, (before, after) in enumerate(pairwise(scores)):
            while len(self.gains) <= step:
                self.gains.append([])
            self.gains[step].append(after - before)

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def refines(self) -> bool:
        """Whether the agent may refine at all; without, there is nothing to say about steps."""
        return self.entry.settings.steps > 0

    def column(self, measure: str) -> Floats:
        column = self.values[measure] if measure in self.values else self.ranking[measure]
        return np.array(column, np.float64)

    @property
    def quality(self) -> tuple[str, ...]:
        """The measures of quality that apply to some question."""
        return tuple(name for name in (*self.ranking, *QUALITY) if not np.isnan(self.column(name)).all())

    def means(self) -> dict[str, float]:
        """Each measure's mean over the questions it applies to, in percent where it is a share."""
        means = {}
        for name in (*self.ranking, *MEASURES):
            column = self.column(name)
            column = column[~np.isnan(column)]
            if len(column):
                means[name] = float(np.mean(column)) * (1 if name in COSTS else 100)
        if self.generated and not np.isnan(self.generated).all():
            means[EM_T5] = 100 * float(np.nanmean(self.generated))
        if self.seconds is not None and (seconds := self.seconds.without_reading) is not None:
            means[SECONDS] = seconds
        return means

    def by_step(self) -> Mapping[str, list[float]]:
        """Each measure that applies in percent after 0, 1, … steps; empty where no question is judged."""
        if not self.judged:
            return {}
        table = 100 * self.step_sums / self.judged
        return {name: table[:, i].tolist() for i, name in enumerate(BY_STEP) if name in self.quality}


FORMAT, VERSION = "orienteer summary", 1
PACKED = "summaries.jsonl.zst"


def identity(entry: ConfiguredAgent, played: Provenance, questions: str) -> dict[str, Any]:
    """What a summary was made from; `questions` is their fingerprint, `weights` is empty for an agent without weights.

    Session records do not hold the weights: they are those of the agent when it is judged.
    """
    return {
        "format": FORMAT, "version": VERSION,
        "agent": played.agent, "weights": fingerprint_of(entry.agent),
        "index": played.index, "reader": played.reader, "questions": questions, "settings": played.settings.as_dict(),
    }  # fmt: skip


def questions_fingerprint(questions: Sequence[Question]) -> str:
    rows = [question.identity for question in questions]
    return blake2b(json.dumps(rows).encode(), digest_size=16).hexdigest()


def save(file: Path, identity: Mapping[str, Any], summary: Summary) -> None:
    row = {
        **identity,
        "values": _as_json(summary.values),
        **{name: list(getattr(summary, name).items()) for name in ("lengths", "actions", "endings")},
        **({"ranking": _as_json(summary.ranking)} if summary.ranking else {}),
        **({"fallbacks": list(summary.fallbacks.items())} if summary.fallbacks else {}),
        **({"seconds": asdict(summary.seconds)} if summary.seconds is not None else {}),
        "gains": summary.gains,
        "depths": summary.depths, "final_depths": summary.final_depths,
        "dead_ends": summary.dead_ends, "judged": summary.judged,
        "step_sums": summary.step_sums.tolist(),
        "final": summary.final,
    }  # fmt: skip
    atomic_write(file, _line(row))


def _as_json(columns: Mapping[str, Sequence[float]]) -> dict[str, list[float | None]]:
    return {name: [None if np.isnan(v) else v for v in column] for name, column in columns.items()}


def packed_rows(out: Path) -> dict[str, dict[str, Any]]:
    """Agent → its row in the packed file of an evaluation's folder; empty where there is none."""
    packed = out / PACKED
    if not packed.exists():
        return {}
    try:
        lines = b"".join(read_blocks(packed)).splitlines()
        return {row["agent"]: row for row in map(json.loads, lines)}
    except (OSError, ValueError, KeyError, TypeError, OrienteerError) as error:
        raise EvaluationError(f"{packed}: not summaries that can be read: {error!r}; evaluate again") from None


def stored_rows(out: Path) -> dict[str, dict[str, Any]]:
    """Agent → its row, of all summaries in an evaluation's folder, packed or not; a file of its own wins."""
    rows = packed_rows(out)
    for file in sorted((out / "summaries").glob("*.json")):
        try:
            row = json.loads(file.read_bytes())
            rows[row["agent"]] = row
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise EvaluationError(f"{file}: not a summary that can be read: {error!r}; evaluate again") from None
    return rows


def pack(out: Path) -> int:
    """Moves all summaries of an evaluation's folder into the one compressed file; returns how many it holds."""
    rows = list(stored_rows(out).values())
    if rows:
        atomic_write(out / PACKED, map(_line, rows))
        shutil.rmtree(out / "summaries", ignore_errors=True)
    return len(rows)


def unpack(out: Path) -> int:
    """The inverse of `pack`: a file for each agent, for example to delete one and evaluate it again."""
    rows = stored_rows(out)
    for agent, name in file_names(rows).items():
        atomic_write(out / "summaries" / f"{name}.json", _line(rows[agent]))
    (out / PACKED).unlink(missing_ok=True)
    return len(rows)


def load(
    file: Path, packed: Mapping[str, Any] | None, expected: Mapping[str, Any], entry: ConfiguredAgent, questions: int
) -> Summary:
    """The summary in a file, or the packed row; checked to match `expected` (see `identity`) and the question count."""
    row, where = packed, file if packed is None else file.parent.with_name(PACKED)
    if row is None:
        try:
            row = json.loads(file.read_bytes())
        except (OSError, ValueError) as error:
            raise EvaluationError(f"{file}: not JSON that can be read: {error}; {HOW_TO_FIX}") from None
    if not isinstance(row, dict) or (row.get("format"), row.get("version")) != (FORMAT, VERSION):
        raise EvaluationError(f"{where}: not an {FORMAT} of version {VERSION}, which this program reads; {HOW_TO_FIX}")
    for what, now in expected.items():
        if (was := row.get(what)) != now:
            raise EvaluationError(f"{where}: judged with the {what} {was!r}, this is {now!r}; {HOW_TO_FIX}")
    try:
        return _summary(row, entry, questions)
    except (KeyError, TypeError, ValueError) as error:
        raise EvaluationError(f"{where}: a damaged summary: {type(error).__name__}: {error}; {HOW_TO_FIX}") from None


def _line(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def _column(values: Sequence[float | None]) -> list[float]:
    return [np.nan if v is None else float(v) for v in values]


def _values(row: Mapping[str, Any], name: str, questions: int) -> Sequence[float | None]:
    if name in COUNTED_BY_AGENTS and name not in row["values"]:
        return [None] * questions
    column: Sequence[float | None] = row["values"][name]
    return column


def _summary(row: Mapping[str, Any], entry: ConfiguredAgent, questions: int) -> Summary:
    found = Summary(
        entry,
        values={name: _column(_values(row, name, questions)) for name in MEASURES},
        ranking={str(name): _column(column) for name, column in row.get("ranking", {}).items()},
        lengths=Counter({int(length): int(count) for length, count in row["lengths"]}),
        fallbacks=Counter({str(kind): int(count) for kind, count in row.get("fallbacks", ())}),
        seconds=SessionCosts(**row["seconds"]) if "seconds" in row else None,
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
        *((name, len(column), questions) for name, column in (found.values | found.ranking).items()),
        *((name, len(getattr(found, name)), len(getattr(empty, name))) for name in ("depths", "final_depths")),
    ):
        if has != wanted:
            raise ValueError(f"{what} of size {has}, expected {wanted}")
    found.step_sums = sums
    return found
