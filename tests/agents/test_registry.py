"""Agents by name."""

from __future__ import annotations

import pytest
from lexical_reader import LexicalReader
from small_world import QUESTIONS

from orienteer.agents import AgentNameError, agent_names, agent_specs, check_agent, make_agent, register_agent
from orienteer.agents import registry as registry_module
from orienteer.engine import Engine
from orienteer.query import Refinement
from orienteer.session import Environment, Session, Settings, run_sessions

TEN = ["-or", "+c", "+t", "-c", "-t", "^.1", "^2", "^4", "^6", "^8"]


def test_every_name_of_the_house_plan_is_there() -> None:
    expected = [
        "bm25",
        "bm25+ps",
        "bm25@100+ps",
        *(f"prf-{by}{op}" for by in ("idf", "rm3") for op in TEN),
        "prf-answer",
        *("rocchio", *(f"rocchio-G{n}" for n in range(5))),
        "random",
        "pages",
    ]
    assert agent_names() == expected
    assert all(spec.about and spec.needs for spec in agent_specs())


@pytest.mark.long
@pytest.mark.parametrize("name", agent_names())
def test_every_agent_keeps_the_contract(name: str, engine: Engine) -> None:
    entry = make_agent(name, engine, Settings(steps=6))
    check_agent(entry.agent, Environment(engine, LexicalReader(), entry.settings), QUESTIONS)


@pytest.mark.parametrize(
    ("op", "refinement"),
    [
        ("-or", Refinement("or", "contents", "x")), ("+c", Refinement("+", "contents", "x")),
        ("+t", Refinement("+", "title", "x")), ("-c", Refinement("-", "contents", "x")),
        ("-t", Refinement("-", "title", "x")), ("^.1", Refinement("^", "contents", "x", 0.1)),
        ("^2", Refinement("^", "contents", "x", 2.0)), ("^8", Refinement("^", "contents", "x", 8.0)),
    ],
)  # fmt: skip
def test_the_ending_of_a_name_is_its_operator(op: str, refinement: Refinement, engine: Engine) -> None:
    entry = make_agent(f"prf-idf{op}", engine)
    environment = Environment(engine, LexicalReader(), entry.settings)
    [action] = entry.agent.act(environment.observe(environment.open(QUESTIONS[:1])))
    assert isinstance(action, Refinement)
    assert (action.op, action.field, action.weight) == (refinement.op, refinement.field, refinement.weight)


def test_options_in_brackets_become_settings(engine: Engine) -> None:
    entry = make_agent("prf-rm3^2[steps=10; dead_ends=stop]", engine)
    assert entry.settings == Settings(steps=10, dead_ends="stop", order="agreement")
    assert make_agent("bm25@37+ps", engine).settings == Settings(steps=0, hits=37, order="agreement")
    assert make_agent("prf-idf-t[]", engine, Settings(seed=5)).settings == Settings(seed=5)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("bm52", "did you mean bm25"), ("", "no agent is called ''"), ("prf-idf", "no agent is called 'prf-idf'"),
        ("prf-idf^3", "OP is one of"), ("bm25@+ps", "bm25@N"), ("bm25@0+ps", "expected 1 to"),
        ("bm25@99999999+ps", "expected 1 to"), ("BM25", "no agent is called 'BM25'"),
        ("prf-idf-t[steps=10", "open bracket"), ("prf-idf-t[steps]", "write option=value"),
        ("prf-idf-t[step=1]", "unknown option 'step'"), ("prf-idf-t[steps=-1]", "0 or more"),
        ("prf-idf-t[steps=1;steps=2]", "given twice"),
    ],
)  # fmt: skip
def test_a_name_that_does_not_exist_says_which_do(name: str, says: str, engine: Engine) -> None:
    with pytest.raises(AgentNameError, match=says):
        make_agent(name, engine)


def test_bm25_keeps_the_engines_order_and_ps_reorders_it(engine: Engine) -> None:
    def best(name: str) -> list[list[str]]:
        entry = make_agent(name, engine)
        run = run_sessions(Environment(engine, LexicalReader(), entry.settings), entry.agent, QUESTIONS)
        return [[each.passage.id for each in session.best] for session in run.sessions]

    plain = [[hit.id for hit in engine.search(session.query, 5)] for session in _opened(engine)]
    assert best("bm25") == plain
    assert [sorted(ids) for ids in best("bm25+ps")] == [sorted(ids) for ids in plain]
    assert best("bm25+ps") != plain


