"""Lucene and tantivy over the very passages of an index, built once beside it, for comparison in the same run."""

from __future__ import annotations

import importlib.util
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from lucene_bench import lucene_index
from orienteer.data import Passage
from orienteer.engine import EmbeddedEngine
from orienteer.engine.adapters.tantivy import TantivyEngine

err = Console(stderr=True, highlight=False)


def all_passages(engine: EmbeddedEngine) -> Iterator[Passage]:
    return (engine.index.passage(number) for number in range(len(engine)))


def peer_folder(index: Path, engine: EmbeddedEngine, name: str) -> Path:
    """Where a peer's index lies: beside ours, named by the passages' checksum."""
    return index.parent / f"{index.name}-peers" / f"{name}-{engine.passages_fingerprint[:12]}"


def lucene_folder(index: Path, engine: EmbeddedEngine, jar: Path) -> Path:
    folder = peer_folder(index, engine, "lucene")
    if not folder.is_dir():
        _built("Lucene's", folder, lambda out: lucene_index(jar, all_passages(engine), out))
    return folder


def tantivy_engine(index: Path, engine: EmbeddedEngine) -> TantivyEngine | None:
    """None where tantivy is not installed."""
    if importlib.util.find_spec("tantivy") is None:
        err.print("tantivy is not installed: left out (pip install 'orienteer\\[tantivy]')")
        return None
    folder = peer_folder(index, engine, "tantivy")
    if not folder.is_dir():
        _built("tantivy's", folder, lambda out: TantivyEngine(all_passages(engine), out))
    return TantivyEngine(folder)


def _built(whose: str, folder: Path, build) -> None:  # type: ignore[no-untyped-def]
    err.print(f"building {whose} index of the same passages, once …")
    unfinished = folder.with_name(folder.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    started = time.perf_counter()
    build(unfinished)
    unfinished.rename(folder)
    err.print(f"… {time.perf_counter() - started:.0f} s")
