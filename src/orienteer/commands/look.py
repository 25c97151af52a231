"""`train look`: teaches a pointer to look at what refinements find before it takes one."""

from __future__ import annotations

import random
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import track

from orienteer.commands.terminal import err, out
from orienteer.commands.training import World, questions_of
from orienteer.errors import MissingExtraError, OrienteerError


def train_look(
    pointer: Annotated[Path, typer.Option(help="folder of the pointer that learns to look")],
    questions: Annotated[list[Path], typer.Option(help="questions with answers; may be repeated")],
    index: Annotated[Path, typer.Option(help="the index to look in")],
    out_dir: Annotated[Path, typer.Option("--out", help="folder of lessons and of the pointer that looks")],
    sessions: Annotated[
        list[Path] | None, typer.Option(help="what the pointer was trained on: questions to leave out")
    ] = None,
    source: Annotated[str, typer.Option(help="only questions whose source begins with this, such as nq")] = "",
    count: Annotated[int, typer.Option(help="questions to learn from", min=100)] = 800,
    reader: Annotated[Path | None, typer.Option(help="folder of a reader; none: the shipped one")] = None,
    cache: Annotated[Path | None, typer.Option(help="file of readings, so that a passage is read once")] = None,
    success: Annotated[
        float, typer.Option(help="what a passage with the answer among five is worth, where NDCG@5 of 1 is worth 1")
    ] = 6.0,
    price: Annotated[float, typer.Option(help="what a passage must bring to be worth reading")] = 0.003,
    back: Annotated[
        float, typer.Option(help="what a refinement of a refined query must bring, or the last one is taken back")
    ] = 0.2,
    seed: Annotated[int, typer.Option(help="decides every draw")] = 0,
    threads: Annotated[int, typer.Option(help="threads to use", min=1)] = 2,
) -> None:
    """Teach a pointer to look before it leaps; run it again after a kill and it goes on after its last lessons.

    It learns from sessions of its own, the first quarter of them without looking, on questions that it was not
    trained on.

    orienteer train look --pointer DIR/int8 --questions train.jsonl --sessions sessions.jsonl --index INDEX --out LOOK
    """
    try:
        from orienteer.agents.lookahead.train import LookConfig, learn_to_look
    except ImportError as error:
        raise MissingExtraError(error.name or "torch", "train") from None
    from orienteer.agents.action_space import Decoding
    from orienteer.agents.lookahead.rollouts import answerable
    from orienteer.agents.pointer.model_files import load_folder, save_folder
    from orienteer.rocchio.sessions import read_sessions
    from orienteer.session import Environment, Settings

    files, world = load_folder(pointer), World(index, reader, cache, threads)
    known = {session.id for file in sessions or () for session in read_sessions(file)[1]}
    asked = [each for each in questions_of(questions) if each.source.startswith(source) and each.id not in known]
    random.Random(seed).shuffle(asked)
    near = islice(answerable(world.open()[0], asked), count)
    chosen = list(track(near, "questions within reach", count, console=err, disable=not err.is_terminal))
    if not chosen:
        raise OrienteerError("no question is left whose answer is found among its first hundred passages")
    out.print(f"{len(chosen)} questions whose answers are within reach")
    environment = Environment(*world.open(), Settings(snippet=files.layout.snippet))
    files, told = learn_to_look(files, environment, chosen, out_dir, LookConfig(seed=seed), threads, out.print)
    decoding = Decoding(stop=files.decoding.stop, success_weight=success, read_cost=price, undo_threshold=back)
    notes = {**files.notes, "look": {"questions": len(chosen), **told}}
    save_folder(out_dir / "int8", files.config, files.tensors, files.tokenizer, files.layout, decoding, **notes)
    out.print(f"{out_dir / 'int8'}: play it as pointer={out_dir / 'int8'}")
