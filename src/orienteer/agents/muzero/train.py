"""The training loop of MuZero: actors play, the learner learns, weights are published to the actors. Needs torch.

Actors run in this process, in processes of their own, or on a Ray cluster (`workers.py`). An actor gets a numbered
chunk of episodes, loads the newest weights, plays, and returns trajectories. A chunk that is played again because its
worker died has the same numbers, so that no episode counts twice. In one process, a run that was killed resumes to
exactly the weights that it would have reached.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from orienteer.agents.muzero.batch import BatchMaker, UnrollStart
from orienteer.agents.muzero.config import Config, TrainingConfig
from orienteer.agents.muzero.grammar import OPERATOR, OPERATORS, QueryGrammar
from orienteer.agents.muzero.learner import MuZeroModel, losses, make_optimiser, stored_encodings
from orienteer.agents.muzero.model_files import publish
from orienteer.agents.muzero.networks import Networks
from orienteer.agents.muzero.replay import ReplayBuffer, Trajectory, TrajectoryStep
from orienteer.agents.muzero.self_play import ActorTask, reanalyse
from orienteer.agents.muzero.tries import Trie
from orienteer.errors import TrainingError
from orienteer.training import checkpoint
from orienteer.training.log import TrainingLog
from orienteer.workers import MakeWork, run_chunks

# Folders inside that of the run: the weights with the best evaluation, and the last ones.
BEST, LAST = "best", "last"


@dataclass(frozen=True, slots=True)
class CollapseLimits:
    """When a run counts as collapsed.

    entropy    mean policy entropy, in nats, below this
    reward     mean reward of episodes this far below its best
    patience   for so many chunks in a row
    settled    chunks before a best mean reward is recorded, and the length of the running means
    """

    entropy: float = 0.02
    reward: float = 0.05
    patience: int = 10
    settled: int = 20


@dataclass(frozen=True, slots=True)
class Run:
    """How long a run lasts, and where it runs.

    out             folder of checkpoints, logs and weights
    chunks          of episodes in all
    clone_updates   of the weights by imitation of demonstrations, before self-play
    demonstrations  share of demonstrations in each batch of self-play
    judge_chunks    chunks between two evaluations
    patience        evaluations without a new best one before the run stops; 0: never
    """

    out: Path
    chunks: int = 100
    clone_updates: int = 0
    demonstrations: float = 0.25
    minutes: float = 0.0
    workers: int = 1
    ray: str | None = None
    seed: int = 0
    checkpoint_minutes: float = 3.0
    judge_chunks: int = 10
    patience: int = 0
    limits: CollapseLimits = field(default_factory=CollapseLimits)


@dataclass(slots=True)
class RunState:
    """The counters of a run, as a checkpoint stores them."""

    cloned: int = 0
    update: int = 0
    done: list[int] = field(default_factory=list)
    spent: float = 0.0
    best: float | None = None
    misses: int = 0
    watch: dict[str, Any] = field(default_factory=dict)
    stopped: str = ""


@dataclass(frozen=True, slots=True)
class ChunkReport:
    """Progress after a chunk (-1: imitation): statistics, and the measures of an evaluation if there was one."""

    chunk: int
    update: int
    values: Mapping[str, float]
    judged: Mapping[str, float]


Judge = Callable[[Mapping[str, NDArray[Any]]], Mapping[str, float]]
Keep = Callable[[Path, Mapping[str, NDArray[Any]], Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True)
class RunComponents:
    """What a run is made of.

    model            g, f and their inputs; `h` where h is trained too
    word_embeddings  [pieces, width] the encoder's word table, for reanalysis
    make_actor       picklable factory of an actor: a function from a task to its trajectories
    judge            evaluates weights; `reward` decides which are best
    keep             writes a model folder from weights and notes
    """

    model: MuZeroModel
    grammar: QueryGrammar
    index: Trie
    word_embeddings: NDArray[np.float32]
    make_actor: MakeWork[ActorTask, list[Trajectory]]
    h: torch.nn.Module | None = None
    judge: Judge | None = None
    keep: Keep | None = None


def train(
    config: Config,
    run: Run,
    parts: RunComponents,
    demonstrations: Sequence[Trajectory] = (),
    show: Callable[[ChunkReport], None] = lambda report: None,
) -> RunState:
    """Trains from the checkpoint in `run.out` if there is one; leaves the best weights in `run.out / best`."""
    return _Learner(config, run, parts, demonstrations, show).run()


class _Learner:
    """The state of a run."""

    def __init__(
        self, config: Config, run: Run, parts: RunComponents, demonstrations: Sequence[Trajectory],
        show: Callable[[ChunkReport], None],
    ) -> None:  # fmt: skip
        self.config, self.options, self.parts, self.show = config, run, parts, show
        torch.manual_seed(run.seed)
        self.model = parts.model
        self.modules = torch.nn.ModuleDict({"model": self.model, **({"h": parts.h} if parts.h else {})})
        self.optimiser = make_optimiser(self.model, config.training)
        if parts.h is not None:
            trained = [p for p in parts.h.parameters() if p.requires_grad]
            decay = config.training.weight_decay
            self.optimiser.add_param_group({"params": trained, "weight_decay": decay, "share": 0.05})
        discount = config.search.discount
        self.replay = ReplayBuffer(config.training, discount)
        self.demonstrations = ReplayBuffer(_unbounded(config), discount)
        self.demonstrations.add(demonstrations)
        self.batcher = BatchMaker(parts.grammar, parts.index, config.training.unroll, config.networks, discount)
        counters, arrays = checkpoint.load(run.out, self.modules, self.optimiser)
        self.state = RunState(**counters)
        if arrays:
            self.replay.restore(arrays)
        self.watch = (
            CollapseDetector.from_dict(run.limits, self.state.watch)
            if self.state.watch
            else CollapseDetector(run.limits)
        )
        self.began, self.already, self.saved = time.monotonic(), self.state.spent, time.monotonic()
        self.log = TrainingLog(run.out)

    def run(self) -> RunState:
        if self.state.stopped:
            return self.state
        self._imitate()
        self._publish()
        tasks = self._tasks()
        if tasks:
            results = run_chunks(self.parts.make_actor, tasks, workers=self.options.workers, ray=self.options.ray)
            self._play(iter(results), tasks)
        if self.state.best is None or (self.parts.judge is None and not self.state.stopped):
            self._keep({})
        self._keep({}, LAST)
        self._save()
        return self.state

    def _tasks(self) -> list[ActorTask]:
        count = self.config.training.episodes
        done = set(self.state.done)
        return [
            ActorTask(number, number * count, count, self.options.seed, str(self.options.out))
            for number in range(self.options.chunks)
            if number not in done
        ]  # fmt: skip

    def _imitate(self) -> None:
        if self.options.clone_updates and not len(self.demonstrations):
            raise TrainingError("updates by imitation were asked for, but there are no demonstrations")
        sums: Counter[str] = Counter()
        summed = 0
        while self.state.cloned < self.options.clone_updates and not self._late():
            random = np.random.default_rng([self.options.seed, 1, self.state.cloned])
            starts = self._sample(self.demonstrations, self.config.training.batch, random)[1]
            sums.update(self._learn(starts, self.config.training.imitation_rate)[0])
            self.state.cloned += 1
            summed += 1
            if self.state.cloned % 50 == 0 or self.state.cloned == self.options.clone_updates:
                values = {name: value / summed for name, value in sums.items()}
                self._report(ChunkReport(-1, self.state.cloned, values, {}))
                sums.clear()
                summed = 0
                self._save_if_due()
        if self.state.best is None and not self.state.done:
            # The weights before self-play are the first best: self-play has to beat them.
            judged = self._judge()
            if judged:
                self._report(ChunkReport(-1, self.state.cloned, {}, judged))
            self._save()

    def _play(self, results: Iterator[tuple[int, list[Trajectory]]], tasks: Sequence[ActorTask]) -> None:
        began = time.monotonic()
        for number, trajectories in results:
            task = tasks[number]
            played = time.monotonic()
            self.replay.add(trajectories)
            values = self._learn_from(trajectories)
            values |= {"seconds playing": played - began, "seconds learning": time.monotonic() - played}
            self.state.done.append(task.number)
            reason = self.watch.update(values.get("entropy", 1.0), values["reward"])
            self.state.watch = self.watch.as_dict()
            self._publish()
            judged: Mapping[str, float] = {}
            if len(self.state.done) % self.options.judge_chunks == 0:
                judged = self._judge()
            self._report(ChunkReport(task.number, self.state.update, values, judged))
            if reason:
                self.state.stopped = f"collapsed: {reason}"
            elif self.options.patience and self.state.misses >= self.options.patience:
                self.state.stopped = f"no better judgement in the last {self.state.misses}"
            self._save_if_due(bool(judged) or bool(self.state.stopped))
            if self.state.stopped or self._late():
                break
            began = time.monotonic()

    def _learn_from(self, trajectories: Sequence[Trajectory]) -> dict[str, float]:
        """The updates after a chunk; returns what to log."""
        sums: Counter[str] = Counter()
        training = self.config.training
        updates = training.updates if len(self.replay) else 0
        for _ in range(updates):
            random = np.random.default_rng([self.options.seed, 2, self.state.update])
            num_demonstrations = round(training.batch * self.options.demonstrations) if len(self.demonstrations) else 0
            positions, starts = self._sample(self.replay, training.batch - num_demonstrations, random)
            # Guided exploration uses what the agent cannot observe: its rewards say nothing about the agent's own.
            starts = [replace(start, learn_value=not start.trajectory.guided) for start in starts]
            if num_demonstrations:
                others = self._sample(self.demonstrations, num_demonstrations, random)[1]
                starts += [replace(start, learn_value=False) for start in others]
            parts, errors = self._learn(starts, training.learning_rate)
            self.replay.update_priorities(positions, errors[: len(positions)])
            sums.update(parts)
            self.state.update += 1
        self._reanalyse()
        return {**{name: value / max(1, updates) for name, value in sums.items()}, **summary(trajectories)}

    def _sample(
        self, buffer: ReplayBuffer, count: int, random: np.random.Generator
    ) -> tuple[Sequence[tuple[int, int]], list[UnrollStart]]:
        """Samples steps of a buffer: their positions in it, and where to unroll."""
        sample = buffer.sample(count, random)
        starts = []
        for (owner, step), weight in zip(sample.positions, sample.weights, strict=True):
            sequence = buffer.sequence(owner)
            rules = int(sequence.starts[step + 1] - sequence.starts[step])
            first_loss = int(random.integers(rules)) if rules > self.config.training.unroll else 0
            starts.append(UnrollStart(buffer.trajectories[owner], sequence, step, first_loss, float(weight)))
        return sample.positions, starts

    def _learn(self, starts: Sequence[UnrollStart], rate: float) -> tuple[Mapping[str, float], NDArray[np.float64]]:
        """One update; returns the losses, and the error of each first value [B]."""
        for group in self.optimiser.param_groups:
            group["lr"] = rate * group["share"]
        encode = self.parts.h if self.parts.h is not None else stored_encodings
        computed = losses(self.model, self.batcher(starts), self.config.training, self.parts.index, encode)
        self.optimiser.zero_grad()
        computed.total.backward()
        parameters = [p for p in self.modules.parameters() if p.requires_grad]
        if self.config.training.clip:
            torch.nn.utils.clip_grad_norm_(parameters, self.config.training.clip)
        self.optimiser.step()
        return computed.parts, computed.errors

    def _reanalyse(self) -> None:
        """Searches some old steps again with the newest weights."""
        training = self.config.training
        count = int(training.reanalyse * training.batch)
        if not count or not len(self.replay) or self.parts.h is not None:
            return
        random = np.random.default_rng([self.options.seed, 3, self.state.update])
        positions = list(dict.fromkeys(self.replay.sample(count, random).positions))
        steps: list[TrajectoryStep] = [self.replay.trajectories[owner].steps[step] for owner, step in positions]
        networks = Networks(
            self.model.tensors(), self.config.networks, self.parts.word_embeddings, self.parts.grammar, self.parts.index
        )
        for (owner, step), new_step in zip(
            positions, reanalyse(steps, networks, self.config, self.state.update), strict=True
        ):
            self.replay.replace_step(owner, step, new_step)

    def _weights(self) -> dict[str, NDArray[Any]]:
        of_networks = {f"muzero.{name}": value for name, value in self.model.tensors().items()}
        encoder: dict[str, NDArray[Any]] = self.parts.h.tensors() if self.parts.h is not None else {}
        return {**of_networks, **encoder}

    def _publish(self) -> None:
        publish(self.options.out, self._weights(), self.state.update)

    def _judge(self) -> Mapping[str, float]:
        """Evaluates the weights and keeps the best; without a judge, by the running mean reward of self-play."""
        measures: Mapping[str, float] = {}
        if self.parts.judge is not None:
            measures = self.parts.judge(self._weights())
            score = measures["reward"]
        elif self.watch.reward is not None:
            score = self.watch.reward
        else:
            return {}
        if self.state.best is None or score > self.state.best:
            self.state.best, self.state.misses = score, 0
            self._keep(measures)
        else:
            self.state.misses += 1
        self._log({f"dev/{name}": value for name, value in measures.items()})
        return measures

    def _keep(self, measures: Mapping[str, float], name: str = BEST) -> None:
        if self.parts.keep is not None:
            notes = {
                "update": self.state.update, "cloned_updates": self.state.cloned, "measures": dict(measures),
                "seconds": round(self._spent()), "seed": self.options.seed,
            }  # fmt: skip
            self.parts.keep(self.options.out / name, self._weights(), notes)

    def _report(self, report: ChunkReport) -> None:
        self._log({_named(name): value for name, value in report.values.items()})
        self.show(report)

    def _log(self, values: Mapping[str, float]) -> None:
        self.log.add(self.state.cloned + self.state.update, values)

    def _spent(self) -> float:
        return self.already + time.monotonic() - self.began

    def _late(self) -> bool:
        return bool(self.options.minutes) and self._spent() >= 60 * self.options.minutes

    def _save_if_due(self, now: bool = False) -> None:
        if now or time.monotonic() - self.saved >= 60 * self.options.checkpoint_minutes:
            self._save()

    def _save(self) -> None:
        self.state.spent = self._spent()
        checkpoint.save(self.options.out, self.modules, self.optimiser, asdict(self.state), self.replay.to_arrays())
        self.saved = time.monotonic()


def summary(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Statistics of a chunk of episodes."""
    episodes, steps = max(1, len(trajectories)), [step for trajectory in trajectories for step in trajectory.steps]
    count = max(1, len(steps))
    values = {
        "reward": sum(trajectory.gain for trajectory in trajectories) / episodes,
        "length": count / episodes,
        "stops": sum(trajectory.ended == "stop" for trajectory in trajectories) / episodes,
        "empty": sum(trajectory.empty for trajectory in trajectories) / count,
        "advised": sum(trajectory.guided for trajectory in trajectories) / episodes,
        "search_value": sum(float(step.values[0]) for step in steps) / count,
    }
    operators = Counter(int(step.states[-1][OPERATOR]) for step in steps)
    for number, operator in enumerate(OPERATORS):
        name = {"or": "plain", "^": f"^{operator.weight:g}"}.get(operator.op, operator.op)
        values[f"operator {name}"] = operators[number] / count
    return values


