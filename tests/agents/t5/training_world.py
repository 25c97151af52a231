"""Sessions of the small world in a file, and all else that a training command asks for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_world import PASSAGES, QUESTIONS
from typer.testing import CliRunner

from orienteer.cli import app
from orienteer.engine import EmbeddedEngine, build_index, open_index
from orienteer.reader import TrainedReader
from orienteer.rocchio import Header, Plan, rocchio_sessions, variants_of
from orienteer.rocchio.output import header_line, session_line
from orienteer.session import Settings
from orienteer.session.record import fingerprint


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, list(map(str, arguments)))
    if result.exception is not None:
        raise result.exception
    return result.output


def sessions_file(path: Path, engine: EmbeddedEngine, reader: object, grammars: str = "G1,G4") -> Path:
    plan = Plan(settings=Settings(steps=3, snippet=30))
    found = rocchio_sessions(engine, reader, QUESTIONS, variants_of(grammars), plan)  # type: ignore[arg-type]
    header = Header(plan, fingerprint(engine), fingerprint(reader))  # type: ignore[arg-type]
    path.write_bytes(b"".join([header_line(header), *(session_line(each) for own in found for each in own)]))
    return path


def make_world(tmp_path: Path) -> dict[str, Path]:
    """An index, a tiny reader, Rocchio's sessions with both, and a tiny BERT to start from."""
    pytest.importorskip("torch", reason="training needs the extra [train]")
    transformers = pytest.importorskip("transformers", reason="training needs the extra [train]")
    import tiny
    from tiny_seq2seq import seq2seq_tokenizer

    build_index(PASSAGES, tmp_path / "index")
    engine = open_index(tmp_path / "index", threads=1)
    reader = TrainedReader.from_pretrained(tiny.save_tiny(tmp_path / "reader"), threads=1)
    sessions_file(tmp_path / "sessions.jsonl", engine, reader)
    told = [{"id": q.id, "question": q.question, "answers": list(q.answers)} for q in QUESTIONS]
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in told))
    tokenizer = seq2seq_tokenizer()
    settings = {**tiny.CONFIG, "max_position_embeddings": 512, "vocab_size": tokenizer.get_vocab_size()}
    transformers.BertModel(transformers.BertConfig(**settings)).save_pretrained(tmp_path / "base")
    tokenizer.save(str(tmp_path / "base" / "tokenizer.json"))
    names = {"index": "index", "reader": "reader", "sessions": "sessions.jsonl", "base": "base"}
    return {**{key: tmp_path / name for key, name in names.items()}, "questions": tmp_path / "questions.jsonl"}


def options(world: dict[str, Path]) -> list[object]:
    return [part for key, path in world.items() for part in (f"--{key}", path)]
