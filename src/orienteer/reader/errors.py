"""What can be wrong with a reader's files."""

from __future__ import annotations

from orienteer.errors import OrienteerError


class ReaderError(OrienteerError):
    """Base of what can be wrong with a reader."""


class ModelMissingError(ReaderError):
    """No reader in this folder."""


class ModelCorruptError(ReaderError):
    """A reader's file that is truncated, damaged or of another model."""


class TrainingError(ReaderError):
    """Training data or a checkpoint that training cannot use."""
