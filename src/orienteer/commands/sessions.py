"""`ask`, `agents`, `show`: sessions on the command line. Rooms are imported when a command runs."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column, Table

from orienteer.commands.resident import ResidentServer, ServerError, find_server
from orienteer.commands.terminal import out, plain, print_json, write_json
from orienteer.defaults import AGENT, STEPS
from orienteer.errors import OrienteerError

NAMES = f"""{AGENT} is the default. OP is one of -or +c +t -c -t ^.1 ^2 ^4 ^6 ^8, N any number. NAME=DIR plays another \
checkpoint. Settings follow in brackets, with semicolons between: {AGENT}[order=ps] gives the passages by PS alone, \
not by what they say together, {AGENT}[steps=10;dead_ends=stop] ends after ten refinements or the first that finds \
nothing, \
{AGENT}[dense=5] starts also from the five nearest passages by vectors."""


def ask(
    words: Annotated[list[str], typer.Argument(metavar="QUESTION", help="the question, in plain words")],
    index: Annotated[Path | None, typer.Option(help="folder of the index; none: the bundled corpus")] = None,
    agent: Annotated[str, typer.Option(help="name of the agent; `orienteer agents` lists them")] = AGENT,
    steps: Annotated[int, typer.Option(help="refinements at most", min=0, max=100)] = STEPS,
    budget: Annotated[int | None, typer.Option(help="stop once so many passages are read", min=1)] = None,
    reader: Annotated[Path | None, typer.Option(help="folder of a reader; none: the shipped one")] = None,
    dense: Annotated[
        bool, typer.Option("--dense", help="start also from the five nearest passages by the index's vectors")
    ] = False,
    where: Annotated[
        str | None, typer.Option(help="only passages with such metadata: 'year>=2020 and folder:reports'")
    ] = None,
    trail: Annotated[bool, typer.Option("--trail", help="show every step, also those that changed nothing")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print the session's record as JSON")] = False,
) -> None:
    """Let an agent search: the answer and how sure it is, the best passages, the steps that led there, the cost.

    orienteer ask 'who wrote war and peace' --index my-index
    """
    question = " ".join(words)
    by_server = reader is None and budget is None and not dense and where is None
    if by_server and (server := find_server(index)) is not None:
        with suppress(ServerError):  # one that cannot is not asked: the command does it itself
            _ask_server(server, question, agent, steps, trail, as_json)
            return
    from orienteer.agents.dense import FIRST_PASS
    from orienteer.api import Searcher
    from orienteer.session import to_line
    from orienteer.session.display import answer_lines

    options = {"dense": FIRST_PASS} if dense else {}
    searcher = Searcher.open(index, agent=agent, steps=steps, budget=budget, reader=reader, where=where, **options)
    answer = searcher.ask(question)
    if as_json:
        write_json(to_line(answer.record).decode())
        return
    for each in answer.corrections:
        near = plain(", ".join(each.nearest))
        out.print(f"[dim]no document has {plain(each.typed)!r}; the nearest that some have: {near}[/]", soft_wrap=True)
    for line in answer_lines(answer.record, trail=trail, seconds=answer.cost.seconds):
        out.print(line, soft_wrap=True)


def _ask_server(server: ResidentServer, question: str, agent: str, steps: int, trail: bool, as_json: bool) -> None:
    """The same by a server that runs: only its record is read here."""
    wanted = {"question": question, "agent": agent, "steps": steps, "index": server.index}
    played = json.loads(server.request("POST", "/api/sessions", wanted))
    line = server.request("GET", f"/api/sessions/{played['id']}/file")
    server.request("DELETE", f"/api/sessions/{played['id']}")
    if as_json:
        write_json(line.decode())
        return
    from orienteer.session.display import answer_lines
    from orienteer.session.environment import Seconds
    from orienteer.session.record import from_line

    for each in answer_lines(from_line(line), trail=trail, seconds=Seconds(total=float(played["seconds"]))):
        out.print(each, soft_wrap=True)


def agents(as_json: Annotated[bool, typer.Option("--json", help="one object a kind of agent")] = False) -> None:
    """Every agent by name, and what it needs."""
    from orienteer.agents.registry import agent_specs

    if as_json:
        for spec in agent_specs():
            print_json({"name": str(spec.names), "about": spec.about, "needs": spec.needs})
        return
    table = Table(Column("name", no_wrap=True), "what it does", "needs", box=None)
    for spec in agent_specs():
        table.add_row(plain(str(spec.names)), plain(spec.about), plain(spec.needs))
    out.print(table)
    out.print(f"\n{plain(NAMES)}", soft_wrap=True)


def show(
    sessions: Annotated[Path, typer.Argument(help="file of recorded sessions, JSONL", show_default=False)],
    session_id: Annotated[str, typer.Option("--id", help="id of the question; none: the first session")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="print the session's record as JSON")] = False,
) -> None:
    """A recorded session, step by step."""
    from orienteer.session import read_records, to_line
    from orienteer.session.display import console_lines

    for kept in read_records(sessions):
        if not session_id or kept.question.id == session_id:
            if as_json:
                write_json(to_line(kept).decode())
                return
            for line in console_lines(kept, every_step=True):
                out.print(line, soft_wrap=True)
            return
    raise OrienteerError(f"{sessions} holds no session of question {session_id!r}; `grep` its ids, or leave out --id")
