"""The command line. Every command is also a few lines of Python; errors of the user are one line, exit code 1."""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from orienteer.commands.dense import dense_run, embed
from orienteer.commands.evaluating import evaluate
from orienteer.commands.muzero import train_muzero
from orienteer.commands.pointer import train_pointer
from orienteer.commands.remote import doctor, index_to
from orienteer.commands.serving import mcp, serve
from orienteer.commands.sessions import agents, ask, show
from orienteer.commands.t5 import train_answerer, train_t5
from orienteer.errors import DuplicateIdError, IndexCorruptError, OrienteerError, QueryError
from orienteer.query import parse
from orienteer.reader.commands import bench_reader, read, train_reader
from orienteer.rocchio.commands import bench_sessions, rocchio, rocchio_landscape, rocchio_stats

if TYPE_CHECKING:
    from orienteer.data import Passage
    from orienteer.engine import Engine

app = typer.Typer(help="Agents that use a search engine the way a skilled person does.", no_args_is_help=True)
train = typer.Typer(help="Train Orienteer's models (extra: train).", no_args_is_help=True)
bench = typer.Typer(help="Measure Orienteer beside its peers.", no_args_is_help=True)
app.add_typer(bench, name="bench")
app.add_typer(train, name="train")

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

IndexDir = Annotated[Path, typer.Argument(help="folder of the index, or https://host:9200/index", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="print JSON, one object a line")]
Threads = Annotated[int, typer.Option(help="threads to use", min=1)]


@app.command()
def index(
    passages: Annotated[
        list[Path] | None,
        typer.Argument(help="JSONL (.gz .xz .zst), TSV, SQuAD JSON, a BEIR folder, a folder of .txt/.md"),
    ] = None,
    out_dir: Annotated[Path | None, typer.Option("--out", help="folder of the index", show_default=False)] = None,
    to: Annotated[
        str | None, typer.Option(help="an index of OpenSearch or Elasticsearch instead: https://host:9200/index")
    ] = None,
    shards: Annotated[int, typer.Option(help="shards of a new index of --to", min=1, max=1024)] = 1,
    add: Annotated[bool, typer.Option("--add", help="add the passages to the index at --out")] = False,
    delete: Annotated[
        Path | None, typer.Option(help="file of passage ids, one a line, to delete from the index at --out")
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="read every byte of the index and check it")] = False,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="leave out rows that cannot be read, and count them")
    ] = False,
    threads: Threads = 2,
    as_json: Json = False,
) -> None:
    """Build an index, or change or check one.

    orienteer index passages.jsonl.xz --out my-index
    """
    from orienteer.engine.store import read_manifest

    if to is not None:
        if not passages or out_dir is not None or add or verify or delete is not None:
            raise OrienteerError("--to URL loads files of passages; it goes with none of --out --add --delete --verify")
        return index_to(passages, to, shards=shards, skip_bad=skip_bad, as_json=as_json)
    if out_dir is None:
        raise OrienteerError("name the folder of the index: --out DIR")
    if verify:
        return _verify(out_dir, as_json)
    if not passages and delete is None:
        raise OrienteerError("nothing to do: name files of passages, or --delete FILE, or --verify")
    if passages and delete is not None and not add:
        raise OrienteerError("passages and --delete together need --add; without it the index would be built anew")
    if add or delete is not None:
        read_manifest(out_dir)
    started = time.perf_counter()
    manifest, bad = _write_index(passages or [], out_dir, add, delete, skip_bad, threads)
    seconds = time.perf_counter() - started
    if as_json:
        _print_json({"index": str(out_dir), **manifest.counts, "bad_rows": bad, "fingerprint": manifest.fingerprint,
                     "generation": manifest.generation, "seconds": round(seconds, 3)})  # fmt: skip
        return None
    counts = manifest.counts
    skipped = f", {bad:,} bad rows left out" if bad else ""
    out.print(f"{counts['passages']:,} passages, {counts['terms']:,} terms in {out_dir} ({seconds:.1f} s{skipped})")
    return None


