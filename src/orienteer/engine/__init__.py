"""The search engine: the `Engine` protocol, the embedded engine, adapters, and the check of the contract."""

from orienteer.engine.protocol import Engine, Hit

__all__ = ["EmbeddedEngine", "Engine", "Hit", "Hits", "build_index", "open_index", "update_index"]


def __getattr__(name: str) -> object:
    """Import the compiled engine only when it is used: a command that needs no search starts at once."""
    if name in ("EmbeddedEngine", "Hits", "open_index"):
        from orienteer.engine import embedded

        return getattr(embedded, name)
    if name in ("build_index", "update_index"):
        from orienteer.engine import build

        return getattr(build, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