def test_bm25_at_n_reads_n_passages_and_keeps_the_best_five(engine: Engine) -> None:
    entry = make_agent("bm25@8+ps", engine, order="ps")
    run = run_sessions(Environment(engine, LexicalReader(), entry.settings), entry.agent, QUESTIONS)
    for session in run.sessions:
        found = list(engine.search(session.query, 8))
        assert session.passages_read == len(found)
        scores = sorted((each.reading.score for each in session.seen), reverse=True)
        assert [each.reading.score for each in session.best] == scores[:5]


def _opened(engine: Engine) -> list[Session]:
    return Environment(engine, LexicalReader(), Settings()).open(QUESTIONS)


class Patient:
    """Does nothing, in so many ways."""

    def __init__(self, engine: Engine, times: int = 1, loud: bool = False, name: str = "x") -> None:
        self.given = times, loud, name

    def act(self, observations: object) -> list[object]:
        return []


@pytest.fixture
def open_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "_REGISTERED", {})
    monkeypatch.setattr(registry_module, "_looked_for", True)


@pytest.mark.usefixtures("open_registry")
def test_a_registered_agent_takes_its_own_options_and_those_of_sessions(engine: Engine) -> None:
    assert register_agent("patient", Patient) is Patient
    assert [spec.names for spec in agent_specs()][-1] == "patient"
    assert agent_specs()[-1].about == "Does nothing, in so many ways."
    by_name = make_agent("patient[times=3;loud=true;steps=7]", engine)
    by_keyword = make_agent("patient", engine, times=3, loud=True, steps=7)
    for made in (by_name, by_keyword):
        assert made.agent.given == (3, True, "x")  # type: ignore[attr-defined]
        assert made.settings == Settings(steps=7, order="agreement")


@pytest.mark.usefixtures("open_registry")
def test_register_agent_is_a_decorator_too_and_registering_again_replaces(engine: Engine) -> None:
    register_agent("patient", Patient)

    @register_agent("patient", about="another")
    def make(engine: Engine) -> Patient:
        return Patient(engine, times=9)

    assert make_agent("patient", engine).agent.given[0] == 9  # type: ignore[attr-defined]
    assert [spec.about for spec in agent_specs() if spec.names == "patient"] == ["another"]


@pytest.mark.usefixtures("open_registry")
@pytest.mark.parametrize(
    ("name", "make", "says"),
    [
        ("bm25", Patient, "one of Orienteer's own"), ("bm25@7+ps", Patient, "expected small letters"),
        ("Mine", Patient, "expected small letters"), ("mine", lambda: None, "takes no engine"),
        ("mine", lambda engine, steps: None, "'steps' is a setting of sessions"),
    ],
)  # fmt: skip
def test_what_cannot_be_registered_says_why(name: str, make: object, says: str) -> None:
    with pytest.raises(AgentNameError, match=says):
        register_agent(name, make)  # type: ignore[type-var]


@pytest.mark.usefixtures("open_registry")
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("patient[times=many]", "times = 'many'; expected int"), ("patient[loud=yes]", "expected bool"),
        ("patient[size=3]", "unknown option 'size'; expected one of .*loud.*times"), ("thing", "without a method act"),
    ],
)  # fmt: skip
def test_a_registered_agent_refuses_what_it_does_not_take(name: str, says: str, engine: Engine) -> None:
    register_agent("patient", Patient)
    register_agent("thing", lambda engine: object())  # type: ignore[arg-type, return-value]
    with pytest.raises(AgentNameError, match=says):
        make_agent(name, engine)


def test_options_of_a_name_are_keyword_arguments_in_python(engine: Engine) -> None:
    assert make_agent("bm25@8+ps", engine, depth=3).settings.hits == 3
    joined = make_agent("ensemble", engine, members=["bm25+ps", "prf-answer"], budget=9, steps=2)
    assert [member.name for member in joined.agent.members] == ["bm25+ps", "prf-answer"]  # type: ignore[attr-defined]
    assert joined.agent.budget == 9  # type: ignore[attr-defined]
    with pytest.raises(AgentNameError, match="unknown option 'grammar'"):
        make_agent("bm25", engine, grammar="G1")