def _write_index(
    passages: list[Path], out_dir: Path, add: bool, delete: Path | None, skip_bad: bool, threads: int
) -> tuple[Any, int]:
    from orienteer.data import BadRows, find_ids, read_passages
    from orienteer.engine import build_index, update_index

    bad = BadRows()
    source: Iterator[Passage] = read_passages(passages, skip_bad=skip_bad, on_bad=bad) if passages else iter(())
    with _progress("indexing") as advance, _compiling():
        try:
            if add or delete is not None:
                ids = _read_ids(delete) if delete is not None else []
                manifest = update_index(out_dir, add=source, delete=ids, threads=threads, progress=advance)
            else:
                manifest = build_index(source, out_dir, threads=threads, progress=advance)
        except DuplicateIdError as error:
            where = find_ids(passages, [error.passage_id]).get(error.passage_id, []) if error.passage_id else []
            places = f"; it stands at {', '.join(map(str, where[:4]))}" if where else ""
            raise DuplicateIdError(f"{error}{places}") from None
    if bad.count:
        err.print(f"[yellow]{plain(str(bad))}[/]", soft_wrap=True)
    return manifest, bad.count


def _verify(path: Path, as_json: bool) -> None:
    from orienteer.engine.store import read_manifest, verify

    started = time.perf_counter()
    damaged = verify(path)
    if damaged:
        raise IndexCorruptError(f"damaged: {', '.join(damaged)}; build the index again")
    files = read_manifest(path).files
    size = sum(entry["bytes"] for entry in files.values())
    if as_json:
        _print_json({"index": str(path), "files": len(files), "bytes": size, "damaged": []})
    else:
        out.print(f"{path} is whole: {len(files)} files, {size:,} bytes ({time.perf_counter() - started:.1f} s)")


@app.command()
def search(
    index: IndexDir,
    query: Annotated[
        str | None,
        typer.Argument(help="Lucene syntax: who +title:muppet -contents:trash", show_default=False),
    ] = None,
    k: Annotated[int, typer.Option("-k", help="passages to show", min=1, max=10_000)] = 5,
    queries: Annotated[
        Path | None, typer.Option(help="file of queries, one a line; prints JSON lines; - is stdin")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="show the share of each clause in each score")] = False,
    threads: Threads = 2,
    as_json: Json = False,
) -> None:
    """Search an index with Lucene's query syntax.

    orienteer search my-index 'who sings +(title:"muppet") (contents:"green"^4)' -k 5
    """
    if (query is None) == (queries is None):
        raise OrienteerError("give one query, or a file of them with --queries FILE")
    engine = _open(index, threads)
    if explain and not hasattr(engine, "explain"):
        raise OrienteerError("--explain needs an index in one folder; shards and services do not tell shares")
    if queries is not None:
        return _search_file(engine, queries, k)
    assert query is not None
    parsed = parse(query)
    with _compiling():
        hits = list(engine.search(parsed, k))
        passages = engine.passages([hit.id for hit in hits])
        reasons = [engine.explain(parsed, hit.id) for hit in hits] if explain else []
    if as_json:
        rows: list[dict[str, Any]] = [_row(hit, passage) for hit, passage in zip(hits, passages, strict=True)]
        for row, reason in zip(rows, reasons, strict=False):
            row["shares"] = [_share(share) for share in reason.shares]
        return _print_json({"query": query, "hits": rows})
    if not hits:
        out.print("[dim]no passage matches[/]")
    for rank, (hit, passage) in enumerate(zip(hits, passages, strict=True), 1):
        title = plain(passage.title or "(no title)")
        out.print(f"[bold]{rank}.[/] [bold cyan]{title}[/]  [dim]{hit.score:.4f}  {plain(hit.id)}[/]")
        out.print(plain(_shorten(passage.text)), style="default")
        if explain:
            out.print(_share_table(reasons[rank - 1]))
    return None


def _search_file(engine: Engine, file: Path, k: int) -> None:
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise OrienteerError(f"cannot read the queries in {file}: {error}") from None
    lines, parsed = [], []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                parsed.append(parse(line))
            except QueryError as error:
                raise type(error)(f"{file}:{number}: {error.message}", error.text, error.place) from None
            lines.append(line)
    with _compiling():
        for start in range(0, len(lines), 1024):
            part = slice(start, start + 1024)
            for line, hits in zip(lines[part], engine.search_many(parsed[part], k), strict=True):
                found = list(hits)
                passages = engine.passages([hit.id for hit in found])
                _print_json({"query": line, "hits": [_row(hit, p) for hit, p in zip(found, passages, strict=True)]})


