"""`embed`, `dense-run`: the dense baseline on the command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from orienteer.commands.terminal import err, out

if TYPE_CHECKING:
    from orienteer.dense import Crew
    from orienteer.dense import Progress as Done


_SAY_EVERY = 60  # seconds

Index = Annotated[Path, typer.Option("--index", help="folder of the index", show_default=False)]
Encoder = Annotated[
    Path | None,
    typer.Option("--encoder", help="folder of a BERT; none: that of ORIENTEER_ENCODER, or MiniLM (extra: dense)"),
]
Threads = Annotated[int, typer.Option(help="threads to use; 0: one for each core", min=0)]
Json = Annotated[bool, typer.Option("--json", help="print JSON")]


def embed(
    index: Index,
    out_dir: Annotated[Path, typer.Option("--out", help="folder of the embeddings", show_default=False)],
    encoder: Encoder = None,
    threads: Threads = 0,
    workers: Annotated[int, typer.Option(help="processes, or actors on Ray; 0: one for every processor", min=0)] = 1,
    ray: Annotated[str | None, typer.Option(help="address of a Ray cluster, or local", show_default=False)] = None,
    as_json: Json = False,
) -> None:
    """Make the vectors of all passages, for the agents dense, dense+ps and hybrid+ps.

    Stop it when you like, and run it again: it goes on where it stopped, checks what is there, and mends what is
    damaged. Some 100 passages a second; in the background:

    nice -n 19 orienteer embed --index my-index --out my-embeddings &
    """
    from orienteer.dense import TextEncoder, embed_index
    from orienteer.engine import open_index

    engine, model = open_index(index), TextEncoder.from_pretrained(encoder, threads)
    columns = (TextColumn("embedding"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[left]}"))
    with Progress(*columns, TimeElapsedColumn(), console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task("embedding", total=engine.index.size, left="")
        hear = _Listener(lambda done, left: bar.update(task, completed=done, left=left), quiet=err.is_terminal)
        crew = _crew(index, encoder, workers, ray)
        manifest = embed_index(engine.index, model, out_dir, progress=hear, crew=crew)
    if as_json:
        row = {"embeddings": str(out_dir), "passages": manifest.passages, "shards": len(manifest.shards),
               "made": hear.made, "encoder": manifest.encoder}  # fmt: skip
        sys.stdout.write(json.dumps(row) + "\n")
    else:
        out.print(f"{manifest.passages:,} passages in {out_dir}, {hear.made:,} of them made now", soft_wrap=True)


def _crew(index: Path, encoder: Path | None, workers: int, ray: str | None) -> Crew | None:
    """Workers that open the same index and encoder; None where this process does the work by itself."""
    from orienteer.dense import Crew

    if workers == 1 and ray is None:
        return None
    return Crew(index.resolve(), encoder.resolve() if encoder is not None else None, workers, ray)


class _Listener:
    """Passes progress on to the bar; in a log, where there is no bar, one line a minute."""

    def __init__(self, show: Callable[[int, str], None], quiet: bool) -> None:
        self._show, self._quiet = show, quiet
        self._first: int | None = None
        self._said = monotonic()
        self.made = 0

    def __call__(self, progress: Done) -> None:
        if self._first is None:
            self._first = progress.done
        self.made = progress.done - self._first
        left = "" if progress.seconds_left is None else f"{progress.seconds_left / 60:.0f} min left"
        self._show(progress.done, left)
        if not self._quiet and monotonic() - self._said > _SAY_EVERY:
            self._said = monotonic()
            err.print(f"{progress.done:,} of {progress.total:,} passages, {left}")


def dense_run(
    index: Index,
    embeddings: Annotated[Path, typer.Option(help="folder of the embeddings", show_default=False)],
    questions: Annotated[Path, typer.Option(help="file of questions", show_default=False)],
    out_file: Annotated[
        Path, typer.Option("--out", help="the run file: NAME.trec, or .trec.xz .trec.gz .trec.zst", show_default=False)
    ],
    depth: Annotated[int, typer.Option("-k", help="passages a question", min=1, max=10_000)] = 100,
    encoder: Encoder = None,
    as_json: Json = False,
) -> None:
    """Write the nearest passages of questions as a TREC run, which `dense` replays where embeddings are absent.

    orienteer dense-run --index my-index --embeddings my-embeddings --questions dev.jsonl --out results/runs/dev.trec.xz
    """
    from orienteer.data import read_questions
    from orienteer.dense import EmbeddingRetriever, Embeddings, TextEncoder, passages_fingerprint, write_run
    from orienteer.engine import open_index

    opened = open_index(index).index
    retriever = EmbeddingRetriever(opened, Embeddings.open(embeddings), TextEncoder.from_pretrained(encoder))
    notes = write_run(out_file, retriever, passages_fingerprint(opened), read_questions(questions), depth)
    if as_json:
        sys.stdout.write(json.dumps({"run": str(out_file), "questions": len(notes.questions), "depth": depth}) + "\n")
    else:
        out.print(f"{len(notes.questions):,} questions × {depth} passages: {out_file}", soft_wrap=True)
