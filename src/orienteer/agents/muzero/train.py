"""A run of MuZero, from top to bottom: actors play, the learner learns, weights go back to the actors (needs torch).

Everything goes on in this process, or actors are processes or a Ray cluster (`cluster.py`); either way an actor is
given a numbered chunk of episodes, looks up the newest weights, plays, and returns them. A chunk that is done again
because its worker died has the same numbers, so that no episode counts twice. In one process a run that was killed
goes on to the very weights that it would have reached.
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

from orienteer.agents.muzero import checkpoint
from orienteer.agents.muzero.batch import BatchMaker, UnrollStart
from orienteer.agents.muzero.collapse_detector import CollapseDetector, CollapseLimits
from orienteer.agents.muzero.config import Config, TrainingConfig
from orienteer.agents.muzero.grammar import OPERATOR, OPERATORS, QueryGrammar
from orienteer.agents.muzero.learner import losses, make_optimiser, stored_encodings
from orienteer.agents.muzero.model_files import publish
from orienteer.agents.muzero.networks import Networks
from orienteer.agents.muzero.networks_torch import MuZeroModel
from orienteer.agents.muzero.replay import ReplayBuffer
from orienteer.agents.muzero.self_play import ActorTask, reanalyse
from orienteer.agents.muzero.trajectory import Trajectory, TrajectoryStep
from orienteer.agents.muzero.tries import Trie
from orienteer.errors import TrainingError
from orienteer.training.log import TrainingLog
from orienteer.workers import MakeWork, run_chunks

# Folders inside that of the run: the weights that were judged best, and those at the end.
BEST, LAST = "best", "last"


@dataclass(frozen=True, slots=True)
class Run:
    """How long, and where.

    chunks         to be played in all
    clone_updates  of the weights by imitation of demonstrations, before anything is played
    demonstrations share of a batch that stays demonstrations afterwards
    judge_chunks   between two judgements
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
    """Where a run stands, as a checkpoint keeps it."""

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
    """What a caller may show: one line a chunk."""

    chunk: int
    update: int
    values: Mapping[str, float]
    judged: Mapping[str, float]


