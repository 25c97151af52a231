"""Routes of one's own documents: drop files and build an index, facets of metadata, a page of a PDF."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from fastapi import Query as Parameter
from pydantic import Field
from starlette.responses import FileResponse

from orienteer.engine.facets import facets
from orienteer.serve.app_state import state_of
from orienteer.serve.event_stream import EVENTS, event, streamed
from orienteer.serve.schemas import IndexName, PassageId, RequestModel, ResponseModel
from orienteer.serve.uploads import UPLOAD_ID, UnknownUploadError, Upload, Uploads

router = APIRouter(prefix="/api", tags=["documents"])

UploadId = Annotated[str, Path(pattern=f"^{UPLOAD_ID.pattern}$")]
FileName = Annotated[str, Field(min_length=1, max_length=4096)]
_PICTURE: dict[int | str, dict[str, Any]] = {200: {"content": {"image/png": {}}}}
_PDF: dict[int | str, dict[str, Any]] = {200: {"content": {"application/pdf": {}}}}
_STREAM: dict[int | str, dict[str, Any]] = {200: {"content": EVENTS}}
_PIECE = {"required": True, "content": {"application/octet-stream": {"schema": {"type": "string"}}}}


class FacetsRequest(RequestModel):
    """What is chosen: field → values."""

    index: IndexName = ""
    chosen: Annotated[
        dict[
            Annotated[str, Field(max_length=200)],
            Annotated[list[Annotated[str, Field(max_length=1000)]], Field(max_length=50)],
        ],
        Field(max_length=20),
    ] = {}  # noqa: RUF012


class FacetValueView(ResponseModel):
    value: str
    passages: int


class FacetView(ResponseModel):
    """The values of one field, with the passages that choosing each would leave; `more` values are not shown."""

    field: str
    values: list[FacetValueView]
    more: int


class FacetsView(ResponseModel):
    """`where` is the filter of what is chosen, for search and ask; `passages` is how many it leaves."""

    facets: list[FacetView]
    where: str
    passages: int


@router.post("/facets")
async def list_facets(request: Request, wanted: FacetsRequest) -> FacetsView:
    """Folders, file types, years, languages and other metadata with few values."""
    engine = state_of(request).engine(wanted.index)
    found = await asyncio.to_thread(facets, engine, wanted.chosen)
    return FacetsView(
        facets=[
            FacetView(
                field=each.field, more=each.more,
                values=[FacetValueView(value=value.value, passages=value.passages) for value in each.values],
            )
            for each in found.facets
        ],
        where=found.where, passages=found.passages,
    )  # fmt: skip


@router.get("/source/page", response_class=Response, responses=_PICTURE)
async def source_page(
    request: Request, id: Annotated[PassageId, Parameter()], index: Annotated[IndexName, Parameter()] = ""
) -> Response:
    """The page of the PDF that a passage is from, drawn, with it marked; both where it goes on over the page's end."""
    state = state_of(request)
    name = state.index(index)
    [passage] = await asyncio.to_thread(state.engines[name].passages, [id])
    path, pages = await asyncio.to_thread(state.sources.pdf_of, name, passage, state.documents())
    return Response(await state.sources.draw(path, pages, passage.text), media_type="image/png")


@router.get("/source/file", response_class=Response, responses=_PDF)
async def source_file(
    request: Request, id: Annotated[PassageId, Parameter()], index: Annotated[IndexName, Parameter()] = ""
) -> Response:
    """The PDF file that a passage is from."""
    state = state_of(request)
    name = state.index(index)
    [passage] = await asyncio.to_thread(state.engines[name].passages, [id])
    path, _ = await asyncio.to_thread(state.sources.pdf_of, name, passage, state.documents())
    return FileResponse(path, media_type="application/pdf", content_disposition_type="inline")


class UploadedFile(RequestModel):
    name: FileName
    size: Annotated[int, Field(ge=0, le=1 << 50)]


class UploadRequest(RequestModel):
    """The files that will be sent, and a name for their index."""

    name: Annotated[str, Field(max_length=200)] = ""
    files: Annotated[list[UploadedFile], Field(min_length=1, max_length=20_000)]


class UploadFileView(ResponseModel):
    """A file under its safe name; `reason` where it is not taken and must not be sent."""

    name: str
    size: int
    reason: str


class UploadView(ResponseModel):
    """`piece` is how many bytes a request may carry; `index` is the index's name once it is built."""

    id: str
    name: str
    files: list[UploadFileView]
    piece: int
    index: str


class ReceivedView(ResponseModel):
    received: int


class BuildProgress(ResponseModel):
    """How far the index is: the file at work, its number among all, passages so far."""

    file: str
    number: int
    files: int
    passages: int


class UnreadableView(ResponseModel):
    file: str
    reason: str


class BuiltView(ResponseModel):
    """The index is served under this name; `unreadable` files are not in it."""

    index: str
    passages: int
    unreadable: list[UnreadableView]


@router.post("/uploads", status_code=201)
async def begin_upload(request: Request, wanted: UploadRequest) -> UploadView:
    """Announces files. Each is then sent by PUT in pieces, and `build` makes the index."""
    uploads = _uploads(request)
    files = [(each.name, each.size) for each in wanted.files]
    upload = await asyncio.to_thread(uploads.begin, wanted.name, files)
    return _view(request, upload)


@router.put("/uploads/{id}/files/{number}", openapi_extra={"requestBody": _PIECE})
async def receive_piece(
    request: Request,
    id: UploadId,
    number: Annotated[int, Path(ge=0, le=20_000)],
    offset: Annotated[int, Parameter(ge=0, le=1 << 50)] = 0,
) -> ReceivedView:
    """The next bytes of a file."""
    uploads = _uploads(request)
    data = await request.body()
    return ReceivedView(received=await asyncio.to_thread(uploads.write, id, number, offset, data))


@router.post("/uploads/{id}/build", responses=_STREAM, response_class=Response)
async def build_upload(request: Request, id: UploadId) -> Response:
    """Builds the index: events `progress` …, then `end` or `error`. Who closes the connection stops it."""
    uploads = _uploads(request)
    uploads.get(id)
    return streamed(_build_events(uploads, id))


@router.delete("/uploads/{index}", status_code=204)
async def delete_upload(request: Request, index: Annotated[str, Path(max_length=200)]) -> Response:
    """Forgets an index that was made from an upload, and its files."""
    state, uploads = state_of(request), _uploads(request)
    await asyncio.to_thread(uploads.delete, uploads.of_index(index).id)
    state.agents.forget(index)
    return Response(status_code=204)


async def _build_events(uploads: Uploads, id: str) -> AsyncGenerator[bytes]:
    async with aclosing(uploads.build(id)) as rows:
        async for row in rows:
            if "index" in row:
                yield event("end", BuiltView(**row))
            else:
                yield event("progress", BuildProgress(**row))


def _uploads(request: Request) -> Uploads:
    uploads = state_of(request).uploads
    if uploads is None:
        raise UnknownUploadError("this server takes no files; start it with --uploads DIR")
    return uploads


def _view(request: Request, upload: Upload) -> UploadView:
    files = [UploadFileView(name=each.name, size=each.size, reason=each.reason) for each in upload.files]
    piece = state_of(request).limits.body
    return UploadView(id=upload.id, name=upload.name, files=files, piece=piece, index=upload.index)
