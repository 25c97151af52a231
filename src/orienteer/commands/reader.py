"""`read`: the reader on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from orienteer.commands.terminal import out, print_json, printable

if TYPE_CHECKING:
    from orienteer.data import Passage
    from orienteer.reader.protocol import Reading

Index = Annotated[Path, typer.Option("--index", help="folder of the index", show_default=False)]
IndexOrBundled = Annotated[Path | None, typer.Option("--index", help="folder of the index; none: the bundled corpus")]
Folder = Annotated[Path | None, typer.Option("--reader", help="folder of a reader; none: the shipped one")]
Json = Annotated[bool, typer.Option("--json", help="print JSON")]
Threads = Annotated[int, typer.Option(help="threads to use", min=1)]


def read(
    words: Annotated[list[str], typer.Argument(metavar="QUESTION", help="the question, in plain words")],
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

    question = " ".join(words)
    engine = open_engine(index) if index is not None else bundled_engine()
    ranked = read_ranked(question, engine, TrainedReader.from_pretrained(reader, threads=threads), depth)[:k]
    if as_json:
        rows = [
            {"id": p.id, "title": p.title, "text": p.text, "score": r.score, "answer": r.answer, "start": r.start,
             "end": r.end}
            for p, r in ranked
        ]  # fmt: skip
        return print_json({"question": question, "passages": rows})
    if not ranked:
        return out.print("nothing found")
    table = Table(show_edge=False, pad_edge=False)
    for name in ("PS", "answer", "passage"):
        table.add_column(name, overflow="fold")
    for passage, reading in ranked:
        table.add_row(f"{reading.score:.2f}", Text(printable(reading.answer), style="bold"), _marked(passage, reading))
    return out.print(table)


def _marked(passage: Passage, reading: Reading, words: int = 40) -> Text:
    """The title and the words around the answer, which is bold."""
    from orienteer.reader.decoding import snippet

    text = Text(f"{printable(passage.title)}: ", style="cyan") if passage.title else Text()
    shown = printable(snippet(passage.text, reading.start, reading.end, words))
    text.append(shown)
    answer = printable(" ".join(reading.answer.split()))
    place = shown.find(answer)
    if answer and place >= 0:
        before = len(text) - len(shown) + place
        text.stylize("bold reverse", before, before + len(answer))
    return text
