"""Dense retrieval, to compare with: MiniLM's vectors of all passages, exact search, and runs that stand in for them."""

from orienteer.dense.embed import Crew, Progress, embed_index
from orienteer.dense.embeddings import Embeddings
from orienteer.dense.encoder import TextEncoder
from orienteer.dense.engine import DenseEngine, HybridEngine
from orienteer.dense.errors import (
    DenseError,
    EmbeddingsCorruptError,
    EmbeddingsMismatchError,
    EmbeddingsMissingError,
    NotInRunError,
)
from orienteer.dense.join import join_runs
from orienteer.dense.retriever import EmbeddingRetriever, Retriever
from orienteer.dense.runs import RunRetriever, write_run

__all__ = [
    "Crew", "DenseEngine", "DenseError", "EmbeddingRetriever", "Embeddings", "EmbeddingsCorruptError",
    "EmbeddingsMismatchError", "EmbeddingsMissingError", "HybridEngine", "NotInRunError", "Progress", "Retriever",
    "RunRetriever", "TextEncoder", "embed_index", "join_runs", "write_run",
]  # fmt: skip
