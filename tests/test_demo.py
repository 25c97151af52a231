"""The demo: a session to look at, all questions in a line, and the tour where no reader is shipped."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parent / "session"))

from lexical_reader import LexicalReader

from orienteer import demo
from orienteer.agents import make_agent
from orienteer.bundled import bundled_engine, bundled_questions
from orienteer.data.passage import Question
from orienteer.engine import EmbeddedEngine
from orienteer.errors import ModelMissingError
from orienteer.reader import TrainedReader
from orienteer.session import Environment, Session, Settings, run_sessions


@pytest.fixture(scope="module")
def engine() -> EmbeddedEngine:
    return bundled_engine()


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> list[Question]:
    """Thirty training questions to find a session in, and twenty of the test split to compare on."""
    sizes = {"train": 30, "test": 20}
    monkeypatch.setattr(demo, "bundled_questions", lambda split: bundled_questions(split)[: sizes[split]])
    return bundled_questions("test")[:20]


def printed(engine: EmbeddedEngine, asked: list[Question] | None = None) -> str:
    out = io.StringIO()
    console = Console(file=out, width=200, highlight=False)
    for each in asked or ():
        demo.ask_one(console, engine, LexicalReader(), each.question)
    if asked is None:
        demo.compare_all(console, engine, LexicalReader())
    return out.getvalue()


@pytest.mark.long
def test_one_session_is_shown_and_all_questions_are_compared_in_the_last_line(
    engine: EmbeddedEngine, few: list[Question]
) -> None:
    *session, line = printed(engine).strip().splitlines()
    assert sum(text.startswith("q0 ") for text in session) == 1
    assert any(text.startswith("Answer: ") for text in session)
    assert line.startswith("All 20 questions set aside, bm25+ps → pointer (5 refinements): right answer first")


@pytest.mark.long
def test_the_figures_are_those_of_the_two_agents_played_apart(engine: EmbeddedEngine, few: list[Question]) -> None:
    def played(name: str) -> tuple[Session, ...]:
        entry = make_agent(name, engine, Settings(steps=demo.STEPS))
        return run_sessions(Environment(engine, LexicalReader(), entry.settings), entry.agent, few).sessions

    plain, agent = played("bm25+ps"), played(demo.AGENT)
    first, last = (demo.Outcome.mean(each) for each in zip(*map(demo.outcomes, agent), strict=True))
    for outcome, sessions in ((first, plain), (last, agent)):
        assert outcome.exact == sum(bool(s.best and s.best[0].exact) for s in sessions) / len(few)
        assert outcome.found == sum(any(seen.relevant for seen in s.best) for s in sessions) / len(few)
        assert outcome.score == pytest.approx(sum(s.score.total for s in sessions if s.score) / len(few))
        assert outcome.read == sum(s.passages_read for s in sessions) / len(few)
    line = printed(engine).strip().splitlines()[-1]
    assert f"right answer first {first.exact:.1%} → {last.exact:.1%}" in line


@pytest.mark.long
def test_the_session_shown_is_the_first_that_a_refinement_helped(engine: EmbeddedEngine) -> None:
    entry = make_agent(demo.AGENT, engine, Settings(steps=demo.STEPS))
    questions = bundled_questions("train")[:150]
    sessions = run_sessions(Environment(engine, LexicalReader(), entry.settings), entry.agent, questions).sessions
    helped = demo.first_helped(sessions)
    for session in sessions:
        own = {seen.passage.id: seen for seen in session.seen if seen.step == 0}
        turned = not any(seen.relevant for seen in own.values()) and bool(session.best and session.best[0].exact)
        if session is helped:
            assert turned
            break
        assert not turned
    assert demo.first_helped([]) is None


@pytest.mark.long
def test_a_question_of_ones_own_is_asked_alone(engine: EmbeddedEngine) -> None:
    text = printed(engine, [Question("demo", "who's the [bold]architect[/bold] of the \x1b[31mtower")])
    assert text.startswith("who's the [bold]architect[/bold] of the [31mtower")
    assert text.index("passages read") > text.index("q0 ")
    assert "questions set aside" not in text
    assert "passages read" in text


def test_the_figures_come_from_the_evaluation_and_are_left_out_where_there_is_none(tmp_path: Path) -> None:
    file = tmp_path / "metrics.json"
    assert demo.measured(file) == ""
    file.write_text(
        '{"_run": {"n": 300, "settings": {"steps": 20}}, "bm25+ps": {"NDCG@5": 36, "Top-5": 71},'
        ' "pointer": {"NDCG@5": 50.43, "Top-5": 85.3}}'
    )
    assert "300 questions" in demo.measured(file)
    assert "NDCG@5 36.0 → 50.4, Top-5 71.0 → 85.3" in demo.measured(file)
    file.write_text('{"_run": {}}')
    assert demo.measured(file) == ""


def test_without_a_reader_the_demo_is_a_tour_of_the_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise ModelMissingError("none")

    monkeypatch.setattr(TrainedReader, "from_pretrained", missing)
    out = io.StringIO()
    demo.run_demo(Console(file=out, width=200, highlight=False))
    assert out.getvalue().count("+(title:") == 3
    assert "Sojourner" in out.getvalue()
    out.truncate(0)
    demo.run_demo(Console(file=out, width=200, highlight=False), "lamp +title:lighthouse")
    assert out.getvalue().count("+(title:") == 1


@pytest.mark.long
def test_the_last_line_is_the_command_of_the_page() -> None:
    out = io.StringIO()
    demo.run_demo(Console(file=out, width=200, highlight=False), "who first isolated sodium metal")
    assert out.getvalue().strip().splitlines()[-1].endswith("orienteer serve --open")


def test_make_hands_a_question_over_as_it_is(tmp_path: Path) -> None:
    """With a stand-in for the command, and nothing to install."""
    root = Path(__file__).parent.parent
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / "requirements").mkdir()
    for name in ("pyproject.toml", "constraints.txt", "requirements/serve.lock"):
        (tmp_path / name).touch()
    (tmp_path / ".venv" / ".base-installed").touch()
    command = tmp_path / ".venv" / "bin" / "orienteer"
    command.write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    command.chmod(0o755)
    for question in ('who\'s the "best" $HOME `x` $(y)?', "-c", ""):
        arguments = [f"Q={question}"] if question else []
        run = subprocess.run(
            ["make", "-s", "-f", str(root / "Makefile"), "demo", *arguments],
            cwd=tmp_path, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert run.stdout.endswith(f"<demo><--><{question}>")
