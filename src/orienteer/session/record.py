"""The record of a session: one line of JSON with all its steps, enough to replay it byte for byte.

A line names its index, reader, settings and agent. It holds no times: the same session must give the same bytes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from math import isfinite
from pathlib import Path
from types import NoneType
from typing import Any, cast, get_args

from orienteer.data.atomic import atomic_path
from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine, Hit, fingerprint_of
from orienteer.errors import OrienteerError
from orienteer.query import Refinement, parse
from orienteer.reader.decoding import snippet
from orienteer.reader.protocol import Reader
from orienteer.session.agent import DEEPEST
from orienteer.session.environment import Environment, ended
from orienteer.session.score import Score
from orienteer.session.settings import Settings
from orienteer.session.state import NO_COST, UNDO, AgentCost, Ending, Read, Session, Undo

VERSION = 1
_READ = "read "  # before the ids of an action `Read`


class RecordError(OrienteerError):
    """A line that is not the record of a session, or one of another version."""


class ReplayError(OrienteerError):
    """A record that this engine and reader do not give again."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """What produced a session; `index` and `reader` are fingerprints, empty where there is none."""

    agent: str
    index: str
    reader: str
    settings: Settings


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """As `Step`, with the query in Lucene syntax.

    `notes` is further JSON: who took the step, the agent's explanation.
    """

    action: Refinement | Read | Undo | None
    query: str
    hits: tuple[Hit, ...]
    best: tuple[str, ...]
    entered: tuple[str, ...]
    left: tuple[str, ...]
    score: Score | None
    notes: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class RecordedPassage:
    """A passage seen: when and where, PS, the answer's place, its judgement; title and text if it was among the best.

    `text` is the snippet around the answer; `source` names the document and the page, where it is from one.
    """

    step: int
    rank: int
    score: float
    start: int
    end: int
    relevant: bool | None
    exact: bool | None
    title: str | None = None
    answer: str | None = None
    text: str | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """A recorded session; `passages` are in the order in which they were first seen.

    `confidence`: the probability that the answer is right, where it was judged. `explanation`: the sentences of the
    best passage that answer a question which asks how or why. `cost`: what the agent computed to decide.
    """

    provenance: Provenance
    question: Question
    steps: tuple[RecordedStep, ...]
    passages: Mapping[str, RecordedPassage]
    ended: Ending | None
    error: str
    confidence: float | None = None
    explanation: str = ""
    cost: AgentCost = NO_COST

    @property
    def best(self) -> tuple[str, ...]:
        return self.steps[-1].best if self.steps else ()

    @property
    def queries(self) -> int:
        return sum(not isinstance(step.action, Read | Undo) for step in self.steps) + self.cost.queries

    @property
    def answer(self) -> str:
        """The reader's answer from the best passage."""
        return (self.passages[self.best[0]].answer or "") if self.best else ""

    def _repr_html_(self) -> str:
        from orienteer.session.display import record_html

        return record_html(self)


def record(session: Session, environment: Environment, agent: str) -> Record:
    """The record of a session that `agent` played."""
    words = environment.settings.snippet
    shown = {id for step in session.steps for id in step.best}
    passages = {}
    for each in session.seen:
        passage, reading = each.passage, each.reading
        full = passage.id in shown
        passages[passage.id] = RecordedPassage(
            each.step, each.rank, float(reading.score), int(reading.start), int(reading.end), each.relevant, each.exact,
            passage.title if full else None, reading.answer if full else None,
            snippet(passage.text, reading.start, reading.end, words) if full else None,
            (passage.source or None) if full else None,
        )  # fmt: skip
    return Record(
        Provenance(agent, fingerprint_of(environment.engine), fingerprint_of(environment.reader), environment.settings),
        session.question,
        tuple(RecordedStep(s.action, str(s.query), s.hits, s.best, s.entered, s.left, s.score) for s in session.steps),
        passages,
        session.ended,
        session.error,
        cost=session.cost,
    )


def to_line(record: Record) -> bytes:
    """The record as one line of JSON, the newline included."""
    played, question = record.provenance, record.question
    row: dict[str, Any] = {
        "version": VERSION,
        "agent": played.agent, "index": played.index, "reader": played.reader,
        "settings": played.settings.as_dict(),
        "id": question.id, "question": question.question, "answers": list(question.answers),
        **({"judgements": dict(question.judgements)} if question.judgements else {}),
        "steps": [_step_row(step) for step in record.steps],
        "passages": {id: _passage_row(passage) for id, passage in record.passages.items()},
        "ended": record.ended, "error": record.error,
    }  # fmt: skip
    if record.confidence is not None:
        row["confidence"] = record.confidence
    if record.explanation:
        row["explanation"] = record.explanation
    if record.cost != NO_COST:
        row["cost"] = {name: value for name, value in asdict(record.cost).items() if value}
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"


