"""The planner: its beam finds what a search through all plans finds, and it imagines what reading would make real."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from lexical_reader import LexicalReader
from numpy.typing import NDArray
from small_world import HARD_QUESTIONS, PASSAGES, QUESTIONS
from tiny_pointer import save_pointer, value_model_tensors

from orienteer.agents import AgentNameError, check_agent, make_agent
from orienteer.agents.action_space import RankedActions
from orienteer.agents.lookahead.candidates import Candidates, Lookahead
from orienteer.agents.lookahead.value_model import Prediction, expected_ps, logits
from orienteer.agents.planner.agent import BLIND, PlannerAgent
from orienteer.agents.planner.imagined import Imagination, ImaginedState, states_after_undo
from orienteer.agents.planner.search import Plan, Planned, PlanSettings, best_plans
from orienteer.agents.pointer.agent import PointerAgent
from orienteer.data.passage import Passage
from orienteer.engine import EmbeddedEngine, Engine, ReferenceEngine
from orienteer.engine.protocol import Hit
from orienteer.errors import OrienteerError, QueryError
from orienteer.query import Query, Refinement
from orienteer.reader.protocol import Reading
from orienteer.session import STOP, UNDO, AgentCost, Environment, Observation, Settings, Undo, run_sessions

EVERY = 10**9
IDS = [passage.id for passage in PASSAGES]
WORTH = dict(zip(IDS, np.random.default_rng(5).normal(0, 1, len(IDS)), strict=True))


def told_ps(id: str) -> float:
    """The PS of a passage, in `Told` and in the reader that agrees with it."""
    return (1 + IDS.index(id)) / 100


class Told:
    """A policy that ranks a few refinements, and a reading model that has each passage's worth in a table."""

    fingerprint = "told"

    def __init__(self, pointer: PointerAgent, size: int, worth: dict[str, float] | None = None) -> None:
        self._pointer, self._size, self._worth = pointer, size, worth or WORTH

    @property
    def lookahead(self) -> Lookahead:
        return self._pointer.lookahead

    def rank(self, observations: Sequence[Observation]) -> Iterator[RankedActions]:
        for ranked in self._pointer.rank(observations):
            some = np.linspace(0, len(ranked) - 1, min(self._size, len(ranked))).astype(int)
            yield replace(ranked, actions=ranked.actions[some], log_probabilities=ranked.log_probabilities[some])

    def passage_values(self, candidates: Candidates) -> NDArray[np.float64]:
        return np.array([self._worth[id] for id in candidates.ids])

    def expected_ps(self, candidates: Candidates, places: Sequence[int]) -> NDArray[np.float64]:
        return np.array([told_ps(candidates.ids[at]) for at in places])


@pytest.fixture(params=["embedded", "reference"])
def engine(request: pytest.FixtureRequest, embedded: EmbeddedEngine) -> Engine:
    return embedded if request.param == "embedded" else ReferenceEngine(PASSAGES)


