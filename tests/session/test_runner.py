"""Batched sessions: the same as one by one, in fewer calls, and no agent harms another session."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lexical_reader import LexicalReader
from small_world import HARD_QUESTIONS, PASSAGES, QUESTIONS, Scripted, Wanderer, minus, plus

from orienteer.data.passage import Passage, Question
from orienteer.engine import EmbeddedEngine, Hit, ReferenceEngine
from orienteer.query import Query, Refinement
from orienteer.session import STOP, Action, Environment, Observation, Run, Settings, play, run_sessions

MANY = [Question(f"{q.id}-{n}", q.question, q.answers) for n in range(4) for q in (*QUESTIONS, *HARD_QUESTIONS)]


@pytest.mark.long
@pytest.mark.parametrize("batch_size", [1, 3, 7, 1000])
def test_batched_sessions_equal_one_by_one(engine: EmbeddedEngine, batch_size: int) -> None:
    def run(batch_size: int) -> Run:
        return run_sessions(
            Environment(engine, LexicalReader(), Settings(steps=7)), Wanderer(), MANY, batch_size=batch_size
        )

    assert run(batch_size).sessions == run(1).sessions


words = st.sampled_from("lamp reef tower keeper storm red oil stone ship rock".split())
texts = st.lists(words, min_size=1, max_size=9).map(" ".join)
corpora = st.lists(st.tuples(st.sampled_from(["", "Reef Light", "Red Rock", "Keeper"]), texts), min_size=1, max_size=9)


@pytest.mark.long
@given(
    corpora,
    st.lists(texts, min_size=1, max_size=5),
    st.integers(0, 9),
    st.booleans(),
    st.sampled_from(["undo", "stop"]),
)
def test_batched_sessions_equal_one_by_one_in_any_world(
    corpus: list[tuple[str, str]], questions: list[str], seed: int, allow_stop: bool, dead_ends: str
) -> None:
    passages = [Passage(str(i), title, text) for i, (title, text) in enumerate(corpus)]
    asked = [Question(str(i), text, ("red",)) for i, text in enumerate(questions)]
    settings = Settings(steps=5, seed=seed, allow_stop=allow_stop, dead_ends=dead_ends)  # type: ignore[arg-type]
    environment = Environment(ReferenceEngine(passages), LexicalReader(), settings)
    together = run_sessions(environment, Wanderer(), asked).sessions
    assert together == tuple(run_sessions(environment, Wanderer(), [each]).sessions[0] for each in asked)
    for session in together:
        assert session.ended is not None
        assert session.refinements_made <= 5
        before: tuple[str, ...] = ()
        for step in session.steps:
            assert set(step.best) == (set(before) | set(step.entered)) - set(step.left)
            assert len(set(step.best)) == len(step.best) <= 5
            before = step.best
        assert before == tuple(each.passage.id for each in session.best)


class CountingEngine(ReferenceEngine):
    """Counts the calls that it gets."""

    calls = 0

    def search_many(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        self.calls += 1
        return super().search_many(queries, k)


def test_engine_reader_and_agent_get_one_call_a_step() -> None:
    class CountingAgent(Wanderer):
        calls = 0

        def act(self, observations: Sequence[Observation]) -> list[Action]:
            self.calls += 1
            return super().act(observations)

    engine, reader, agent = CountingEngine(PASSAGES), LexicalReader(), CountingAgent()
    run_sessions(Environment(engine, reader, Settings(steps=4)), agent, QUESTIONS * 20, batch_size=100)
    assert (engine.calls, agent.calls) == (5, 4)
    assert len(reader.batches) <= 5


class Trouble:
    """Does something else for each question, at its second step."""

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        return [self._one(observation) for observation in observations]

    def _one(self, observation: Observation) -> Action:
        if observation.step == 1:
            if "reef" in observation.question:
                raise RuntimeError("no idea")
            if "beacon" in observation.question:
                return "lamp"  # type: ignore[return-value]
            if "stone" in observation.question:
                return plus("of the")
        return Wanderer().act([observation])[0]


def test_a_failing_agent_harms_only_the_session_it_fails_in(environment: Environment) -> None:
    troubled = {s.question.id: s for s in run_sessions(environment, Trouble(), QUESTIONS).sessions}
    calm = {s.question.id: s for s in run_sessions(environment, Wanderer(), QUESTIONS).sessions}
    assert (troubled["q1"].ended, troubled["q1"].error) == ("error", "the agent raised RuntimeError: no idea")
    assert troubled["q3"].ended == "illegal"
    assert "'lamp' is not an action" in troubled["q3"].error
    assert troubled["q4"].ended == "illegal"
    assert "only stop words" in troubled["q4"].error
    assert troubled["q2"] == calm["q2"]
    assert troubled["q5"] == calm["q5"]
    for id in ("q1", "q3", "q4"):
        assert troubled[id].steps == calm[id].steps[:2], "what was found before the failure is kept"
        assert troubled[id].best


@pytest.mark.parametrize("actions", [[], [STOP] * 3])
def test_an_agent_that_gives_the_wrong_number_of_actions_is_told_so(
    environment: Environment, actions: list[Action]
) -> None:
    class Miscounting:
        def act(self, observations: Sequence[Observation]) -> list[Action]:
            return actions

    for session in run_sessions(environment, Miscounting(), QUESTIONS[:2]).sessions:
        assert (session.ended, session.error) == ("error", f"the agent gave {len(actions)} actions for 1 observation")


def test_an_agent_that_gives_no_list_is_told_so(environment: Environment) -> None:
    class Silent:
        def act(self, observations: Sequence[Observation]) -> None:
            return None

    [session] = run_sessions(environment, Silent(), QUESTIONS[:1]).sessions  # type: ignore[arg-type]
    assert session.ended == "error"
    assert "the agent raised TypeError" in session.error


def test_an_agent_that_never_stops_is_stopped_by_the_last_step(environment: Environment) -> None:
    class Endless:
        def act(self, observations: Sequence[Observation]) -> list[Action]:
            return [Refinement("^", "contents", f"never{observation.step}", 2.0) for observation in observations]

    [session] = run_sessions(environment, Endless(), QUESTIONS[:1]).sessions
    assert (session.ended, session.refinements_made) == ("steps", 6)


def test_an_interruption_is_not_taken_for_a_failing_agent(environment: Environment) -> None:
    class Interrupted:
        def act(self, observations: Sequence[Observation]) -> list[Action]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_sessions(environment, Interrupted(), QUESTIONS)


def test_batches_come_as_they_are_done_in_the_questions_order(environment: Environment) -> None:
    drawn: list[str] = []

    def questions() -> object:
        for question in QUESTIONS:
            drawn.append(question.id)
            yield question

    batches = play(environment, Scripted(plus("tower")), questions(), batch_size=2)  # type: ignore[arg-type]
    assert [session.question.id for session in next(batches)] == ["q1", "q2"]
    assert drawn == ["q1", "q2"]
    assert [len(batch) for batch in batches] == [2, 1]


def test_costs_are_counted(environment: Environment) -> None:
    run = run_sessions(environment, Scripted(plus("tower"), minus("storm")), QUESTIONS)
    assert run.queries == sum(session.queries for session in run.sessions) == 3 * len(QUESTIONS)
    assert run.passages_read == sum(len(session.seen) for session in run.sessions)
    assert 0 < run.seconds.engine + run.seconds.reader + run.seconds.agent <= run.seconds.total


def test_no_questions_make_no_sessions(environment: Environment) -> None:
    assert run_sessions(environment, Wanderer(), []).sessions == ()
