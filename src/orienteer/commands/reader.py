"""`read`, `train reader`: the reader on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from orienteer.commands.terminal import out
from orienteer.data import read_questions
from orienteer.errors import MissingExtraError, OrienteerError

if TYPE_CHECKING:
    from orienteer.data import Passage, Question
    from orienteer.reader.protocol import Reading

Index = Annotated[Path, typer.Option("--index", help="folder of the index", show_default=False)]
IndexOrBundled = Annotated[Path | None, typer.Option("--index", help="folder of the index; none: the bundled corpus")]
Folder = Annotated[Path | None, typer.Option("--reader", help="folder of a reader; none: the shipped one")]
Json = Annotated[bool, typer.Option("--json", help="print JSON")]
Threads = Annotated[int, typer.Option(help="threads to use", min=1)]


def read(
    question: Annotated[str, typer.Argument(help="the question, in plain words")],
    index: IndexOrBundled = None,
    k: Annotated[int, typer.Option("-k", help="passages shown", min=1)] = 5,
    depth: Annotated[int, typer.Option(help="BM25 passages read", min=1)] = 20,
    reader: Folder = None,
    threads: Threads = 2,
    as_json: Json = False,
) -> None:
    """Rank what BM25 finds by PS, the answer marked.

    orienteer read 'who wrote war and peace' --index my-index
    """
    from orienteer.bundled import bundled_engine
    from orienteer.engine.open import open_engine
    from orienteer.reader.evaluate import read_ranked
    from orienteer.reader.runtime import TrainedReader

    engine = open_engine(index) if index is not None else bundled_engine()
    ranked = read_ranked(question, engine, TrainedReader.from_pretrained(reader, threads=threads), depth)[:k]
    if as_json:
        rows = [
            {"id": p.id, "title": p.title, "text": p.text, "score": r.score, "answer": r.answer, "start": r.start,
             "end": r.end}
            for p, r in ranked
        ]  # fmt: skip
        return print(json.dumps({"question": question, "passages": rows}, ensure_ascii=False))
    if not ranked:
        return out.print("nothing found")
    table = Table(show_edge=False, pad_edge=False)
    for name in ("PS", "answer", "passage"):
        table.add_column(name, overflow="fold")
    for passage, reading in ranked:
        table.add_row(f"{reading.score:.2f}", Text(reading.answer, style="bold"), _marked(passage, reading))
    return out.print(table)


def _marked(passage: Passage, reading: Reading, words: int = 40) -> Text:
    """The title and the words around the answer, which is bold."""
    from orienteer.reader.decoding import snippet

    text = Text(f"{passage.title}: ", style="cyan") if passage.title else Text()
    shown = snippet(passage.text, reading.start, reading.end, words)
    text.append(shown)
    answer = " ".join(reading.answer.split())
    place = shown.find(answer)
    if answer and place >= 0:
        before = len(text) - len(shown) + place
        text.stylize("bold reverse", before, before + len(answer))
    return text


def train_reader(
    out_dir: Annotated[Path, typer.Option("--out", help="folder of checkpoints and of the reader")],
    index: Annotated[Path | None, typer.Option(help="index that negatives are mined from")] = None,
    questions: Annotated[
        list[Path] | None, typer.Option(help="questions with answers (and gold passages) to mine for")
    ] = None,
    reading: Annotated[
        list[Path] | None, typer.Option(help="questions that come with their passage, for spans only")
    ] = None,
    rows: Annotated[list[Path] | None, typer.Option(help="files of mined rows, instead of --questions")] = None,
    dev: Annotated[Path | None, typer.Option(help="questions to judge progress on")] = None,
    calibrate: Annotated[
        list[Path] | None, typer.Option(help="questions that PS is fitted on, 300 of each file")
    ] = None,
    base: Annotated[str, typer.Option("--base", "--from", help="a BERT or a reader: folder, hub name, shipped")] = (
        "shipped"
    ),
    teacher: Annotated[str, typer.Option(help="a reader whose outputs a student learns; becomes its base too")] = "",
    layers: Annotated[str, typer.Option(help="layers of the base a student keeps, such as 0,2,5")] = "",
    minutes: Annotated[float, typer.Option(help="of training in all, kills included")] = 0.0,
    steps: Annotated[int, typer.Option(help="instead of minutes: resumes to the same weights")] = 0,
    learning_rate: float = 2e-4,
    seed: Annotated[int, typer.Option(help="decides every draw")] = 0,
    threads: Threads = 2,
) -> None:
    """Train a reader; run it again after a kill and it goes on from its last checkpoint.

    orienteer train reader --base BERT --index my-index --questions train.jsonl.xz --minutes 90 --out my-reader
    """
    try:
        import torch  # noqa: F401

        from orienteer.reader.config import TrainConfig
        from orienteer.reader.train import train
    except ImportError as error:
        raise MissingExtraError(error.name or "torch", "train") from None
    from orienteer.engine.open import open_engine
    from orienteer.reader.export import finish
    from orienteer.reader.mining import gather_rows

    engine = open_engine(index) if index else None
    gathered = gather_rows(out_dir, engine, questions or [], reading or [], rows or [], seed)
    dev_rows = gather_rows(out_dir / "dev", engine, [dev], [], [], seed)[:300] if dev else []

    try:
        kept = tuple(int(number) for number in layers.split(",")) if layers else ()
    except ValueError:
        raise OrienteerError(f"--layers {layers!r}: expected numbers with commas between, such as 0,2,5") from None
    config = TrainConfig(
        base=teacher or base,
        out=out_dir,
        steps=steps,
        minutes=minutes,
        learning_rate=learning_rate,
        layers=kept,
        teacher=teacher,
        freeze_layers=0 if teacher else 1,  # a student's lowest layers have others above them now
        threads=threads,
        seed=seed,
    )
    train(gathered, config, dev_rows, lambda progress: out.print(str(progress)))
    fitting = [q for path in calibrate or [] for q in _spread(_questions([path]), 300)]
    fitted = finish(out_dir, out_dir / "int8", engine, fitting, threads)
    a, b = fitted
    out.print(f"{out_dir / 'int8'}: PS = sigmoid({a:.3f}·logit {b:+.3f})")


def _questions(paths: list[Path]) -> list[Question]:
    found = [question for path in paths for question in read_questions(path)]
    if paths and not found:
        raise OrienteerError(f"{paths[0]}: no questions in it")
    return found


def _spread(questions: list[Question], count: int) -> list[Question]:
    """At most `count` of the questions, at equal distances: a file may be sorted by source."""
    return questions[:: max(1, -(-len(questions) // count))]
