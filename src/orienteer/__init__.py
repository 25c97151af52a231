"""Agents that use a search engine the way a skilled person does.

This is the whole public API; the rest of the package may change between versions.

    from orienteer import Searcher

    print(Searcher.open().ask("who first isolated sodium metal"))
"""

from importlib import import_module
from typing import TYPE_CHECKING

from orienteer.errors import OrienteerError

if TYPE_CHECKING:
    __version__: str
    from orienteer.agents import Agent, ConfiguredAgent, check_agent, make_agent, register_agent
    from orienteer.api import Answer, Searcher, evaluate
    from orienteer.data import Passage, Question, read_passages, read_questions
    from orienteer.engine import Engine, Hit, build_index, check_engine, open_index, update_index
    from orienteer.engine.open import open_engine
    from orienteer.query import GRAMMARS, Query, Refinement, parse
    from orienteer.reader import Reader
    from orienteer.session import STOP, UNDO, Action, Environment, Observation, Settings
    from orienteer.session.gym import SearchSession

# Each name is imported when it is first used, so that `import orienteer` and small commands start at once.
_HOME = {
    "agents": ("Agent", "ConfiguredAgent", "check_agent", "make_agent", "register_agent"),
    "api": ("Answer", "Searcher", "evaluate"),
    "data": ("Passage", "Question", "read_passages", "read_questions"),
    "engine": ("Engine", "Hit", "build_index", "check_engine", "open_index", "update_index"),
    "engine.open": ("open_engine",),
    "query": ("GRAMMARS", "Query", "Refinement", "parse"),
    "reader": ("Reader",),
    "session": ("STOP", "UNDO", "Action", "Environment", "Observation", "Settings"),
    "session.gym": ("SearchSession",),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "GRAMMARS", "STOP", "UNDO", "Action", "Agent", "Answer", "ConfiguredAgent", "Engine", "Environment", "Hit",
    "Observation", "OrienteerError", "Passage", "Query", "Question", "Reader", "Refinement", "SearchSession",
    "Searcher", "Settings", "__version__", "build_index", "check_agent", "check_engine", "evaluate", "make_agent",
    "open_engine", "open_index", "parse", "read_passages", "read_questions", "register_agent", "update_index",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name == "__version__":
        return _version()
    if name not in _MODULE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE[name]}"), name)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("orienteer")
    except PackageNotFoundError:  # a source tree that nobody installed
        return "0+unknown"


def __dir__() -> list[str]:
    return __all__