def _step_row(step: RecordedStep) -> dict[str, Any]:
    row: dict[str, Any] = {
        "action": None if step.action is None else str(step.action),
        "query": step.query, "hits": [list(hit) for hit in step.hits],
        "best": list(step.best), "entered": list(step.entered), "left": list(step.left),
    }  # fmt: skip
    if step.score is not None:
        row["score"] = [step.score.ndcg, step.score.ndcem, step.score.ps, step.score.total]
    if step.notes:
        row["notes"] = dict(step.notes)
    return row


def _passage_row(passage: RecordedPassage) -> dict[str, Any]:
    names = ("step", "rank", "score", "start", "end", "relevant", "exact", "title", "answer", "text", "source")
    return {name: value for name in names if (value := getattr(passage, name)) is not None}


def from_line(line: str | bytes) -> Record:
    """The record that a line holds; raises `RecordError` where it holds none.

    A line may come from a stranger: every type is checked, and so is every passage that a step names.
    """
    try:
        row = json.loads(line, parse_int=_whole_number, parse_float=_finite_number, parse_constant=_finite_number)
        if _has_surrogate_escape(line):
            json.dumps(row, ensure_ascii=False).encode()
    except RecursionError:
        raise RecordError("not the record of a session: nested too deeply") from None
    except ValueError as error:
        raise RecordError(f"not JSON: {error}") from None
    if not isinstance(row, dict) or "version" not in row:
        raise RecordError("not the record of a session: no version")
    if row["version"] != VERSION:
        raise RecordError(f"a record of version {row['version']!r}; this program reads version {VERSION}")
    try:
        return _record(row)
    except (KeyError, TypeError, ValueError, AttributeError, OrienteerError) as error:
        raise RecordError(f"a damaged record: {type(error).__name__}: {error}") from None


def _whole_number(digits: str) -> int:
    if len(digits) > 18:  # more than 64 bits may have
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _finite_number(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        raise ValueError(f"the number {digits[:20]}")
    return number


def _has_surrogate_escape(line: str | bytes) -> bool:
    """Whether an escape may stand for half a character, which no file can hold."""
    return (b"\\ud" in line.lower()) if isinstance(line, bytes) else ("\\ud" in line.lower())


def _record(row: Mapping[str, Any]) -> Record:
    if row["ended"] not in (None, *get_args(Ending)):
        raise ValueError(f"an ending {row['ended']!r}")
    passages = {id: _passage(passage) for id, passage in row["passages"].items()}
    steps = tuple(_step(step) for step in _list(row["steps"]))
    for id in (id for step in steps for id in (*step.best, *step.entered, *step.left)):
        if id not in passages:
            raise ValueError(f"a step names the passage {id!r}, which is not in it")
    return Record(
        Provenance(_text(row["agent"]), _text(row["index"]), _text(row["reader"]), Settings(**row["settings"])),
        Question(
            _text(row["id"]), _text(row["question"]), _texts(row["answers"]),
            judgements=_judgements(row.get("judgements", {})),
        ),
        steps, passages, cast("Ending | None", row["ended"]), _text(row["error"]),
        _number(row["confidence"]) if "confidence" in row else None, _text(row.get("explanation", "")),
        _cost(row["cost"]) if "cost" in row else NO_COST,
    )  # fmt: skip


def _passage(row: Mapping[str, Any]) -> RecordedPassage:
    passage = RecordedPassage(**{"relevant": None, "exact": None, **row})
    for name in ("step", "rank", "start", "end"):
        if type(value := getattr(passage, name)) is not int or value < 0:
            raise TypeError(f"{name} = {value!r}; expected a whole number")
    for name in ("relevant", "exact"):
        if type(value := getattr(passage, name)) not in (bool, NoneType):
            raise TypeError(f"{name} = {value!r}; expected true, false or null")
    for name in ("title", "answer", "text", "source"):
        if (value := getattr(passage, name)) is not None:
            _text(value)
    return replace(passage, score=_number(passage.score))


def _step(row: Mapping[str, Any]) -> RecordedStep:
    notes = row.get("notes")
    if notes:
        _check_depth(notes)
    return RecordedStep(
        _action(row["action"]), _text(row["query"]),
        tuple(Hit(_text(id), _number(score)) for id, score in _list(row["hits"])),
        _texts(row["best"]), _texts(row["entered"]), _texts(row["left"]),
        _score(row["score"]) if "score" in row else None,
        dict(notes) if notes else None,
    )  # fmt: skip


def _score(row: object) -> Score:
    ndcg, ndcem, ps, total = _list(row)
    return Score(_number(ndcg), None if ndcem is None else _number(ndcem), _number(ps), _number(total))


def _cost(row: Mapping[str, Any]) -> AgentCost:
    cost = AgentCost(**row)
    for count in (cost.queries, cost.refinements_scored, cost.passages_scored, *cost.fallbacks.values()):
        if type(count) is not int or count < 0:
            raise TypeError(f"a cost of {count!r}; expected a whole number")
    return replace(cost, fallbacks={_text(kind): count for kind, count in cost.fallbacks.items()})


def _judgements(row: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    if any(type(grade) is not int for grade in row.values()):
        raise TypeError("a grade that is no whole number")
    return tuple(row.items())


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a {type(value).__name__}, expected a text")
    return value


def _number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"a {type(value).__name__}, expected a number")
    return float(value)


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"a {type(value).__name__}, expected a list")
    return value


