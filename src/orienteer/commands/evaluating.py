"""`evaluate` and `compare`: agents over questions, judged, on the command line."""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orienteer.commands.terminal import out, plain, print_json, progress

if TYPE_CHECKING:
    from orienteer.evaluation import WorkerConfig


def evaluate(
    index: Annotated[Path, typer.Option(help="folder of the index")],
    questions: Annotated[Path, typer.Option(help="file of questions with answers")],
    agents: Annotated[str, typer.Option(help="names, comma between; `orienteer agents` lists them")],
    out_dir: Annotated[Path, typer.Option("--out", help="folder for metrics.json, report.md, runs, sessions, figures")],
    reader: Annotated[Path | None, typer.Option(help="folder of a reader; none: the shipped one")] = None,
    train: Annotated[Path | None, typer.Option(help="training questions, for results by answer overlap")] = None,
    limit: Annotated[int | None, typer.Option(help="only the first so many questions", min=1)] = None,
    steps: Annotated[int, typer.Option(help="refinements at most", min=0, max=100)] = 20,
    answerer: Annotated[Path | None, typer.Option(help="folder of an answer generator, for EM-T5")] = None,
    cache: Annotated[Path | None, typer.Option(help="a file of readings, kept from run to run")] = None,
    figures: Annotated[bool, typer.Option(help="draw the figures (extra: eval)")] = True,
    texts: Annotated[bool, typer.Option(help="show example sessions, which quote questions and passages")] = True,
    workers: Annotated[int, typer.Option(help="processes, or actors on Ray; 0: one for every processor", min=0)] = 1,
    ray: Annotated[str | None, typer.Option(help="address of a Ray cluster, or local", show_default=False)] = None,
    pack: Annotated[bool, typer.Option("--pack", help="put the summaries into one compressed file")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print metrics.json")] = False,
) -> None:
    """Play every agent on every question and write the paper's tables; a killed run goes on where it stopped.

    Agents may be added later: those judged before are read from OUT/summaries or OUT/summaries.jsonl.zst.

    orienteer evaluate --index my-index --questions dev.jsonl --agents bm25,bm25+ps --out results/dev
    """
    from orienteer.data import read_questions
    from orienteer.engine.open import open_engine
    from orienteer.evaluation import evaluate as run
    from orienteer.evaluation.summaries import pack as pack_summaries
    from orienteer.reader import CachedReader, TrainedReader
    from orienteer.session import Settings

    names = [name.strip() for name in agents.split(",") if name.strip()]
    asked = list(islice(read_questions(questions), limit))
    training = list(read_questions(train)) if train is not None else None
    engine, trained = open_engine(index), CachedReader(TrainedReader.from_pretrained(reader), disk=cache)
    generator = None
    if answerer is not None:
        from orienteer.agents.t5.answerer import Answerer

        generator = Answerer.from_pretrained(answerer)
    with progress("sessions") as show:
        result = run(
            engine, trained, asked, names, out_dir, settings=Settings(steps=steps), data=questions.name.split(".")[0],
            training=training, figures=figures, texts=texts, command=_command(agents, steps, limit),
            progress=lambda done: show(done, done.agent), workers=_workers(index, reader, cache, workers, ray),
            answerer=generator,
        )  # fmt: skip
    if pack:
        pack_summaries(out_dir)
    if as_json:
        print_json({name: dict(row) for name, row in result.metrics.items()})
    else:
        out.print(f"{len(asked)} questions × {len(names)} agents: {plain(str(out_dir / 'report.md'))}")


def compare(
    folder: Annotated[Path, typer.Argument(help="folder of a finished evaluation")],
    agents: Annotated[list[str], typer.Argument(help="names, comma between: the first less each of the others")],
    measures: Annotated[str, typer.Option(help="names, comma between")] = "NDCG@5,Top-1,Top-5,EM-MR,score",
    seed: Annotated[int, typer.Option(help="decides every draw")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="one object a comparison")] = False,
) -> None:
    """What chosen differences are worth: Holm's correction is over those of this call alone.

    orienteer compare results/dev pointer,bm25@22+ps,prf-answer muzero,bm25+ps
    """
    from rich.table import Table

    from orienteer.evaluation import compare as run
    from orienteer.evaluation.report import SURE

    groups = [[name.strip() for name in group.split(",") if name.strip()] for group in agents]
    named = [name.strip() for name in measures.split(",") if name.strip()]
    found = run(folder, groups, named, seed=seed)
    if as_json:
        for each in found:
            print_json(asdict(each))
        return
    shown = Table("agent", "less", "measure", "difference", "95 %", "p (Holm)", box=None)
    for each in found:
        row = (f"{each.difference:+.2f}", f"{each.low:+.2f} to {each.high:+.2f}", f"{each.p_holm:.3f}")
        style = "bold" if each.p_holm < SURE else ""
        shown.add_row(plain(each.agent), plain(each.baseline), each.measure, *row, style=style)
    out.print(shown)


def _command(agents: str, steps: int, limit: int | None) -> str:
    """What of the command line decides the figures, beside index and questions."""
    return f"orienteer evaluate --agents {agents} --steps {steps}" + (f" --limit {limit}" if limit else "")


def _workers(
    index: Path, reader: Path | None, cache: Path | None, workers: int, ray: str | None
) -> WorkerConfig | None:
    """Workers that open the same index and reader; None where this process plays by itself."""
    from orienteer.engine.open import absolute
    from orienteer.evaluation import WorkerConfig
    from orienteer.rocchio.generation import BackendFiles

    if workers == 1 and ray is None:
        return None
    world = BackendFiles(absolute(index), *(path.resolve() if path is not None else None for path in (reader, cache)))
    return WorkerConfig(world, workers, ray)
