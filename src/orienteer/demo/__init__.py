"""The demo: one question to a small corpus written for it, refined step by step with operators."""

from __future__ import annotations

import tempfile
from importlib.resources import as_file, files
from pathlib import Path

from rich.console import Console
from rich.markup import escape as plain

from orienteer.data import read_passages
from orienteer.engine import EmbeddedEngine, build_index, open_index
from orienteer.query import Query, Refinement, parse

QUESTION = "which engineer finished the canal that Ferdinand de Lesseps and his company dug in vain"
REFINEMENTS = (
    Refinement("^", "contents", "locks", 4.0),
    Refinement("-", "title", "Suez"),
    Refinement("+", "contents", "engineer"),
)


def run_demo(out: Console, query: str = "") -> None:
    """Ask the bundled corpus; without a query, the tour of the operators."""
    with tempfile.TemporaryDirectory() as folder, as_file(files("orienteer.demo") / "passages.jsonl") as file:
        build_index(read_passages([file]), Path(folder) / "index")
        engine = open_index(Path(folder) / "index")
        if query:
            _show(out, engine, parse(query))
            return
        asked = Query(QUESTION)
        _show(out, engine, asked)
        for refinement in REFINEMENTS:
            asked = asked.refine(refinement)
            _show(out, engine, asked)


def _show(out: Console, engine: EmbeddedEngine, query: Query) -> None:
    clauses = " ".join(f"[bold yellow]{plain(str(refinement))}[/]" for refinement in query.refinements)
    out.print(f"\n[bold]{plain(query.question)}[/] {clauses}", soft_wrap=True)
    hits = list(engine.search(query, 3))
    if not hits:
        out.print("  [dim]no passage matches[/]")
    for rank, (hit, passage) in enumerate(zip(hits, engine.passages([hit.id for hit in hits]), strict=True), 1):
        out.print(f"  {rank}. {hit.score:7.3f}  [cyan]{plain(passage.title)}[/]", soft_wrap=True)
        if rank == 1:
            out.print(f"     [dim]{plain(passage.text)}[/]")
