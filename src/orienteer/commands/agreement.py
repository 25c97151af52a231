"""`train agreement`: how much the passages of a session speak for each other, from sessions with known answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from orienteer.commands.terminal import out, plain, print_json, progress
from orienteer.commands.training import World, questions_of, spread
from orienteer.errors import OrienteerError
from orienteer.workers import Progress

if TYPE_CHECKING:
    from orienteer.session import SeenPassage
    from orienteer.session.answer_voting import Judged

_BATCH_SIZE = 50  # sessions


def train_agreement(
    questions: Annotated[list[Path], typer.Option(help="questions with answers; may be repeated")],
    index: Annotated[Path, typer.Option(help="the index to search in")],
    agents: Annotated[
        str, typer.Option(help="whose sessions to learn from, comma between")
    ] = "bm25@22+ps,prf-answer,pointer",
    source: Annotated[str, typer.Option(help="only questions whose source begins with this, such as nq")] = "",
    count: Annotated[int, typer.Option(help="questions of each file, at equal distances", min=1)] = 300,
    reader: Annotated[Path | None, typer.Option(help="folder of a reader; none: the shipped one")] = None,
    cache: Annotated[Path | None, typer.Option(help="file of readings, so that a passage is read once")] = None,
    threads: Annotated[int, typer.Option(help="threads to use", min=1)] = 2,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Fit the order `agreement` of a session's passages, and tell what it is worth on questions held out.

    It prints five weights for each of two probabilities, which stand in `orienteer/session/answer_voting.py`.

    orienteer train agreement --questions dev-who.jsonl --questions train-weak.jsonl --source nq --index INDEX
    """
    from orienteer.agents.registry import make_agent
    from orienteer.session import Settings, play
    from orienteer.session.answer_voting import cross_judged, fit

    listed = ([q for q in questions_of([path]) if q.source.startswith(source)] for path in questions)
    chosen = [question for each in listed for question in spread(each, count)]
    if not chosen:
        raise OrienteerError(f"no question has a source that begins with {source!r}")
    world = World(index, reader, cache, threads)
    names = [each.strip() for each in agents.split(",")]
    engine, trained = world.open()
    entries = [make_agent(name, engine, Settings()) for name in names]
    played: dict[str, list[tuple[SeenPassage, ...]]] = {name: [] for name in names}
    done = 0
    with progress("sessions") as show:
        for entry in entries:
            for batch in play(entry.environment(engine, trained), entry.agent, chosen, batch_size=_BATCH_SIZE):
                played[entry.name] += [each.seen for each in batch if each.seen and each.question.answers]
                done += len(batch)
                show(Progress(done, len(chosen) * len(names)), entry.name)
    if not any(played.values()):
        raise OrienteerError("no session found a passage for a question with known answers; give other questions")
    weights = fit([seen for sessions in played.values() for seen in sessions])
    judged = {name: cross_judged(sessions) for name, sessions in played.items() if sessions}
    if as_json:
        rows = {name: [by_ps._asdict(), by_agreement._asdict()] for name, (by_ps, by_agreement) in judged.items()}
        fitted = {name: part._asdict() for name, part in weights._asdict().items()}
        print_json({"weights": fitted, "sessions": rows})
        return
    for name, part in weights._asdict().items():
        out.print(f"{name}: " + ", ".join(f"{each}={value:.3f}" for each, value in part._asdict().items()))
    out.print(_table(judged))


def _table(judged: dict[str, tuple[Judged, Judged]]) -> Table:
    table = Table(box=None)
    for column in ("agent", "order", "NDCG@5", "Top-1", "Top-5", "EM-MR"):
        table.add_column(column, justify="left" if column in ("agent", "order") else "right")
    for name, orders in judged.items():
        for order, measures in zip(("ps", "agreement, held out"), orders, strict=True):
            table.add_row(plain(name), order, *(f"{value:.1f}" for value in measures))
    return table
