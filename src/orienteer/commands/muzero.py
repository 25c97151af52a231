"""`train muzero`: from questions, and Rocchio sessions if there are some, to an agent, on the command line."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orienteer.commands.options import with_options
from orienteer.commands.terminal import err, out, plain
from orienteer.errors import MissingExtraError, OrienteerError
from orienteer.training.config import option

if TYPE_CHECKING:
    from orienteer.agents.muzero.config import Config, TrainingConfig
    from orienteer.agents.muzero.replay import Trajectory
    from orienteer.agents.muzero.self_play import SelfPlayContext
    from orienteer.agents.muzero.train import ChunkReport, Judge

LOOKAHEAD_SCALE = 100.0
_SHOWN = 100  # sessions between two lines of progress


@dataclass(frozen=True, slots=True, kw_only=True)
class MuZeroOptions:
    """None: the preset's value."""

    questions: tuple[Path, ...] = option("questions with answers; played are those of --sessions, else all; repeatable")
    index: Path = option("the index to search")
    out: Path = option("folder of checkpoints, logs and the agent")
    base: str = option("what h starts from: a pointer's, reader's or BERT's folder", "shipped")
    sessions: tuple[Path, ...] = option("Rocchio sessions for a warm start; may be repeated", ())
    session_questions: tuple[Path, ...] = option(
        "where these are others than --questions, of which all are then played", ()
    )
    session_limit: int = option("sessions of each file at most; 0: all", 0, min=0)
    clone_updates: int | None = option(
        "by imitation before anything is played; none: 2000, or 0 where --base has imitated", None, min=0
    )
    preset: str = option(
        "small; paper: every value of the paper's table; paper-small: the paper's agent, learned on two cores", "small"
    )
    reader: Path | None = option("folder of a reader; none: the shipped one", None)
    cache: Path | None = option("file of readings, so that a passage is read once", None)
    dev: Path | None = option("questions to judge progress on, by real sessions", None)
    dev_limit: int = option("how many of them", 100, min=1)
    chunks: int = option("chunks of episodes in all", 1000, min=0)
    minutes: float = option("of training in all, kills included; 0: no limit", 0.0)
    judge_chunks: int = option("chunks between two judgements on --dev", 20, min=1)
    patience: int = option("judgements without a new best one, then stop; 0: never", 0)
    train_h: bool = option(
        "train the encoder too, as the paper does; the paper's presets always do", False, names=("--train-h",)
    )
    simulations: int | None = option("of a search; none: 100", None, min=0)
    gumbel: int | None = option("actions considered by Gumbel's choice at the root; 0 or none: PUCT", None, min=0)
    episodes: int | None = option("played together, a chunk; none: 16", None, min=1)
    updates: int | None = option("of the weights a chunk; none: 40", None, min=0)
    learning_rate: float | None = option("none: 3e-4, or the paper's 1e-4", None)
    guided_share: float | None = option(
        "of the first episodes, those that get the paper's advice; 0: no advice; none: 0.5", None, min=0.0, max=1.0
    )
    session_steps: int | None = option("refinements of a session at most", None, min=1)
    lookahead_scale: float | None = option(
        "the policy starts from so many times the gain that lookahead predicts; 0: no lookahead; none: 100 where "
        "--base has learned it",
        None, min=0.0, former=("--look",),
    )  # fmt: skip
    workers: int | None = option("actors; 1: in this process; 0: one a processor; none: the preset's", None, min=0)
    ray: str | None = option("address of a Ray cluster for the actors, or local", None)
    seed: int = option("decides every draw", 0)
    threads: int = option("threads of each process; 0: the preset's", 0, min=0)
    publish: bool = option("make it the agent that a bare `muzero` means", False, names=("--publish",))


