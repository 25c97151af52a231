"""The official clients behind one small door: a request in, JSON or a `Failure` out.

Waiting and asking again are done in one place for both (`retry.py`), so the clients' own are switched off: they make no
attempt of their own, but leave a node that did not answer in time alone for a while (`retry_on_timeout`).
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Protocol

from orienteer.engine.adapters.opensearch.settings import PREFIX, Address, ServiceSettings
from orienteer.errors import MissingExtraError, ServiceAddressError, ServiceError, ServiceRefusedError

RETRYABLE = frozenset({408, 429, 500, 502, 503, 504})
JSON, LINES = "application/json", "application/x-ndjson"


class Failure(Exception):
    """A request without a whole answer."""

    def __init__(self, reason: str, *, status: int | None = None, retryable: bool = False, retry_after: float = 0.0):
        self.reason, self.status, self.retry_after = reason, status, retry_after
        self.retryable = retryable or status in RETRYABLE  # whether asking again may help
        super().__init__(reason)


class Client(Protocol):
    def send(self, method: str, path: str, params: Mapping[str, str], body: str | None, kind: str) -> Any:
        """The JSON that came; raises a `Failure` for everything else."""
        ...

    def close(self) -> None: ...


class OpenSearchClient:
    """opensearch-py; speaks plain JSON, which Elasticsearch understands too."""

    def __init__(self, address: Address, settings: ServiceSettings):
        import opensearchpy

        options: dict[str, Any] = {}
        if address.base.startswith("https:"):
            options = {"use_ssl": True, "verify_certs": settings.verify, "ssl_show_warn": False}
            options |= {"ca_certs": settings.ca, "client_cert": settings.client_cert, "client_key": settings.client_key}
        if settings.api_key is not None:
            options["headers"] = {"authorization": f"ApiKey {settings.api_key.reveal()}"}
        elif settings.user is not None and settings.password is not None:
            options["http_auth"] = (settings.user, settings.password.reveal())
        elif settings.aws_region is not None:
            options["http_auth"] = _aws_signer(settings.aws_region, settings.aws_service)
        self._errors = opensearchpy.exceptions
        self._client = opensearchpy.OpenSearch(
            [address.base, *settings.hosts], timeout=settings.timeout, max_retries=0, retry_on_timeout=True,
            http_compress=True, pool_maxsize=settings.concurrency, **options,
        )  # fmt: skip

    def send(self, method: str, path: str, params: Mapping[str, str], body: str | None, kind: str) -> Any:
        errors = self._errors
        try:
            return self._client.transport.perform_request(
                method, path, params=dict(params), body=body, headers={"content-type": kind}
            )
        except errors.ConnectionTimeout:
            raise Failure("no answer in time", retryable=True) from None
        except errors.SSLError as error:
            raise _untrusted(error) from None
        except errors.ConnectionError as error:
            if _is_tls(error):
                raise _untrusted(error) from None
            raise Failure(f"no connection: {error.error}", retryable=True) from None
        except errors.SerializationError:
            raise Failure("an answer that is not JSON", retryable=True) from None
        except errors.TransportError as error:
            status = error.status_code if isinstance(error.status_code, int) else None
            raise Failure(_reason(error.info, str(error.error)), status=status) from None

    def close(self) -> None:
        self._client.close()


class ElasticsearchClient:
    """elasticsearch-py, for a service of the client's own major version."""

    def __init__(self, address: Address, settings: ServiceSettings):
        import elastic_transport
        import elasticsearch

        options: dict[str, Any] = {}
        if address.base.startswith("https:"):
            options = {"verify_certs": settings.verify, "ssl_show_warn": False}
            given = {"ca_certs": settings.ca, "client_cert": settings.client_cert, "client_key": settings.client_key}
            options |= {name: value for name, value in given.items() if value is not None}
        if settings.api_key is not None:
            options["api_key"] = settings.api_key.reveal()
        elif settings.user is not None and settings.password is not None:
            options["basic_auth"] = (settings.user, settings.password.reveal())
        self._errors, self._transport_errors = elasticsearch, elastic_transport
        self._client = elasticsearch.Elasticsearch(
            [address.base, *settings.hosts], request_timeout=settings.timeout, max_retries=0, retry_on_timeout=True,
            http_compress=True, connections_per_node=settings.concurrency, **options,
        )  # fmt: skip

    def send(self, method: str, path: str, params: Mapping[str, str], body: str | None, kind: str) -> Any:
        transport = self._transport_errors
        headers = {"accept": JSON, "content-type": kind} if body is not None else {"accept": JSON}
        try:
            return self._client.perform_request(method, path, params=dict(params), headers=headers, body=body).body
        except transport.ConnectionTimeout:
            raise Failure("no answer in time", retryable=True) from None
        except transport.TlsError as error:
            raise _untrusted(error) from None
        except transport.ConnectionError as error:
            raise Failure(f"no connection: {error.errors[0] if error.errors else error}", retryable=True) from None
        except transport.SerializationError:
            raise Failure("an answer that is not JSON", retryable=True) from None
        except self._errors.UnsupportedProductError:
            raise ServiceError(
                "the service is not Elasticsearch; install opensearch-py: pip install 'orienteer[opensearch]'"
            ) from None
        except transport.ApiError as error:
            retry_after = _seconds(error.meta.headers.get("retry-after"))
            raise Failure(
                _reason(error.body, str(error.message)), status=error.meta.status, retry_after=retry_after
            ) from None

    def close(self) -> None:
        self._client.close()


