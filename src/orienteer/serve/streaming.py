"""Server-sent events: a session as it unfolds. The events are `session`, `step` …, then `end` or `error`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from pydantic import BaseModel

MEDIA_TYPE = "text/event-stream"
_STILL_HERE = 10.0  # seconds without a step after which the client hears that the server lives


def event(name: str, data: BaseModel) -> bytes:
    """One event; JSON has no line break of its own."""
    return f"event: {name}\ndata: {data.model_dump_json()}\n\n".encode()


async def with_heartbeat(events: AsyncIterator[bytes], every: float = _STILL_HERE) -> AsyncIterator[bytes]:
    """The events, with a comment between two that are long apart: else a proxy would give up the connection."""
    waiting: asyncio.Task[Any] | None = None
    try:
        while True:
            waiting = waiting or asyncio.ensure_future(anext(events))
            done, _ = await asyncio.wait({waiting}, timeout=every)
            if not done:
                yield b": still searching\n\n"
                continue
            try:
                found = waiting.result()
            except StopAsyncIteration:
                return
            waiting = None
            yield found
    finally:
        if waiting is not None:
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await waiting
        closing = getattr(events, "aclose", None)
        if closing is not None:
            await closing()
