"""`index`, `sync`, `search`: the engine on the command line."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from orienteer.commands.resident import ResidentServer, ServerError, find_server
from orienteer.commands.terminal import compiling, err, out, plain, print_json, progress
from orienteer.errors import DataError, DuplicateIdError, IndexCorruptError, OrienteerError, QueryError
from orienteer.query import parse

if TYPE_CHECKING:
    from orienteer.data import Passage, Split, Unreadable
    from orienteer.dense import Encoder
    from orienteer.engine import Engine
    from orienteer.engine.embedded.folder_sync import SyncResult

IndexDir = Annotated[Path, typer.Argument(help="folder of the index, or https://host:9200/index", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="print JSON, one object a line")]
Where = Annotated[str | None, typer.Option(help="only passages with such metadata: 'year>=2020 and folder:reports'")]
Threads = Annotated[int, typer.Option(help="threads to use", min=1)]
_UNREADABLE_SHOWN = 50


def index(
    passages: Annotated[
        list[Path] | None,
        typer.Argument(help="documents (PDF, DOCX, HTML, EPUB, .md .rst .txt .csv), JSONL, TSV, BEIR, SQuAD"),
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
    merge: Annotated[
        bool, typer.Option("--merge", help="make one segment of the index at --out and its latest changes")
    ] = False,
    verify: Annotated[bool, typer.Option("--verify", help="read every byte of the index and check it")] = False,
    dense: Annotated[
        str | None,
        typer.Option(help="also store a vector of every passage; by `static`, which ships, or a BERT's folder"),
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="leave out rows that cannot be read, and count them")
    ] = False,
    words: Annotated[int, typer.Option(help="words of a document's passages, about", min=20, max=1000)] = 100,
    overlap: Annotated[
        int, typer.Option(help="words of whole sentences that a passage repeats from the one before it", min=0, max=500)
    ] = 0,
    force: Annotated[
        bool, typer.Option("--force", help="write the index even into a folder that holds other files")
    ] = False,
    threads: Threads = 2,
    as_json: Json = False,
) -> None:
    """Build an index, or change or check one.

    orienteer index passages.jsonl.xz --out my-index --dense static

    Vectors are made after the index. Stop it when you like: without files of passages --dense goes on where it stopped.
    --add and --delete keep the vectors that an index has up to date.
    """
    from orienteer.data import Split
    from orienteer.engine.embedded.store import read_manifest

    if to is not None:
        if not passages or out_dir is not None or add or verify or dense or delete is not None:
            raise OrienteerError(
                "--to URL loads files of passages; it goes with none of --out --add --delete --dense --verify"
            )
        from orienteer.commands.remote import index_to

        return index_to(passages, to, shards=shards, skip_bad=skip_bad, as_json=as_json)
    if out_dir is None:
        raise OrienteerError("name the folder of the index: --out DIR")
    if verify:
        return _verify(out_dir, as_json)
    if merge:
        return _merge(out_dir, threads, as_json)
    if not passages and delete is None and dense is None:
        raise OrienteerError("nothing to do: name files of passages, or --delete FILE, or --dense ENCODER, or --verify")
    if passages and delete is not None and not add:
        raise OrienteerError(
            "passages and --delete together need --add; without it the index would be built from scratch"
        )
    if add or delete is not None or not passages:
        read_manifest(out_dir)
    elif not force:
        from orienteer.engine.embedded.occupied import refuse_occupied

        refuse_occupied(out_dir)
    encoder = _find_encoder(out_dir, dense, threads, kept=add or delete is not None)
    started = time.perf_counter()
    if passages or delete is not None:
        split = Split(words, overlap)
        manifest, bad, unreadable = _write_index(passages or [], out_dir, add, delete, skip_bad, threads, split)
    else:
        manifest, bad, unreadable = read_manifest(out_dir), 0, []
    seconds = time.perf_counter() - started
    if not as_json and (passages or delete is not None):
        skipped = f", {bad:,} bad rows left out" if bad else ""
        terms = f", {manifest.counts['terms']:,} terms" if manifest.base is None else ""
        where = plain(str(out_dir))
        out.print(f"{manifest.passages:,} passages{terms} in {where} ({seconds:.1f} s{skipped})", soft_wrap=True)
    vectors = _make_vectors(out_dir, encoder, as_json) if encoder is not None else None
    if as_json:
        print_json({"index": str(out_dir), **manifest.counts, "passages": manifest.passages, "bad_rows": bad,
                     "unreadable": [asdict(each) for each in unreadable], "fingerprint": manifest.fingerprint,
                     "generation": manifest.generation, "seconds": round(seconds, 3),
                     **({"vectors": vectors} if vectors else {})})  # fmt: skip
    return None


def _find_encoder(out_dir: Path, dense: str | None, threads: int, kept: bool) -> Encoder | None:
    """The encoder that is asked for, or that made the vectors which an index to be changed has; opened first, so that
    a wrong name is an error before hours of work."""
    from orienteer.dense.index_vectors import encoder_address
    from orienteer.dense.static_encoder import open_encoder

    address = dense if dense is not None else encoder_address(out_dir) if kept else None
    return None if address is None else open_encoder(address, threads)


def _make_vectors(out_dir: Path, encoder: Encoder, as_json: bool) -> dict[str, Any]:
    from orienteer.dense.index_vectors import make_vectors

    started = time.perf_counter()
    with progress("vectors") as show, compiling():
        manifest = make_vectors(out_dir, encoder, progress=show)
    seconds = time.perf_counter() - started
    if not as_json:
        size = manifest.passages * manifest.row_type.itemsize
        out.print(
            f"{manifest.passages:,} vectors of {manifest.width} coordinates, {size / 1e6:,.0f} MB ({seconds:.1f} s)"
        )
    return {"width": manifest.width, "encoder": manifest.encoder, "seconds": round(seconds, 3)}


def _write_index(
    passages: list[Path], out_dir: Path, add: bool, delete: Path | None, skip_bad: bool, threads: int, split: Split
) -> tuple[Any, int, list[Unreadable]]:
    from orienteer.data import BadRows, find_ids, read_passages
    from orienteer.data.reading import passage_sources
    from orienteer.engine import build_index, update_index
    from orienteer.engine.embedded.segmented_index import open_segments

    bad = BadRows()
    unreadable: list[Unreadable] = []
    source: Iterator[Passage] = iter(())
    if passages:
        source = read_passages(
            passages, skip_bad=skip_bad, on_bad=bad, split=split, on_unreadable=unreadable.append
        )  # fmt: skip
        source = _refuse_nothing(source, unreadable)
    with _progress() as advance, compiling():
        try:
            if add or delete is not None:
                ids = _read_ids(delete) if delete is not None else []
                documents = {each.name for each in passage_sources(passages) if each.format == "document"}
                replaced = open_segments(out_dir).passages_of(documents) if documents else []
                ids = list(dict.fromkeys([*ids, *replaced]))
                manifest = update_index(out_dir, add=source, delete=ids, threads=threads, progress=advance)
            else:
                manifest = build_index(source, out_dir, threads=threads, progress=advance)
        except DuplicateIdError as error:
            where = find_ids(passages, [error.passage_id]).get(error.passage_id, []) if error.passage_id else []
            places = f"; it stands at {', '.join(map(str, where[:4]))}" if where else ""
            raise DuplicateIdError(f"{error}{places}") from None
    if bad.count:
        err.print(f"[yellow]{plain(str(bad))}[/]", soft_wrap=True)
    _print_unreadable(unreadable)
    return manifest, bad.count, unreadable


def _print_unreadable(unreadable: Sequence[Unreadable]) -> None:
    if unreadable:
        shown = [f"  {plain(str(each))}" for each in unreadable[:_UNREADABLE_SHOWN]]
        more = len(unreadable) - len(shown)
        shown += [f"  and {more:,} more; --json names all"] if more else []
        err.print("\n".join(["[yellow]not read:[/]", *shown]), soft_wrap=True)


def _refuse_nothing(passages: Iterator[Passage], unreadable: list[Unreadable]) -> Iterator[Passage]:
    """Documents of which not one can be read make no index."""
    empty = True
    for passage in passages:
        empty = False
        yield passage
    if empty and unreadable:
        raise DataError("nothing can be read:\n  " + "\n  ".join(map(str, unreadable[:_UNREADABLE_SHOWN])))


def _merge(path: Path, threads: int, as_json: bool) -> None:
    from orienteer.engine import update_index

    started = time.perf_counter()
    with _progress() as advance, compiling():
        manifest = update_index(path, threads=threads, progress=advance, merge=True)
    seconds = time.perf_counter() - started
    if as_json:
        print_json({"index": str(path), **manifest.counts, "generation": manifest.generation,
                     "seconds": round(seconds, 3)})  # fmt: skip
    else:
        out.print(f"{manifest.passages:,} passages in one segment in {path} ({seconds:.1f} s)", soft_wrap=True)


def sync(
    folder: Annotated[Path, typer.Argument(help="folder of documents", show_default=False)],
    out_dir: Annotated[Path, typer.Option("--out", help="folder of the index", show_default=False)],
    watch: Annotated[bool, typer.Option("--watch", help="follow the folder until Ctrl-C")] = False,
    words: Annotated[int, typer.Option(help="words of a document's passages, about", min=20, max=1000)] = 100,
    overlap: Annotated[
        int, typer.Option(help="words of whole sentences that a passage repeats from the one before it", min=0, max=500)
    ] = 0,
    force: Annotated[
        bool, typer.Option("--force", help="write the index even into a folder that holds other files")
    ] = False,
    allow_empty: Annotated[
        bool, typer.Option("--allow-empty", help="empty the index where the folder holds no document any more")
    ] = False,
    threads: Threads = 2,
    as_json: Json = False,
) -> None:
    """Keep an index in step with a folder: files that were added, changed, moved or deleted since the last time.

    orienteer sync my-documents/ --out my-index --watch

    Each sync is one atomic commit; a server picks it up by itself. Vectors that an index has are kept up to date.
    """
    from orienteer.data import Split
    from orienteer.engine.embedded.folder_sync import sync_folder, watch_folder

    split = Split(words, overlap)
    if not watch:
        with _progress() as advance, compiling():
            result = sync_folder(
                folder, out_dir, split=split, threads=threads, force=force, allow_empty=allow_empty, progress=advance
            )  # fmt: skip
        return _synced(result, out_dir, threads, as_json)
    try:
        with compiling():
            for result in watch_folder(
                folder, out_dir, split=split, threads=threads, force=force, allow_empty=allow_empty
            ):  # fmt: skip
                _synced(result, out_dir, threads, as_json)
    except KeyboardInterrupt:
        err.print("no longer following", style="dim")


def _synced(result: SyncResult, out_dir: Path, threads: int, as_json: bool) -> None:
    encoder = _find_encoder(out_dir, None, threads, kept=True) if result.is_new else None
    if encoder is not None:
        _make_vectors(out_dir, encoder, as_json=True)
    if as_json:
        print_json({
            "index": str(out_dir), "passages": result.manifest.passages, "generation": result.manifest.generation,
            "added": result.added, "changed": result.changed, "moved": result.moved, "deleted": result.deleted,
            "unchanged": result.unchanged, "unreadable": [asdict(each) for each in result.unreadable],
            "seconds": round(result.seconds, 3),
        })  # fmt: skip
        sys.stdout.flush()
        return
    counts = {
        "added": len(result.added), "changed": len(result.changed), "moved": len(result.moved),
        "deleted": len(result.deleted),
    }  # fmt: skip
    done = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count) or "nothing new"
    out.print(
        f"{done}; {result.manifest.passages:,} passages in {plain(str(out_dir))} ({result.seconds:.1f} s)",
        soft_wrap=True,
    )
    new = {*result.added, *result.changed, *(name for _, name in result.moved)}
    _print_unreadable([each for each in result.unreadable if each.file in new])


def _verify(path: Path, as_json: bool) -> None:
    from orienteer.dense.index_vectors import damaged_vectors
    from orienteer.engine.embedded.index import verify_index
    from orienteer.engine.embedded.store import read_manifest

    started = time.perf_counter()
    damaged = verify_index(path)
    if vectors := damaged_vectors(path):
        raise IndexCorruptError(
            f"damaged: {', '.join([*damaged, *vectors])}; "
            + ("build the index again" if damaged else f"run `orienteer index --out {path} --dense` again to fix them")
        )
    if damaged:
        raise IndexCorruptError(f"damaged: {', '.join(damaged)}; build the index again")
    manifest = read_manifest(path)
    files = [*manifest.files.values(), *(manifest.base.files.values() if manifest.base is not None else ())]
    size = sum(entry["bytes"] for entry in files)
    if as_json:
        print_json({"index": str(path), "files": len(files), "bytes": size, "damaged": []})
    else:
        out.print(
            f"{plain(str(path))} is whole: {len(files)} files, {size:,} bytes ({time.perf_counter() - started:.1f} s)",
            soft_wrap=True,
        )


def search(
    index: IndexDir,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[QUERY]", help="Lucene syntax: 'who +title:muppet -contents:trash'", show_default=False
        ),
    ] = None,
    k: Annotated[int, typer.Option("-k", help="passages to show", min=1, max=10_000)] = 5,
    queries: Annotated[
        Path | None, typer.Option(help="file of queries, one a line; prints JSON lines; - is stdin")
    ] = None,
    where: Where = None,
    explain: Annotated[bool, typer.Option("--explain", help="show the share of each clause in each score")] = False,
    threads: Threads = 2,
    as_json: Json = False,
) -> None:
    """Search an index with Lucene's query syntax.

    orienteer search my-index 'who sings +(title:"muppet") (contents:"green"^4)' -k 5
    """
    query = " ".join(words) if words else None
    if (query is None) == (queries is None):
        raise OrienteerError("give one query, or a file of them with --queries FILE")
    if query is not None and not explain and where is None and (server := find_server(index)) is not None:
        with suppress(ServerError):  # one that cannot is not asked: the command does it itself
            return _search_server(server, query, k, as_json)
    from orienteer.engine.open import open_engine
    from orienteer.engine.protocol import Explains, filtered

    engine: Any = filtered(open_engine(index, threads=threads), where)
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
        _print_hit(rank, passage.title, hit.score, passage.source or hit.id, passage.text)
        if explain:
            out.print(_share_table(reasons[rank - 1]))
    return None


def _print_hit(rank: int, title: str, score: float, place: str, text: str) -> None:
    shown = plain(title or "(no title)")
    out.print(f"[bold]{rank}.[/] [bold cyan]{shown}[/]  [dim]{score:.4f}  {plain(place)}[/]")
    out.print(plain(_shorten(text)), style="default")


def _search_server(server: ResidentServer, query: str, k: int, as_json: bool) -> None:
    """The same by a server that runs."""
    parse(query)  # a mistake in it is told with its place
    found = json.loads(server.request("POST", "/api/search", {"query": query, "k": k, "index": server.index}))
    hits = found["hits"]
    if as_json:
        names = ("id", "score", "title", "source")
        rows = [{name: hit[name] for name in names if name != "source" or hit[name]} for hit in hits]
        return print_json({"query": query, "hits": rows})
    if not hits:
        out.print("[dim]no passage matches[/]")
    for hit in hits:
        _print_hit(hit["rank"], hit["title"], hit["score"], hit["source"] or hit["id"], hit["text"])
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
    row = {"id": hit.id, "score": hit.score, "title": passage.title}
    return row | ({"source": passage.source} if passage.source else {})


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
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("indexing"), BarColumn(), MofNCompleteColumn(), TextColumn("passages"), TimeElapsedColumn())
    with Progress(SpinnerColumn(), *columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task("indexing", total=None)
        yield lambda done: bar.update(task, completed=done)
