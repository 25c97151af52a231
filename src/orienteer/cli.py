"""The command line. Every command is also a few lines of Python; errors of the user are one line, exit code 1."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any

import typer
from rich.text import Text

from orienteer.commands import benching
from orienteer.commands.dense import dense_join, dense_run, embed
from orienteer.commands.evaluating import compare, evaluate
from orienteer.commands.indexing import index, search, sync
from orienteer.commands.reader import read
from orienteer.commands.remote import doctor, mirror, trial
from orienteer.commands.rocchio import rocchio, rocchio_landscape, rocchio_stats
from orienteer.commands.serving import mcp, serve
from orienteer.commands.sessions import agents, ask, show
from orienteer.commands.terminal import compiling, err, out, printable
from orienteer.commands.workshop import find_query, learn, regression, tune, why_not
from orienteer.errors import OrienteerError

# Sessions run side by side, a core each; products of small matrices that are themselves shared out only wait for each
# other. Read by NumPy when a command first imports it, and by the workers that a command starts.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


class _TrainGroup(typer.core.TyperGroup):
    """The commands of `orienteer train`, whose options are the trainers' configurations: imported when asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(_trainers())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name == "look":
            err.print("`train look` is now called `train lookahead`", style="dim")
            cmd_name = "lookahead"
        return _trainers().get(cmd_name)


@cache
def _trainers() -> dict[str, Any]:
    from orienteer.commands.train import app

    return dict(typer.main.get_group(app).commands)


app = typer.Typer(help="Agents that use a search engine the way a skilled person does.", no_args_is_help=True)
train = typer.Typer(cls=_TrainGroup, help="Train Orienteer's models (extra: train).", no_args_is_help=True)
train.callback()(lambda: None)
bench = typer.Typer(help="Measure Orienteer beside its peers.", no_args_is_help=True)


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


Command = Callable[..., None]

ROOMS: dict[str, tuple[Command, ...]] = {
    "Use": (ask, serve, read, search, index, sync, agents, show, mcp, doctor, mirror, trial),
    "Workshop": (why_not, find_query, tune, learn, regression),
    "Judge": (evaluate, compare, embed, dense_run, dense_join),
    "Teach": (rocchio, rocchio_stats, rocchio_landscape),
}
BENCHMARKS: tuple[Command, ...] = (
    benching.bench_refinements, benching.bench_search, benching.bench_index, benching.bench_exactness,
    benching.bench_faults, benching.bench_fuzz, benching.bench_mutate, benching.bench_reader, benching.bench_sessions,
    benching.bench_steps, benching.bench_mcts, benching.bench_scale, benching.bench_soak, benching.bench_feel,
    benching.bench_remote, benching.bench_isolation, benching.bench_crash_points, benching.bench_find_query,
    benching.bench_thumbs,
)  # fmt: skip

for room, commands in ROOMS.items():
    for command in commands:
        app.command(rich_help_panel=room)(command)
for command in BENCHMARKS:
    bench.command(command.__name__.removeprefix("bench_").replace("_", "-"))(command)
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
