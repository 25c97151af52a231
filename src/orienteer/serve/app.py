"""The workbench as one FastAPI app: page, API, probes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.middleware import Middleware
from starlette.responses import FileResponse
from starlette.staticfiles import StaticFiles

from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine
from orienteer.reader.protocol import Reader
from orienteer.serve import catalogue, gallery_routes, session_routes
from orienteer.serve import error_handlers as problems
from orienteer.serve.app_state import Desk, desk_of
from orienteer.serve.error_handlers import Problem
from orienteer.serve.limits import Limits
from orienteer.serve.metrics import CONTENT_TYPE, Observed
from orienteer.serve.responses import View
from orienteer.serve.security import Guard

PAGE = Path(__file__).parent / "page"
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem} for status in (400, 401, 403, 404, 409, 413, 422, 429)
}


class ProbeView(View):
    status: str


def make_app(
    engines: Mapping[str, Engine],
    reader: Reader,
    saved: Path,
    *,
    limits: Limits | None = None,
    token: str | None = None,
    hosts: Sequence[str] = (),
    agents: Sequence[str] = (),
    examples: Sequence[Question] = (),
    evaluation: Path | None = None,
    log_queries: bool = False,
) -> FastAPI:
    """The app.

    engines      by name; the first is asked where a client names none
    saved        folder of saved sessions
    token        asked of every client, where given
    hosts        names beside loopback's under which the server may be called without a token
    agents       further agents to offer, such as `pointer=DIR`; the first becomes the default
    examples     questions that the page offers
    evaluation   a folder that `evaluate` wrote, for the gallery
    """
    limits = limits or Limits()
    desk = Desk(
        engines, reader, saved, limits=limits, agents=agents, examples=examples, evaluation=evaluation,
    )  # fmt: skip

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        desk.close()

    app = FastAPI(
        title="Orienteer", version=version("orienteer"), lifespan=lifespan, responses=_PROBLEMS,
        summary="Agents that use a search engine the way a skilled person does",
        # Its pages load scripts from another host.
        docs_url=None, redoc_url=None, openapi_url="/api/openapi.json",
        middleware=[
            Middleware(Observed, desk.metrics, log_queries),
            Middleware(Guard, token, limits.body, hosts),
        ],
    )  # fmt: skip
    app.state.desk = desk
    problems.install(app)
    for router in (catalogue.router, session_routes.router, gallery_routes.router):
        app.include_router(router)
    _add_probes(app)
    _add_page(app)
    return app


def _add_probes(app: FastAPI) -> None:
    @app.get("/health", tags=["probes"])
    async def health() -> ProbeView:
        """The process lives."""
        return ProbeView(status="alive")

    @app.get("/ready", tags=["probes"], responses={503: {"model": ProbeView}})
    async def ready(request: Request, response: Response) -> ProbeView:
        """The loops that search and read are at work."""
        if not desk_of(request).ready:
            response.status_code = 503
            return ProbeView(status="not ready")
        return ProbeView(status="ready")

    @app.get("/metrics", tags=["probes"], response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def metrics(request: Request) -> Response:
        """Counters for Prometheus."""
        return Response(desk_of(request).metrics.text(), media_type=CONTENT_TYPE)


def _add_page(app: FastAPI) -> None:
    # The browser asks each time whether a file has changed: an upgrade must not meet an old script.
    fresh = {"cache-control": "no-cache"}

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(PAGE / "index.html", headers=fresh)

    app.mount("/page", _PageFiles(directory=PAGE), name="page")


class _PageFiles(StaticFiles):
    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["cache-control"] = "no-cache"
        return response
