"""What can be wrong with embeddings and with the runs that stand in for them."""

from __future__ import annotations

from orienteer.errors import OrienteerError


class DenseError(OrienteerError):
    """Base of what can be wrong in dense retrieval."""


class EmbeddingsMissingError(DenseError):
    """No embeddings in this folder, or not all of them yet."""


class EmbeddingsMismatchError(DenseError):
    """Embeddings or a run of other passages, or of another encoder."""


class EmbeddingsCorruptError(DenseError):
    """A shard, a manifest or a run that is truncated or damaged."""


class NotInRunError(DenseError):
    """A question, or a depth, that a stored run does not have."""
