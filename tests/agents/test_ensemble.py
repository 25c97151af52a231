"""Ensembles: the best of all passages that any member finds."""

from __future__ import annotations

from itertools import chain

import pytest
from lexical_reader import LexicalReader
from small_world import HARD_QUESTIONS, QUESTIONS, Scripted, Wanderer, minus, plus

from orienteer.agents import AgentNameError, ConfiguredAgent, check_agent, make_agent
from orienteer.agents.ensemble import Ensemble, members_of, unite
from orienteer.data.passage import Question
from orienteer.engine import Engine
from orienteer.session import Environment, Session, Settings, from_line, record, run_sessions, to_line


def members(engine: Engine, *names: str, settings: Settings | None = None) -> list[ConfiguredAgent]:
    return [make_agent(name, engine, settings or Settings(steps=6)) for name in names]


def together(environment: Environment, ensemble: Ensemble, questions: list[Question]) -> list[Session]:
    return list(chain.from_iterable(ensemble.play(environment, questions, batch_size=3)))


def alone(engine: Engine, entry: ConfiguredAgent, questions: list[Question]) -> list[Session]:
    return list(run_sessions(Environment(engine, LexicalReader(), entry.settings), entry.agent, questions).sessions)


def test_the_result_is_the_best_five_of_all_that_the_members_saw(engine: Engine, environment: Environment) -> None:
    both = members(engine, "prf-idf-t", "prf-rm3^2")
    united = together(environment, Ensemble(both), QUESTIONS)
    for place, session in enumerate(united):
        each = [alone(engine, entry, QUESTIONS)[place] for entry in both]
        seen = {s.passage.id: s.reading.score for one in each for s in one.seen}
        assert {s.passage.id for s in session.seen} == set(seen)
        assert [s.reading.score for s in session.best] == sorted(seen.values(), reverse=True)[:5]
        assert session.passages_read == len(seen)
        assert session.queries == 1 + sum(one.queries - 1 for one in each)
        if session.score:
            assert session.score.ps >= max(one.score.ps for one in each if one.score)


def test_members_take_their_steps_by_turns_each_with_its_own_query(engine: Engine, environment: Environment) -> None:
    entries = [
        ConfiguredAgent("a", Scripted(plus("reef"), plus("keeper")), Settings(steps=6)),
        ConfiguredAgent("b", Scripted(minus("reef")), Settings(steps=6)),
    ]
    [session] = together(environment, Ensemble(entries), QUESTIONS[:1])
    asked = [" ".join(map(str, step.query.refinements)) for step in session.steps]
    assert asked == ["", str(plus("reef")), str(minus("reef")), f"{plus('reef')} {plus('keeper')}"]
    assert [step.number for step in session.steps] == [0, 1, 2, 3]
    assert all(
        s.step == next(t.number for t in session.steps if s.passage.id in [h.id for h in t.hits]) for s in session.seen
    )


def test_a_budget_stops_each_member_once_it_has_read_so_much(engine: Engine, environment: Environment) -> None:
    both = members(engine, "prf-idf-t", "prf-idf-or", settings=Settings(steps=20))
    environment.settings = Settings(steps=41)
    free = together(environment, Ensemble(both), QUESTIONS)
    bound = together(environment, Ensemble(both, budget=6), QUESTIONS)
    assert sum(s.passages_read for s in bound) < sum(s.passages_read for s in free)
    for entry in both:
        [only] = [together(environment, Ensemble([entry], budget=6), [q])[0] for q in QUESTIONS[:1]]
        before = {s.passage.id for s in only.seen if s.step < only.steps[-1].number}
        assert len(before) < 6 <= only.passages_read


def test_an_ensemble_of_one_finds_what_its_member_finds(engine: Engine, environment: Environment) -> None:
    [entry] = members(engine, "prf-answer")
    for united, single in zip(
        together(environment, Ensemble([entry]), QUESTIONS), alone(engine, entry, QUESTIONS), strict=True
    ):
        assert united == single


def test_a_member_that_searches_deeper_asks_the_question_in_its_own_way(
    engine: Engine, environment: Environment
) -> None:
    names = ("prf-idf-t", "bm25@9+ps")
    entry = make_agent(f"ensemble({'|'.join(names)})", engine, Settings(steps=3))
    assert isinstance(entry.agent, Ensemble)
    for session in together(entry.environment(engine, LexicalReader()), entry.agent, QUESTIONS):
        deep = {hit.id for hit in engine.search(session.query.__class__(session.question.question), 9)}
        assert deep <= {s.passage.id for s in session.seen}
        assert len(session.steps) - 1 <= entry.settings.steps


def test_the_record_of_an_ensemble_can_be_written_and_read(environment: Environment, engine: Engine) -> None:
    ensemble = Ensemble(members(engine, "prf-idf-t", "bm25@9+ps"))
    for session in together(environment, ensemble, [*QUESTIONS, *HARD_QUESTIONS]):
        kept = record(session, environment, "ensemble")
        assert from_line(to_line(kept)) == kept


def test_a_members_failure_is_told_and_the_others_find_what_they_find(engine: Engine, environment: Environment) -> None:
    entries = [ConfiguredAgent("broken", Scripted(plus("of the")), Settings(steps=3)), *members(engine, "prf-idf-or")]
    [session] = together(environment, Ensemble(entries), QUESTIONS[:1])
    assert session.ended == "illegal"
    assert "holds no index term" in session.error
    assert len(session.steps) == 7


def test_step_by_step_the_members_take_turns_and_keep_the_contract(engine: Engine, environment: Environment) -> None:
    check_agent(
        Ensemble([*members(engine, "prf-answer"), ConfiguredAgent("w", Wanderer(), Settings())]), environment, QUESTIONS
    )


def test_every_member_has_its_own_folder_and_options(engine: Engine) -> None:
    entry = make_agent("ensemble(prf-idf-t[steps=3;dead_ends=stop] | ensemble@40(bm25+ps|prf-rm3-or[steps=2]))", engine)
    assert isinstance(entry.agent, Ensemble)
    first, second = entry.agent.members
    assert first.settings == Settings(steps=3, dead_ends="stop", order="agreement")
    assert isinstance(second.agent, Ensemble)
    assert second.agent.budget == 40
    assert [member.settings.steps for member in second.agent.members] == [0, 2]
    assert make_agent("ensemble(bm25+ps|prf-idf-t)[steps=4]", engine).settings.steps == 4
    assert members_of("a=x(1|2)|b[c=1|2]| c ") == ["a=x(1|2)", "b[c=1|2]", "c"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("ensemble()", "without a name"), ("ensemble(bm25|)", "without a name"),
        ("ensemble(bm52)", "did you mean bm25"),
        ("ensemble@0(bm25)", "1 or more"), ("ensemble(bm25", "no agent is called"),
        ("ensemble(bm25+ps|prf-idf-t[steps=x])", "a whole number"),
    ],
)  # fmt: skip
def test_a_name_that_makes_no_sense_says_so(name: str, says: str, engine: Engine) -> None:
    with pytest.raises(AgentNameError, match=says):
        make_agent(name, engine)


def test_uniting_sessions_of_a_question_without_answers_scores_nothing(
    engine: Engine, environment: Environment
) -> None:
    [session] = environment.open([QUESTIONS[4]])
    assert unite([session, session], Settings()).score is None
