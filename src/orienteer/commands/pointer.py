"""`train pointer`: from recorded Rocchio sessions to an agent, on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orienteer.commands.terminal import out
from orienteer.commands.training import World, encoded, questions_of, sessions_encoded
from orienteer.errors import MissingExtraError, OrienteerError

if TYPE_CHECKING:
    from orienteer.agents.pointer.model_files import PointerFiles
    from orienteer.data import Question


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
    seed: Annotated[int, typer.Option(help="decides every draw")] = 0,
    threads: Annotated[int, typer.Option(help="threads to use", min=1)] = 2,
) -> None:
    """Train a pointer; run it again after a kill and it goes on from its last checkpoint.

    orienteer train pointer --sessions sessions.jsonl --questions train.jsonl --index my-index --minutes 90 --out DIR
    """
    try:
        import torch  # noqa: F401

        from orienteer.agents.pointer.config import TrainConfig
        from orienteer.agents.pointer.train import to_int8, train
        from orienteer.reader.model import load_tokenizer
    except ImportError as error:
        raise MissingExtraError(error.name or "torch", "train") from None
    from orienteer.agents.action_space import Decoding
    from orienteer.agents.imitation import grammars_of
    from orienteer.agents.judging import Judge
    from orienteer.agents.pointer.agent import PointerAgent
    from orienteer.agents.pointer.dagger import LABELLERS, Round, Visits, visited_examples
    from orienteer.agents.pointer.dataset import gather
    from orienteer.agents.pointer.model_files import Layout
    from orienteer.session import Environment, Settings

    if not minutes and not steps:
        raise OrienteerError("nothing says when to stop; give --minutes or --steps")
    try:
        kept = tuple(int(number) for number in layers.split(",")) if layers else ()
    except ValueError:
        raise OrienteerError(f"--layers {layers!r}: expected numbers with commas between, such as 0,2,5") from None
    if dagger_labels not in LABELLERS:
        raise OrienteerError(f"--dagger-labels {dagger_labels!r}: expected {' or '.join(LABELLERS)}")
    taught = Round(dagger_questions, Visits(dagger_states, seed=seed), dagger_labels, threads)
    [played] = grammars_of(plays)
    grammars = grammars_of(grammar)
    layout = Layout(pieces, snippet, played.name)
    world = World(index, reader, cache, threads)
    tokenizer = load_tokenizer(base)
    examples = gather(
        out_dir / "examples", sessions, lambda: questions_of(questions), grammars, tokenizer, layout, world.open,
        promise, sessions_encoded,
    )  # fmt: skip
    out.print(f"{len(examples):,} examples, {sum(not e.only_stops for e in examples):,} of them with a refinement")
    judge: Judge[PointerFiles] | None = None
    if dev is not None:
        judged = questions_of([dev])[:dev_limit]
        environment = Environment(*world.open(), Settings(snippet=snippet))
        judge = Judge(
            environment, judged, lambda files: PointerAgent(files, environment.engine, played, threads=threads)
        )
    config = TrainConfig(
        base=base, out=out_dir / "round-0", pieces=pieces, snippet=snippet, plays=played.name, steps=steps,
        minutes=minutes, learning_rate=learning_rate, temperature=temperature, threads=threads,
        freeze_layers=freeze_layers, judge_minutes=judge_minutes, patience=patience, layers=kept, seed=seed,
    )  # fmt: skip
    train(examples, config, judge, lambda progress: out.print(str(progress)))
    asked = _asked(sessions, questions_of(questions))
    for number in range(1, dagger + 1):
        examples += visited_examples(
            out_dir / "examples", number, config.out, world.open, asked, taught,
            partial(encoded, f"round {number}", unit=f"of {dagger_questions} questions"),
        )  # fmt: skip
        out.print(f"round {number}: {len(examples):,} examples")
        config = replace(
            config, base=str(config.out), out=out_dir / f"round-{number}", steps=0, minutes=dagger_minutes,
            learning_rate=learning_rate / 2, layers=(),
        )  # fmt: skip
        train(examples, config, judge, lambda progress: out.print(str(progress)))
    to_int8(config.out, out_dir / "int8", Decoding(stop=stop))
    out.print(f"{out_dir / 'int8'}: play it as pointer={out_dir / 'int8'}")


def _asked(files: Sequence[Path], questions: Sequence[Question]) -> list[Question]:
    """The questions of the sessions, in their order: the cache has many of their readings."""
    from orienteer.agents.imitation import by_id
    from orienteer.rocchio.sessions import read_sessions

    known = by_id(questions)
    ids = dict.fromkeys(session.id for file in files for session in read_sessions(file)[1])
    return [known[id] for id in ids if id in known]
