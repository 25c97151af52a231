"""What a client of the workbench can get wrong; `status` is HTTP's number for it."""

from __future__ import annotations

from orienteer.errors import OrienteerError


class ServeError(OrienteerError):
    """Base of the workbench's own errors."""

    status = 400


class UnknownSessionError(ServeError):
    """No session of this id, in memory or saved."""

    status = 404


class UnknownIndexError(ServeError):
    """An index that this server does not serve."""

    status = 404


class NoGalleryError(ServeError):
    """The gallery was asked for, but there is none, or not this part of it."""

    status = 404


class SessionBusyError(ServeError):
    """Somebody, or an agent, is at work in this session."""

    status = 409


class NotPlayableError(ServeError):
    """A session that can be looked at but not continued here."""

    status = 409


class RefinementRefusedError(ServeError):
    """A refinement that this session cannot take."""

    status = 422


class LimitError(ServeError):
    """More than this server gives."""

    status = 422


class TooBusyError(ServeError):
    """As many agents at work as the server allows; come back."""

    status = 429


class DiskFullError(ServeError):
    """No room for a further saved session."""

    status = 409


class TokenNeededError(ServeError):
    """An address that others can reach, and no token."""

    status = 401
