"""The parameters of a Rocchio search: limits, grammars, the score to raise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from orienteer.errors import OrienteerError
from orienteer.query import GRAMMARS, Grammar, Refinement
from orienteer.session import Settings

HEADROOM_SNIPPET = 70  # words; for training data, the length that the agent will see


class RocchioError(OrienteerError):
    """Invalid parameters of a Rocchio search, or a file of sessions that cannot be used."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One session of a question: its grammar, and the weights of the score that it raises."""

    grammar: Grammar
    lambda1: float = 0.2
    lambda2: float = 0.6


@dataclass(frozen=True, slots=True)
class RocchioConfig:
    """Algorithm 1's parameters.

    n             terms of Σ_t and of Σ_*
    m             tries an operator at each step
    settings      steps, hits a query, snippet length and relevance, as in every session
    read_budget   passages that a step may read at most; None: as many as the exact choice needs
    others        candidates not chosen that are stored with their scores
    exhaustive    reads every hit of every candidate; finds the same sessions, for comparison
    without       operators on a field that are not tried, as `+c` or `-t`
    """

    n: int = 100
    m: int = 100
    settings: Settings = field(default_factory=lambda: Settings(snippet=HEADROOM_SNIPPET))
    read_budget: int | None = None
    others: int = 32
    exhaustive: bool = False
    without: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, least in (("n", 1), ("m", 1), ("others", 0)):
            if getattr(self, name) < least:
                raise RocchioError(f"{name} = {getattr(self, name)}; expected {least} or more")
        if unknown := [name for name in self.without if name not in WITHOUT]:
            raise RocchioError(f"no operator is called {unknown[0]!r}; expected some of {', '.join(WITHOUT)}")
        if self.read_budget is not None and self.read_budget < 1:
            raise RocchioError(f"a read budget of {self.read_budget}; expected 1 or more, or none")
        if self.settings.order != "ps":
            raise RocchioError("sessions ordered by the engine; a Rocchio search needs them ordered by PS")
        if self.settings.hits > MOST_HITS:
            raise RocchioError(f"{self.settings.hits} hits a query; a Rocchio search takes at most {MOST_HITS}")

    def settings_of(self, variant: Variant) -> Settings:
        """The settings of a variant's sessions; the search itself decides when to stop."""
        return replace(self.settings, lambda1=variant.lambda1, lambda2=variant.lambda2, allow_stop=True)

    def as_dict(self) -> dict[str, Any]:
        """As in the header of a file of sessions; `without` only where there is something."""
        row = {name: getattr(self, name) for name in self.__slots__ if name != "without"}
        row["settings"] = self.settings.as_dict()
        return row | ({"without": list(self.without)} if self.without else {})

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> RocchioConfig:
        settings, without = Settings(**row["settings"]), tuple(row.get("without", ()))
        return cls(**{**row, "settings": settings, "without": without})

    def tries(self, refinement: Refinement) -> bool:
        """Whether a step may take it."""
        return f"{refinement.op}{refinement.field[0]}" not in self.without


WITHOUT = ("+c", "+t", "-c", "-t", "^c", "^t")
MOST_HITS = 8  # a bound looks at every subset of a query's hits


def variants_of(names: str) -> tuple[Variant, ...]:
    """The variants of "G1,G4" or "all", each grammar once."""
    wanted = list(GRAMMARS) if names.strip().lower() == "all" else [name.strip() for name in names.split(",")]
    for name in wanted:
        if name not in GRAMMARS:
            raise RocchioError(f"no grammar is called {name!r}; expected {', '.join(GRAMMARS)}, or all")
    return tuple(Variant(GRAMMARS[name]) for name in dict.fromkeys(wanted))