def _texts(value: object) -> tuple[str, ...]:
    return tuple(_text(each) for each in _list(value))


def _check_depth(value: object, levels: int = 2 * DEEPEST + 10) -> None:
    """A search tree of `DEEPEST` levels has two levels of JSON for each."""
    if not levels:
        raise ValueError("notes that are nested too deeply")
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in below:
        _check_depth(each, levels - 1)


def _action(text: str | None) -> Refinement | Read | Undo | None:
    if text is None:
        return None
    if text == str(UNDO):
        return UNDO
    if text.startswith(_READ):
        return Read(_passages_to_read(text.removeprefix(_READ)))
    [refinement] = parse(text).refinements
    return refinement


def _passages_to_read(text: str) -> tuple[str, ...]:
    try:
        ids = _texts(json.loads(text))
    except RecursionError:
        raise ValueError("ids of passages that are nested too deeply") from None
    for id in ids:
        id.encode()  # half a character, which no file can hold, is a ValueError
    return ids


def write_records(path: str | os.PathLike[str], records: Iterable[Record]) -> int:
    """Writes a file of records atomically and returns how many."""
    count = 0
    with atomic_path(Path(path)) as partial, partial.open("wb") as file:
        for each in records:
            file.write(to_line(each))
            count += 1
    return count


def read_records(path: str | os.PathLike[str]) -> Iterator[Record]:
    """The records of a file; an error names file and line."""
    try:
        with Path(path).open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    yield from_line(line)
                except RecordError as error:
                    raise RecordError(f"{path}, line {number}: {error}") from None
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from None


def replay(recorded: Record, engine: Engine, reader: Reader) -> Record:
    """The record of the same actions, played again; `check_replay` compares the bytes."""
    played = recorded.provenance
    environment = Environment(engine, reader, played.settings)
    [session] = environment.open([recorded.question])
    for step in recorded.steps[1:]:
        if step.action is None or session.ended:
            raise ReplayError(_difference(recorded, len(session.steps), "the session has ended here", "a further step"))
        [session] = environment.step([session], [step.action])
    again = record(_as_it_ended(session, recorded), environment, played.agent)
    # Notes and cost are no outcome of a step, confidence and explanation are of their time: they are copied.
    notes = {number: step.notes for number, step in enumerate(recorded.steps)}
    steps = tuple(replace(step, notes=notes.get(i)) for i, step in enumerate(again.steps))
    return replace(
        again, steps=steps, confidence=recorded.confidence, explanation=recorded.explanation, cost=recorded.cost
    )


def check_replay(recorded: Record, engine: Engine, reader: Reader) -> None:
    """Raises `ReplayError` unless the replayed session equals the record, byte for byte."""
    played = recorded.provenance
    for name, was, now in (
        ("index", played.index, fingerprint_of(engine)),
        ("reader", played.reader, fingerprint_of(reader)),
    ):
        if was != now:
            raise ReplayError(
                f"the session {recorded.question.id!r} was played with the {name} {was or '(unknown)'}, "
                f"this is {now or '(unknown)'}; open the same {name}"
            )
    again = replay(recorded, engine, reader)
    if to_line(again) == to_line(recorded):
        return
    for number, (old, new) in enumerate(zip(recorded.steps, again.steps, strict=False)):
        if old != new:
            raise ReplayError(_difference(recorded, number, str(new), str(old)))
    raise ReplayError(_difference(recorded, len(again.steps), "other passages or another ending", "those recorded"))


def _as_it_ended(session: Session, recorded: Record) -> Session:
    """An ending by the agent itself, a stop or a failure, cannot be replayed and is copied from the record."""
    if session.ended is None and recorded.ended in ("stop", "illegal", "error"):
        return ended(session, recorded.ended, recorded.error)
    return session


def _difference(recorded: Record, step: int, came: str, expected: str) -> str:
    return f"the session {recorded.question.id!r} differs at step {step}\n  came:     {came}\n  recorded: {expected}"