Judge = Callable[[Mapping[str, NDArray[Any]]], Mapping[str, float]]
Keep = Callable[[Path, Mapping[str, NDArray[Any]], Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True)
class RunComponents:
    """What a run is made of.

    model      g, f and what leads into them; `h` where h is trained too
    words      [pieces, width] the encoder's word table, for searches over old turns
    make_actor picklable: gives the work of an actor, from a task to its episodes
    judge      from weights to measures; `reward` is what counts
    keep       writes an agent's folder from weights and notes
    """

    model: MuZeroModel
    grammar: QueryGrammar
    index: Trie
    words: NDArray[np.float32]
    make_actor: MakeWork[ActorTask, list[Trajectory]]
    h: torch.nn.Module | None = None
    judge: Judge | None = None
    keep: Keep | None = None


def train(
    config: Config,
    run: Run,
    parts: RunComponents,
    demonstrations: Sequence[Trajectory] = (),
    show: Callable[[ChunkReport], None] = lambda progress: None,
) -> RunState:
    """Trains from the last checkpoint in `run.out` if there is one; leaves the best weights in `run.out / best`."""
    return _Learner(config, run, parts, demonstrations, show).run()


class _Learner:
    """A run under way."""

    def __init__(
        self, config: Config, run: Run, parts: RunComponents, demonstrations: Sequence[Trajectory],
        show: Callable[[ChunkReport], None],
    ) -> None:  # fmt: skip
        self.config, self.options, self.parts, self.show = config, run, parts, show
        torch.manual_seed(run.seed)
        self.model = parts.model
        self.modules: dict[str, torch.nn.Module] = {"model": self.model, **({"h": parts.h} if parts.h else {})}
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
        self.place = RunState(**checkpoint.resume(run.out, self.modules, self.optimiser, self.replay))
        self.watch = (
            CollapseDetector.from_dict(run.limits, self.place.watch)
            if self.place.watch
            else CollapseDetector(run.limits)
        )
        self.began, self.already, self.saved = time.monotonic(), self.place.spent, time.monotonic()
        self.log = TrainingLog(run.out)

    def run(self) -> RunState:
        if self.place.stopped:
            return self.place
        self._imitate()
        self._publish()
        waiting = self._tasks()
        if waiting:
            results = run_chunks(self.parts.make_actor, waiting, workers=self.options.workers, ray=self.options.ray)
            self._play(iter(results), waiting)
        if self.place.best is None or (self.parts.judge is None and not self.place.stopped):
            self._keep({})
        self._keep({}, LAST)
        self._save()
        return self.place

    def _tasks(self) -> list[ActorTask]:
        count = self.config.training.episodes
        done = set(self.place.done)
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
        while self.place.cloned < self.options.clone_updates and not self._late():
            chance = np.random.default_rng([self.options.seed, 1, self.place.cloned])
            starts = self._drawn(self.demonstrations, self.config.training.batch, chance)[1]
            sums.update(self._learn(starts, self.config.training.imitation_rate)[0])
            self.place.cloned += 1
            summed += 1
            if self.place.cloned % 50 == 0 or self.place.cloned == self.options.clone_updates:
                values = {name: value / summed for name, value in sums.items()}
                self._report(ChunkReport(-1, self.place.cloned, values, {}))
                sums.clear()
                summed = 0
                self._save_now_and_then()
        if self.place.best is None and not self.place.done:
            # What nothing has been played for yet is the best so far: reinforcement has to be better than it.
            judged = self._judge()
            if judged:
                self._report(ChunkReport(-1, self.place.cloned, {}, judged))
            self._save()

    def _play(self, results: Iterator[tuple[int, list[Trajectory]]], tasks: Sequence[ActorTask]) -> None:
        began = time.monotonic()
        for number, trajectories in results:
            task = tasks[number]
            played = time.monotonic()
            self.replay.add(trajectories)
            values = self._learn_from(trajectories)
            values |= {"seconds playing": played - began, "seconds learning": time.monotonic() - played}
            self.place.done.append(task.number)
            why = self.watch.see(values.get("entropy", 1.0), values["reward"])
            self.place.watch = self.watch.as_dict()
            self._publish()
            judged: Mapping[str, float] = {}
            if len(self.place.done) % self.options.judge_chunks == 0:
                judged = self._judge()
            self._report(ChunkReport(task.number, self.place.update, values, judged))
            if why:
                self.place.stopped = f"collapsed: {why}"
            elif self.options.patience and self.place.misses >= self.options.patience:
                self.place.stopped = f"no better judgement in the last {self.place.misses}"
            self._save_now_and_then(bool(judged) or bool(self.place.stopped))
            if self.place.stopped or self._late():
                break
            began = time.monotonic()

    def _learn_from(self, trajectories: Sequence[Trajectory]) -> dict[str, float]:
        """The updates that one chunk brings, and what to log of it."""
        sums: Counter[str] = Counter()
        training = self.config.training
        updates = training.updates if len(self.replay) else 0
        for _ in range(updates):
            chance = np.random.default_rng([self.options.seed, 2, self.place.update])
            shown = round(training.batch * self.options.demonstrations) if len(self.demonstrations) else 0
            places, starts = self._drawn(self.replay, training.batch - shown, chance)
            # Advice chooses by what the agent does not see: what it gained tells nothing of what the agent will.
            starts = [replace(start, learn_value=not start.trajectory.guided) for start in starts]
            if shown:
                others = self._drawn(self.demonstrations, shown, chance)[1]
                starts += [replace(start, learn_value=False) for start in others]
            found, errors = self._learn(starts, training.learning_rate)
            self.replay.surprise(places, errors[: len(places)])
            sums.update(found)
            self.place.update += 1
        self._rethink()
        return {**{name: value / max(1, updates) for name, value in sums.items()}, **summary(trajectories)}

    def _drawn(
        self, buffer: ReplayBuffer, count: int, chance: np.random.Generator
    ) -> tuple[Sequence[tuple[int, int]], list[UnrollStart]]:
        """So many turns of a memory, by their places in it and as starts."""
        drawn = buffer.draw(count, chance)
        starts = []
        for (owner, step), weight in zip(drawn.positions, drawn.weights, strict=True):
            path = buffer.sequence(owner)
            rules = int(path.starts[step + 1] - path.starts[step])
            skip = int(chance.integers(rules)) if rules > self.config.training.unroll else 0
            starts.append(UnrollStart(buffer.trajectories[owner], path, step, skip, float(weight)))
        return drawn.positions, starts

    def _learn(self, starts: Sequence[UnrollStart], rate: float) -> tuple[Mapping[str, float], NDArray[np.float64]]:
        """One update; the losses, and how far each first value was off."""
        for group in self.optimiser.param_groups:
            group["lr"] = rate * group["share"]
        see = self.parts.h if self.parts.h is not None else stored_encodings
        found = losses(self.model, self.batcher(starts), self.config.training, self.parts.index, see)
        self.optimiser.zero_grad()
        found.total.backward()
        parameters = [p for module in self.modules.values() for p in module.parameters() if p.requires_grad]
        if self.config.training.clip:
            torch.nn.utils.clip_grad_norm_(parameters, self.config.training.clip)
        self.optimiser.step()
        return found.parts, found.errors

    def _rethink(self) -> None:
        """Some old turns are searched again with the newest weights."""
        training = self.config.training
        count = int(training.reanalyse * training.batch)
        if not count or not len(self.replay) or self.parts.h is not None:
            return
        chance = np.random.default_rng([self.options.seed, 3, self.place.update])
        places = list(dict.fromkeys(self.replay.draw(count, chance).positions))
        steps: list[TrajectoryStep] = [self.replay.trajectories[owner].steps[step] for owner, step in places]
        networks = Networks(
            self.model.tensors(), self.config.networks, self.parts.words, self.parts.grammar, self.parts.index
        )
        for (owner, step), made in zip(places, reanalyse(steps, networks, self.config, self.place.update), strict=True):
            self.replay.with_new_search(owner, step, made)

    def _weights(self) -> dict[str, NDArray[Any]]:
        own = {f"muzero.{name}": value for name, value in self.model.tensors().items()}
        seen: dict[str, NDArray[Any]] = self.parts.h.tensors() if self.parts.h is not None else {}
        return {**own, **seen}

    def _publish(self) -> None:
        publish(self.options.out, self._weights(), self.place.update)

    def _judge(self) -> Mapping[str, float]:
        """What the weights are worth; the best are kept. Without a judge they are worth what they last played."""
        measures: Mapping[str, float] = {}
        if self.parts.judge is not None:
            measures = self.parts.judge(self._weights())
            worth = measures["reward"]
        elif self.watch.reward is not None:
            worth = self.watch.reward
        else:
            return {}
        if self.place.best is None or worth > self.place.best:
            self.place.best, self.place.misses = worth, 0
            self._keep(measures)
        else:
            self.place.misses += 1
        self._log({f"dev/{name}": value for name, value in measures.items()})
        return measures

    def _keep(self, measures: Mapping[str, float], name: str = BEST) -> None:
        if self.parts.keep is not None:
            notes = {
                "update": self.place.update, "cloned_updates": self.place.cloned, "measures": dict(measures),
                "seconds": round(self._spent()), "seed": self.options.seed,
            }  # fmt: skip
            self.parts.keep(self.options.out / name, self._weights(), notes)

    def _report(self, progress: ChunkReport) -> None:
        self._log({_named(name): value for name, value in progress.values.items()})
        self.show(progress)

    def _log(self, values: Mapping[str, float]) -> None:
        self.log.add(self.place.cloned + self.place.update, values)

    def _spent(self) -> float:
        return self.already + time.monotonic() - self.began

    def _late(self) -> bool:
        return bool(self.options.minutes) and self._spent() >= 60 * self.options.minutes

    def _save_now_and_then(self, now: bool = False) -> None:
        if now or time.monotonic() - self.saved >= 60 * self.options.checkpoint_minutes:
            self._save()

    def _save(self) -> None:
        self.place.spent = self._spent()
        checkpoint.save(self.options.out, self.modules, self.optimiser, self.replay, asdict(self.place))
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
