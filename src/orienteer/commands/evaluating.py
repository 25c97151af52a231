"""`evaluate` and `compare`: agents over questions, judged, on the command line."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from orienteer.commands.terminal import out, plain, print_json, progress
from orienteer.data.beir import judgement_files
from orienteer.data.compression import plain_name
from orienteer.errors import OrienteerError

if TYPE_CHECKING:
    from rich.table import Table

    from orienteer.evaluation import Evaluation, WorkerConfig

AGENTS = "bm25,bm25+ps,pointer"


def evaluate(
    index: Annotated[Path, typer.Option(help="folder of the index")],
    questions: Annotated[Path | None, typer.Option(help="file of questions with answers, or judged by --qrels")] = None,
    beir: Annotated[Path | None, typer.Option(help="folder in BEIR's layout: questions with judgements")] = None,
    split: Annotated[str | None, typer.Option(help="which of BEIR's qrels; none: test where there is one")] = None,
    qrels: Annotated[Path | None, typer.Option(help="file of judgements, TREC's or BEIR's, for --questions")] = None,
    agents: Annotated[str, typer.Option(help="names, comma between; `orienteer agents` lists them")] = AGENTS,
    out_dir: Annotated[
        Path | None,
        typer.Option("--out", help="folder for metrics.json, report.md, runs, sessions, figures; none: only a table"),
    ] = None,
    reader: Annotated[Path | None, typer.Option(help="folder of a reader; none: the shipped one")] = None,
    train: Annotated[Path | None, typer.Option(help="training questions, for results by answer overlap")] = None,
    limit: Annotated[int | None, typer.Option(help="only the first so many questions", min=1)] = None,
    steps: Annotated[int, typer.Option(help="refinements at most", min=0, max=100)] = 20,
    also: Annotated[
        str | None, typer.Option(help="play every agent also with this setting, such as dead_ends=stop")
    ] = None,
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
    orienteer evaluate --index my-index --questions dev.jsonl --agents prf-idf-t,pointer --also dead_ends=stop
    orienteer evaluate --index scifact-index --beir scifact --agents bm25,pointer
    """
    from orienteer.agents.registry import with_option
    from orienteer.data import read_questions
    from orienteer.defaults import ORDER
    from orienteer.engine.open import open_engine
    from orienteer.evaluation import evaluate as run
    from orienteer.evaluation.summaries import pack as pack_summaries
    from orienteer.reader import CachedReader, TrainedReader
    from orienteer.session import Settings

    names = [name.strip() for name in agents.split(",") if name.strip()]
    if also is not None:
        names += [with_option(name, also) for name in names]
    source, judgements = _source(questions, beir, split, qrels)
    asked = list(islice(read_questions(source, qrels=judgements), limit))
    if asked and not any(question.is_judged for question in asked):
        raise OrienteerError(
            f"{source}: none of {len(asked):,} questions has answers or judgements, so nothing can be measured; give "
            "questions with answers, a BEIR folder (--beir), or a file of judgements (--qrels)"
        )
    training = list(read_questions(train)) if train is not None else None
    engine, trained = open_engine(index), CachedReader(TrainedReader.from_pretrained(reader), disk=cache)
    generator = None
    if answerer is not None:
        from orienteer.agents.t5.answerer import Answerer

        generator = Answerer.from_pretrained(answerer)
    data = beir.name if beir is not None else source.name.split(".")[0]
    with nullcontext(out_dir) if out_dir else TemporaryDirectory(prefix="orienteer-") as folder:
        with progress("sessions") as show:
            result = run(
                engine, trained, asked, names, folder, settings=Settings(steps=steps, order=ORDER), data=data,
                training=training, figures=figures and out_dir is not None, texts=texts,
                command=_command(agents, steps, limit, also), progress=lambda done: show(done, done.agent),
                workers=_workers(index, reader, cache, workers, ray), answerer=generator,
            )  # fmt: skip
        if pack:
            pack_summaries(Path(folder))
    if as_json:
        return print_json({name: dict(row) for name, row in result.metrics.items()})
    out.print(_metrics_table(result))
    judged = result.run["judged"]
    unjudged = f", {len(asked) - judged:,} of them without answers or judgements" if judged < len(asked) else ""
    where = f": {plain(str(out_dir / 'report.md'))}" if out_dir else ""
    return out.print(f"{len(asked):,} questions × {len(names)} agents{unjudged}{where}", soft_wrap=True)


def compare(
    folder: Annotated[Path, typer.Argument(help="folder of a finished evaluation")],
    agents: Annotated[list[str], typer.Argument(help="names, comma between: the first less each of the others")],
    measures: Annotated[str | None, typer.Option(help="names, comma between; none: those that apply")] = None,
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
    named = None if measures is None else [name.strip() for name in measures.split(",") if name.strip()]
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


def _source(
    questions: Path | None, beir: Path | None, split: str | None, qrels: Path | None
) -> tuple[Path, Path | None]:  # fmt: skip
    """Where the questions are, and a file of judgements beside them."""
    if (questions is None) == (beir is None):
        raise OrienteerError("name the questions by --questions FILE or by --beir FOLDER, one of them")
    if questions is not None:
        if split is not None:
            raise OrienteerError("--split is for --beir; for a file of questions name its judgements by --qrels")
        return questions, qrels
    assert beir is not None
    if qrels is not None:
        raise OrienteerError("a BEIR folder has its own judgements; choose among them by --split")
    splits = {plain_name(path).removesuffix(".tsv"): path for path in judgement_files(beir)}
    if not splits:
        raise OrienteerError(f"{beir} has no judgements; expected a folder in BEIR's layout, with qrels/*.tsv")
    chosen = split or ("test" if "test" in splits else next(iter(splits)))
    if chosen not in splits:
        raise OrienteerError(f"{beir} has no split {chosen!r}; expected {', '.join(splits)}")
    return splits[chosen], None


def _metrics_table(result: Evaluation) -> Table:
    """A row a measure: means over questions in percent, costs as they are; without those that apply to none."""
    from rich.table import Table

    from orienteer.evaluation.measures import COSTS

    names = list(dict.fromkeys(name for row in result.metrics.values() for name in row))
    shown = Table("", *map(plain, result.metrics), box=None)
    for name in names:
        digits = 1 if name in COSTS else 2
        cells = (f"{row[name]:.{digits}f}" if name in row else "" for row in result.metrics.values())
        shown.add_row(name, *cells)
    return shown


def _command(agents: str, steps: int, limit: int | None, also: str | None) -> str:
    """What of the command line decides the figures, beside index and questions."""
    more = (f" --limit {limit}" if limit else "") + (f" --also {also}" if also else "")
    return f"orienteer evaluate --agents {agents} --steps {steps}{more}"


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
