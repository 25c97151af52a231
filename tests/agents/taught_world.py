"""The small world in files, with Rocchio's sessions of it: what every training command of an agent asks for."""

from __future__ import annotations

import json
from pathlib import Path

from small_world import PASSAGES, QUESTIONS
from typer.testing import CliRunner

from orienteer.cli import app
from orienteer.engine import EmbeddedEngine, build_index, open_index
from orienteer.engine.protocol import fingerprint_of
from orienteer.reader import TrainedReader
from orienteer.rocchio import Header, RocchioConfig, rocchio_sessions, variants_of
from orienteer.rocchio.sessions import header_line, session_line
from orienteer.session import Settings


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, list(map(str, arguments)))
    if result.exception is not None:
        raise result.exception
    return result.output


def sessions_file(path: Path, engine: EmbeddedEngine, reader: object, grammars: str = "G1,G4") -> Path:
    plan = RocchioConfig(settings=Settings(steps=3, snippet=30))
    found = rocchio_sessions(engine, reader, QUESTIONS, variants_of(grammars), plan)  # type: ignore[arg-type]
    header = Header(plan, fingerprint_of(engine), fingerprint_of(reader))  # type: ignore[arg-type]
    path.write_bytes(b"".join([header_line(header), *(session_line(each) for own in found for each in own)]))
    return path


def taught_world(folder: Path, grammars: str = "G1,G4") -> dict[str, Path]:
    """An index, a tiny reader, Rocchio's sessions with both, and the questions; by the names of the options."""
    from tiny import save_tiny

    build_index(PASSAGES, folder / "index")
    engine = open_index(folder / "index", threads=1)
    reader = TrainedReader.from_pretrained(save_tiny(folder / "reader"), threads=1)
    sessions_file(folder / "sessions.jsonl", engine, reader, grammars)
    rows = [{"id": q.id, "question": q.question, "answers": list(q.answers)} for q in QUESTIONS]
    (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    names = {"index": "index", "reader": "reader", "sessions": "sessions.jsonl", "questions": "questions.jsonl"}
    return {key: folder / name for key, name in names.items()}


def options(world: dict[str, Path]) -> list[object]:
    return [part for key, path in world.items() for part in (f"--{key}", path)]
