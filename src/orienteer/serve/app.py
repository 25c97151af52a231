"""The workbench as one FastAPI app: page, API, probes."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from fastapi import FastAPI, Request, Response
from starlette.middleware import Middleware
from starlette.responses import FileResponse
from starlette.staticfiles import StaticFiles

from orienteer.data.passage import Question
from orienteer.engine.embedded.current import CurrentEngines
from orienteer.engine.protocol import Engine
from orienteer.reader.protocol import Reader
from orienteer.serve import document_routes, gallery, search_routes, session_routes, workshop_routes
from orienteer.serve.app_state import AppState, state_of
from orienteer.serve.errors import Problem, install_error_handlers
from orienteer.serve.metrics import CONTENT_TYPE, MetricsMiddleware
from orienteer.serve.schemas import ResponseModel
from orienteer.serve.security import Limits, SecurityMiddleware
from orienteer.serve.uploads import UploadLimits, Uploads

PAGE = Path(__file__).parent / "page"
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem} for status in (400, 401, 403, 404, 409, 413, 422, 429)
}


class ProbeView(ResponseModel):
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
    uploads: Path | Literal["temporary"] | None = None,
    documents: Mapping[str, Path] | None = None,
    upload_limits: UploadLimits | None = None,
    log_queries: bool = False,
) -> FastAPI:
    """The app.

    engines      by name; the first is the default
    saved        folder of saved sessions
    token        required of every client, where given
    hosts        host names, beside those of loopback, that need no token
    agents       further agents to offer, such as `pointer=DIR`; the first becomes the default
    examples     questions that the page offers
    evaluation   a folder that `evaluate` wrote, for the gallery
    uploads      the folder for files that clients drop, and their indexes; None: nothing can be uploaded
    documents    index name → the folder that was indexed, so that pages of its PDF files can be shown
    """
    limits = limits or Limits()
    kept: Uploads | None = None
    if uploads is not None:
        engines = engines if isinstance(engines, CurrentEngines) else CurrentEngines(engines)
        kept = Uploads(engines, None if uploads == "temporary" else Path(uploads), upload_limits)
    state = AppState(
        engines, reader, saved, limits=limits, agents=agents, examples=examples, uploads=kept, documents=documents
    )

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        gc.freeze()  # a full collection that walks the loaded libraries too would stop every request for some 50 ms
        yield
        gc.unfreeze()
        state.close()

    app = FastAPI(
        title="Orienteer", version=version("orienteer"), lifespan=lifespan, responses=_PROBLEMS,
        summary="Agents that use a search engine the way a skilled person does",
        # FastAPI's own documentation pages load scripts from another host.
        docs_url=None, redoc_url=None, openapi_url="/api/openapi.json",
        middleware=[
            Middleware(MetricsMiddleware, state.metrics, log_queries),
            Middleware(SecurityMiddleware, token, limits.body, hosts),
        ],
    )  # fmt: skip
    app.state.shared = state
    app.state.gallery = gallery.Gallery(evaluation) if evaluation is not None else None
    install_error_handlers(app)
    for routes in (search_routes, session_routes, document_routes, gallery, workshop_routes):
        app.include_router(routes.router)
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
        if not state_of(request).ready:
            response.status_code = 503
            return ProbeView(status="not ready")
        return ProbeView(status="ready")

    @app.get("/metrics", tags=["probes"], response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def metrics(request: Request) -> Response:
        """Counters for Prometheus."""
        return Response(state_of(request).metrics.text(), media_type=CONTENT_TYPE)


def _add_page(app: FastAPI) -> None:
    # The browser revalidates each file: a page must not mix scripts of two versions.
    headers = {"cache-control": "no-cache"}

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(PAGE / "index.html", headers=headers)

    app.mount("/page", _PageFiles(directory=PAGE), name="page")


class _PageFiles(StaticFiles):
    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["cache-control"] = "no-cache"
        return response