def _row(hit: Any, passage: Passage) -> dict[str, Any]:
    return {"id": hit.id, "score": hit.score, "title": passage.title}


def _share(share: Any) -> dict[str, Any]:
    return {name: getattr(share, name) for name in share.__slots__}


def _share_table(reason: Any) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 4), header_style="dim")
    for column in ("clause", "boost", "idf", "frequency", "share"):
        table.add_column(column, justify="left" if column == "clause" else "right")
    signs = {"must": "+", "should": "", "must_not": "-"}
    for share in reason.shares:
        style = "" if share.frequency else "dim"
        table.add_row(
            f"{signs[share.occur]}{share.field}:{plain(share.term)}", f"{share.boost:g}", f"{share.idf:.3f}",
            str(share.frequency), f"{share.score:.4f}", style=style,
        )  # fmt: skip
    return table


@app.command()
def demo(
    question: Annotated[
        str, typer.Argument(help="a question in plain words; none: one of ours, then all of them")
    ] = "",
) -> None:
    """Let an agent ask a small bundled corpus."""
    from orienteer.demo import run_demo

    with _compiling():
        run_demo(out, question)


@app.command()
def warmup() -> None:
    """Compile the engine's kernels now, so that no later command has to wait for it."""
    from orienteer.engine.warmup import warm_up

    started = time.perf_counter()
    with _compiling():
        warm_up()
    out.print(f"kernels ready ({time.perf_counter() - started:.1f} s)")


@bench.command("refinements")
def bench_refinements(
    index: Annotated[Path, typer.Option(help="folder of the index")],
    questions: Annotated[Path, typer.Option(help="file of questions")],
    lucene_jar: Annotated[Path | None, typer.Option(help="jar with Lucene's classes: measure Lucene too")] = None,
    tantivy: Annotated[bool, typer.Option(help="measure tantivy too, where it is installed")] = True,
    limit: Annotated[int, typer.Option(help="how many questions", min=1)] = 200,
    as_json: Json = False,
) -> None:
    """Cost of a refinement by `refine`, by one search each, by Lucene and by tantivy, on the same states."""
    _benchmark("refinements").run(index, questions, lucene_jar, tantivy, limit, as_json)


@bench.command("search")
def bench_search(
    index: Annotated[Path, typer.Option(help="folder of the index")],
    questions: Annotated[Path, typer.Option(help="file of questions")],
    lucene_jar: Annotated[Path | None, typer.Option(help="jar with Lucene's classes: measure Lucene too")] = None,
    limit: Annotated[int, typer.Option(help="how many questions", min=1)] = 1000,
    as_json: Json = False,
) -> None:
    """Plain top-5 queries a second beside Lucene and tantivy."""
    _benchmark("plain_search").run(index, questions, lucene_jar, limit, as_json)


@bench.command("index")
def bench_index(
    passages: Annotated[list[Path], typer.Argument(help="files of passages")],
    lucene_jar: Annotated[Path | None, typer.Option(help="jar with Lucene's classes: measure Lucene too")] = None,
    as_json: Json = False,
) -> None:
    """Time to build an index beside Lucene."""
    _benchmark("index_build").run(passages, lucene_jar, as_json)


@bench.command("exactness")
def bench_exactness(
    index: Annotated[Path, typer.Option(help="folder of the index")],
    questions: Annotated[Path, typer.Option(help="file of questions")],
    pairs: Annotated[int, typer.Option(help="how many (state, refinement) pairs", min=2)] = 50_000,
    lucene_jar: Annotated[Path | None, typer.Option(help="jar with Lucene's classes: compare with Lucene too")] = None,
) -> None:
    """Whether `refine` equals `search`, the reference engine and Lucene; prints one line of JSON."""
    _benchmark("exactness").run(index, questions, pairs, lucene_jar)


