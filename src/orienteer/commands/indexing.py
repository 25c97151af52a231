"""`index`, `search`: the engine on the command line."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from orienteer.commands.remote import index_to
from orienteer.commands.terminal import compiling, err, out, plain, print_json
from orienteer.errors import DuplicateIdError, IndexCorruptError, OrienteerError, QueryError
from orienteer.query import parse

if TYPE_CHECKING:
    from orienteer.data import Passage
    from orienteer.engine import Engine

IndexDir = Annotated[Path, typer.Argument(help="folder of the index, or https://host:9200/index", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="print JSON, one object a line")]
Threads = Annotated[int, typer.Option(help="threads to use", min=1)]


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
    from orienteer.engine.embedded.store import read_manifest

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
        print_json({"index": str(out_dir), **manifest.counts, "bad_rows": bad, "fingerprint": manifest.fingerprint,
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
    with _progress() as advance, compiling():
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
    from orienteer.engine.embedded.store import read_manifest, verify

    started = time.perf_counter()
    damaged = verify(path)
    if damaged:
        raise IndexCorruptError(f"damaged: {', '.join(damaged)}; build the index again")
    files = read_manifest(path).files
    size = sum(entry["bytes"] for entry in files.values())
    if as_json:
        print_json({"index": str(path), "files": len(files), "bytes": size, "damaged": []})
    else:
        out.print(
            f"{path} is whole: {len(files)} files, {size:,} bytes ({time.perf_counter() - started:.1f} s)",
            soft_wrap=True,
        )


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
    from orienteer.engine.open import open_engine
    from orienteer.engine.protocol import Explains

    engine: Any = open_engine(index, threads=threads)
    if explain and not isinstance(engine, Explains):
        raise OrienteerError("--explain needs an index in one folder; shards and services do not tell shares")
    if queries is not None:
        return _search_file(engine, queries, k)
    assert query is not None
    parsed = parse(query)
    with compiling():
        hits = list(engine.search(parsed, k))
        passages = engine.passages([hit.id for hit in hits])
        reasons = [engine.explain(parsed, hit.id) for hit in hits] if explain else []
    if as_json:
        rows: list[dict[str, Any]] = [_row(hit, passage) for hit, passage in zip(hits, passages, strict=True)]
        for row, reason in zip(rows, reasons, strict=False):
            row["shares"] = [_share(share) for share in reason.shares]
        return print_json({"query": query, "hits": rows})
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
    with compiling():
        for start in range(0, len(lines), 1024):
            part = slice(start, start + 1024)
            for line, hits in zip(lines[part], engine.search_many(parsed[part], k), strict=True):
                found = list(hits)
                passages = engine.passages([hit.id for hit in found])
                print_json({"query": line, "hits": [_row(hit, p) for hit, p in zip(found, passages, strict=True)]})


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


def _read_ids(file: Path) -> list[str]:
    try:
        return [line for line in file.read_text(encoding="utf-8-sig").split("\n") if line]
    except (OSError, UnicodeDecodeError) as error:
        raise OrienteerError(f"cannot read the ids in {file}: {error}") from None


def _shorten(text: str, words: int = 45) -> str:
    parts = text.split()
    return " ".join(parts[:words]) + (" …" if len(parts) > words else "")


@contextmanager
def _progress() -> Iterator[Any]:
    columns = (TextColumn("indexing"), BarColumn(), MofNCompleteColumn(), TextColumn("passages"), TimeElapsedColumn())
    with Progress(SpinnerColumn(), *columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task("indexing", total=None)
        yield lambda done: bar.update(task, completed=done)
