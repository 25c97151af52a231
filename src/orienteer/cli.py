"""The command line. Every command is also a few lines of Python; errors of the user are one line, exit code 1."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any, ClassVar

import typer
from rich.text import Text

from orienteer.commands.terminal import compiling, err, out, printable
from orienteer.errors import OrienteerError

# Sessions run side by side, a core each; products of small matrices that are themselves shared out only wait for each
# other. Read by NumPy when a command first imports it, and by the workers that a command starts.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


class _Group(typer.core.TyperGroup):
    """Help shows a flag as a flag: no type stands beside it."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _plain_flags(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = super().get_command(ctx, cmd_name)
        if command is not None and not isinstance(command, _Group):
            _plain_flags(command.get_params(ctx))
        return command


def _plain_flags(params: list[Any]) -> list[Any]:
    for each in params:
        if getattr(each, "is_bool_flag", False):
            each.metavar = ""
    return params


class _TrainGroup(_Group):
    """The commands of `orienteer train`, whose options are the trainers' configurations: imported when asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(_trainers())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name == "look":
            err.print("`train look` is now called `train lookahead`", style="dim")
            cmd_name = "lookahead"
        self.commands.update(_trainers())
        return super().get_command(ctx, cmd_name)


@cache
def _trainers() -> dict[str, Any]:
    from orienteer.commands.train import app

    return dict(typer.main.get_group(app).commands)


# Where the commands are: a function's name, with - for _, is its command's.
ROOMS = {
    "Use": {
        "ask": "sessions", "serve": "serving", "read": "reader", "search": "indexing", "index": "indexing",
        "sync": "indexing", "agents": "sessions", "show": "sessions", "mcp": "serving", "doctor": "remote",
        "mirror": "remote", "trial": "remote",
    },
    "Workshop": dict.fromkeys(("why_not", "find_query", "tune", "learn", "regression"), "workshop"),
    "Judge": {
        "evaluate": "evaluating", "compare": "evaluating",
        "embed": "dense", "dense_run": "dense", "dense_join": "dense",
    },
    "Teach": dict.fromkeys(("rocchio", "rocchio_stats", "rocchio_landscape"), "rocchio"),
}  # fmt: skip
BENCHMARKS = (
    "all", "refinements", "search", "index", "exactness", "faults", "fuzz", "mutate", "reader", "sessions", "steps",
    "mcts", "scale", "soak", "feel", "remote", "remote_sessions", "isolation", "crash_points", "find_query", "thumbs",
)  # fmt: skip


class _LazyGroup(_Group):
    """Commands that are imported and built when asked for: one starts without the options of all the others."""

    places: ClassVar[Mapping[str, tuple[str, str, str | None]]]  # command → module, function, panel

    def list_commands(self, ctx: Any) -> list[str]:
        own = [name for name in self.commands if name not in self.places]
        groups = [name for name in own if isinstance(self.commands[name], typer.core.TyperGroup)]
        return [*(name for name in own if name not in groups), *self.places, *groups]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in self.places and cmd_name not in self.commands:
            module, function, panel = self.places[cmd_name]
            made = typer.Typer()
            command = getattr(import_module(f"orienteer.commands.{module}"), function)
            made.command(cmd_name, rich_help_panel=panel)(command)
            self.commands[cmd_name] = typer.main.get_group(made).commands[cmd_name]
        return super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.list_commands(ctx):  # what was meant is looked for among all
            for name in self.places:
                self.get_command(ctx, name)
        return super().resolve_command(ctx, args)


class _Commands(_LazyGroup):
    places: ClassVar = {
        name.replace("_", "-"): (module, name, room)
        for room, commands in ROOMS.items() for name, module in commands.items()
    }  # fmt: skip


class _Benchmarks(_LazyGroup):
    places: ClassVar = {name.replace("_", "-"): ("benching", f"bench_{name}", None) for name in BENCHMARKS}


app = typer.Typer(
    cls=_Commands, help="Agents that use a search engine the way a skilled person does.", no_args_is_help=True
)
train = typer.Typer(cls=_TrainGroup, help="Train Orienteer's models (extra: train).", no_args_is_help=True)
train.callback()(lambda: None)
bench = typer.Typer(cls=_Benchmarks, help="Measure Orienteer beside its peers.", no_args_is_help=True)
bench.callback()(lambda: None)


def _print_version(wanted: bool) -> None:
    if wanted:
        from orienteer import __version__

        out.print(f"orienteer {__version__}")
        raise typer.Exit


@app.callback()
def start(
    version: Annotated[
        bool, typer.Option("--version", help="print the version", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Agents that use a search engine the way a skilled person does."""


@app.command(rich_help_panel="Use")
def demo(
    question: Annotated[str, typer.Argument(help="a question in plain words; none: one of ours")] = "",
    compare: Annotated[
        bool, typer.Option("--all", help="all questions of the corpus, an agent beside plain reading: a minute or two")
    ] = False,
) -> None:
    """Let an agent ask a small bundled corpus."""
    from orienteer.demo import run_demo

    with compiling():
        run_demo(out, question, compare)


@app.command(rich_help_panel="Use")
def warmup() -> None:
    """Compile the kernels of the engine and of every shipped agent now, so that no later command waits for it."""
    from orienteer.engine.embedded.warmup import warm_up

    started = time.perf_counter()
    with compiling():
        warm_up()
        _warm_up_agents()
    out.print(f"kernels ready ({time.perf_counter() - started:.1f} s)")


def _warm_up_agents() -> None:
    """One step of every agent that comes with a model."""
    from orienteer.agents.registry import shipped_agents
    from orienteer.api import Searcher
    from orienteer.bundled import bundled_engine
    from orienteer.errors import ModelMissingError
    from orienteer.reader import TrainedReader

    engine = bundled_engine()
    try:
        reader = TrainedReader.from_pretrained()
    except ModelMissingError:
        return
    for name in shipped_agents():
        Searcher(engine, agent=name, steps=1, reader=reader).ask("who first isolated sodium metal")


app.add_typer(train, name="train", rich_help_panel="Teach")
app.add_typer(bench, name="bench", rich_help_panel="Judge")


def main() -> None:
    """Entry point: a mistake of the user's is one message, not a traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # JSON is UTF-8 in every locale; what is no character, in an argument, comes out as JSON's own escape.
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        app()
    except BrokenPipeError:
        sys.exit(0)
    except (OrienteerError, OSError) as error:
        err.print(Text.assemble(("error:", "red"), " ", printable(str(error))), soft_wrap=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
