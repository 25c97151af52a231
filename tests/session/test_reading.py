"""The action `Read`, and what agents tell about their cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from lexical_reader import LexicalReader
from small_world import PASSAGES, QUESTIONS, Scripted, plus

from orienteer.engine import ReferenceEngine
from orienteer.session import (
    NO_COST,
    STOP,
    UNDO,
    Action,
    AgentCost,
    Environment,
    Observation,
    Read,
    RecordError,
    Session,
    Settings,
    check_replay,
    from_line,
    record,
    run_sessions,
    to_line,
)

ENGINE = ReferenceEngine(PASSAGES)


def environment(**options: object) -> Environment:
    return Environment(ENGINE, LexicalReader(), Settings(hits=2, **options))  # type: ignore[arg-type]


def play(*actions: object, **options: object) -> tuple[Session, Environment]:
    where = environment(**options)
    [session] = run_sessions(where, Scripted(*actions), QUESTIONS[:1]).sessions
    return session, where


def unread(session: Session) -> list[str]:
    known = {each.passage.id for each in session.seen}
    return [passage.id for passage in PASSAGES if passage.id not in known]


def test_reading_reads_the_named_passages_and_leaves_the_query() -> None:
    where = environment()
    [session] = where.open(QUESTIONS[:1])
    first, second, *_ = unread(session)
    [after] = where.step([session], [Read((second, first))])
    assert [each.passage.id for each in after.seen[len(session.seen) :]] == [second, first]
    assert (after.query, after.queries, after.refinements_made) == (session.query, 1, 1)
    assert after.current == session.current
    [observation] = where.observe([after])
    assert [hit.id for hit in observation.hits] == [hit.id for hit in session.steps[0].hits]
    assert {first, second} <= observation.seen


def test_an_undo_after_reading_goes_back_to_the_query_before() -> None:
    where = environment()
    [session] = where.open(QUESTIONS[:1])
    [refined] = where.step([session], [plus("storm")])
    [read] = where.step([refined], [Read((unread(refined)[0],))])
    [undone] = where.step([read], [UNDO])
    assert undone.query == session.query
    assert undone.steps[-1].hits == session.steps[0].hits


@pytest.mark.parametrize(
    ("ids", "says"),
    [
        ((), "names 0 passages; expected 1 to 2"), (("ardle-2", "brisk-1", "brisk-2"), "names 3 passages"),
        (("brisk-2", "brisk-2"), "distinct"), (("nowhere",), "nowhere"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_ends_the_session_and_says_why(ids: tuple[str, ...], says: str) -> None:
    session, _ = play(Read(ids))
    assert session.ended == "illegal"
    assert says in session.error


def test_a_passage_is_read_once() -> None:
    first, _ = play(STOP)
    session, _ = play(Read((first.seen[0].passage.id,)))
    assert (session.ended, "was read before" in session.error) == ("illegal", True)


def test_reading_is_recorded_and_replayed_to_the_byte() -> None:
    start, _ = play()
    ids = unread(start)
    session, where = play(Read((ids[0], ids[1])), plus("lamp"), Read((ids[-1],)))
    assert session.ended == "stop", session.error
    line = to_line(record(session, where, "scripted"))
    again = from_line(line)
    assert again.steps[1].action == Read((ids[0], ids[1]))
    assert again.queries == session.queries == 2
    assert to_line(again) == line
    check_replay(again, ENGINE, LexicalReader())


@pytest.mark.parametrize("text", ["read ", "read {}", "read [1]", 'read ["\\ud800"]', "read " + "[" * 100_000])
def test_a_record_with_damaged_reading_is_refused(text: str) -> None:
    session, where = play(Read((unread(play()[0])[0],)))
    row = json.loads(to_line(record(session, where, "scripted")))
    row["steps"][1]["action"] = text
    with pytest.raises(RecordError):
        from_line(json.dumps(row))


class Costly(Scripted):
    """Refines twice, and tells what that cost."""

    def act_with_costs(self, observations: Sequence[Observation]) -> list[tuple[Action, AgentCost]]:
        cost = AgentCost(1, 20, 300, {"blind": 1})
        return [(action, cost if action != STOP else NO_COST) for action in self.act(observations)]


def test_costs_add_up_over_a_session_and_are_in_its_record() -> None:
    where = environment()
    sessions = run_sessions(where, Costly(plus("lamp"), plus("tower")), QUESTIONS[:2]).sessions
    for session in sessions:
        assert session.cost == AgentCost(2, 40, 600, {"blind": 2})
        assert session.queries == 3 + 2
        line = to_line(record(session, where, "costly"))
        again = from_line(line)
        assert (again.cost, again.queries) == (session.cost, 5)
        assert to_line(again) == line
        check_replay(again, ENGINE, LexicalReader())
    plain = run_sessions(where, Scripted(plus("lamp")), QUESTIONS[:1]).sessions[0]
    assert b'"cost"' not in to_line(record(plain, where, "scripted"))


@pytest.mark.parametrize(
    "cost", [{"queries": -1}, {"queries": "1"}, {"fallbacks": {"x": True}}, {"other": 1}, [], {"fallbacks": 3}]
)
def test_a_damaged_cost_is_refused(cost: object) -> None:
    session, where = play()
    row = json.loads(to_line(record(session, where, "scripted"))) | {"cost": cost}
    with pytest.raises(RecordError):
        from_line(json.dumps(row))


def test_costs_of_several_agents_add_up() -> None:
    one, other = AgentCost(1, 2, 3, {"blind": 1}), AgentCost(1, 1, 1, {"held": 2, "blind": 1})
    assert one + other == AgentCost(2, 3, 4, {"blind": 2, "held": 2})
    assert one + NO_COST == one == replace(one)
