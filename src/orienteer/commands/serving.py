"""`serve` and `mcp`: the workbench and the tool server on the command line."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from orienteer.commands.resident import offered
from orienteer.commands.terminal import err, printable
from orienteer.defaults import AGENT
from orienteer.errors import MissingExtraError, OrienteerError

if TYPE_CHECKING:
    from orienteer.engine.protocol import Engine
    from orienteer.reader.protocol import Reader


TOKEN = "ORIENTEER_TOKEN"
_SWITCH_SECONDS = (
    0.0005  # how long a thread may hold the interpreter while another, such as the one that answers, waits
)
Indexes = Annotated[
    list[str] | None,
    typer.Option(help="folder of an index, DIR,DIR as shards, or https://host:9200/index; none: the bundled corpus"),
]
ReaderDir = Annotated[Path | None, typer.Option(help="folder of a reader; none: the shipped one")]
Host = Annotated[str, typer.Option(help="address to listen on; any but loopback needs a token")]
Port = Annotated[int, typer.Option(help="port; 0 takes a free one", min=0, max=65535)]


def serve(
    index: Indexes = None,
    reader: ReaderDir = None,
    host: Host = "127.0.0.1",
    port: Port = 8080,
    token: Annotated[str, typer.Option(envvar=TOKEN, help="asked of every client", show_default=False)] = "",
    agent: Annotated[list[str] | None, typer.Option(help="a further agent to offer, as `pointer=DIR`")] = None,
    evaluation: Annotated[Path | None, typer.Option(help="a folder that `evaluate` wrote, for the gallery")] = None,
    sessions: Annotated[Path | None, typer.Option(help="folder of saved sessions", show_default=False)] = None,
    documents: Annotated[
        list[Path] | None,
        typer.Option(help="the folder that was indexed, to show pages of its PDF files; one for each --index"),
    ] = None,
    uploads: Annotated[
        Path | None,
        typer.Option(help="folder for files dropped on the page; none: a temporary one, and on loopback only"),
    ] = None,
    no_uploads: Annotated[bool, typer.Option("--no-uploads", help="no files can be dropped on the page")] = False,
    steps: Annotated[int, typer.Option(help="refinements of a session at most", min=0, max=1000)] = 50,
    k: Annotated[int, typer.Option(help="passages of a query at most", min=1, max=1000)] = 100,
    running: Annotated[int, typer.Option(help="agents at work at one time", min=1)] = 256,
    deadline: Annotated[float, typer.Option(help="seconds an agent may work", min=0.1)] = 120.0,
    log_queries: Annotated[bool, typer.Option("--log-queries", help="write what is asked into the access log")] = False,
    open_page: Annotated[bool, typer.Option("--open", help="open the page in a browser")] = False,
) -> None:
    """The workbench: a page on which you watch an agent search and steer it, and the HTTP API under it.

    orienteer serve
    """
    try:
        from orienteer.serve.http_server import listening, run_http
    except ImportError:
        raise MissingExtraError("uvicorn", "serve") from None
    from orienteer.bundled import bundled_questions
    from orienteer.serve import Limits, make_app
    from orienteer.serve.memory import bound_heap, freeze_heap
    from orienteer.serve.priority import at_lower_priority
    from orienteer.serve.security import is_loopback

    bound_heap()
    check_address(host, token)
    if len(documents or ()) > len(index or ()):
        raise OrienteerError("--documents names the folder of an --index; give one of them for each index, in order")
    for folder in documents or ():
        if not folder.is_dir():
            raise OrienteerError(f"{folder}: no such folder; name the folder of documents that was indexed")
    # The socket first: a port in use should be an error before anything is loaded.
    with listening(host, port) as listener:
        engines, trained = at_lower_priority(partial(open_all, index, reader))
        addresses: list[str | None] = [*index] if index else [None]
        named = dict(zip(engines, addresses, strict=True))  # before kept uploads join them
        examples = bundled_questions("train")[:800:80] if index is None else ()
        app = make_app(
            engines, trained, sessions or default_sessions(),
            limits=Limits(steps=steps, k=k, running=running, deadline=deadline), token=token or None,
            agents=agent or (), examples=examples,
            evaluation=evaluation, log_queries=log_queries,
            uploads=None if no_uploads else uploads or ("temporary" if is_loopback(host) else None),
            documents=dict(zip(engines, documents or [], strict=False)),
        )  # fmt: skip
        log_escaped()
        logging.getLogger("orienteer").setLevel(logging.INFO)
        page = address(host, listener.getsockname()[1])
        err.print(f"the workbench: {page}   (Ctrl-C ends it)", soft_wrap=True, markup=False)
        if open_page:  # the socket listens already: the browser waits for the first answer
            import webbrowser

            webbrowser.open(page)
        freeze_heap()
        sys.setswitchinterval(_SWITCH_SECONDS)
        with offered({} if token or reader else named) as local:
            run_http(app, [listener, *local])


def mcp(
    index: Indexes = None,
    reader: ReaderDir = None,
    transport: Annotated[
        Literal["stdio", "http"], typer.Option(help="stdio, or streamable HTTP at --host and --port")
    ] = "stdio",
    host: Host = "127.0.0.1",
    port: Port = 8081,
    agent: Annotated[str, typer.Option(help="the agent that `research` uses")] = AGENT,
    token: Annotated[str, typer.Option(envvar=TOKEN, help="asked of every HTTP client", show_default=False)] = "",
) -> None:
    """A tool server for language models: `search` and `research` over the Model Context Protocol.

    orienteer mcp --index my-index
    """
    from orienteer.serve.mcp import run

    if transport == "http":
        check_address(host, token)
    engines, trained = open_all(index, reader)
    log_escaped()
    run(engines, trained, agent=agent, transport=transport, host=host, port=port, token=token or None)


class _EscapingFormatter(logging.Formatter):
    """Writes a message on one line, whatever a client put into it; only a traceback has several."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return printable(super().formatMessage(record).replace("\n", "\\n"))

    def formatException(self, ei: Any) -> str:
        return printable(super().formatException(ei))


