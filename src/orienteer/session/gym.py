"""A session as a Gymnasium environment: `from orienteer import SearchSession`.

By name, without an import of ours, and on the bundled corpus where nothing else is given:

gymnasium.make("orienteer.session.gym:orienteer/SearchSession-v0", engine=engine, reader=reader, questions=questions)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orienteer.bundled import bundled_engine, bundled_questions
from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine
from orienteer.errors import MissingExtraError, OrienteerError
from orienteer.query import GRAMMARS, Field, Grammar, Refinement
from orienteer.reader import CachedReader, TrainedReader
from orienteer.reader.protocol import Reader
from orienteer.session.environment import Environment
from orienteer.session.observation import Observation
from orienteer.session.settings import Settings, SettingsError
from orienteer.session.state import STOP, Session, Stop

try:
    import gymnasium
    from gymnasium import spaces
except ImportError:
    raise MissingExtraError("gymnasium", "gym") from None

ID = "orienteer/SearchSession-v0"
ACTIONS = 2048
LONGEST = 1 << 14  # characters of an observation


class AnyText(spaces.Text):
    """Every text up to a length; `Text` itself wants a list of all characters, and passages have any."""

    def contains(self, x: Any) -> bool:
        return isinstance(x, str) and len(x) <= self.max_length


def candidates(observation: Observation, grammar: Grammar, most: int) -> list[Refinement]:
    """What the grammar allows with the terms offered, rarest terms first.

    An operator applies to the field in which the term was found: the title, or for all other places `contents`.
    """
    refinements: list[Refinement] = []
    for term in sorted(observation.terms, key=lambda term: -term.idf):
        fields: list[Field] = ["contents"] if term.sources - {"title"} else []
        if "title" in term.sources:
            fields.append("title")
        refinements += [refinement for field in fields for refinement in grammar.refinements(field, term.text)]
        if len(refinements) >= most:
            break
    return refinements[:most]


class SearchSession(gymnasium.Env[str, np.int64]):
    """One session an episode; action 0 stops, action i makes the refinement `info["refinements"][i]`.

    `info["action_mask"]` (int8 [2048]) says which actions are legal. The reward is the increase of the score S.
    `terminated` on stop and, as in the paper's code, on a dead end if `dead_ends` is "stop"; `truncated` after the last
    step. An action outside the mask changes nothing but costs a step, and `info["illegal"]` says so.
    `reset(options={"id": …})` asks a question of your choice.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012 as Gymnasium declares it

    def __init__(
        self,
        engine: Engine | None = None,
        reader: Reader | None = None,
        questions: Sequence[Question] | None = None,
        grammar: Grammar | str = "G4",
        settings: Settings | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Where nothing is given: the bundled corpus, the shipped reader, the bundled questions."""
        engine, questions = engine or bundled_engine(), bundled_questions("train") if questions is None else questions
        reader = reader or CachedReader(TrainedReader.from_pretrained())
        self.environment = Environment(engine, reader, settings or Settings(allow_stop=True))
        self.questions = [question for question in questions if question.is_judged]
        if not self.questions:
            raise SettingsError(
                f"none of {len(questions)} questions has an answer or judgements; without, there is no reward"
            )
        if isinstance(grammar, str) and grammar not in GRAMMARS:
            raise SettingsError(f"unknown grammar {grammar!r}; expected one of {', '.join(GRAMMARS)}")
        self.grammar = GRAMMARS[grammar] if isinstance(grammar, str) else grammar
        self.render_mode = render_mode
        self.observation_space = AnyText(LONGEST, min_length=0)
        self.action_space = spaces.Discrete(ACTIONS)
        self._session: Session | None = None
        self._wasted = 0
        self._text = ""
        self._actions: list[Refinement | Stop] = []
        self._mask = np.zeros(ACTIONS, np.int8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        [self._session] = self.environment.open([self._choose(options or {})])
        self._wasted = 0
        return self._seen(illegal=False)

    def step(self, action: np.int64 | int) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if self._session is None:
            raise OrienteerError("step before reset; call reset first")
        before = self._session
        illegal = not (0 <= action < ACTIONS and self._mask[action])
        if illegal:
            self._wasted += 1
        else:
            [self._session] = self.environment.step([before], [self._actions[action]])
        session = self._session
        out_of_steps = session.refinements_made + self._wasted >= self.environment.settings.steps
        terminated = session.ended not in (None, "steps") and not illegal
        truncated = not terminated and (session.ended == "steps" or out_of_steps)
        text, info = self._seen(illegal)
        return text, _total(session) - _total(before), terminated, truncated, info

    def render(self) -> str | None:
        return self._text if self.render_mode == "ansi" else None

    def _choose(self, options: dict[str, Any]) -> Question:
        if "id" not in options:
            return self.questions[int(self.np_random.integers(len(self.questions)))]
        for question in self.questions:
            if question.id == options["id"]:
                return question
        raise SettingsError(f"no question with answers has the id {options['id']!r}")

    def _seen(self, illegal: bool) -> tuple[str, dict[str, Any]]:
        assert self._session is not None
        [observation] = self.environment.observe([self._session])
        going = self._session.ended is None
        self._actions = [STOP, *(candidates(observation, self.grammar, ACTIONS - 1) if going else [])]
        # Where nothing can be refined, also because the question found nothing, stopping is the one action left.
        may_stop = self.environment.settings.allow_stop or len(self._actions) == 1
        self._mask = _mask(len(self._actions), may_stop)
        self._text = str(observation)[:LONGEST]
        info = {
            "id": self._session.question.id, "refinements": tuple(self._actions), "action_mask": self._mask.copy(),
            "illegal": illegal, "score": _total(self._session), "ended": self._session.ended or "",
            "error": self._session.error,
        }  # fmt: skip
        return self._text, info

    @property
    def session(self) -> Session | None:
        """The session of the current episode."""
        return self._session


def _mask(actions: int, may_stop: bool) -> NDArray[np.int8]:
    mask = np.zeros(ACTIONS, np.int8)
    mask[:actions] = 1
    mask[0] = may_stop
    return mask


def _total(session: Session) -> float:
    return session.score.total if session.score else 0.0


if ID not in gymnasium.registry:
    gymnasium.register(id=ID, entry_point="orienteer.session.gym:SearchSession")
