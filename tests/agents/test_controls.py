"""Controls: each lacks one thing that an agent has, and keeps the agents' contract."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from lexical_reader import LexicalReader
from small_world import HARD_QUESTIONS, QUESTIONS
from tiny_pointer import save_pointer, value_model_tensors

from orienteer.agents import AgentNameError, agent_specs, check_agent, make_agent
from orienteer.agents.action_space import SLOTS, open_slots, usable_terms
from orienteer.agents.controls import DEPTH
from orienteer.agents.lookahead.passage_features import FEATURES, FOUND_FEATURES
from orienteer.agents.pointer.agent import PointerAgent
from orienteer.agents.pointer.model_files import load_folder
from orienteer.agents.pointer.value_ranking import ValueRanking
from orienteer.engine import EmbeddedEngine, Engine
from orienteer.errors import OrienteerError
from orienteer.query import GRAMMARS, Operator, Query, Refinement
from orienteer.session import Environment, Read, Session, Settings, Stop, run_sessions

ALL = [*QUESTIONS, *HARD_QUESTIONS]


@pytest.fixture(scope="module")
def valued(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pointer with a value model."""
    return save_pointer(tmp_path_factory.mktemp("valued"), more=value_model_tensors())


def played(name: str, engine: Engine, settings: Settings | None = None, **options: object) -> list[Session]:
    entry = make_agent(name, engine, settings or Settings(steps=6), **options)
    return list(run_sessions(entry.environment(engine, LexicalReader()), entry.agent, ALL).sessions)


def test_each_control_has_a_row_of_its_own() -> None:
    rows = {spec.names.split(",")[0]: spec.about for spec in agent_specs()}
    for name in ("random", "pages", "cascade@N", "pointer-blind"):
        assert rows[name].startswith("control: ")


@pytest.mark.long
@pytest.mark.parametrize("name", ["random", "random-G2", "pages", "pages@8", "cascade@8"])
def test_controls_keep_the_contract(name: str, engine: Engine, valued: Path) -> None:
    checkpoint = valued if name.startswith("cascade") else None
    entry = make_agent(name, engine, Settings(steps=6), checkpoint=checkpoint)
    check_agent(entry.agent, Environment(engine, LexicalReader(), entry.settings), QUESTIONS)


def test_pages_finds_what_bm25_at_n_finds(engine: Engine) -> None:
    for pages, plain in (("pages@8", "bm25@8+ps"), ("pages[steps=1]", "bm25@10+ps"), ("pages@5", "bm25+ps")):
        for ours, theirs in zip(played(pages, engine), played(plain, engine), strict=True):
            assert {each.passage.id for each in ours.seen} == {each.passage.id for each in theirs.seen}
            # Of equal PS the one that was read first comes first, and both read in the engine's order.
            assert ours.best == theirs.best or [(e.passage.id, e.reading) for e in ours.best] == [
                (e.passage.id, e.reading) for e in theirs.best
            ]


def test_reading_on_refines_nothing_and_reads_no_more_than_it_may(engine: Engine, valued: Path) -> None:
    for name, most in (("pages@8", 8), (f"cascade@7={valued}", 7), (f"cascade@10={valued}", 10)):
        for session in played(name, engine):
            assert not session.query.refinements
            assert session.ended != "illegal", session.error
            assert session.passages_read <= most
            found = {hit.id for hit in engine.search(session.query, DEPTH)} if session.steps else set()
            assert session.passages_read == min(most, len(found)) or session.ended == "error"
            assert all(isinstance(step.action, Read) for step in session.steps[1:])
            assert all(len(step.hits) <= 5 for step in session.steps)
            if session.steps and session.ended != "no hits":
                assert session.queries == 2  # the question, and the one deep search


def test_controls_obey_steps_and_budget(engine: Engine) -> None:
    [one, two] = (played("pages", engine, Settings(steps=steps, hits=2)) for steps in (1, 2))
    assert max(session.passages_read for session in one) == 4
    assert max(session.passages_read for session in two) == 6
    entry = make_agent("pages", engine, Settings(steps=5, hits=2))
    environment = entry.environment(engine, LexicalReader(), budget=6)
    bound = run_sessions(environment, entry.agent, QUESTIONS).sessions
    assert max(session.passages_read for session in bound) == 6
    assert all(session.refinements_made <= 3 for session in played("random[steps=3]", engine))
    ended = {session.ended for session in played("random[steps=6;dead_ends=stop]", engine)}
    assert "dead end" in ended
    assert "dead end" not in {session.ended for session in played("random[steps=6]", engine)}


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("pages@999", "pages@35 or pages@999\\[steps=199\\]"), ("pages@3", "expected 5 to 35"),
        ("cascade@36", "cascade@35 or cascade@36\\[steps=7\\]"), ("cascade@22[steps=2]", "expected 5 to 15"),
        ("cascade", "no agent is called"), ("random-G7", "no agent is called"), ("random=x", "nothing to load"),
        ("pages[count=x]", "count = 'x'; expected a whole number"),
    ],
)  # fmt: skip
def test_what_a_control_cannot_do_is_said(name: str, says: str, embedded: EmbeddedEngine, valued: Path) -> None:
    with pytest.raises(AgentNameError, match=says):
        make_agent(name, embedded, Settings(steps=6))