def log_escaped() -> None:
    """Warnings and the access log go to stderr, without a character that a terminal would obey."""
    handler = logging.StreamHandler()
    handler.setFormatter(_EscapingFormatter("%(asctime)s %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)


def check_address(host: str, token: str) -> None:
    from orienteer.serve.errors import TokenNeededError
    from orienteer.serve.security import is_loopback

    if not is_loopback(host) and not token:
        raise TokenNeededError(
            f"others can reach {host}, so a token is needed: set {TOKEN}, or listen on 127.0.0.1 (the default)"
        )
    if token and len(token) < 8:
        raise OrienteerError("a token of fewer than 8 characters is guessed too easily; take a longer one")


def address(host: str, port: int) -> str:
    return f"http://[{host.strip('[]')}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def open_all(indexes: list[str] | None, reader: Path | None) -> tuple[Mapping[str, Engine], Reader]:
    """Every index under the last part of its address, always its newest generation, and the reader."""
    from orienteer.api import Searcher
    from orienteer.engine.embedded.current import CurrentEngines

    if not indexes:
        searcher = Searcher.open(reader=reader)
        return {"bundled": searcher.engine}, searcher.reader
    engines: dict[str, Engine] = {}
    for each in indexes:
        base = each.rstrip("/").rpartition("/")[2] or each
        name, number = base, 1
        while name in engines:
            number += 1
            name = f"{base}-{number}"
        searcher = Searcher.open(each, reader=reader)
        engines[name] = searcher.engine
    return CurrentEngines(engines), searcher.reader


def default_sessions() -> Path:
    """The default folder of saved sessions."""
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "orienteer" / "sessions"
