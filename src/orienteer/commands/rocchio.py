"""`rocchio`, `rocchio-stats`, `rocchio-landscape`: sessions that teach, on the command line."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from orienteer.commands.terminal import out, plain, print_json, progress

if TYPE_CHECKING:
    from orienteer.data import Question
    from orienteer.rocchio.generation import GenerationCosts

Index = Annotated[Path, typer.Option("--index", help="folder of the index", show_default=False)]
Questions = Annotated[list[Path], typer.Option("--questions", help="file of questions with answers; may be repeated")]
Out = Annotated[Path, typer.Option("--out", help="file to write")]
Reader = Annotated[Path | None, typer.Option("--reader", help="folder of a reader; none: the shipped one")]
Workers = Annotated[int, typer.Option(help="processes, or actors on Ray; 0: one for every processor", min=0)]
Ray = Annotated[str | None, typer.Option("--ray", help="address of a Ray cluster, or local", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="print JSON")]


def rocchio(
    index: Index,
    questions: Questions,
    out_file: Out,
    grammar: Annotated[str, typer.Option(help="G0 to G4, several with commas, or all")] = "G4",
    reader: Reader = None,
    source: Annotated[
        str, typer.Option(help="only questions of these sources, with commas between; none: of all")
    ] = "",
    balanced: Annotated[
        bool, typer.Option("--balanced", help="as many who as what, when, where, …; sources in turn")
    ] = False,
    skip: Annotated[int, typer.Option(help="pass over the first so many questions, after balancing", min=0)] = 0,
    limit: Annotated[int | None, typer.Option(help="then only so many questions", min=1)] = None,
    snippet: Annotated[int, typer.Option(help="words of a passage that the agent sees", min=1)] = 70,
    steps: Annotated[int, typer.Option(help="refinements at most", min=0, max=100)] = 20,
    terms: Annotated[int, typer.Option("-n", help="terms of an observation that are used", min=1)] = 100,
    tries: Annotated[int, typer.Option("-m", help="tries an operator", min=1)] = 100,
    read_budget: Annotated[
        int | None, typer.Option(help="passages a step may read; for training data, not for headroom", min=1)
    ] = None,
    reuse: Annotated[bool, typer.Option("--reuse", help="a term may be used again in a session")] = False,
    without: Annotated[
        str, typer.Option(help="operators that are not tried, with commas between: +c, +t, -c, -t, ^c, ^t")
    ] = "",
    exhaustive: Annotated[bool, typer.Option("--exhaustive", help="read every hit of every candidate")] = False,
    compact: Annotated[Path | None, typer.Option(help="also write the compact form, .zst or .xz")] = None,
    cache: Annotated[Path | None, typer.Option(help="file of readings to keep; none: only while it runs")] = None,
    workers: Workers = 1,
    ray: Ray = None,
    chunk: Annotated[int, typer.Option(help="questions a worker takes at a time", min=1)] = 32,
    as_json: Json = False,
) -> None:
    """Search the refinements that raise the score most, from questions and their answers.

    A killed run goes on where it stopped. For training: --balanced, and --snippet as the agent will see it.

    orienteer rocchio --index my-index --questions train.jsonl.xz --grammar G1,G4 --out sessions.jsonl --workers 2
    """
    from orienteer.rocchio.config import RocchioConfig, variants_of
    from orienteer.rocchio.sessions import write_compact
    from orienteer.session import Settings

    variants = variants_of(grammar)
    config = RocchioConfig(
        terms, tries, Settings(steps=steps, snippet=snippet, reuse_terms=reuse), read_budget=read_budget,
        exhaustive=exhaustive, without=tuple(name.strip() for name in without.split(",") if name.strip()),
    )  # fmt: skip
    asked = _questions(questions, source, balanced)[skip:][:limit]
    costs = _generate(index, reader, asked, variants, out_file, config, cache, workers, ray, chunk)
    kept = write_compact([out_file], compact) if compact else None
    if as_json:
        return print_json({"out": str(out_file), **asdict(costs), "compact_sessions": kept})
    hours = costs.cpu_seconds / 3600
    rate = f", {costs.questions / hours:,.0f} questions an hour of one processor" if hours else ""
    out.print(f"{costs.sessions:,} sessions of {costs.questions:,} questions in {plain(str(out_file))}{rate}")
    return None


def rocchio_stats(
    sessions: Annotated[list[Path], typer.Argument(help="files of Rocchio sessions", show_default=False)],
    figures: Annotated[Path | None, typer.Option(help="folder to draw the figures into (extra: eval)")] = None,
    as_json: Json = False,
) -> None:
    """Lengths, gains, operators and results of Rocchio sessions, by grammar.

    orienteer rocchio-stats sessions.jsonl --figures figures
    """
    from orienteer.rocchio.sessions import read_sessions
    from orienteer.rocchio.statistics import statistics

    found = statistics(session for path in sessions for session in read_sessions(path)[1])
    drawn = []
    if figures is not None:
        from orienteer.rocchio.statistics import draw

        drawn = draw(found, figures)
    if as_json:
        return print_json(found)
    out.print(_table(found))
    out.print(_endings(found))
    for file in drawn:
        out.print(plain(str(file)))
    return None


def rocchio_landscape(
    index: Index,
    questions: Questions,
    out_file: Out,
    reader: Reader = None,
    limit: Annotated[int, typer.Option(help="only the first so many questions", min=1)] = 150,
    step: Annotated[float, typer.Option(help="of the grid of λ1 and λ2", min=0.05, max=1.0)] = 0.2,
    cache: Annotated[Path | None, typer.Option(help="file of readings to keep; none: only while it runs")] = None,
    workers: Workers = 1,
    ray: Ray = None,
    chunk: Annotated[int, typer.Option(help="questions a worker takes at a time", min=1)] = 8,
) -> None:
    """What sessions of G3 reach for every λ1 and λ2 of the score, as JSON lines for the report's figure.

    orienteer rocchio-landscape --index my-index --questions dev.jsonl.xz --out landscape.jsonl
    """
    from orienteer.rocchio.sessions import read_sessions
    from orienteer.rocchio.statistics import landscape, landscape_config, landscape_variants, write_landscape

    asked = _questions(questions)[:limit]
    sessions = out_file.with_name(f"{out_file.name}.sessions.jsonl")
    variants = landscape_variants(step)
    _generate(index, reader, asked, variants, sessions, landscape_config(), cache, workers, ray, chunk)
    rows = landscape(read_sessions(sessions)[1])
    write_landscape(rows, out_file)
    out.print(f"{len(rows)} points of {len(asked)} questions in {plain(str(out_file))}")


def _questions(paths: list[Path], source: str = "", balance: bool = False) -> list[Question]:
    from orienteer.data import read_questions
    from orienteer.rocchio.generation import balanced, of_sources

    wanted = [name.strip() for name in source.split(",") if name.strip()]
    every = of_sources(read_questions(paths), wanted)
    return balanced(every) if balance else every


def _generate(
    index: Path, reader: Path | None, asked: list[Question], variants: Any, out_file: Path, config: Any,
    cache: Path | None, workers: int, ray: str | None, chunk: int,
) -> GenerationCosts:  # fmt: skip
    from orienteer.engine.open import absolute
    from orienteer.rocchio.generation import BackendFiles, generate

    if cache is None and ray is None:
        cache = out_file.with_name(f"{out_file.name}.parts") / "readings.db"
    # Workers of a cluster have their own working folder.
    backend = BackendFiles(absolute(index), *(path.resolve() if path else None for path in (reader, cache)))
    with progress("questions") as show:
        return generate(
            backend, asked, variants, out_file, config, workers=workers, ray=ray, chunk=chunk, progress=show
        )  # fmt: skip


def _table(found: dict[str, dict[str, Any]]) -> Table:
    """Results by grammar, at the start and at the end."""
    table = Table(box=None, title="Rocchio sessions")
    for name in ("grammar", "sessions", "steps", "length"):
        table.add_column(name, justify="left" if name == "grammar" else "right")
    measures = ("NDCG@5", "Top-1", "Top-5", "EM-MR", "score")
    for name in (*measures, "read", "best operators"):
        table.add_column(name, justify="right")
    for grammar, row in found.items():
        share = {name: count / max(1, row["steps"]) for name, count in row["operators"].items()}
        table.add_row(
            grammar, f"{row['sessions']:,}", f"{row['steps']:,}",
            f"{row['length_mean']:.2f} ± {row['length_deviation']:.2f}",
            *(f"{row['start'].get(name, 0):.1f} → {row['final'].get(name, 0):.1f}" for name in measures),
            f"{row['passages_read']:.0f}", "  ".join(f"{name} {part:.0%}" for name, part in list(share.items())[:3]),
        )  # fmt: skip
    return table


def _endings(found: dict[str, dict[str, Any]]) -> Table:
    """How sessions ended, and why some were not searched."""
    endings = list(dict.fromkeys(ending for row in found.values() for ending in row["ended"]))
    table = Table("grammar", *endings, box=None, title="how they ended")
    for grammar, row in found.items():
        table.add_row(grammar, *(f"{row['ended'].get(ending, 0):,}" for ending in endings))
    return table
