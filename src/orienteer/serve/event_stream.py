"""Server-sent events: one event as bytes, and a stream that proxies keep open and that tells its own errors."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from pydantic import BaseModel
from starlette.responses import StreamingResponse

from orienteer.errors import OrienteerError
from orienteer.serve.errors import Problem

MEDIA_TYPE = "text/event-stream"
EVENTS: dict[str, Any] = {MEDIA_TYPE: {"schema": {"type": "string"}}}
_HEARTBEAT = 10.0  # seconds

log = logging.getLogger("orienteer.serve")


def event(name: str, data: BaseModel) -> bytes:
    """One event; JSON has no line break of its own."""
    return f"event: {name}\ndata: {data.model_dump_json()}\n\n".encode()


def streamed(events: AsyncGenerator[bytes]) -> StreamingResponse:
    """The events as a response. The status is sent before the first one, so an error after it is an event too."""
    return StreamingResponse(
        with_heartbeat(with_errors(events)), media_type=MEDIA_TYPE, headers={"x-accel-buffering": "no"}
    )


async def with_errors(events: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    try:
        async for each in events:
            yield each
    except OrienteerError as error:
        yield event("error", Problem.of(error))
    except Exception:
        log.exception("a stream failed")
        yield event("error", Problem(kind="ServerError", message="the server failed at this step; its log says why"))
    finally:
        await events.aclose()


async def with_heartbeat(events: AsyncGenerator[bytes], every: float = _HEARTBEAT) -> AsyncIterator[bytes]:
    """The events, with a comment between two that are long apart: a proxy would close a silent connection."""
    pending: asyncio.Task[bytes] | None = None
    try:
        while True:
            pending = pending or asyncio.ensure_future(anext(events))
            done, _ = await asyncio.wait({pending}, timeout=every)
            if not done:
                yield b": still searching\n\n"
                continue
            try:
                each = pending.result()
            except StopAsyncIteration:
                return
            pending = None
            yield each
    finally:
        if pending is not None:
            pending.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await pending
        await events.aclose()
