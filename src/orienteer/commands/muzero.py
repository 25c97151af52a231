"""`train muzero`: from questions, and Rocchio sessions if there are some, to an agent, on the command line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orienteer.commands.terminal import err, out
from orienteer.errors import MissingExtraError, OrienteerError

if TYPE_CHECKING:
    from orienteer.agents.muzero.config import TrainingConfig
    from orienteer.agents.muzero.self_play import SelfPlayContext
    from orienteer.agents.muzero.train import ChunkReport, Judge
    from orienteer.agents.muzero.trajectory import Trajectory

LOOK = 100.0
_SHOWN = 100  # sessions between two lines of progress


def train_muzero(
    questions: Annotated[
        list[Path], typer.Option(help="questions with answers; played are those of --sessions, else all; repeatable")
    ],
    index: Annotated[Path, typer.Option(help="the index to search")],
    out_dir: Annotated[Path, typer.Option("--out", help="folder of checkpoints, logs and the agent")],
    base: Annotated[str, typer.Option(help="what h starts from: a pointer's, reader's or BERT's folder")] = "shipped",
    sessions: Annotated[
        list[Path] | None, typer.Option(help="Rocchio sessions for a warm start; may be repeated")
    ] = None,
    session_questions: Annotated[
        list[Path] | None, typer.Option(help="where these are others than --questions, of which all are then played")
    ] = None,
    session_limit: Annotated[int, typer.Option(help="sessions of each file at most; 0: all", min=0)] = 0,
    clone_updates: Annotated[
        int | None,
        typer.Option(help="by imitation before anything is played; none: 2000, or 0 where --base has imitated", min=0),
    ] = None,
    preset: Annotated[str, typer.Option(help="small, or paper for every value of the paper's table")] = "small",
    reader: Annotated[Path | None, typer.Option(help="folder of a reader; none: the shipped one")] = None,
    cache: Annotated[Path | None, typer.Option(help="file of readings, so that a passage is read once")] = None,
    dev: Annotated[Path | None, typer.Option(help="questions to judge progress on, by real sessions")] = None,
    dev_limit: Annotated[int, typer.Option(help="how many of them", min=1)] = 100,
    chunks: Annotated[int, typer.Option(help="chunks of episodes in all", min=0)] = 1000,
    minutes: Annotated[float, typer.Option(help="of training in all, kills included; 0: no limit")] = 0.0,
    judge_chunks: Annotated[int, typer.Option(help="chunks between two judgements on --dev", min=1)] = 20,
    patience: Annotated[int, typer.Option(help="judgements without a new best one, then stop; 0: never")] = 0,
    train_h: Annotated[bool, typer.Option("--train-h", help="train the encoder too, as the paper does")] = False,
    simulations: Annotated[int | None, typer.Option(help="of a search; none: 100", min=0)] = None,
    gumbel: Annotated[
        int | None, typer.Option(help="actions considered by Gumbel's choice at the root; 0 or none: PUCT", min=0)
    ] = None,
    episodes: Annotated[int | None, typer.Option(help="played together, a chunk; none: 16", min=1)] = None,
    updates: Annotated[int | None, typer.Option(help="of the weights a chunk; none: 40", min=0)] = None,
    learning_rate: Annotated[float | None, typer.Option(help="none: 3e-4, or the paper's 1e-4")] = None,
    session_steps: Annotated[int | None, typer.Option(help="refinements of a session at most", min=1)] = None,
    look: Annotated[
        float | None,
        typer.Option(
            help="times what a refinement promises, the policy starts from; 0: it does not look before it "
            "leaps; none: 100 where --base has learned to look",
            min=0.0,
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="actors; 1: in this process; 0: one a processor; none: the preset's", min=0)
    ] = None,
    ray: Annotated[str | None, typer.Option(help="address of a Ray cluster for the actors, or local")] = None,
    seed: Annotated[int, typer.Option(help="decides every draw")] = 0,
    threads: Annotated[int, typer.Option(help="threads of each process; 0: the preset's", min=0)] = 0,
    publish: Annotated[bool, typer.Option("--publish", help="make it the agent that a bare `muzero` means")] = False,
) -> None:
    """Train MuZero; run it again after a kill and it goes on from its last checkpoint.

    orienteer train muzero --questions train.jsonl --index my-index --base POINTER --sessions rocchio.jsonl --out DIR
    """
    try:
        import torch

        from orienteer.agents.muzero.train import BEST, Run, RunComponents, train
    except ImportError as error:
        raise MissingExtraError(error.name or "torch", "train") from None
    from orienteer.agents.muzero.config import preset as preset_of
    from orienteer.agents.muzero.model_files import LARGEST, SHIPPED, load_pretrained
    from orienteer.agents.muzero.networks_torch import MuZeroModel
    from orienteer.agents.muzero.self_play import Actor, ActorFactory

    torch.manual_seed(seed)
    if look is None and preset == "small" and load_pretrained(base).has_value_model:
        look = LOOK
    config = preset_of(preset).with_options(
        lookahead_scale=look, simulations=simulations, gumbel=gumbel, episodes=episodes, updates=updates,
        steps=session_steps,
        learning_rate=learning_rate,
    )  # fmt: skip
    workers, learning, playing = _shares(config.training, workers, ray, threads)
    torch.set_num_threads(learning)
    make = ActorFactory(
        str(index), str(reader) if reader else None, str(cache) if cache else None, tuple(map(str, questions)), base,
        config, playing, train_h, _ids(sessions or []) if session_questions is None else frozenset(),
    )  # fmt: skip
    context = make.context()
    if not context.base.cloned and config.networks.policy_prior:
        config = config.with_options(policy_prior=False)  # a head that was never trained has no opinion
        make, context = replace(make, config=config), replace(context, config=config)
    if clone_updates is None:
        clone_updates = 0 if context.base.cloned else 2000
    wanted = sessions if sessions and clone_updates else []
    shown = _demonstrations(context, out_dir, wanted, session_questions or questions, session_limit, train_h)
    out.print(
        f"{len(context.questions):,} questions; {len(shown):,} demonstrations; {len(context.index):,} index nodes"
    )
    model = MuZeroModel(
        config.networks, len(context.grammar), *context.base.encoding_sizes, context.base.word_embeddings
    )
    h = None
    if train_h:
        from orienteer.agents.muzero.networks_torch import TrainableEncoder

        h = TrainableEncoder(context.base, context.grammar.grammar)
    parts = RunComponents(
        model, context.grammar, context.index, context.base.word_embeddings,
        (lambda: Actor(context, train_h)) if workers == 1 and ray is None else make,
        h, _judge(context, dev, dev_limit, learning, train_h), lambda *each: _keep(context, *each),
    )  # fmt: skip
    run = Run(
        out_dir, chunks, clone_updates if shown else 0, minutes=minutes, workers=workers, ray=ray, seed=seed,
        judge_chunks=judge_chunks, patience=patience,
    )  # fmt: skip
    place = train(config, run, parts, shown, _show)
    if place.stopped:
        out.print(f"stopped: {place.stopped}")
    size = _ship(out_dir / BEST, out_dir / "agent")
    out.print(f"{out_dir / 'agent'}: {size / 1e6:.1f} MB; play it as muzero={out_dir / 'agent'}")
    if publish:
        if size > LARGEST:
            raise OrienteerError(
                f"an agent of {size / 1e6:.1f} MB; expected at most {LARGEST / 1e6:.0f}: a smaller --base makes one"
            )
        _ship(out_dir / BEST, SHIPPED)
        out.print(f"{SHIPPED}: play it as muzero")


def _ids(sessions: list[Path]) -> frozenset[str]:
    """The questions of sessions: what is found for them has been read before."""
    from orienteer.rocchio.sessions import read_sessions

    return frozenset(session.id for file in sessions for session in read_sessions(file)[1])


def _shares(training: TrainingConfig, workers: int | None, ray: str | None, threads: int) -> tuple[int, int, int]:
    """How many actors, and the threads of the learner and of each actor; no more than there are cores here."""
    cores = len(os.sched_getaffinity(0))
    if workers is None:
        workers = training.actors if ray else min(training.actors, cores)
    learning, playing = min(cores, training.learner_cores), training.actor_cores
    if ray is None:
        playing = max(1, min(playing, cores // (workers or cores)))
    return workers, threads or learning, threads or playing


def _demonstrations(
    context: SelfPlayContext, folder: Path, files: list[Path], questions: list[Path], limit: int, rows: bool
) -> list[Trajectory]:
    from orienteer.agents.imitation import by_id
    from orienteer.agents.muzero.demonstrations import demonstrations
    from orienteer.data import read_questions

    if not files:
        return []
    asked = by_id(question for path in questions for question in read_questions(path))
    found: list[Trajectory] = []
    for file in files:
        some = demonstrations(
            folder / "demonstrations", file, asked, context.engine, context.reader, context.pipeline, context.grammar,
            context.index, limit, rows,
        )  # fmt: skip
        for episode in some:
            found.append(replace(episode, number=-1 - len(found)))
            if len(found) % _SHOWN == 0:
                err.print(f"[dim]{file.name}: {len(found):,} sessions encoded in all[/]")
    return found


def _judge(context: SelfPlayContext, dev: Path | None, limit: int, threads: int, train_h: bool) -> Judge | None:
    from orienteer.agents.judging import Judge as Judging
    from orienteer.agents.muzero.agent import MuZeroAgent
    from orienteer.agents.muzero.model_files import MuZeroFiles
    from orienteer.data import read_questions
    from orienteer.session import Environment, Settings

    if dev is None:
        return None
    asked = [question for question in read_questions(dev) if question.answers][:limit]
    if not asked:
        raise OrienteerError(f"{dev}: no questions with answers in it")
    environment = Environment(context.engine, context.reader, Settings(snippet=context.config.snippet))
    base, encoder = context.base, None if train_h else context.encoder

    def agent(weights: Mapping[str, Any]) -> MuZeroAgent:
        files = MuZeroFiles(base.bert, {**base.tensors, **weights}, base.tokenizer, context.config, "unsaved", {})
        return MuZeroAgent(files, context.engine, threads=threads, encoder=encoder, index=context.index)

    return Judging(environment, asked, agent)


def _keep(context: SelfPlayContext, folder: Path, weights: Mapping[str, Any], notes: Mapping[str, Any]) -> None:
    from orienteer.agents.muzero.model_files import save_folder

    save_folder(
        folder, context.base.bert, {**context.base.tensors, **weights}, context.base.tokenizer, context.config,
        cloned=context.base.cloned, base=context.base.name, **notes,
    )  # fmt: skip


def _ship(best: Path, folder: Path) -> int:
    """The best weights in the form that is shipped and played; how many bytes."""
    from orienteer.agents.muzero.model_files import for_shipping, load_folder, save_folder

    files = load_folder(best)
    save_folder(folder, files.bert, for_shipping(files), files.tokenizer, files.config, **files.notes)
    return sum(file.stat().st_size for file in folder.iterdir())


def _show(progress: ChunkReport) -> None:
    names = (
        "reward", "policy", "value", "reward_loss", "entropy", "empty", "stops", "seconds playing", "seconds learning",
    )  # fmt: skip
    values = [(name, progress.values[name]) for name in names if name in progress.values]
    values += [(f"dev {name}", value) for name, value in progress.judged.items()]
    shown = "  ".join(f"{name} {value:.3f}" for name, value in values)
    what = f"chunk {progress.chunk}" if progress.chunk >= 0 else "imitation" if progress.values else "start"
    out.print(f"{what}  update {progress.update}  {shown}", soft_wrap=True)
