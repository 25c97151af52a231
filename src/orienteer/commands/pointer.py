"""`train pointer`: from recorded Rocchio sessions to an agent, on the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orienteer.commands.terminal import err, out
from orienteer.errors import MissingExtraError, OrienteerError

if TYPE_CHECKING:
    from orienteer.agents.pointer.dagger import Visits
    from orienteer.agents.pointer.examples import Example
    from orienteer.agents.pointer.labels import Moment
    from orienteer.agents.pointer.runtime import PointerAgent
    from orienteer.agents.pointer.train import Progress, TrainConfig
    from orienteer.data import Question
    from orienteer.engine.protocol import Engine
    from orienteer.reader.protocol import Reader


def train_pointer(
    sessions: Annotated[list[Path], typer.Option(help="files that `orienteer rocchio` wrote; may be repeated")],
    questions: Annotated[list[Path], typer.Option(help="the questions of the sessions; may be repeated")],
    index: Annotated[Path, typer.Option(help="the index that the sessions were searched in")],
    out_dir: Annotated[Path, typer.Option("--out", help="folder of checkpoints, examples and the pointer")],
    grammar: Annotated[
        str, typer.Option(help="G0 to G4, several with commas, or all: whose sessions it learns")
    ] = "all",
    plays: Annotated[str, typer.Option(help="the grammar that the bare name `pointer` plays")] = "G4",
    base: Annotated[
        str, typer.Option(help="a BERT, a reader or a pointer: folder, hub name, shipped reader")
    ] = "shipped",
    reader: Annotated[Path | None, typer.Option(help="folder of the sessions' reader; none: the shipped one")] = None,
    cache: Annotated[Path | None, typer.Option(help="file of readings, so that a passage is read once")] = None,
    dev: Annotated[Path | None, typer.Option(help="questions to judge progress on, by real sessions")] = None,
    dev_limit: Annotated[int, typer.Option(help="how many of them", min=1)] = 100,
    snippet: Annotated[int, typer.Option(help="words of a passage that the agent sees", min=1)] = 30,
    pieces: Annotated[int, typer.Option(help="wordpieces of an observation at most", min=64, max=512)] = 320,
    minutes: Annotated[float, typer.Option(help="of training in all, kills included")] = 0.0,
    steps: Annotated[int, typer.Option(help="instead of minutes: resumes to the same weights")] = 0,
    judge_minutes: Annotated[float, typer.Option(help="between two judgements on --dev")] = 15.0,
    patience: Annotated[int, typer.Option(help="judgements without a new best one, then stop; 0: never")] = 0,
    learning_rate: float = 1e-4,
    temperature: Annotated[float, typer.Option(help="of the soft targets, in units of the score")] = 0.05,
    freeze_layers: Annotated[int, typer.Option(help="lowest layers that stay as they are", min=0)] = 0,
    layers: Annotated[str, typer.Option(help="layers of the base that are kept, such as 0,2,3,5; none: all")] = "",
    promise: Annotated[bool, typer.Option(help="also learn what refinements promise that Rocchio did not read")] = True,
    dagger: Annotated[int, typer.Option(help="rounds in which states that the agent reaches are labelled")] = 0,
    dagger_questions: Annotated[int, typer.Option(help="questions that the agent plays a round", min=1)] = 500,
    dagger_states: Annotated[int, typer.Option(help="states of each that are labelled", min=1)] = 6,
    dagger_labels: Annotated[
        str, typer.Option(help="promise: by passages that hold the answer, unread; rocchio: exact, dear")
    ] = "promise",
    dagger_minutes: Annotated[float, typer.Option(help="of training a round")] = 20.0,
    stop: Annotated[float, typer.Option(help="probability of stopping at which the agent stops, where it may")] = 0.5,
    seed: int = 0,
    threads: Annotated[int, typer.Option(help="threads to use", min=1)] = 2,
) -> None:
    """Train a pointer; run it again after a kill and it goes on from its last checkpoint.

    orienteer train pointer --sessions sessions.jsonl --questions train.jsonl --index my-index --minutes 90 --out DIR
    """
    try:
        import torch  # noqa: F401

        from orienteer.agents.pointer.train import TrainConfig, to_int8, train
        from orienteer.reader.model import load_tokenizer
    except ImportError as error:
        raise MissingExtraError(error.name or "torch", "train") from None
    from orienteer.agents.pointer.data import gather
    from orienteer.agents.pointer.decoding import Decoding
    from orienteer.agents.pointer.folder import Layout
    from orienteer.agents.pointer.judging import Judge
    from orienteer.agents.pointer.labels import TOGETHER, grammars_of
    from orienteer.session import Environment, Settings

    if dagger_labels not in ("promise", "rocchio"):
        raise OrienteerError(f"--dagger-labels {dagger_labels!r}: expected promise or rocchio")
    [played] = grammars_of(plays)
    grammars = grammars_of(grammar)
    layout = Layout(pieces, snippet, played.name)
    world = World(index, reader, cache, threads)
    tokenizer = load_tokenizer(base)
    examples = gather(
        out_dir / "examples", sessions, lambda: questions_of(questions), grammars, tokenizer, layout, world.open,
        promise, lambda file, done: _encoded(file, done * TOGETHER, "sessions"),
    )  # fmt: skip
    out.print(f"{len(examples):,} examples, {sum(not e.only_stops for e in examples):,} of them with a refinement")
    judge = None
    if dev is not None:
        judged = questions_of([dev])[:dev_limit]
        judge = Judge(Environment(*world.open(), Settings(snippet=snippet)), judged, played, threads)
    try:
        kept = tuple(int(number) for number in layers.split(",")) if layers else ()
    except ValueError:
        raise OrienteerError(f"--layers {layers!r}: expected numbers with commas between, such as 0,2,5") from None
    config = TrainConfig(
        base, out_dir / "round-0", layout, steps, minutes, learning_rate, temperature=temperature, threads=threads,
        freeze_layers=freeze_layers, judge_minutes=judge_minutes, patience=patience, layers=kept, seed=seed,
    )  # fmt: skip
    train(examples, config, judge, _show)
    asked = _asked(sessions, questions_of(questions))
    for number in range(1, dagger + 1):
        taught = Dagger(dagger_questions, dagger_states, dagger_labels)
        examples += _dagger_round(config, number, world, asked, taught)
        out.print(f"round {number}: {len(examples):,} examples")
        config = replace(
            config, base=str(config.out), out=out_dir / f"round-{number}", steps=0, minutes=dagger_minutes,
            learning_rate=learning_rate / 2, layers=(),
        )  # fmt: skip
        train(examples, config, judge, _show)
    to_int8(config.out, out_dir / "int8", Decoding(stop=stop))
    out.print(f"{out_dir / 'int8'}: play it as pointer={out_dir / 'int8'}")


class World:
    """The index and the reader, opened when they are first needed."""

    def __init__(self, index: Path, reader: Path | None, cache: Path | None, threads: int) -> None:
        self._index, self._reader, self._cache, self.threads = index, reader, cache, threads
        self._opened: tuple[Engine, Reader] | None = None

    def open(self) -> tuple[Engine, Reader]:
        from orienteer.engine.opening import open_engine
        from orienteer.reader import CachedReader, TrainedReader

        if self._opened is None:
            trained = TrainedReader.from_pretrained(self._reader, threads=self.threads)
            self._opened = open_engine(self._index, threads=self.threads), CachedReader(trained, disk=self._cache)
        return self._opened


def _asked(files: Sequence[Path], questions: Sequence[Question]) -> list[Question]:
    """The questions of the sessions, in their order: the cache has many of their readings."""
    from orienteer.agents.pointer.labels import by_id
    from orienteer.rocchio.output import read_sessions

    known = by_id(questions)
    ids = dict.fromkeys(session.id for file in files for session in read_sessions(file)[1])
    return [known[id] for id in ids if id in known]


def _visits(
    world: World, agent: PointerAgent, questions: Sequence[Question], visits: Visits, by: str
) -> Callable[[int], Iterator[list[Moment]]]:
    """Labelled states that the agent reaches."""
    from orienteer.agents.pointer.dagger import ByPromise, ByRocchio, dagger_batches
    from orienteer.rocchio import Plan
    from orienteer.session import Environment, Settings

    engine, reader = world.open()
    settings = Settings(steps=visits.steps, snippet=agent.layout.snippet)
    plan = Plan(settings=settings, read_budget=200)
    labeller = ByRocchio(engine, reader, agent.grammar, plan) if by == "rocchio" else ByPromise(engine, agent.grammar)
    return dagger_batches(Environment(engine, reader, settings), agent, questions, visits, labeller)


def _dagger_round(
    config: TrainConfig, number: int, world: World, questions: Sequence[Question], dagger: Dagger
) -> list[Example]:
    """Examples of states that the agent of the round before reaches on training questions."""
    from orienteer.agents.pointer import examples
    from orienteer.agents.pointer.dagger import TOGETHER, Visits
    from orienteer.agents.pointer.runtime import PointerAgent
    from orienteer.agents.pointer.view import Viewer
    from orienteer.reader.model import load_tokenizer

    engine, _ = world.open()
    agent = PointerAgent.from_pretrained(config.out, engine, threads=config.threads)
    # Another part of the questions each round.
    start = (number - 1) * dagger.questions % len(questions)
    asked = [*questions[start:], *questions[:start]][: dagger.questions]
    visits = Visits(dagger.states, seed=config.seed + number)
    name = examples.key(agent.fingerprint, "\n".join(question.id for question in asked), str((visits, dagger.labels)))
    folder = config.out.parent / "examples" / f"dagger-{number}-{name}"
    batches = _visits(world, agent, asked, visits, dagger.labels)
    tokenizer = load_tokenizer(config.base)
    examples.build(
        folder, batches, lambda: Viewer(tokenizer, engine, config.layout.max_pieces),
        lambda done: _encoded(f"round {number}", min(len(asked), done * TOGETHER), f"of {len(asked)} questions"),
    )  # fmt: skip
    return list(examples.read(folder))


@dataclass(frozen=True, slots=True)
class Dagger:
    """A round: so many questions are played, so many states of each labelled, in this way."""

    questions: int
    states: int
    labels: str


def questions_of(paths: Sequence[Path]) -> list[Question]:
    from orienteer.data import read_questions

    found = [question for path in paths for question in read_questions(path)]
    if not found:
        raise OrienteerError(f"{paths[0] if paths else 'no file'}: no questions in it")
    return found


def _encoded(what: str, done: int, unit: str) -> None:
    """A line now and then, as training has one."""
    err.print(f"[dim]{what}: {done:,} {unit} encoded[/]")


def _show(progress: Progress) -> None:
    values = [*progress.losses.items(), *((f"dev {name}", value) for name, value in progress.dev.items())]
    shown = "  ".join(f"{name} {value:.3f}" for name, value in values)
    out.print(f"step {progress.step}  {progress.part_done:.1%}  {shown}  {progress.examples_per_second:.1f} examples/s")
