"""The T5 agent at work: legal whatever its weights, the same in any batch, free or held to the grammar."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lexical_reader import LexicalReader
from small_world import HARD_QUESTIONS, PASSAGES, QUESTIONS, Wanderer
from tiny_pointer import observations
from tiny_seq2seq import save_seq2seq

from orienteer.agents import AgentNameError, CheckpointMissingError, check_agent, make_agent
from orienteer.agents.action_space import open_slots, usable_terms
from orienteer.agents.t5.agent import T5Agent
from orienteer.agents.t5.model_files import to_int8
from orienteer.engine import EmbeddedEngine, ReferenceEngine
from orienteer.errors import ModelMissingError
from orienteer.query import G1, G2, G4, GRAMMARS, Operator, Refinement
from orienteer.session import STOP, Environment, Lexicon, Observation, Settings, run_sessions

ENGINE = ReferenceEngine(PASSAGES)


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, T5Agent]:
    """Random weights of both kinds of encoder, held to the grammar and free."""
    folders = {kind: save_seq2seq(tmp_path_factory.mktemp(kind), kind, seed=5) for kind in ("t5", "bert")}
    return {
        f"{kind} {grammar.name}{' free' if free else ''}": T5Agent.from_pretrained(
            folder, ENGINE, grammar, free=free, threads=1
        )
        for kind, folder in folders.items()
        for grammar, free in ((G4, False), (G1, False), (G2, True))
    }


def legal(seen: Observation, action: object, agent: T5Agent, lexicon: Lexicon) -> bool:
    """Whether the action is in the agent's grammar, with a term of the observation not used before."""
    terms = usable_terms(seen, lexicon)
    if action == STOP:
        return seen.may_stop or not terms or not any(_writable(term.text) for term in terms)
    assert isinstance(action, Refinement)
    if agent.free and action.term not in {term.text for term in terms}:
        same = lexicon.as_term(action.term)
        return bool(same) and same not in seen.used and Operator(action.op, action.weight) in agent.grammar.operators
    place = [term.text for term in terms].index(action.term)
    fields = open_slots(terms)[place]
    return Operator(action.op, action.weight) in agent.grammar.operators and bool(fields.any())


def _writable(term: str) -> bool:
    return term.isascii() and len(term) < 20


@pytest.mark.long
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_weights_write_only_what_is_legal(data: st.DataObject, agents: dict[str, T5Agent]) -> None:
    seen = data.draw(observations(ENGINE))
    lexicon = Lexicon(ENGINE)
    for name, agent in agents.items():
        [action] = agent.act([seen])
        assert legal(seen, action, agent, lexicon), (name, action)


@pytest.mark.long
@pytest.mark.parametrize(("kind", "name"), [("t5", "t5-G4"), ("bert", "copynet"), ("t5", "t5-G0+free")])
def test_the_agent_keeps_every_promise_of_the_protocol(
    kind: str, name: str, embedded: EmbeddedEngine, tmp_path: Path
) -> None:
    folder = save_seq2seq(tmp_path / kind, kind)  # type: ignore[arg-type]
    entry = make_agent(f"{name}={folder}", embedded, Settings(steps=4))
    check_agent(entry.agent, entry.environment(embedded, LexicalReader()), QUESTIONS[:3])


@pytest.mark.long
@pytest.mark.parametrize("name", ["t5-G4", "t5-G3+free"])
def test_whole_sessions_of_hard_questions_have_no_illegal_step(
    name: str, t5_folder: Path, embedded: EmbeddedEngine
) -> None:
    entry = make_agent(f"{name}={t5_folder}", embedded, Settings(steps=6))
    environment = entry.environment(embedded, LexicalReader())
    for session in run_sessions(environment, entry.agent, [*QUESTIONS, *HARD_QUESTIONS]).sessions:
        assert session.ended != "illegal", session.error
        assert session.ended != "error" or "cannot be asked" in session.error


@pytest.mark.slow
def test_a_hundred_thousand_steps_are_all_legal(embedded: EmbeddedEngine, tmp_path: Path) -> None:
    """Random weights, five grammars; the sessions wander, so that no two are the same."""
    lexicon, steps, seed = Lexicon(embedded), 0, 0
    while steps < 100_000:
        folder = save_seq2seq(tmp_path / str(seed), "t5", seed)
        grammar = list(GRAMMARS.values())[seed % len(GRAMMARS)]
        agent = T5Agent.from_pretrained(folder, embedded, grammar, threads=2)
        environment = Environment(embedded, LexicalReader(), Settings(steps=20, seed=seed, allow_stop=seed % 2 == 1))
        questions = [*QUESTIONS, *HARD_QUESTIONS] * 20
        sessions = environment.open([replace(q, id=f"{q.id}-{n}") for n, q in enumerate(questions)])
        while sessions := [session for session in sessions if not session.ended]:
            seen = environment.observe(sessions)
            actions = agent.act(seen)
            for session, observation, action in zip(sessions, seen, actions, strict=True):
                assert legal(observation, action, agent, lexicon), action
                assert environment.objection(session, action) is None
            steps += len(actions)
            sessions = environment.step(sessions, Wanderer().act(seen))
        seed += 1


