"""Who has played already, as an ensemble's member or in another order, takes the actions from the journal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from evaluated_world import FORTY, run, tree

from orienteer.agents.prf import Feedback
from orienteer.engine import ReferenceEngine
from orienteer.session import Action, Observation

MEMBERS = ("prf-idf-t", "prf-answer")
AGREED = ("prf-answer[order=agreement]", "ensemble(prf-idf-t|prf-answer)[order=agreement]")
ENSEMBLES = ("ensemble(prf-idf-t|prf-answer)", "ensemble@6(prf-idf-t|prf-answer)")


@pytest.mark.long
def test_ensembles_and_other_orders_beside_their_agents_are_those_played_alone_and_each_agent_thinks_once(
    engine: ReferenceEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(engine, tmp_path / "alone", agents=(*ENSEMBLES, *AGREED))
    thought: list[int] = []
    act = Feedback.act

    def counted(self: Feedback, observations: Sequence[Observation]) -> list[Action]:
        thought.append(len(observations))
        return list(act(self, observations))

    monkeypatch.setattr(Feedback, "act", counted)
    run(engine, tmp_path / "beside", agents=MEMBERS)
    once = sum(thought)
    assert once > len(FORTY)
    run(engine, tmp_path / "beside", agents=(*MEMBERS, *ENSEMBLES, *AGREED))
    assert sum(thought) == once
    alone, beside = tree(tmp_path / "alone"), tree(tmp_path / "beside")
    sessions = [name for name in alone if name.startswith("sessions/")]
    assert len(sessions) == 4
    assert all(alone[name] == beside[name] for name in sessions)


@pytest.mark.long
def test_a_member_with_other_settings_plays_for_itself(engine: ReferenceEngine, tmp_path: Path) -> None:
    names = ("prf-idf-t", "ensemble(prf-idf-t[steps=2])")
    run(engine, tmp_path / "beside", agents=names)
    run(engine, tmp_path / "alone", agents=names[1:])
    [name] = [name for name in tree(tmp_path / "alone") if name.startswith("sessions/")]
    assert tree(tmp_path / "alone")[name] == tree(tmp_path / "beside")[name]
