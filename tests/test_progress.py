"""Long work says how far it is, on a terminal and in a log."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from orienteer.commands import terminal


@dataclass(frozen=True, slots=True)
class Told:
    done: int
    total: int
    seconds_left: float | None


def test_in_a_log_progress_is_a_line_a_minute(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr(terminal, "monotonic", lambda: now)
    with terminal.progress("sessions") as show:
        for now in (1.0, 59.0, 61.0, 90.0, 122.0):
            show(Told(int(now) * 20, 6000, None if now < 100 else 180.4), "t5-G1[steps=2]")
    assert capsys.readouterr().err.splitlines() == [
        "1,220 of 6,000 sessions, t5-G1[steps=2]",
        "2,440 of 6,000 sessions, t5-G1[steps=2], 3 min left",
    ]