@pytest.mark.long
def test_sessions_of_one_grammar_use_only_its_operators(t5_folder: Path, embedded: EmbeddedEngine) -> None:
    for name, grammar in GRAMMARS.items():
        entry = make_agent(f"t5-{name}={t5_folder}", embedded, Settings(steps=3))
        sessions = run_sessions(entry.environment(embedded, LexicalReader()), entry.agent, QUESTIONS).sessions
        assert all(session.ended == "steps" for session in sessions)
        actions = [step.action for session in sessions for step in session.steps[1:]]
        assert {Operator(each.op, each.weight) for each in actions} <= set(grammar.operators)  # type: ignore[union-attr]


def test_notes_hold_the_four_likeliest_refinements(t5_folder: Path, embedded: EmbeddedEngine) -> None:
    environment = Environment(embedded, LexicalReader(), Settings(steps=3))
    agent = T5Agent.from_pretrained(t5_folder, embedded, G4, threads=1)
    [(action, notes)] = agent.act_with_explanations(environment.observe(environment.open(QUESTIONS[:1])))
    likeliest = notes["likeliest"]
    assert len(likeliest) == 4
    assert likeliest[0][0] == str(action)
    assert [p for _, p in likeliest] == sorted((p for _, p in likeliest), reverse=True)


def test_a_free_agent_that_writes_nonsense_is_held_to_the_grammar(t5_folder: Path, embedded: EmbeddedEngine) -> None:
    environment = Environment(embedded, LexicalReader(), Settings(steps=3))
    seen = environment.observe(environment.open(QUESTIONS))
    free = T5Agent.from_pretrained(t5_folder, embedded, G4, free=True, threads=1)
    held = T5Agent.from_pretrained(t5_folder, embedded, G4, threads=1)
    decided = free.act_with_explanations(seen)
    assert all(notes["refused"] for _, notes in decided)  # random weights write no sentence
    assert [action for action, _ in decided] == held.act(seen)


def test_an_agent_may_stop_only_where_it_may(t5_folder: Path, embedded: EmbeddedEngine) -> None:
    environment = Environment(embedded, LexicalReader(), Settings(steps=3))
    [seen] = environment.observe(environment.open(QUESTIONS[:1]))
    agent = T5Agent.from_pretrained(t5_folder, embedded, G4, threads=1)
    assert agent.act([seen]) != [STOP]
    assert agent.act([replace(seen, terms=())]) == [STOP]
    assert agent.act([replace(seen, terms=(), may_stop=True)]) == [STOP]


def test_two_threads_write_what_one_writes(t5_folder: Path, embedded: EmbeddedEngine) -> None:
    environment = Environment(embedded, LexicalReader(), Settings(steps=3))
    seen = environment.observe(environment.open(QUESTIONS))
    one, two = (T5Agent.from_pretrained(t5_folder, embedded, G4, threads=threads) for threads in (1, 2))
    assert one.act_with_explanations(seen) == two.act_with_explanations(seen)
    assert [one.act([each])[0] for each in seen] == two.act(seen)


def test_int8_weights_are_a_quarter_and_play(t5_folder: Path, embedded: EmbeddedEngine, tmp_path: Path) -> None:
    to_int8(t5_folder, tmp_path / "int8")
    sizes = [(folder / "model.safetensors").stat().st_size for folder in (t5_folder, tmp_path / "int8")]
    assert sizes[1] < 0.45 * sizes[0]
    environment = Environment(embedded, LexicalReader(), Settings(steps=3))
    seen = environment.observe(environment.open(QUESTIONS))
    whole, small = (T5Agent.from_pretrained(f, embedded, G4, threads=1) for f in (t5_folder, tmp_path / "int8"))
    # Random weights know near-ties, which rounding decides otherwise; most actions stay.
    same = [a == b for a, b in zip(small.act(seen), whole.act(seen), strict=True)]
    assert sum(same) > len(same) / 2


def test_a_folder_of_another_purpose_is_refused_with_a_way_out(embedded: EmbeddedEngine, tmp_path: Path) -> None:
    folder = save_seq2seq(tmp_path / "answerer", purpose="answerer")
    with pytest.raises(ModelMissingError, match="another model; train one from it: orienteer train t5"):
        make_agent(f"t5={folder}", embedded)
    with pytest.raises(CheckpointMissingError, match="orienteer train t5"):
        make_agent("t5=nowhere", embedded)
    with pytest.raises(CheckpointMissingError, match=r"none ships; what was called t5 in earlier .* is copynet"):
        make_agent("t5-G1[steps=3]", embedded)
    with pytest.raises(AgentNameError, match="holds a copynet; write copynet-G4="):
        make_agent(f"t5-G4={save_seq2seq(tmp_path / 'bert', 'bert')}", embedded)


def test_a_fingerprint_tells_weights_grammar_and_freedom_apart(t5_folder: Path, tmp_path: Path) -> None:
    other = save_seq2seq(tmp_path / "other", seed=1)
    prints = {
        T5Agent.from_pretrained(folder, ENGINE, grammar, free=free, threads=1).fingerprint
        for folder in (t5_folder, other)
        for grammar in (G1, G4)
        for free in (False, True)
    }
    assert len(prints) == 8
