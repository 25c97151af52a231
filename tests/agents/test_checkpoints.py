"""`NAME=DIR`: agents that are loaded from a folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from orienteer.agents import (
    AgentNameError,
    AgentRequest,
    AgentSpec,
    Checkpoint,
    CheckpointMissingError,
    ConfiguredAgent,
    make_agent,
)
from orienteer.agents import registry as registry_module
from orienteer.agents.baselines import NoRefinement
from orienteer.engine import Engine
from orienteer.session import Settings

MADE: list[AgentRequest] = []


def make(request: AgentRequest) -> ConfiguredAgent:
    MADE.append(request)
    return ConfiguredAgent(request.name, NoRefinement(), request.settings)


@pytest.fixture(autouse=True)
def learned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AgentSpec:
    """A learned kind of agent, `learned-A` and `learned-B`, of which A is shipped."""
    (tmp_path / "shipped" / "A").mkdir(parents=True)
    checkpoint = Checkpoint("orienteer train learned", lambda found: tmp_path / "shipped" / found["kind"])
    pattern = re.compile("learned-(?P<kind>[AB])")
    spec = AgentSpec("learned-A…B", "plays", "checkpoint", pattern, make, ("learned-A",), checkpoint)
    monkeypatch.setattr(registry_module, "BUILT_IN", (*registry_module.BUILT_IN, spec))
    MADE.clear()
    return spec


def test_a_bare_name_is_the_shipped_checkpoint(engine: Engine, tmp_path: Path) -> None:
    entry = make_agent("learned-A[steps=3]", engine)
    assert (entry.name, entry.settings) == ("learned-A[steps=3]", Settings(steps=3, order="agreement"))
    assert MADE[0].folder == tmp_path / "shipped" / "A"


@pytest.mark.parametrize("folder", ["mine", "my [old] ones", "a=b"])
def test_a_folder_after_the_equals_sign_is_taken_instead(folder: str, engine: Engine, tmp_path: Path) -> None:
    (tmp_path / folder).mkdir()
    assert make_agent(f"learned-B={tmp_path / folder}[steps=3;seed=1]", engine).settings == Settings(
        steps=3, seed=1, order="agreement"
    )
    assert make_agent(f"learned-B = {tmp_path / folder}[]", engine).settings == Settings(order="agreement")
    assert [request.folder for request in MADE] == [tmp_path / folder] * 2


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("learned-A=nowhere/at-all", "no folder nowhere/at-all; make one with `orienteer train learned`"),
        ("learned-B", "no shipped checkpoint at .*/shipped/B; .* name it: learned-B=DIR"),
    ],
)
def test_a_missing_folder_is_one_clear_error(name: str, says: str, engine: Engine) -> None:
    with pytest.raises(CheckpointMissingError, match=says):
        make_agent(name, engine)
    assert not MADE


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("bm25=folder", "bm25 has nothing to load; leave out '=folder'"),
        ("learned-A=", "no folder after the equals sign; write learned-A=DIR"),
        ("learned-C=folder", "no agent is called 'learned-C'; did you mean learned-A"),
        ("learned-A[step=1]", "unknown option 'step'"),
    ],
)
def test_a_name_that_will_not_do_says_why_before_anything_is_loaded(name: str, says: str, engine: Engine) -> None:
    with pytest.raises(AgentNameError, match=says):
        make_agent(name, engine)
    assert not MADE
