"""Settings: what they may be, and what a wrong one says."""

from __future__ import annotations

from typing import Any

import pytest

from orienteer.session import Settings, SettingsError


def test_the_defaults_are_the_papers_where_it_says() -> None:
    settings = Settings()
    assert (settings.steps, settings.hits, settings.lambda1, settings.lambda2) == (20, 5, 0.2, 0.6)
    assert (settings.dead_ends, settings.allow_stop, settings.order) == ("undo", False, "ps")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"steps": -1}, "steps = -1"), ({"steps": 1.5}, "steps = 1.5"), ({"steps": True}, "steps = True"),
        ({"hits": 0}, "hits = 0"), ({"order": "random"}, "ps, agreement or engine"),
        ({"dead_ends": "back"}, "undo or stop"),
        ({"allow_stop": 1}, "true or false"), ({"lambda1": 0.7}, "together at most 1"),
        ({"lambda2": -0.1}, "numbers from 0"), ({"lambda1": float("nan")}, "numbers from 0"),
        ({"lambda1": "x"}, "a number"), ({"relevance": "fuzzy"}, "tokens, possessives or substring"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_refused_with_what_was_expected(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        Settings(**wrong)


def test_options_given_as_text_change_settings() -> None:
    options = {"steps": "3", "dead_ends": "stop", "allow_stop": "true", "lambda1": "0.1"}
    assert Settings().with_options(options) == Settings(steps=3, dead_ends="stop", allow_stop=True, lambda1=0.1)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [("step", "3", "unknown option 'step'"), ("steps", "few", "a whole number"),
     ("allow_stop", "maybe", "true or false"), ("lambda1", "x", "a number"), ("dead_ends", "x", "undo or stop")],
)  # fmt: skip
def test_an_option_that_does_not_fit_is_refused(name: str, text: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        Settings().with_options({name: text})
