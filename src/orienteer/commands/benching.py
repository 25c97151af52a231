"""`bench …`: the programs of the `benchmarks` folder on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orienteer.commands.terminal import benchmark

Index = Annotated[Path, typer.Option("--index", help="folder of the index", show_default=False)]
Questions = Annotated[Path, typer.Option(help="file of questions")]
LuceneJar = Annotated[Path | None, typer.Option(help="jar with Lucene's classes: measure Lucene too")]
Json = Annotated[bool, typer.Option("--json", help="print JSON")]


def bench_refinements(
    index: Index,
    questions: Questions,
    lucene_jar: LuceneJar = None,
    tantivy: Annotated[bool, typer.Option(help="measure tantivy too, where it is installed")] = True,
    limit: Annotated[int, typer.Option(help="how many questions", min=1)] = 200,
    as_json: Json = False,
) -> None:
    """Cost of a refinement by `refine`, by one search each, by Lucene and by tantivy, on the same states."""
    benchmark("refinements").run(index, questions, lucene_jar, tantivy, limit, as_json)


def bench_search(
    index: Index,
    questions: Questions,
    lucene_jar: LuceneJar = None,
    limit: Annotated[int, typer.Option(help="how many questions", min=1)] = 1000,
    as_json: Json = False,
) -> None:
    """Plain top-5 queries a second beside Lucene and tantivy."""
    benchmark("plain_search").run(index, questions, lucene_jar, limit, as_json)


def bench_index(
    passages: Annotated[list[Path], typer.Argument(help="files of passages")],
    lucene_jar: LuceneJar = None,
    as_json: Json = False,
) -> None:
    """Time to build an index beside Lucene."""
    benchmark("index_build").run(passages, lucene_jar, as_json)


def bench_exactness(
    index: Index,
    questions: Questions,
    pairs: Annotated[int, typer.Option(help="how many (state, refinement) pairs", min=2)] = 50_000,
    lucene_jar: Annotated[Path | None, typer.Option(help="jar with Lucene's classes: compare with Lucene too")] = None,
) -> None:
    """Whether `refine` equals `search`, the reference engine and Lucene; prints one line of JSON."""
    benchmark("exactness").run(index, questions, pairs, lucene_jar)


def bench_faults(
    kills: Annotated[int, typer.Option(help="builds, additions and deletions to kill", min=0)] = 200,
    corruptions: Annotated[int, typer.Option(help="files to damage", min=0)] = 300,
    as_json: Json = False,
) -> None:
    """Kill writers, damage files, fill the disk: nothing may be lost or go unseen."""
    if not benchmark("faults").run(kills=kills, corruptions=corruptions, as_json=as_json):
        raise typer.Exit(1)


def bench_fuzz(
    count: Annotated[int, typer.Option(help="how many query strings", min=1)] = 1_000_000,
    index: Annotated[Path | None, typer.Option(help="an index; one of 10,000 passages is made without it")] = None,
    as_json: Json = False,
) -> None:
    """Ask fuzzed query strings: no crash, only typed errors, each within 50 ms of CPU time."""
    if not benchmark("fuzz_queries").run(index, count, as_json=as_json):
        raise typer.Exit(1)


def bench_mcts(
    index: Annotated[Path | None, typer.Option(help="an index whose words plans think of; none: wordpieces")] = None,
    base: Annotated[str, typer.Option(help="folder of a reader or BERT, for its tokenizer")] = "shipped",
    peer_python: Annotated[str | None, typer.Option(help="a Python that has mctx; none: this one, if it has")] = None,
    seconds: Annotated[float, typer.Option(help="for each figure at least", min=0.1)] = 2.0,
    as_json: Json = False,
) -> None:
    """Tree simulations a second, alone and with the networks, beside mctx where it is installed."""
    benchmark("mcts").run(index, base, peer_python, seconds, as_json)


def bench_sessions(
    index: Index,
    questions: Annotated[Path, typer.Option(help="file of questions with answers")],
    reader: Annotated[Path | None, typer.Option(help="folder of a reader; none: the shipped one")] = None,
    limit: Annotated[int, typer.Option(help="questions, pruned and exhaustive", min=1)] = 60,
    naive: Annotated[int, typer.Option(help="questions that are also searched the naive way; 0: none", min=0)] = 5,
    grammar: Annotated[str, typer.Option(help="grammar of the sessions")] = "G4",
    as_json: Json = False,
) -> None:
    """Passages read and time of a Rocchio search, beside reading everything and beside the naive way.

    orienteer bench sessions --index my-index --questions dev.jsonl.xz
    """
    benchmark("sessions").run(index, questions, reader, limit, naive, grammar, as_json)
