"""What can be wrong with a session's settings, its record, or the agent that plays it."""

from __future__ import annotations

from orienteer.errors import OrienteerError


class SettingsError(OrienteerError):
    """A setting of a session that does not exist or cannot have this value."""


class RecordError(OrienteerError):
    """A line that is not the record of a session, or one of another version."""


class ReplayError(OrienteerError):
    """A record that this engine and reader do not give again."""
