"""The threads in which models compute have a lower priority than those that answer."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import ctranslate2
import pytest
from serving_world import MakeClient

from orienteer.commands.serving import open_all
from orienteer.serve.priority import at_lower_priority

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a thread has a priority of its own on Linux only")
LOWER = min(19, os.getpriority(os.PRIO_PROCESS, 0) + 5)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The niceness of every thread that an encoder of CTranslate2 has started."""
    niceness: list[int] = []
    real = ctranslate2.Encoder

    def encoder(*args: Any, **options: Any) -> Any:
        before = threads()
        made = real(*args, **options)
        niceness.extend(os.getpriority(os.PRIO_PROCESS, thread) for thread in threads() - before)
        return made

    monkeypatch.setattr(ctranslate2, "Encoder", encoder)
    return niceness


def threads() -> set[int]:
    return {int(each.name) for each in Path("/proc/self/task").iterdir()}


@pytest.mark.long
def test_a_served_reader_computes_at_a_lower_priority(started: list[int]) -> None:
    before = os.getpriority(os.PRIO_PROCESS, 0)
    at_lower_priority(lambda: open_all(None, None))
    assert set(started) == {LOWER}
    assert os.getpriority(os.PRIO_PROCESS, 0) == before


@pytest.mark.long
def test_an_agent_that_a_client_names_computes_at_a_lower_priority(started: list[int], make_client: MakeClient) -> None:
    client = make_client()
    asked = client.post("/api/sessions", json={"question": "who lit the lamp", "agent": "pointer", "steps": 1})
    assert asked.status_code == 200, asked.text
    assert set(started) == {LOWER}


def test_an_error_while_loading_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        at_lower_priority(lambda: 1 / 0)
