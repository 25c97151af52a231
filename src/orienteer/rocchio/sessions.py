"""BackendFiles of Rocchio sessions: JSON lines, the first says how they were made, each other is one session.

A session's line holds ids, refinements and scores, no text of question or passage. The compact form, for keeping,
leaves out what replaying the refinements gives back (hits, best passages); see `replay.py`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast, get_args

from orienteer.data.atomic import atomic_write
from orienteer.data.compression import read_blocks
from orienteer.data.rows import filled_lines
from orienteer.errors import OrienteerError
from orienteer.query import GRAMMARS, Refinement, parse
from orienteer.rocchio.config import RocchioConfig, RocchioError, Variant
from orienteer.session.observation import Source
from orienteer.session.score import Score

VERSION = 1
_DECIMALS = 6  # of the scores of candidates not chosen
_COMPACT_DECIMALS = 10  # of a state's scores in the compact form: the least gain of a step still shows

# best: no refinement raises the score; steps: the last step was taken; budget: nothing that the read budget allowed to
# read raises it. The others were not searched: no answer is known; no answer holds an index term; no passage has an
# answer; the question finds nothing, or cannot be asked.
Ended = Literal["best", "steps", "budget", "no answer", "no answer term", "answer nowhere", "no hits", "error"]
SEARCHED: tuple[Ended, ...] = ("best", "steps", "budget")


@dataclass(frozen=True, slots=True)
class State:
    """The session after a step: S and its parts, the best passages, which of them are relevant, which exact."""

    score: Score
    relevant: tuple[bool, ...]
    exact: tuple[bool, ...]
    best: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RocchioStep:
    """The chosen refinement, where its term is in the observation, the state after it, and the other candidates.

    hits         ids of the passages that the refined query finds
    candidates   how many refinements were tried
    read         passages that the step read
    others       the best candidates not chosen whose score is known, with it
    """

    refinement: Refinement
    sources: tuple[Source, ...]
    state: State
    hits: tuple[str, ...] = ()
    candidates: int = 0
    read: int = 0
    others: tuple[tuple[Refinement, float], ...] = ()


@dataclass(frozen=True, slots=True)
class RocchioSession:
    """Greedily, the refinements that raise the score most.

    ideal   ids of the best passages of the ideal queries
    read    distinct passages read in all, those of the question and of the ideal queries included
    """

    id: str
    variant: Variant
    ended: Ended
    start: State | None = None
    steps: tuple[RocchioStep, ...] = ()
    ideal: tuple[str, ...] = ()
    read: int = 0
    error: str = ""

    @property
    def final(self) -> State | None:
        return self.steps[-1].state if self.steps else self.start


@dataclass(frozen=True, slots=True)
class Header:
    """How the sessions of a file were made; `compact` where hits and best passages are left out."""

    config: RocchioConfig
    index: str
    reader: str
    compact: bool = False


def header_line(header: Header) -> bytes:
    row = {
        "rocchio": VERSION, "index": header.index, "reader": header.reader, "compact": header.compact,
        **header.config.as_dict(),
    }  # fmt: skip
    return _line(row)


def session_line(session: RocchioSession, *, compact: bool = False) -> bytes:
    variant = session.variant
    row: dict[str, Any] = {"id": session.id, "grammar": variant.grammar.name}
    if (variant.lambda1, variant.lambda2) != (0.2, 0.6):
        row["lambda"] = [variant.lambda1, variant.lambda2]
    row["ended"] = session.ended
    if session.error:
        row["error"] = session.error
    if session.start is not None:
        row["start"] = _state_row(session.start, compact)
    row["steps"] = [_step_row(step, compact) for step in session.steps]
    if not compact:
        row["ideal"] = list(session.ideal)
    row["read"] = session.read
    return _line(row)


def _state_row(state: State, compact: bool) -> dict[str, Any]:
    parts = [state.score.ndcg, state.score.ndcem, state.score.ps, state.score.total]
    row: dict[str, Any] = {
        "score": [part and round(part, _COMPACT_DECIMALS) for part in parts] if compact else parts,
        "relevant": _bits(state.relevant),
        "exact": _bits(state.exact),
    }
    return row if compact else {**row, "best": list(state.best)}


def _step_row(step: RocchioStep, compact: bool) -> dict[str, Any]:
    row = {"refinement": str(step.refinement), "sources": list(step.sources), **_state_row(step.state, compact)}
    if not compact:
        row["hits"] = list(step.hits)
    row |= {"candidates": step.candidates, "read": step.read}
    row["others"] = [[str(refinement), round(score, _DECIMALS)] for refinement, score in step.others]
    return row


def _bits(flags: Sequence[bool]) -> str:
    return "".join("01"[flag] for flag in flags)


def _line(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"


def read_header(line: bytes | str) -> Header:
    """The header that a line holds; raises `RocchioError` where it holds none."""
    try:
        row = json.loads(line)
        version = row.pop("rocchio")
    except (ValueError, KeyError, AttributeError, TypeError):
        raise RocchioError("not a file of Rocchio sessions: its first line does not say how they were made") from None
    if version != VERSION:
        raise RocchioError(f"Rocchio sessions of version {version!r}; this program reads version {VERSION}")
    try:
        index, reader, compact = row.pop("index"), row.pop("reader"), row.pop("compact")
        return Header(RocchioConfig.from_dict(row), str(index), str(reader), bool(compact))
    except (KeyError, TypeError, OrienteerError) as error:
        raise RocchioError(f"a damaged first line: {type(error).__name__}: {error}") from None


def read_session(line: bytes | str) -> RocchioSession:
    """The session that a line holds; raises `RocchioError` where it holds none."""
    try:
        row = json.loads(line)
        ended = row["ended"]
        if ended not in get_args(Ended):
            raise ValueError(f"an ending {ended!r}")
        return RocchioSession(
            str(row["id"]), Variant(GRAMMARS[row["grammar"]], *row.get("lambda", ())), cast(Ended, ended),
            _state(row["start"]) if "start" in row else None, tuple(map(_step, row["steps"])),
            tuple(row.get("ideal", ())), int(row["read"]), str(row.get("error", "")),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError, AttributeError, OrienteerError) as error:
        raise RocchioError(f"not a Rocchio session: {type(error).__name__}: {error}") from None


def _state(row: Mapping[str, Any]) -> State:
    return State(
        _score(*row["score"]),
        tuple(bit == "1" for bit in row["relevant"]), tuple(bit == "1" for bit in row["exact"]),
        tuple(row.get("best", ())),
    )  # fmt: skip


def _score(ndcg: float, ndcem: float | None, ps: float, total: float) -> Score:
    return Score(float(ndcg), None if ndcem is None else float(ndcem), float(ps), float(total))


def _step(row: Mapping[str, Any]) -> RocchioStep:
    return RocchioStep(
        _refinement(row["refinement"]), tuple(row["sources"]), _state(row), tuple(row.get("hits", ())),
        int(row["candidates"]), int(row["read"]),
        tuple((_refinement(text), float(score)) for text, score in row["others"]),
    )  # fmt: skip


def _refinement(text: str) -> Refinement:
    [refinement] = parse(text).refinements
    return refinement


def read_sessions(path: str | os.PathLike[str]) -> tuple[Header, Iterator[RocchioSession]]:
    """The header and the sessions of a file, compressed or not; an error names file and line."""
    path = Path(path)
    lines = _lines(path)
    number, line = next(lines, (1, b""))
    try:
        header = read_header(line)
    except RocchioError as error:
        raise RocchioError(f"{path}, line {number}: {error}") from None
    return header, _sessions(path, lines)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with closing(read_blocks(path)) as blocks:
        yield from filled_lines(blocks)


def _sessions(path: Path, lines: Iterator[tuple[int, bytes]]) -> Iterator[RocchioSession]:
    for number, line in lines:
        try:
            yield read_session(line)
        except RocchioError as error:
            raise RocchioError(f"{path}, line {number}: {error}") from None


def write_compact(sources: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str]) -> int:
    """The sessions of files made alike, in the compact form, those that were not searched too; how many there are.

    Give `out` the suffix .zst or .xz: the lines repeat each other and shrink to a tenth.
    """
    opened = [(Path(source), *read_sessions(source)) for source in sources]
    if not opened:
        raise RocchioError("no files of sessions to join; name one or more")
    first_path, first, _ = opened[0]
    for path, header, _ in opened[1:]:
        if replace(header, compact=first.compact) != first:
            raise RocchioError(
                f"{path} was not made as {first_path} was: another index, reader or setting; keep them in files apart"
            )
    count = 0

    def lines() -> Iterator[bytes]:
        nonlocal count
        yield header_line(replace(first, compact=True))
        for _, _, sessions in opened:
            for session in sessions:
                count += 1
                yield session_line(session, compact=True)

    atomic_write(Path(out), lines())
    return count