def open_client(address: Address, settings: ServiceSettings) -> Client:
    """The client that suits the service: Elasticsearch's own where its major version is the service's."""
    hide(settings.secrets())
    if settings.aws_region is not None and settings.client == "elasticsearch":
        raise ServiceAddressError(f"{PREFIX}AWS_REGION needs opensearch-py; unset {PREFIX}CLIENT")
    if settings.client == "elasticsearch" or (settings.client == "auto" and not _installed("opensearchpy")):
        if not _installed("elasticsearch"):
            raise MissingExtraError("opensearch-py", "opensearch")
        return ElasticsearchClient(address, settings)
    if not _installed("opensearchpy"):
        raise MissingExtraError("opensearch-py", "opensearch")
    client = OpenSearchClient(address, settings)
    if settings.client == "opensearch" or settings.aws_region is not None or not _installed("elasticsearch"):
        return client
    try:
        about = client.send("GET", "/", {}, None, JSON)
        theirs = about["version"]
        if theirs.get("distribution") != "opensearch" and str(theirs["number"]).split(".")[0] == _major():
            client.close()
            return ElasticsearchClient(address, settings)
    except (Failure, KeyError, TypeError, AttributeError):
        pass  # a service that hides what it is, or does not answer yet, is spoken to in plain JSON
    return client


def _aws_signer(region: str, service: str) -> Any:
    """Signs each request (SigV4) with the keys that Amazon's own tools would take: environment, profile, role."""
    import opensearchpy

    try:
        from botocore.session import Session
    except ImportError as error:
        raise MissingExtraError("botocore", "aws") from error
    keys = Session().get_credentials()
    if keys is None:
        raise ServiceRefusedError(
            "no AWS credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or run with a role"
        )
    frozen = keys.get_frozen_credentials()
    hide([each for each in (frozen.secret_key, frozen.token) if each])
    return opensearchpy.Urllib3AWSV4SignerAuth(keys, region, service)


def hide(secrets: list[str]) -> None:
    """Keep the secrets out of what the clients' own loggers write, should a service send them back."""
    for name in ("opensearch", "opensearchpy", "opensearchpy.trace", "elasticsearch", "elastic_transport.transport",
                 "elastic_transport.node", "urllib3.connectionpool"):  # fmt: skip
        logger = logging.getLogger(name)
        blind = next((each for each in logger.filters if isinstance(each, _RedactSecrets)), None)
        if blind is None:
            blind = _RedactSecrets()
            logger.addFilter(blind)
            logger.addHandler(logging.NullHandler())  # what matters of it comes as an error: nothing on a terminal
        blind.secrets.update(secrets)


class _RedactSecrets(logging.Filter):
    def __init__(self) -> None:
        super().__init__()
        self.secrets: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if any(secret in message for secret in self.secrets):
            record.msg, record.args = scrub(message, self.secrets), ()
        return True


def scrub(text: str, secrets: set[str] | list[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, "***")
    return text


def _installed(module: str) -> bool:
    try:
        return importlib.import_module(module) is not None
    except ImportError:
        return False


def _major() -> str:
    try:
        return version("elasticsearch").split(".")[0]
    except PackageNotFoundError:
        return ""


def _reason(body: Any, otherwise: str) -> str:
    """What the service says is wrong, in a line."""
    error = body.get("error", body) if isinstance(body, Mapping) else body
    if isinstance(error, Mapping):
        causes = error.get("root_cause") or [error]
        cause = causes[0] if isinstance(causes, list) and isinstance(causes[0], Mapping) else error
        parts = [cause.get("type") or error.get("type"), cause.get("reason") or error.get("reason")]
        text = ": ".join(str(part) for part in parts if part)
    else:
        text = str(error) if error else ""
    text = " ".join((text or otherwise).split())
    return text if len(text) <= 300 else text[:300] + "…"


def _is_tls(error: Any) -> bool:
    return "SSL" in type(error.info).__name__ or "CERTIFICATE_VERIFY_FAILED" in str(error.error)


def _untrusted(error: Exception) -> ServiceRefusedError:
    said = " ".join(str(error).split())
    if "certificate has expired" in said:
        return ServiceRefusedError("no trusted connection to the service: its certificate has expired; renew it there")
    if "Hostname mismatch" in said or "doesn't match" in said or "IP address mismatch" in said:
        return ServiceRefusedError(
            "no trusted connection to the service: its certificate is for another host; "
            "use the name that is in it, or have one made for this name"
        )
    return ServiceRefusedError(
        f"no trusted connection to the service: {said[:200]}; name the file of its certificate authority in {PREFIX}CA"
    )


def _seconds(text: str | None) -> float:
    try:
        return max(0.0, float(text)) if text else 0.0
    except ValueError:
        return 0.0
