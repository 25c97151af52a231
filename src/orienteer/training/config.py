"""Configurations of trainers: frozen dataclasses; a field with a help text is also an option of the command line."""

from __future__ import annotations

from dataclasses import MISSING, asdict, dataclass, field
from pathlib import Path
from typing import Any


def option(help: str, default: Any = MISSING, **more: Any) -> Any:
    """A field that the command line offers too.

    `more`: `min` and `max` of a number; `names` of the option where they are not the field's own; `former` names,
    which still work and print a hint.
    """
    return field(default=default, metadata={"help": help, **more})


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopConfig:
    """What every training loop needs to know; the fields without a help text are for Python alone.

    dropout      as the model was made with; its draws are then made by one thread
    clip         largest norm of a gradient; 0: any
    judge_steps  instead of `judge_minutes`
    """

    out: Path = option("folder of checkpoints, cached examples and the trained model")
    minutes: float = option("of training in all, kills included", 0.0)
    steps: int = option("instead of minutes: resumes to the same weights", 0)
    seed: int = option("decides every draw", 0)
    threads: int = option("threads to use", 2, min=1)
    judge_minutes: float = option("between two judgements on --dev", 15.0)
    patience: int = option("judgements without a new best one, then stop; 0: never", 0)
    judge_steps: int = 0
    dropout: float = 0.0
    clip: float = 0.0
    checkpoint_minutes: float = 3.0
    show_seconds: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFiles:
    """Recorded Rocchio sessions, and what it takes to play them again."""

    sessions: tuple[Path, ...] = option("files that `orienteer rocchio` wrote; may be repeated")
    questions: tuple[Path, ...] = option("the questions of the sessions; may be repeated")
    index: Path = option("the index that the sessions were searched in")
    reader: Path | None = option("folder of the sessions' reader; none: the shipped one", None)
    cache: Path | None = option("file of readings, so that a passage is read once", None)


def described(config: Any) -> dict[str, Any]:
    """A configuration as a model folder notes it: without a path of this machine, the base by its name alone."""
    noted = {name: value for name, value in asdict(config).items() if not _has_path(value)}
    return {**noted, "base": Path(noted["base"]).name} if "base" in noted else noted


def _has_path(value: Any) -> bool:
    return isinstance(value, Path) or (isinstance(value, list | tuple) and any(map(_has_path, value)))