@pytest.fixture(scope="module")
def valued(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_pointer(tmp_path_factory.mktemp("valued"), more=value_model_tensors())


def observations(engine: Engine, policy: Told, steps: int, hits: int = 2) -> list[Observation]:
    """States after some of the policy's own refinements; few hits, so that there is something to find."""
    environment = Environment(engine, LexicalReader(), Settings(steps=6, hits=hits))
    sessions = environment.open(QUESTIONS[:3])
    for step in range(steps):
        seen = environment.observe(sessions)
        actions = [ranked.refinement((3 * step) % len(ranked)) for ranked in policy.rank(seen)]
        sessions = environment.step(sessions, actions)
    return environment.observe(sessions)


def all_plans(engine: Engine, seen: Observation, ranked: RankedActions, depth: int, discount: float) -> list[Plan]:
    """Every sequence of refinements with different terms, after every number of undos, searched one by one."""
    options = ranked.refinements()
    plans = []
    for undos in range(len(seen.refinements) + 1):
        start = seen.refinements[: len(seen.refinements) - undos]
        for length in range(1, min(depth, seen.steps_left - undos) + 1):
            for path in product(options, repeat=length):
                if len({each.term for each in path}) < length:
                    continue
                read, value = set(seen.seen), 0.0
                for step in range(length):
                    found = engine.search(Query(seen.question, (*start, *path[: step + 1])), 5)
                    new = {hit.id for hit in found} - read
                    value += discount ** (undos + step) * sum(WORTH[id] for id in new)
                    read |= new
                plans.append(Plan(value, undos, path))
    return plans


@pytest.mark.long
@pytest.mark.parametrize(("steps", "depth"), [(0, 1), (0, 3), (2, 2)])
def test_with_a_wide_beam_the_best_of_all_plans_is_found(
    steps: int, depth: int, engine: Engine, pointer_folder: Path
) -> None:
    policy = Told(PointerAgent.from_pretrained(pointer_folder, engine, threads=1), size=5)
    settings = PlanSettings(depth, EVERY, 0.8)
    seen = observations(engine, policy, steps)
    ranked = list(policy.rank(seen))
    imagination = Imagination(engine, policy.lookahead._lexicon, policy.lookahead, policy)
    roots = [states_after_undo(*each) for each in zip(seen, ranked, strict=True)]
    for each, actions, planned in zip(seen, ranked, best_plans(roots, imagination.expand, settings), strict=True):
        plans = all_plans(engine, each, actions, depth, 0.8)
        assert len(planned.plans) == min(depth, each.steps_left)
        for length, ours in enumerate(planned.plans, 1):
            values = {(p.undos, p.refinements): p.value for p in plans if len(p.refinements) == length}
            assert ours.value == pytest.approx(max(values.values()))
            assert values[ours.undos, ours.refinements] == pytest.approx(ours.value)


def test_a_narrow_beam_finds_no_more_than_a_wide_one(embedded: EmbeddedEngine, pointer: PointerAgent) -> None:
    policy = Told(pointer, size=8)
    imagination = Imagination(embedded, pointer.lookahead._lexicon, pointer.lookahead, policy)
    for seen in observations(embedded, policy, 1):
        roots = [states_after_undo(seen, next(policy.rank([seen])))]
        values, costs = [], []
        for beam in (1, 3, EVERY):
            [planned] = best_plans(roots, imagination.expand, PlanSettings(3, beam))
            values.append([plan.value for plan in planned.plans])
            costs.append(planned.cost.refinements_scored)
        assert values[0][0] == values[1][0] == values[2][0]
        assert all(narrow <= wide + 1e-9 for narrow, wide in zip(values[0], values[2], strict=True))
        assert costs[0] < costs[1] < costs[2]


def test_what_is_imagined_is_what_happens_if_reading_says_what_was_expected(
    embedded: EmbeddedEngine, pointer: PointerAgent
) -> None:
    policy = Told(pointer, size=20)

    class Expected(LexicalReader):
        """Gives each passage the PS that the reading model expects."""

        def read_many(self, batch: Sequence[tuple[str, Sequence[Passage]]]) -> list[list[Reading]]:
            return [
                [each._replace(score=told_ps(p.id)) for each, p in zip(readings, passages, strict=True)]
                for (_, passages), readings in zip(batch, super().read_many(batch), strict=True)
            ]

    environment = Environment(embedded, Expected(), Settings(steps=6))
    imagination = Imagination(embedded, environment.lexicon, pointer.lookahead, policy)
    sessions = environment.open(QUESTIONS[:4])
    seen = environment.observe(sessions)
    states = [states_after_undo(*each)[0] for each in zip(seen, policy.rank(seen), strict=True)]
    for _ in range(2):
        expanded = imagination.expand(states)
        actions, after = [], []
        for choices in expanded:
            assert choices is not None
            best = int(np.argmax([len(choices.new_passages(place)) for place in range(len(choices.values))]))
            actions.append(choices.refinement(best))
            after.append(choices.after(best))
        sessions = environment.step(sessions, actions)
        for real, state in zip(environment.observe(sessions), after, strict=True):
            imagined = state.observation
            assert [(p.id, p.title, p.score) for p in imagined.passages] == [
                (p.id, p.title, p.score) for p in real.passages
            ]
            assert (imagined.seen, imagined.refinements) == (real.seen, real.refinements)
            assert (imagined.step, imagined.steps_left, imagined.used) == (real.step, real.steps_left, real.used)
            assert not {each.term for each in state.ranked.refinements()} & real.used
        states = after


def test_unread_passages_with_unknown_answers_are_not_taken_to_agree(
    embedded: EmbeddedEngine, pointer: PointerAgent
) -> None:
    policy = Told(pointer, size=20)
    [seen] = observations(embedded, policy, 0)[:1]
    imagination = Imagination(embedded, pointer.lookahead._lexicon, pointer.lookahead, policy)
    [choices] = imagination.expand(states_after_undo(seen, next(policy.rank([seen]))))
    assert choices is not None
    place = int(np.argmax([len(choices.new_passages(place)) for place in range(len(choices.values))]))
    state = choices.after(place)
    [further] = imagination.expand([state])
    assert further is not None
    unread = [rank for rank, each in enumerate(state.observation.passages) if each.id in state.unknown]
    assert len(unread) > 1
    assert len(set(further._candidates.best_answers[unread].tolist())) == len(unread)


def test_depth_one_is_the_greedy_lookahead_on_the_question(embedded: EmbeddedEngine, valued: Path) -> None:
    [pointer, planner] = (
        make_agent(name, embedded, checkpoint=valued) for name in ("pointer", "planner[depth=1;discount=1]")
    )
    environment = pointer.environment(embedded, LexicalReader())
    seen = environment.observe(environment.open(QUESTIONS))
    ours, theirs = planner.agent.act(seen), pointer.agent.act(seen)
    assert any(isinstance(action, Refinement) for action in ours)
    assert ours == theirs


class Place(NamedTuple):
    """A state of a graph: each refinement leads to a place, and brings something."""

    name: str
    steps_left: int = 9


class Ways:
    cost = AgentCost(refinements_scored=1)

    def __init__(self, ways: dict[str, float], place: Place) -> None:
        self._names, self.values, self._left = list(ways), np.array([*ways.values()]), place.steps_left

    def refinement(self, place: int) -> Refinement:
        return Refinement("+", "contents", self._names[place])

    def new_passages(self, place: int) -> frozenset[str]:
        return frozenset({self._names[place][0]} if self.values[place] else ())

    def after(self, place: int) -> Place:
        return Place(self._names[place], self._left - 1)


def walk(graph: dict[str, dict[str, float]], steps: int, **settings: Any) -> Planned:
    def expand(places: Sequence[Place]) -> list[Ways | None]:
        return [Ways(graph[place.name], place) if place.name in graph else None for place in places]

    [planned] = best_plans([[Place("start", steps)]], expand, PlanSettings(**settings))
    return planned


def test_a_plan_passes_through_what_is_worth_nothing_yet() -> None:
    graph = {"start": {"far": 0.0, "near": 1.0}, "far": {"treasure": 5.0}, "near": {"crumb": 0.5}}
    short, long = walk(graph, 9, depth=2, beam=8, discount=0.5).plans
    assert (short.value, [each.term for each in short.refinements]) == (1.0, ["near"])
    assert (long.value, [each.term for each in long.refinements]) == (2.5, ["far", "treasure"])
    assert walk(graph, 9, depth=2, beam=1, discount=0.5).plans[1].value == 1.25
    assert len(walk(graph, 1, depth=2).plans) == 1  # one step is left
    assert len(walk(graph, 9, depth=5).plans) == 2  # nothing can be done any more


def test_the_beam_holds_plans_that_read_different_passages_first() -> None:
    graph = {"start": {"a1": 3.0, "a2": 2.9, "a3": 2.8, "b": 1.0}, "a2": {"c": 9.0}, "b": {"c": 9.0}}
    assert walk(graph, 9, depth=2, beam=2, discount=1.0).plans[1].refinements[0].term == "b"
    assert walk(graph, 9, depth=2, beam=3, discount=1.0).plans[1].refinements[0].term == "a2"


def test_a_plan_begins_with_an_undo_where_the_shorter_query_finds_more(
    embedded: EmbeddedEngine, pointer: PointerAgent
) -> None:
    policy = Told(pointer, 30)
    actions = {PlannerAgent(policy, embedded).act([seen])[0] for seen in observations(embedded, policy, 2)}
    assert any(isinstance(action, Undo) for action in actions)
    assert any(isinstance(action, Refinement) for action in actions)


def test_where_nothing_is_worth_reading_the_planner_undoes_or_stops(
    embedded: EmbeddedEngine, pointer: PointerAgent
) -> None:
    worthless = Told(pointer, 30, dict.fromkeys(WORTH, -1.0))
    agent = PlannerAgent(worthless, embedded)
    first = observations(embedded, worthless, 0)
    assert all(isinstance(action, Refinement) for action in agent.act(first))
    assert agent.act([replace(seen, may_stop=True) for seen in first]) == [STOP] * len(first)
    assert agent.act(observations(embedded, worthless, 1)) == [UNDO] * len(first)


@pytest.mark.long
@pytest.mark.parametrize("name", ["planner[beam=2]", "planner[depth=3;beam=1]"])
def test_the_planner_keeps_the_contract(name: str, embedded: EmbeddedEngine, valued: Path) -> None:
    entry = make_agent(name, embedded, Settings(steps=4), checkpoint=valued)
    check_agent(entry.agent, Environment(embedded, LexicalReader(), entry.settings), QUESTIONS[:3])


def test_sessions_together_are_sessions_alone_and_tell_their_costs(embedded: EmbeddedEngine, valued: Path) -> None:
    played = []
    for size in (1, 50):
        entry = make_agent("planner[beam=2]", embedded, Settings(steps=2), checkpoint=valued)
        environment = entry.environment(embedded, LexicalReader())
        run = run_sessions(environment, entry.agent, [*QUESTIONS, *HARD_QUESTIONS], batch_size=size)
        played.append(run.sessions)
    for alone, together in zip(*played, strict=True):
        assert [step.action for step in alone.steps] == [step.action for step in together.steps]
        assert alone.cost == together.cost
    plain = make_agent("pointer", embedded, Settings(steps=2), checkpoint=valued)
    greedy = run_sessions(plain.environment(embedded, LexicalReader()), plain.agent, QUESTIONS).sessions
    ours = sum(session.cost.refinements_scored for session in played[0][: len(QUESTIONS)])
    assert ours > 1.5 * sum(session.cost.refinements_scored for session in greedy)


def test_an_engine_that_refuses_refinements_leaves_the_policy(
    embedded: EmbeddedEngine, valued: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(query: Query, refinements: Sequence[Refinement], k: int) -> list[list[Hit]]:
        raise QueryError("no")

    entry = make_agent("planner", embedded, checkpoint=valued)
    environment = entry.environment(embedded, LexicalReader())
    seen = environment.observe(environment.open(QUESTIONS[:2]))
    monkeypatch.setattr(embedded, "refine", refuse)
    for action, cost in entry.agent.act_with_costs(seen):  # type: ignore[attr-defined]
        assert isinstance(action, Refinement)
        assert cost.fallbacks == {BLIND: 1}


def test_expected_ps_is_the_mean_over_what_the_reader_may_say() -> None:
    generator = np.random.default_rng(1)
    prediction = Prediction(
        generator.uniform(0, 1, 6), generator.normal(0, 2, (6, 2)), np.array([0.7, 1.5])
    )  # fmt: skip
    right = generator.random((200_000, 6)) < prediction.right
    drawn = np.where(right, *(
        prediction.logit[:, n] + prediction.spread[n] * generator.normal(size=right.shape) for n in (1, 0)
    ))  # fmt: skip
    np.testing.assert_allclose(expected_ps(prediction), (1 / (1 + np.exp(-drawn))).mean(0), atol=0.02)
    assert logits(np.array([0.5])) == pytest.approx(0)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("planner[depth=0]", "depth 0"), ("planner[beam=0]", "beam of 0"), ("planner[discount=0]", "discount of 0"),
        ("planner[depth=7]", "at most 6 and 256"), ("planner[beam=257]", "at most 6"),
        ("planner[depth=x]", "expected int"), ("planner[length=2]", "unknown option 'length'"),
    ],
)  # fmt: skip
def test_settings_that_make_no_plan_are_refused(
    name: str, says: str, embedded: EmbeddedEngine, valued: Path
) -> None:  # fmt: skip
    with pytest.raises(AgentNameError, match=says):
        make_agent(name, embedded, checkpoint=valued)


def test_the_planner_needs_a_value_model(embedded: EmbeddedEngine, pointer_folder: Path) -> None:
    with pytest.raises(OrienteerError, match="no value model"):
        make_agent("planner", embedded, checkpoint=pointer_folder)


def test_an_imagined_state_knows_whether_its_query_is_the_sessions() -> None:
    one, two = Refinement("+", "contents", "a"), Refinement("+", "contents", "b")
    bare = Observation("q", (one, two), (), (), (), {}, frozenset(), 2, 5, False, 0)
    none = RankedActions((), np.empty(0, np.int64), np.empty(0), 1.0)
    assert [state.observation.refinements for state in states_after_undo(bare, none)] == [(one, two), (one,), ()]
    assert all(state.is_of_session for state in states_after_undo(bare, none))
    assert [state.steps_left for state in states_after_undo(bare, none)] == [5, 4, 3]
    assert not ImaginedState(bare, replace(bare, refinements=(two,)), none).is_of_session
