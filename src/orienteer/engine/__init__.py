"""The search engine: the `Engine` protocol, the embedded engine, adapters, and the check of the contract."""

from importlib import import_module
from typing import TYPE_CHECKING

from orienteer.engine.protocol import Engine, Hit

if TYPE_CHECKING:
    from orienteer.engine.build import build_index, update_index
    from orienteer.engine.check import check_engine
    from orienteer.engine.embedded import EmbeddedEngine, Hits, open_index
    from orienteer.engine.lucene import LuceneEngine
    from orienteer.engine.reference import ReferenceEngine
    from orienteer.engine.tantivy_engine import TantivyEngine

# The compiled engine and the adapters are imported when they are first used: other commands start at once.
_HOME = {
    "EmbeddedEngine": "embedded", "Hits": "embedded", "open_index": "embedded",
    "build_index": "build", "update_index": "build", "check_engine": "check",
    "LuceneEngine": "lucene", "ReferenceEngine": "reference", "TantivyEngine": "tantivy_engine",
}  # fmt: skip

__all__ = [
    "EmbeddedEngine", "Engine", "Hit", "Hits", "LuceneEngine", "ReferenceEngine", "TantivyEngine",
    "build_index", "check_engine", "open_index", "update_index",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
