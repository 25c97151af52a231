"""Errors as clients see them: what was found, what was expected, how to mend it; never a traceback."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from orienteer.errors import OrienteerError, QueryError, UnknownPassageError
from orienteer.serve.errors import ServeError
from orienteer.serve.responses import View


class Problem(View):
    """`place` is the offending character of a query, where one is to blame."""

    kind: str
    message: str
    place: int | None = None

    @classmethod
    def of(cls, error: OrienteerError) -> Problem:
        if isinstance(error, QueryError):
            return cls(kind=type(error).__name__, message=error.message, place=error.place if error.text else None)
        return cls(kind=type(error).__name__, message=str(error))


def install(app: FastAPI) -> None:
    app.add_exception_handler(OrienteerError, _ours)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)


def _answer(status: int, problem: Problem, headers: dict[str, str] | None = None) -> Response:
    # A surrogate, which JSON lets in but UTF-8 does not let out, is shown as a question mark.
    body = problem.model_copy(update={"message": problem.message.encode("utf-8", "replace").decode()})
    return Response(body.model_dump_json(), status, headers, "application/json")


async def _ours(request: Request, error: Exception) -> Response:
    assert isinstance(error, OrienteerError)
    status = error.status if isinstance(error, ServeError) else 404 if isinstance(error, UnknownPassageError) else 422
    return _answer(status, Problem.of(error), {"retry-after": "2"} if status == 429 else None)


async def _invalid(request: Request, error: Exception) -> Response:
    """Only where and why, not what: the value may be anything, and large."""
    assert isinstance(error, RequestValidationError)
    parts = [f"{'.'.join(str(part) for part in each['loc'])}: {each['msg']}" for each in error.errors()[:10]]
    return _answer(422, Problem(kind="ValidationError", message="; ".join(parts)[:2000]))


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers) if error.headers else None
    return _answer(error.status_code, Problem(kind="HTTPError", message=str(error.detail)), headers)
