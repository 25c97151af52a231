"""`embed`, `dense-run`, `dense-join`: the dense baseline on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orienteer.commands.terminal import err, out, plain, print_json, progress

if TYPE_CHECKING:
    from orienteer.dense import EmbedWorkers
    from orienteer.dense.runs import RunNotes
    from orienteer.workers import Progress


Index = Annotated[Path, typer.Option("--index", help="folder of the index", show_default=False)]
Encoder = Annotated[
    str | None,
    typer.Option(
        "--encoder", help="folder of a BERT, or `static`; none: that of ORIENTEER_ENCODER, or MiniLM (extra: dense)"
    ),
]
Threads = Annotated[int, typer.Option(help="threads to use; 0: one for each core", min=0)]
RunFile = Annotated[
    Path, typer.Option("--out", help="the run file: NAME.trec, or .trec.xz .trec.gz .trec.zst", show_default=False)
]
Json = Annotated[bool, typer.Option("--json", help="print JSON")]


def embed(
    index: Index,
    out_dir: Annotated[Path, typer.Option("--out", help="folder of the embeddings", show_default=False)],
    encoder: Encoder = None,
    threads: Threads = 0,
    workers: Annotated[int, typer.Option(help="processes, or actors on Ray; 0: one for every processor", min=0)] = 1,
    ray: Annotated[str | None, typer.Option(help="address of a Ray cluster, or local", show_default=False)] = None,
    first: Annotated[
        int, typer.Option("--from", help="the first passage to embed, by number; rounded down to a whole shard")
    ] = 0,
    end: Annotated[
        int | None,
        typer.Option("--to", help="the passage to stop before; rounded up to a whole shard; none: the end"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make the vectors of all passages, for the agents dense, dense+ps and hybrid+ps.

    Stop it when you like, and run it again: it goes on where it stopped, checks what is there, and makes again what is
    damaged. Some 40 to 50 passages a second a core; in the background:

    nice -n 19 orienteer embed --index my-index --out my-embeddings &

    A part of the passages, in whole shards of 4,096; `dense-run --partial` and `dense-join` make one run of the parts:

    orienteer embed --index my-index --out my-embeddings --from 409600 --to 819200
    """
    from orienteer.dense import embed_index, open_encoder
    from orienteer.dense.embeddings import count_passages
    from orienteer.engine import open_index

    engine, model = open_index(index), open_encoder(encoder, threads)
    size, pool = len(engine), _pool(index, encoder, workers, ray)
    passages = None if first == 0 and end is None else range(first, size if end is None else end)
    began, last = -1, 0
    with progress("passages") as show:

        def report(state: Progress) -> None:
            nonlocal began, last
            began, last = state.done if began < 0 else began, state.done
            show(state)

        manifest = embed_index(engine, model, out_dir, passages=passages, progress=report, workers=pool)
    there, made = count_passages(manifest.covered), last - max(0, began)
    if as_json:
        row = {"embeddings": str(out_dir), "passages": manifest.passages, "shards": len(manifest.shards),
               "embedded": there, "made": made, "encoder": manifest.encoder}  # fmt: skip
        print_json(row)
    else:
        part = f"{there:,} of " if there < manifest.passages else ""
        out.print(
            f"{part}{manifest.passages:,} passages in {plain(str(out_dir))}, {made:,} of them made now", soft_wrap=True
        )


def _pool(index: Path, encoder: str | None, workers: int, ray: str | None) -> EmbedWorkers | None:
    """Workers that open the same index and encoder; None where this process does the work by itself."""
    from orienteer.dense import EmbedWorkers

    if workers == 1 and ray is None:
        return None
    if encoder is not None and Path(encoder).exists():  # workers of a cluster have their own working folder
        encoder = str(Path(encoder).resolve())
    return EmbedWorkers(index.resolve(), encoder, workers, ray)


def dense_run(
    index: Index,
    embeddings: Annotated[Path, typer.Option(help="folder of the embeddings", show_default=False)],
    questions: Annotated[Path, typer.Option(help="file of questions", show_default=False)],
    out_file: RunFile,
    depth: Annotated[int, typer.Option("-k", help="passages a question", min=1, max=10_000)] = 100,
    encoder: Encoder = None,
    only_part: Annotated[
        bool, typer.Option("--partial", help="search the passages embedded so far, for `dense-join`")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write the nearest passages of questions as a TREC run, which `dense` replays where embeddings are absent.

    orienteer dense-run --index my-index --embeddings my-embeddings --questions dev.jsonl --out my-runs/dev.trec.xz

    Replay it with the agent dense=my-runs, or set ORIENTEER_RUNS=my-runs.

    With --partial, a part for `dense-join`; keep parts in a folder of their own:

    orienteer dense-run --index my-index --embeddings my-embeddings --questions dev.jsonl --partial --out part-1.trec.xz
    """
    from orienteer.data import read_questions
    from orienteer.dense import EmbeddingRetriever, Embeddings, open_encoder, write_run
    from orienteer.engine import open_index

    opened = Embeddings.open(embeddings, partial=only_part)
    retriever = EmbeddingRetriever(open_index(index), opened, open_encoder(encoder or opened.manifest.address))
    _print_run(out_file, write_run(out_file, retriever, read_questions(questions), depth), as_json)


def dense_join(
    parts: Annotated[list[Path], typer.Argument(help="runs of parts of the passages", show_default=False)],
    out_file: RunFile,
    only_part: Annotated[
        bool, typer.Option("--partial", help="parts that do not reach from the first passage to the last")
    ] = False,
    as_json: Json = False,
) -> None:
    """Join runs that `dense-run --partial` wrote into the one that embeddings of all their passages would give.

    Each part covers one range of passages, no passage is in two, and none is in none; what is wrong is named.

    orienteer dense-join parts/dev-1.trec.xz parts/dev-2.trec.xz --out my-runs/dev.trec.xz
    """
    from orienteer.dense import join_runs

    _print_run(out_file, join_runs(parts, out_file, partial=only_part), as_json)


def _print_run(file: Path, notes: RunNotes, as_json: bool) -> None:
    """What a run holds; and, on stderr, that its parts were not asked alike."""
    from orienteer.dense.embeddings import count_passages

    if len(notes.question_vectors) > 1:
        err.print(
            "note: the parts were asked with vectors that differ in some bits, as encoders on different processors "
            "give; scores of different parts compare nearly, not exactly",
            soft_wrap=True,
        )
    if as_json:
        row = {"run": str(file), "questions": len(notes.questions), "depth": notes.depth, "passages": notes.passages,
               "covers": notes.covers, "question_vectors": notes.question_vectors}  # fmt: skip
        print_json(row)
        return
    there = count_passages(notes.covers)
    part = f", found in {there:,} of {notes.passages:,}" if there < notes.passages else ""
    out.print(f"{len(notes.questions):,} questions × {notes.depth} passages{part}: {plain(str(file))}", soft_wrap=True)
