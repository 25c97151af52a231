"""The settings of a session: how it is played and judged; every record holds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args

from orienteer.errors import OrienteerError
from orienteer.session.score import LAMBDA1, LAMBDA2

Order = Literal["ps", "agreement", "engine"]
DeadEnds = Literal["undo", "stop"]
Relevance = Literal["tokens", "possessives", "substring"]


class SettingsError(OrienteerError):
    """A setting of a session that does not exist or cannot have this value."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How a session is played and judged.

    steps       maximum number of refinements
    hits        passages per query (the paper's k)
    order       of the result: by PS, by agreement of the answers (`answer_voting`), or the engine's (plain BM25)
    dead_ends   a query without hits is undone, or ends the session as in the paper
    allow_stop  an agent may stop before the last step
    snippet     words of a passage that an agent sees
    relevance   the text holds a gold answer as tokens; as tokens, of which the last may be a possessive; or as a
                substring (looser)
    lambda1     weight of the mean PS in the score
    lambda2     weight of NDCEM in the score
    seed        of every random draw an agent makes
    reuse_terms a term may be used again, with any operator; what ships has learned that it may not
    """

    steps: int = 20
    hits: int = 5
    order: Order = "ps"
    dead_ends: DeadEnds = "undo"
    allow_stop: bool = False
    snippet: int = 30
    relevance: Relevance = "possessives"
    lambda1: float = LAMBDA1
    lambda2: float = LAMBDA2
    seed: int = 0
    reuse_terms: bool = False

    def __post_init__(self) -> None:
        for name, least in (("steps", 0), ("hits", 1), ("snippet", 1), ("seed", 0)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise SettingsError(f"{name} = {value!r}; expected a whole number, {least} or more")
        for name in ("allow_stop", "reuse_terms"):
            if type(getattr(self, name)) is not bool:
                raise SettingsError(f"{name} = {getattr(self, name)!r}; expected true or false")
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise SettingsError(
                    f"{name} = {getattr(self, name)!r}; expected {', '.join(choices[:-1])} or {choices[-1]}"
                )
        for name in ("lambda1", "lambda2"):
            value = getattr(self, name)
            if not isinstance(value, float | int) or isinstance(value, bool):
                raise SettingsError(f"{name} = {value!r}; expected a number")
            object.__setattr__(self, name, float(value))
        if not (self.lambda1 >= 0 and self.lambda2 >= 0 and self.lambda1 + self.lambda2 <= 1 + 1e-12):
            raise SettingsError(
                f"lambda1 = {self.lambda1:g}, lambda2 = {self.lambda2:g}; expected numbers from 0, together at most 1"
            )

    def as_dict(self) -> dict[str, Any]:
        """As records hold them: without `reuse_terms` where it is off, as before there was a choice."""
        return {name: value for name, value in asdict(self).items() if value or name != "reuse_terms"}

    def with_options(self, options: Mapping[str, str]) -> Settings:
        """These settings with some given as text, as in `prf-idf-t[steps=10;dead_ends=stop]`."""
        return replace(self, **{name: _value(name, text) for name, text in options.items()})


_CHOICES = {"order": get_args(Order), "dead_ends": get_args(DeadEnds), "relevance": get_args(Relevance)}
_TYPES = {field.name: field.type for field in fields(Settings)}


def _value(name: str, text: str) -> Any:
    if name not in _TYPES:
        raise SettingsError(f"unknown option {name!r}; expected one of {', '.join(_TYPES)}")
    try:
        match _TYPES[name]:
            case "int":
                return int(text)
            case "float":
                return float(text)
            case "bool":
                return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
    except (ValueError, KeyError):
        expected = {"int": "a whole number", "float": "a number", "bool": "true or false"}[str(_TYPES[name])]
        raise SettingsError(f"{name} = {text!r}; expected {expected}") from None
    return text
