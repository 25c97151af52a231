"""OpenSearch and Elasticsearch behind the `Engine` protocol: search, refine, load, examine."""

from orienteer.engine.adapters.opensearch.engine import OpenSearchEngine, connect
from orienteer.engine.adapters.opensearch.settings import Address, FieldNames, ServiceSettings, is_address, read_address

__all__ = ["Address", "FieldNames", "OpenSearchEngine", "ServiceSettings", "connect", "is_address", "read_address"]
