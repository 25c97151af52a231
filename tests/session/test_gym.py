"""The Gymnasium environment."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest
from lexical_reader import LexicalReader
from small_world import HARD_QUESTIONS, QUESTIONS

from orienteer.engine import EmbeddedEngine
from orienteer.query import G4, Refinement
from orienteer.session import STOP, Settings, SettingsError

gymnasium = pytest.importorskip("gymnasium")
gym = pytest.importorskip("orienteer.session.gym")


def make(engine: EmbeddedEngine, **options: Any) -> Any:
    options = {"questions": QUESTIONS, **options}
    return gymnasium.make("orienteer/SearchSession-v0", engine=engine, reader=LexicalReader(), **options)


def test_gymnasium_finds_it_by_module_and_name(engine: EmbeddedEngine) -> None:
    name = "orienteer.session.gym:orienteer/SearchSession-v0"
    env = gymnasium.make(name, engine=engine, reader=LexicalReader(), questions=QUESTIONS)
    assert env.reset(options={"id": "q1"})[0].startswith("Question: who lit the first lamp on the reef\n1. ")


@pytest.mark.parametrize("render_mode", [None, "ansi"])
def test_it_passes_gymnasiums_own_check(engine: EmbeddedEngine, render_mode: str | None) -> None:
    from gymnasium.utils.env_checker import check_env

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(make(engine, render_mode=render_mode).unwrapped)


@pytest.mark.long
def test_the_shipped_environment_passes_it_without_any_further_import() -> None:
    program = """
import warnings
import gymnasium
from gymnasium.utils.env_checker import check_env
from orienteer import SearchSession

warnings.simplefilter("error")
check_env(SearchSession(), skip_render_check=True)
check_env(gymnasium.make("orienteer.session.gym:orienteer/SearchSession-v0").unwrapped)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_action_0_stops_and_the_others_are_the_refinements_in_info(engine: EmbeddedEngine) -> None:
    env = make(engine)
    _, info = env.reset(seed=1, options={"id": "q1"})
    assert env.action_space.n == len(info["action_mask"]) == 2048
    assert info["refinements"][0] == STOP
    assert info["action_mask"].sum() == len(info["refinements"])
    assert all(isinstance(each, Refinement) for each in info["refinements"][1:])
    assert len(set(info["refinements"])) == len(info["refinements"])
    assert env.step(0)[2:4] == (True, False)


def test_refinements_are_those_of_the_grammar_in_the_field_where_the_term_was_found(engine: EmbeddedEngine) -> None:
    env = make(engine)
    _, info = env.reset(options={"id": "q1"})
    [observation] = env.unwrapped.environment.observe([env.unwrapped.session])
    expected = set()
    for term in observation.terms:
        if "title" in term.sources:
            expected |= set(G4.refinements("title", term.text))
        if term.sources != {"title"}:
            expected |= set(G4.refinements("contents", term.text))
    assert set(info["refinements"][1:]) == expected


def test_rewards_add_up_to_the_gain_in_score_and_the_step_limit_truncates(engine: EmbeddedEngine) -> None:
    env = make(engine, settings=Settings(steps=5))
    for seed in range(8):
        _, info = env.reset(seed=seed)
        first, total, steps = info["score"], 0.0, 0
        terminated = truncated = False
        while not terminated and not truncated:
            assert not info["action_mask"][0], "stop is masked"
            action = env.action_space.sample(info["action_mask"])
            _, reward, terminated, truncated, info = env.step(action)
            total, steps = total + reward, steps + 1
        assert (terminated, truncated, steps) == (False, True, 5)
        assert total == pytest.approx(info["score"] - first)


def test_an_action_outside_the_mask_changes_nothing_and_costs_a_step(engine: EmbeddedEngine) -> None:
    env = make(engine, settings=Settings(steps=2, allow_stop=True))
    before, _ = env.reset(options={"id": "q2"})
    after, reward, terminated, truncated, info = env.step(2047)
    assert (after, reward, terminated, truncated, info["illegal"]) == (before, 0.0, False, False, True)
    assert env.step(2047)[2:4] == (False, True)


def test_a_dead_end_terminates_only_where_the_settings_say_so(engine: EmbeddedEngine) -> None:
    for dead_ends, expected in (("undo", False), ("stop", True)):
        env = make(engine, settings=Settings(dead_ends=dead_ends), grammar="G2")  # type: ignore[arg-type]
        _, info = env.reset(options={"id": "q3"})
        for _ in range(6):
            wanted = [i for i, r in enumerate(info["refinements"][1:], 1) if r.op == "+"]
            _, _, terminated, _, info = env.step(wanted[0])
            if env.unwrapped.session.steps[-1].dead_end:
                break
        assert env.unwrapped.session.steps[-1].dead_end
        assert terminated is expected


def test_a_question_without_hits_can_only_be_stopped(engine: EmbeddedEngine) -> None:
    env = make(engine, questions=HARD_QUESTIONS, settings=Settings())
    for id in ("no-hits", "empty", "too-many-words"):
        _, info = env.reset(options={"id": id})
        assert np.flatnonzero(info["action_mask"]).tolist() == [0]
        _, reward, terminated, _, _ = env.step(0)
        assert (reward, terminated) == (0.0, True)


def test_the_same_seed_asks_the_same_question(engine: EmbeddedEngine) -> None:
    env, other = make(engine), make(engine)
    asked = [env.reset(seed=n)[1]["id"] for n in range(12)]
    assert asked == [other.reset(seed=n)[1]["id"] for n in range(12)]
    assert len(set(asked)) > 2
    assert "q5" not in asked, "a question without answers has no reward"


def test_mistakes_are_refused_with_what_was_expected(engine: EmbeddedEngine) -> None:
    with pytest.raises(SettingsError, match="none of 1 questions has an answer"):
        make(engine, questions=QUESTIONS[4:])
    with pytest.raises(SettingsError, match="unknown grammar 'G9'"):
        make(engine, grammar="G9")
    with pytest.raises(SettingsError, match="no question with answers has the id 'q5'"):
        make(engine).reset(options={"id": "q5"})


def test_without_gymnasium_the_error_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['gymnasium'] = None\n"
        "from orienteer.errors import MissingExtraError\n"
        "import orienteer.session\n"
        "try:\n    import orienteer.session.gym\n"
        "except MissingExtraError as error:\n    print(error)"
    )
    came = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "pip install 'orienteer[gym]'" in came.stdout
