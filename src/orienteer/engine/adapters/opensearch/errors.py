"""What can go wrong with a search service, one small class each. No message holds a credential."""

from __future__ import annotations

from orienteer.errors import OrienteerError


class ServiceError(OrienteerError):
    """Base of what can be wrong with an OpenSearch or Elasticsearch service."""


class ServiceAddressError(ServiceError):
    """An address or a setting of the environment that cannot be used."""


class ServiceRefusedError(ServiceError):
    """The service does not accept the credentials, or its certificate is not to be trusted."""


class ServiceIndexError(ServiceError):
    """No such index, or one that Orienteer cannot search or load."""


class NoServiceIndexError(ServiceIndexError):
    """No index of that name."""


class ServiceUnavailableError(ServiceError):
    """The service did not give a whole answer, however often it was asked."""


class CircuitOpenError(ServiceUnavailableError):
    """The service failed many times in a row and is left in peace for a while."""


class ServiceAnswerError(ServiceError):
    """The service understood the question and says no."""
