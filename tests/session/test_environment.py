"""One session at a time: what an action does to it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lexical_reader import LexicalReader
from small_world import HARD_QUESTIONS, PASSAGES, QUESTIONS, Wanderer, minus, plus

from orienteer.data.passage import Passage, Question
from orienteer.engine import EmbeddedEngine, ReferenceEngine
from orienteer.query import Query, Refinement
from orienteer.reader import Reading, exact_match, holds_answer
from orienteer.session import STOP, UNDO, Environment, SeenPassage, Session, Settings, best_of, run_sessions, score


def opened(environment: Environment, question: str, *answers: str) -> Session:
    [session] = environment.open([Question("q", question, answers)])
    return session


def taken(environment: Environment, session: Session, *actions: object) -> Session:
    for action in actions:
        [session] = environment.step([session], [action])  # type: ignore[list-item]
    return session


def ids(session: Session) -> list[str]:
    return [each.passage.id for each in session.best]


def test_a_session_opens_with_the_results_of_its_question(environment: Environment, engine: EmbeddedEngine) -> None:
    session = opened(environment, "who lit the first lamp on the reef", "Maren Holt")
    hits = list(engine.search(Query("who lit the first lamp on the reef"), 5))
    assert list(session.steps[0].hits) == hits
    assert {each.passage.id for each in session.seen} == {hit.id for hit in hits}
    assert [each.rank for each in session.seen] == [1, 2, 3, 4, 5]
    assert session.ended is None
    assert session.queries == 1


def test_the_best_passages_are_those_of_highest_score_and_ties_stay_as_first_seen(environment: Environment) -> None:
    session = opened(environment, "who lit the first lamp on the reef")
    scores = [each.reading.score for each in session.best]
    assert scores == sorted(scores, reverse=True)
    assert ids(session)[:2] == ["ardle-1", "same-1"]


@given(st.lists(st.sampled_from([0.1, 0.2, 0.5, 0.9]), max_size=12))
def test_best_of_agrees_with_picking_one_after_the_other(scores: list[float]) -> None:
    seen = [SeenPassage(Passage(str(i), "", ""), Reading(s, 0.0, "", 0, 0), 0, 1) for i, s in enumerate(scores)]
    left, expected = list(seen), []
    while left and len(expected) < 5:
        top = max(each.reading.score for each in left)
        expected.append(next(each for each in left if each.reading.score == top))
        left.remove(expected[-1])
    assert list(best_of(seen)) == expected
    assert list(best_of(seen, "engine")) == seen[:5]


def test_a_refinement_asks_a_longer_query_and_says_what_entered_and_left(environment: Environment) -> None:
    before = opened(environment, "lamp")
    after = taken(environment, before, plus("tower"))
    step = after.steps[-1]
    assert str(step.query) == 'lamp +(contents:"tower")'
    assert set(step.entered) == set(ids(after)) - set(ids(before))
    assert set(step.left) == set(ids(before)) - set(ids(after))
    assert len(after.seen) == len({each.passage.id for each in after.seen})
    assert len(before.steps) == 1, "a session is never changed in place"


def test_a_passage_found_again_is_not_read_again(engine: EmbeddedEngine) -> None:
    reader = LexicalReader()
    environment = Environment(engine, reader)
    session = opened(environment, "lamp reef tower keeper")
    session = taken(environment, session, Refinement("^", "contents", "lamp", 2.0), plus("storm"))
    assert sum(reader.batches) == session.passages_read == len(session.seen)


def test_a_dead_end_is_recorded_and_taken_back(environment: Environment) -> None:
    before = opened(environment, "lamp")
    after = taken(environment, before, plus("visitors"), plus("halcyon"))
    assert after.steps[-1].dead_end
    assert str(after.steps[-1].query) == 'lamp +(contents:"visitors") +(contents:"halcyon")'
    assert str(after.query) == 'lamp +(contents:"visitors")'
    assert after.ended is None
    assert after.queries == 3
    [observation] = environment.observe([after])
    assert observation.refinements == (plus("visitors"),)
    assert [passage.id for passage in observation.hits] == [hit.id for hit in after.steps[1].hits]
    again = taken(environment, after, plus("stone"))
    assert str(again.steps[-1].query) == 'lamp +(contents:"visitors") +(contents:"stone")'


def test_a_dead_end_can_end_the_session_as_in_the_paper(engine: EmbeddedEngine) -> None:
    environment = Environment(engine, LexicalReader(), Settings(dead_ends="stop"))
    session = taken(environment, opened(environment, "lamp"), plus("visitors"), plus("halcyon"))
    assert session.ended == "dead end"
    assert session.best


def test_undo_takes_the_last_refinement_back_but_what_was_seen_stays(environment: Environment) -> None:
    refined = taken(environment, opened(environment, "lamp"), plus("tower"), minus("storm"))
    back = taken(environment, refined, UNDO)
    assert back.query == Query("lamp", (plus("tower"),))
    assert back.steps[-1].hits == back.steps[1].hits
    assert back.seen == refined.seen
    assert (back.queries, back.refinements_made) == (3, 3)
    assert taken(environment, back, UNDO).query == Query("lamp")


def test_undo_with_nothing_to_take_back_is_illegal(environment: Environment) -> None:
    session = taken(environment, opened(environment, "lamp"), UNDO)
    assert session.ended == "illegal"
    assert "no refinement to take back" in session.error


def test_stop_ends_the_session_with_what_it_has(environment: Environment) -> None:
    before = opened(environment, "lamp")
    session = taken(environment, before, STOP)
    assert (session.ended, session.steps, session.best) == ("stop", before.steps, before.best)


def test_an_ended_session_takes_no_further_action(environment: Environment) -> None:
    session = taken(environment, opened(environment, "lamp"), STOP)
    assert taken(environment, session, plus("tower")) == session


def test_the_last_step_ends_the_session(engine: EmbeddedEngine) -> None:
    environment = Environment(engine, LexicalReader(), Settings(steps=2))
    session = taken(environment, opened(environment, "lamp"), plus("tower"))
    assert session.ended is None
    assert taken(environment, session, minus("storm")).ended == "steps"
    assert opened(Environment(engine, LexicalReader(), Settings(steps=0)), "lamp").ended == "steps"


@pytest.mark.parametrize(
    ("action", "says"),
    [
        (plus("the of"), "only stop words"),
        (plus("!!"), "only stop words or signs"),
        ("+(contents:\"lamp\")", "is not an action"),
        (None, "is not an action"),
        (7, "is not an action"),
    ],
)  # fmt: skip
def test_an_illegal_action_ends_the_session_and_says_why(environment: Environment, action: object, says: str) -> None:
    before = opened(environment, "lamp")
    session = taken(environment, before, action)
    assert session.ended == "illegal"
    assert says in session.error
    assert session.best == before.best


def test_a_term_used_before_with_any_operator_is_illegal(environment: Environment) -> None:
    session = taken(environment, opened(environment, "lamp"), plus("tower"), Refinement("^", "title", "Tower", 4.0))
    assert session.ended == "illegal"
    assert "'tower' was used before" in session.error


def test_score_and_reward_follow_the_best_passages() -> None:
    environment = Environment(ReferenceEngine(PASSAGES), LexicalReader(), Settings(steps=8))
    for session in run_sessions(environment, Wanderer(), QUESTIONS).sessions:
        if not session.question.answers:
            assert session.score is None
            assert session.reward is None
            continue
        known = {each.passage.id: each for each in session.seen}
        for step in session.steps:
            best = [known[id] for id in step.best]
            golds = session.question.answers
            expected = score(
                [each.reading.score for each in best],
                [holds_answer(each.passage.text, golds) for each in best],
                [exact_match(each.reading.answer, golds) for each in best],
            )
            assert step.score == expected
        totals = [step.score.total for step in session.steps if step.score]
        assert session.reward == pytest.approx(sum(b - a for a, b in pairwise(totals)))


def test_relevance_by_substring_is_the_looser_test(engine: EmbeddedEngine) -> None:
    def relevant(settings: Settings) -> bool:
        session = opened(Environment(engine, LexicalReader(), settings), "visitors climb dunmore", "visitor")
        return any(each.relevant for each in session.seen)

    assert not relevant(Settings())
    assert relevant(Settings(relevance="substring"))


def test_a_question_without_hits_ends_at_once(environment: Environment) -> None:
    for question in ("zyxwv", "", "the of and", "  "):
        session = opened(environment, question)
        assert (session.ended, session.best, session.answer) == ("no hits", (), "")


def test_hard_questions_have_a_clear_ending_and_leave_the_others_alone(environment: Environment) -> None:
    mixed = [question for pair in zip(HARD_QUESTIONS, QUESTIONS * 3, strict=False) for question in pair]
    sessions = environment.open(mixed)
    alone = [environment.open([question])[0] for question in mixed]
    assert sessions == alone
    endings = {session.question.id: session.ended for session in sessions}
    assert {id for id, ended in endings.items() if ended == "error"} == {"too-many-words", "long-word", "many-terms"}
    assert {id for id, ended in endings.items() if ended == "no hits"} == {
        "no-hits", "stop-words", "empty", "blanks", "greek",
    }  # fmt: skip
    errors = [session.error for session in sessions if session.ended == "error"]
    assert all("cannot be asked" in error for error in errors)


def test_answers_that_normalise_to_nothing_are_as_no_answers(environment: Environment) -> None:
    assert opened(environment, "who lit the lamp", "", "the", "!").score is None
