"""A session renders itself in a notebook."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from lexical_reader import LexicalReader
from small_world import HARD_QUESTIONS, PASSAGES, QUESTIONS, Wanderer

from orienteer.data.passage import Passage, Question
from orienteer.engine import EmbeddedEngine, ReferenceEngine
from orienteer.session import Environment, Session, Settings, from_line, record, run_sessions, to_line


class Tags(HTMLParser):
    """What a browser would see: tags that close in order, and the text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def play(engine: EmbeddedEngine | ReferenceEngine, question: Question) -> tuple[Session, Environment]:
    environment = Environment(engine, LexicalReader(), Settings(steps=5))
    return run_sessions(environment, Wanderer(), [question]).sessions[0], environment


@pytest.mark.parametrize("question", [*QUESTIONS, *HARD_QUESTIONS], ids=lambda question: question.id)
def test_every_session_and_its_record_are_well_formed_html(engine: EmbeddedEngine, question: Question) -> None:
    session, environment = play(engine, question)
    kept = from_line(to_line(record(session, environment, "wanderer")))
    for html in (session._repr_html_(), kept._repr_html_()):
        tags = Tags(html)
        assert tags.open == []
        assert tags.seen <= {"div", "b", "details", "summary", "ol", "li", "span", "br"}
        for each in session.best:
            assert (each.passage.title or "(no title)") in tags.text


def test_the_answer_is_marked_and_the_operators_are_chips(engine: EmbeddedEngine) -> None:
    session, _ = play(engine, QUESTIONS[0])
    html = session._repr_html_()
    assert "background:#cfe2fb" in html or "background:#fbd9d5" in html
    assert html.count("border-radius:9px") >= 1


def test_retrieved_text_is_never_markup() -> None:
    hostile = Passage("x", "<script>alert(1)</script> lamp", "lamp <img src=x onerror=alert(2)> Keeper <b>bold</b>")
    session, _ = play(
        ReferenceEngine([hostile, *PASSAGES]), Question("q", "<i>lamp</i> onerror keeper script", ("Keeper",))
    )
    html = session._repr_html_()
    tags = Tags(html)
    assert not tags.seen & {"script", "img", "i"}
    assert "<script>alert(1)</script>" in tags.text
