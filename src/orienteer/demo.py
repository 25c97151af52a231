"""The demo: one question to the bundled corpus, refined step by step with operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape as plain

from orienteer.bundled import bundled_engine
from orienteer.query import Query, Refinement, parse

if TYPE_CHECKING:
    from orienteer.engine import EmbeddedEngine

QUESTION = "which pupil suggested the name of the very first martian rover"
REFINEMENTS = (
    Refinement("+", "title", "rover"),
    Refinement("-", "title", "curiosity"),
    Refinement("-", "title", "perseverance"),
)


def run_demo(out: Console, query: str = "") -> None:
    """Ask the bundled corpus; without a query, a tour of the operators."""
    engine = bundled_engine()
    asked = parse(query) if query else Query(QUESTION)
    _show(out, engine, asked)
    for refinement in () if query else REFINEMENTS:
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