@with_options(MuZeroOptions)
def train_muzero(options: MuZeroOptions) -> None:
    """Train MuZero; run it again after a kill and it goes on from its last checkpoint.

    orienteer train muzero --questions train.jsonl --index my-index --base POINTER --sessions rocchio.jsonl --out DIR
    """
    try:
        import torch

        from orienteer.agents.muzero.train import BEST, Run, RunComponents, train
    except ImportError as error:
        raise MissingExtraError(error.name or "torch", "train") from None
    from orienteer.agents.muzero.config import preset as preset_of
    from orienteer.agents.muzero.learner import MuZeroModel
    from orienteer.agents.muzero.model_files import LARGEST, SHIPPED, load_pretrained
    from orienteer.agents.muzero.self_play import Actor, ActorFactory

    torch.manual_seed(options.seed)
    options = replace(options, train_h=options.train_h or options.preset != "small")
    scale = options.lookahead_scale
    if scale is None and options.preset == "small" and load_pretrained(options.base).has_value_model:
        scale = LOOKAHEAD_SCALE
    config = preset_of(options.preset).with_options(
        lookahead_scale=scale, simulations=options.simulations, gumbel=options.gumbel, episodes=options.episodes,
        updates=options.updates, steps=options.session_steps, learning_rate=options.learning_rate,
        guided_share=options.guided_share,
    )  # fmt: skip
    config = _within_positions(config, load_pretrained(options.base).bert)
    workers, learning, playing = _shares(config.training, options.workers, options.ray, options.threads)
    torch.set_num_threads(learning)
    make = ActorFactory(
        str(options.index), str(options.reader) if options.reader else None,
        str(options.cache) if options.cache else None, tuple(map(str, options.questions)), options.base, config,
        playing, options.train_h, frozenset() if options.session_questions else _ids(options.sessions),
    )  # fmt: skip
    context = make.context()
    if not context.base.cloned and config.networks.policy_prior:
        config = config.with_options(policy_prior=False)  # a head that was never trained has no opinion
        make, context = replace(make, config=config), replace(context, config=config)
    clone_updates = options.clone_updates
    if clone_updates is None:
        clone_updates = 0 if context.base.cloned else 2000
    shown = _demonstrations(
        context, options.out, options.sessions if clone_updates else (),
        options.session_questions or options.questions, options.session_limit, options.train_h,
    )  # fmt: skip
    out.print(
        f"{len(context.questions):,} questions; {len(shown):,} demonstrations; {len(context.index):,} index nodes"
    )
    model = MuZeroModel(
        config.networks, len(context.grammar), *context.base.encoding_sizes, context.base.word_embeddings
    )
    h = None
    if options.train_h:
        from orienteer.agents.muzero.learner import TrainableEncoder

        h = TrainableEncoder(context.base, context.grammar.grammar)
    parts = RunComponents(
        model, context.grammar, context.index, context.base.word_embeddings,
        (lambda: Actor(context, options.train_h)) if workers == 1 and options.ray is None else make,
        h, _judge(context, options, learning), lambda *each: _keep(context, *each),
    )  # fmt: skip
    run = Run(
        options.out, options.chunks, clone_updates if shown else 0, minutes=options.minutes, workers=workers,
        ray=options.ray, seed=options.seed, judge_chunks=options.judge_chunks, patience=options.patience,
    )  # fmt: skip
    place = train(config, run, parts, shown, _show)
    if place.stopped:
        out.print(f"stopped: {place.stopped}", markup=False)
    size = _ship(options.out / BEST, options.out / "agent")
    agent = options.out / "agent"
    name = "muzero-paper" if config.is_paper else "muzero"
    out.print(f"{agent}: {size / 1e6:.1f} MB; play it as {name}={agent}", markup=False)
    if options.publish:
        if size > LARGEST:
            raise OrienteerError(
                f"an agent of {size / 1e6:.1f} MB; expected at most {LARGEST / 1e6:.0f}: a smaller --base makes one"
            )
        _ship(options.out / BEST, SHIPPED)
        out.print(f"{SHIPPED}: play it as muzero", markup=False)


def _within_positions(config: Config, bert: Mapping[str, Any]) -> Config:
    """No more pieces than the encoder has positions for."""
    return config.with_options(max_pieces=min(config.max_pieces, int(bert["max_position_embeddings"])))


def _ids(sessions: Sequence[Path]) -> frozenset[str]:
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
    context: SelfPlayContext, folder: Path, files: Sequence[Path], questions: Sequence[Path], limit: int, rows: bool
) -> list[Trajectory]:
    from orienteer.agents.imitation import by_id
    from orienteer.agents.muzero.demonstrations import demonstrations
    from orienteer.data import read_questions

    if not files:
        return []
    asked = by_id(read_questions(questions))
    found: list[Trajectory] = []
    for file in files:
        some = demonstrations(
            folder / "demonstrations", file, asked, context.engine, context.reader, context.pipeline, context.grammar,
            context.index, limit, rows,
        )  # fmt: skip
        for episode in some:
            found.append(replace(episode, number=-1 - len(found)))
            if len(found) % _SHOWN == 0:
                err.print(f"[dim]{plain(file.name)}: {len(found):,} sessions encoded in all[/]")
    return found


def _judge(context: SelfPlayContext, options: MuZeroOptions, threads: int) -> Judge | None:
    from orienteer.agents.judging import Judge as Judging
    from orienteer.agents.muzero.agent import MuZeroAgent
    from orienteer.agents.muzero.model_files import MuZeroFiles
    from orienteer.data import read_questions
    from orienteer.session import Environment, Settings

    if options.dev is None:
        return None
    asked = [question for question in read_questions(options.dev) if question.is_judged][: options.dev_limit]
    if not asked:
        raise OrienteerError(f"{options.dev}: no questions with answers or judgements in it")
    environment = Environment(context.engine, context.reader, Settings(snippet=context.config.snippet))
    base, encoder = context.base, None if options.train_h else context.encoder

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
    out.print(f"{what}  update {progress.update}  {shown}", soft_wrap=True, markup=False)
