"""OpenSearch and Elasticsearch behind the `Engine` protocol: search, refine, load, examine."""

from importlib import import_module
from typing import TYPE_CHECKING

from orienteer.engine.adapters.opensearch.settings import Address, FieldNames, ServiceSettings, is_address, read_address

if TYPE_CHECKING:
    from orienteer.engine.adapters.opensearch.engine import OpenSearchEngine, connect

__all__ = ["Address", "FieldNames", "OpenSearchEngine", "ServiceSettings", "connect", "is_address", "read_address"]


def __getattr__(name: str) -> object:
    """The engine is imported when it is first used: every command looks whether an address is a service's."""
    if name not in ("OpenSearchEngine", "connect"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.engine"), name)