def test_the_cascade_needs_a_value_model(embedded: EmbeddedEngine, pointer_folder: Path) -> None:
    with pytest.raises(OrienteerError, match="no value model"):
        make_agent(f"cascade@10={pointer_folder}", embedded)


def test_the_cascade_reads_what_the_value_model_values_most(embedded: EmbeddedEngine, valued: Path) -> None:
    files = load_folder(valued)
    entry = make_agent(f"cascade@8={valued}", embedded, Settings(steps=6, hits=2))
    environment = entry.environment(embedded, LexicalReader())
    pointer = PointerAgent(files, embedded, threads=1)
    for session in environment.open(QUESTIONS):
        [seen] = environment.observe([session])
        [(action, cost)] = entry.agent.act_with_costs([seen])  # type: ignore[attr-defined]
        unread = [hit.id for hit in embedded.search(Query(seen.question), DEPTH) if hit.id not in seen.seen]
        candidates = pointer._lookahead().of_passages(seen, unread, ValueRanking(files, embedded)._model.mean)
        values = dict(zip(unread, pointer.passage_values(candidates), strict=True))
        if not unread:
            assert isinstance(action, Stop)
            continue
        assert isinstance(action, Read)
        assert list(action.passages) == sorted(unread, key=lambda id: -values[id])[:2]
        assert (cost.queries, cost.passages_scored, cost.refinements_scored) == (1, len(unread), 0)


def test_what_refinements_would_tell_is_neutral_for_the_cascade(embedded: EmbeddedEngine, valued: Path) -> None:
    files = load_folder(valued)
    ranking = ValueRanking(files, embedded)
    environment = Environment(embedded, LexicalReader(), Settings(hits=2))
    [seen] = environment.observe(environment.open(QUESTIONS[:1]))
    unread = [hit.id for hit in embedded.search(Query(seen.question), 9) if hit.id not in seen.seen]
    features = ranking._lookahead.of_passages(seen, unread, ranking._model.mean).features
    columns = [FEATURES.index(name) for name in FOUND_FEATURES]
    assert (features[:, columns] == ranking._model.mean[columns]).all()
    others = np.delete(features, columns, axis=1)
    assert np.isfinite(features).all()
    assert len(np.unique(others, axis=0)) > 1


def test_random_takes_every_legal_refinement_about_equally_often(embedded: EmbeddedEngine) -> None:
    entry = make_agent("random-G2", embedded)
    environment = entry.environment(embedded, LexicalReader())
    [seen] = environment.observe(environment.open(QUESTIONS[:1]))
    seen = replace(seen, terms=seen.terms[:6])
    drawn: Counter[Refinement] = Counter()
    for seed in range(3000):
        [action] = entry.agent.act([replace(seen, seed=seed)])
        assert isinstance(action, Refinement)
        drawn[action] += 1
    terms = usable_terms(seen, environment.lexicon)
    legal = [
        operator.apply(field, terms[term].text)
        for term, slot in np.argwhere(open_slots(terms))
        for operator, field in [SLOTS[slot]]
        if operator in GRAMMARS["G2"].operators
    ]
    assert set(drawn) == set(legal)
    assert {Operator(r.op, r.weight) for r in drawn} == set(GRAMMARS["G2"].operators)
    expected = 3000 / len(legal)
    assert all(abs(count - expected) < 5 * expected**0.5 for count in drawn.values())


def test_the_seed_of_the_settings_decides_what_random_draws(embedded: EmbeddedEngine) -> None:
    def actions(name: str) -> list[list[str]]:
        return [[str(step.action) for step in session.steps] for session in played(name, embedded)]

    assert actions("random") == actions("random[seed=0]") != actions("random[seed=1]")


def test_random_stops_where_nothing_can_be_refined(embedded: EmbeddedEngine) -> None:
    for session in played("random", embedded):
        assert session.ended in ("steps", "stop", "no hits", "error")
        assert session.ended != "error" or "cannot be asked" in session.error
    entry = make_agent("random", embedded)
    environment = entry.environment(embedded, LexicalReader())
    [bare] = environment.observe(environment.open(HARD_QUESTIONS[2:3]))
    assert isinstance(entry.agent.act([bare])[0], Stop)