def _named(name: str) -> str:
    if name in ("policy", "value", "reward_loss", "total"):
        return f"loss/{name}"
    for kind, group in (("operator ", "actions"), ("seconds ", "seconds")):
        if name.startswith(kind):
            return f"{group}/{name.removeprefix(kind)}"
    return f"play/{name}"


def _unbounded(config: Config) -> TrainingConfig:
    return replace(config.training, replay_size=1 << 30, priority=0.0, importance=0.0)


@dataclass(slots=True)
class CollapseDetector:
    """Running means over chunks, and for how many chunks they have been bad."""

    limits: CollapseLimits
    entropy: float | None = None
    reward: float | None = None
    best: float | None = None
    bad: int = 0
    seen: int = 0

    def update(self, entropy: float, reward: float) -> str | None:
        """The reason to stop the run; None while it may go on."""
        self.seen += 1
        share = 1 / min(self.seen, self.limits.settled)
        self.entropy, self.reward = _mean(self.entropy, entropy, share), _mean(self.reward, reward, share)
        if self.seen >= self.limits.settled:
            self.best = self.reward if self.best is None else max(self.best, self.reward)
        reason = None
        if self.entropy < self.limits.entropy:
            reason = f"the policy's entropy has fallen to {self.entropy:.4f}, below {self.limits.entropy:g}"
        elif self.best is not None and self.reward < self.best - self.limits.reward:
            reason = f"the mean reward has fallen from {self.best:.3f} to {self.reward:.3f}"
        self.bad = self.bad + 1 if reason else 0
        return reason if reason and self.bad >= self.limits.patience else None

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "limits"}

    @classmethod
    def from_dict(cls, limits: CollapseLimits, row: Mapping[str, Any]) -> CollapseDetector:
        return cls(limits, **row)


def _mean(old: float | None, new: float, share: float) -> float:
    return new if old is None else (1 - share) * old + share * new
