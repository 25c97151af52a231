"""The workbench's errors, and how clients see them: what was found, what was expected, how to fix it; no traceback.

`status` of an error is its HTTP status code.
"""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from orienteer.errors import OrienteerError, QueryError, UnknownPassageError
from orienteer.serve.security import HEADERS


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
    """No gallery is served, or it lacks the requested agent or session."""

    status = 404


class SessionBusyError(ServeError):
    """A person or an agent is already working in this session."""

    status = 409


class NotPlayableError(ServeError):
    """A session that can be viewed but not continued here."""

    status = 409


class RefinementRefusedError(ServeError):
    """A refinement that this session cannot take."""

    status = 422


class LimitError(ServeError):
    """A request that exceeds one of this server's limits."""

    status = 422


class TooBusyError(ServeError):
    """As many agents are running as the server allows; the client should retry."""

    status = 429


class ClientGoneError(ServeError):
    """The client closed its connection; nobody reads the answer."""

    status = 499


class DiskFullError(ServeError):
    """The limit of saved sessions is reached."""

    status = 409


class TokenNeededError(ServeError):
    """An address that other machines can reach needs a token."""

    status = 401


class Problem(BaseModel, frozen=True, extra="forbid"):
    """`place` is the offending character of a query, where one is to blame."""

    kind: str
    message: str
    place: int | None = None

    @classmethod
    def of(cls, error: OrienteerError) -> Problem:
        if isinstance(error, QueryError):
            return cls(kind=type(error).__name__, message=error.message, place=error.place if error.text else None)
        return cls(kind=type(error).__name__, message=str(error))


def install_error_handlers(app: FastAPI) -> None:
    app.add_exception_handler(OrienteerError, _handle_ours)
    app.add_exception_handler(RequestValidationError, _handle_validation)
    app.add_exception_handler(HTTPException, _handle_http)
    app.add_exception_handler(ClientDisconnect, _handle_gone)
    app.add_exception_handler(Exception, _handle_failure)


def _response(status: int, problem: Problem, headers: dict[str, str] | None = None) -> Response:
    # JSON may contain lone surrogates, which UTF-8 cannot encode: show them as question marks.
    body = problem.model_copy(update={"message": problem.message.encode("utf-8", "replace").decode()})
    return Response(body.model_dump_json(), status, headers, "application/json")


async def _handle_ours(request: Request, error: Exception) -> Response:
    assert isinstance(error, OrienteerError)
    status = error.status if isinstance(error, ServeError) else 404 if isinstance(error, UnknownPassageError) else 422
    return _response(status, Problem.of(error), {"retry-after": "2"} if status == 429 else None)


async def _handle_validation(request: Request, error: Exception) -> Response:
    """Names the field and the reason but not the value, which may be anything and large."""
    assert isinstance(error, RequestValidationError)
    parts = [f"{'.'.join(str(part) for part in each['loc'])}: {each['msg']}" for each in error.errors()[:10]]
    return _response(422, Problem(kind="ValidationError", message="; ".join(parts)[:2000]))


async def _handle_gone(request: Request, error: Exception) -> Response:
    return _response(499, Problem(kind="ClientGoneError", message="the connection ended before the whole request came"))


async def _handle_failure(request: Request, error: Exception) -> Response:
    """An error of ours, which the log has; outside all middleware, so the security headers are set here."""
    return _response(500, Problem(kind="ServerError", message="the server failed; its log says why"), dict(HEADERS))


async def _handle_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers) if error.headers else None
    return _response(error.status_code, Problem(kind="HTTPError", message=str(error.detail)), headers)
