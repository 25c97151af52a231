"""Dense retrieval, to compare with: MiniLM's vectors of all passages, exact search, and runs that stand in for them."""

from orienteer.dense.embed import EmbedWorkers, embed_index
from orienteer.dense.embeddings import (
    DenseError,
    Embeddings,
    EmbeddingsCorruptError,
    EmbeddingsMismatchError,
    EmbeddingsMissingError,
)
from orienteer.dense.encoder import TextEncoder
from orienteer.dense.engine import DenseEngine, HybridEngine
from orienteer.dense.runs import NotInRunError, RunRetriever, join_runs, write_run
from orienteer.dense.search import EmbeddingRetriever, Retriever

__all__ = [
    "DenseEngine", "DenseError", "EmbedWorkers", "EmbeddingRetriever", "Embeddings", "EmbeddingsCorruptError",
    "EmbeddingsMismatchError", "EmbeddingsMissingError", "HybridEngine", "NotInRunError", "Retriever",
    "RunRetriever", "TextEncoder", "embed_index", "join_runs", "write_run",
]  # fmt: skip
