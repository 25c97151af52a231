"""The search engine: the `Engine` protocol, the embedded engine, adapters, and the check of the contract."""

from importlib import import_module
from typing import TYPE_CHECKING

from orienteer.engine.protocol import Engine, Hit

if TYPE_CHECKING:
    from orienteer.engine.adapters.lucene import LuceneEngine
    from orienteer.engine.adapters.tantivy import TantivyEngine
    from orienteer.engine.check import check_engine
    from orienteer.engine.embedded.build import build_index, update_index
    from orienteer.engine.embedded.engine import EmbeddedEngine, open_index
    from orienteer.engine.hits import Hits
    from orienteer.engine.reference import ReferenceEngine

# The compiled engine and the adapters are imported when they are first used: other commands start at once.
_HOME = {
    "EmbeddedEngine": "embedded.engine", "Hits": "hits", "open_index": "embedded.engine",
    "build_index": "embedded.build", "update_index": "embedded.build", "check_engine": "check",
    "LuceneEngine": "adapters.lucene", "ReferenceEngine": "reference", "TantivyEngine": "adapters.tantivy",
}  # fmt: skip

__all__ = [
    "EmbeddedEngine", "Engine", "Hit", "Hits", "LuceneEngine", "ReferenceEngine", "TantivyEngine",
    "build_index", "check_engine", "open_index", "update_index",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
