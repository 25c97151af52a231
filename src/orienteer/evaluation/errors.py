"""What can be wrong with an evaluation."""

from __future__ import annotations

from orienteer.errors import OrienteerError


class EvaluationError(OrienteerError):
    """An evaluation that cannot be run as asked, or a folder that holds another one."""
