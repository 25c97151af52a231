"""Dense retrieval: encoders, stored vectors of all passages, exact search, and runs that stand in for them."""

from orienteer.dense.embed import EmbedWorkers, embed_index
from orienteer.dense.embeddings import (
    DenseError,
    Embeddings,
    EmbeddingsCorruptError,
    EmbeddingsMismatchError,
    EmbeddingsMissingError,
)
from orienteer.dense.encoder import Encoder, TextEncoder
from orienteer.dense.engine import DenseEngine, FirstPassEngine, HybridEngine, passages_of
from orienteer.dense.runs import NotInRunError, RunRetriever, join_runs, write_run
from orienteer.dense.search import EmbeddingRetriever, Retriever
from orienteer.dense.static_encoder import StaticEncoder, open_encoder

__all__ = [
    "DenseEngine", "DenseError", "EmbedWorkers", "EmbeddingRetriever", "Embeddings", "EmbeddingsCorruptError",
    "EmbeddingsMismatchError", "EmbeddingsMissingError", "Encoder", "FirstPassEngine", "HybridEngine", "NotInRunError",
    "Retriever", "RunRetriever", "StaticEncoder", "TextEncoder", "embed_index", "join_runs", "open_encoder",
    "passages_of", "write_run",
]  # fmt: skip