@bench.command("faults")
def bench_faults(
    kills: Annotated[int, typer.Option(help="builds, additions and deletions to kill", min=0)] = 200,
    corruptions: Annotated[int, typer.Option(help="files to damage", min=0)] = 300,
    as_json: Json = False,
) -> None:
    """Kill writers, damage files, fill the disk: nothing may be lost or go unseen."""
    if not _benchmark("faults").run(kills=kills, corruptions=corruptions, as_json=as_json):
        raise typer.Exit(1)


@bench.command("fuzz")
def bench_fuzz(
    count: Annotated[int, typer.Option(help="how many query strings", min=1)] = 1_000_000,
    index: Annotated[Path | None, typer.Option(help="an index; one of 10,000 passages is made without it")] = None,
    as_json: Json = False,
) -> None:
    """Ask fuzzed query strings: no crash, only typed errors, each within 50 ms of CPU time."""
    if not _benchmark("fuzz_queries").run(index, count, as_json=as_json):
        raise typer.Exit(1)


@bench.command("mcts")
def bench_mcts(
    index: Annotated[Path | None, typer.Option(help="an index whose words plans think of; none: wordpieces")] = None,
    base: Annotated[str, typer.Option(help="folder of a reader or BERT, for its tokenizer")] = "shipped",
    peer_python: Annotated[str | None, typer.Option(help="a Python that has mctx; none: this one, if it has")] = None,
    seconds: Annotated[float, typer.Option(help="for each figure at least", min=0.1)] = 2.0,
    as_json: Json = False,
) -> None:
    """Tree simulations a second, alone and with the networks, beside mctx where it is installed."""
    _benchmark("mcts").run(index, base, peer_python, seconds, as_json)


def _benchmark(name: str) -> Any:
    """A module of the source tree's `benchmarks` folder, which is not part of the installed package."""
    folder = Path(__file__).parents[2] / "benchmarks"
    if not (folder / f"{name}.py").is_file():
        raise OrienteerError(f"the benchmark {name!r} is not here; run it from a checkout of the project")
    sys.path.insert(0, str(folder))
    return import_module(name)


def _open(address: Path, threads: int) -> Any:
    from orienteer.engine.opening import open_engine

    return open_engine(address, threads=threads)


def _read_ids(file: Path) -> list[str]:
    try:
        return [line for line in file.read_text(encoding="utf-8-sig").split("\n") if line]
    except (OSError, UnicodeDecodeError) as error:
        raise OrienteerError(f"cannot read the ids in {file}: {error}") from None


def _shorten(text: str, words: int = 45) -> str:
    parts = text.split()
    return " ".join(parts[:words]) + (" …" if len(parts) > words else "")


def plain(text: str) -> str:
    """Text as it is: no markup, and no control character that a terminal would obey."""
    return escape("".join(c if c.isprintable() or c == "\n" else " " for c in text))


def _print_json(row: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")


@contextmanager
def _progress(what: str) -> Iterator[Any]:
    columns = (
        SpinnerColumn(),
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("passages"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done: bar.update(task, completed=done)


@contextmanager
def _compiling() -> Iterator[None]:
    """Say so when kernels are about to be compiled: once after an installation, some seconds."""
    from orienteer.engine.warmup import is_warm

    if not is_warm() and err.is_terminal:
        err.print("[dim]compiling the engine for this machine, once (about half a minute) …[/]")
    yield


for command in (rocchio, read, ask, agents, show, evaluate, embed, dense_run, serve, mcp, doctor):
    app.command()(command)
train.command("reader")(train_reader)
train.command("pointer")(train_pointer)
train.command("muzero")(train_muzero)
train.command("t5")(train_t5)
train.command("answerer")(train_answerer)
app.command("rocchio-stats")(rocchio_stats)
app.command("rocchio-landscape")(rocchio_landscape)
bench.command("reader")(bench_reader)
bench.command("sessions")(bench_sessions)


def main() -> None:
    """Entry point: a mistake of the user's is one message, not a traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # JSON is UTF-8 in every locale; what is no character, in an argument, comes out as JSON's own escape.
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        app()
    except OrienteerError as error:
        err.print(f"[red]error:[/] {plain(str(error))}", soft_wrap=True)
        sys.exit(1)
    except BrokenPipeError:
        sys.exit(0)
    except OSError as error:
        err.print(f"[red]error:[/] {plain(str(error))}", soft_wrap=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
