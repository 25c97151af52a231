"""Algorithm 1 with judgements: the sessions of reading everything, and scores that rise to relevant passages."""

from __future__ import annotations

from dataclasses import replace

from hash_reader import HashReader

from orienteer.bundled import bundled_engine, bundled_questions
from orienteer.data.passage import Question
from orienteer.query import Query
from orienteer.rocchio import RocchioConfig, rocchio_sessions, variants_of
from orienteer.rocchio.sessions import read_session, session_line
from orienteer.session import Settings

CONFIG = RocchioConfig(n=40, m=20, settings=Settings(steps=3), others=4)


def judged_questions(count: int) -> list[Question]:
    """Bundled questions without answers, two passages from below the first five judged 1 and 2."""
    engine = bundled_engine()
    found = []
    for question in bundled_questions("train")[:count]:
        ids = [hit.id for hit in engine.search(Query(question.question), 40)]
        if len(ids) == 40:
            found.append(Question(question.id, question.question, judgements=((ids[6], 2), (ids[9], 1))))
    return found


def test_the_bounds_find_what_reading_everything_finds() -> None:
    questions = judged_questions(12)
    engine, reader = bundled_engine(), HashReader(questions)
    [lean, full] = [
        rocchio_sessions(engine, reader, questions, variants_of("G4"), replace(CONFIG, exhaustive=exhaustive))
        for exhaustive in (False, True)
    ]
    for [a], [b] in zip(lean, full, strict=True):
        assert [(step.refinement, step.state) for step in a.steps] == [(s.refinement, s.state) for s in b.steps]
        assert a.read <= b.read


def test_sessions_climb_towards_the_judged_passages_and_are_read_again() -> None:
    questions = judged_questions(12)
    sessions = rocchio_sessions(bundled_engine(), HashReader(questions), questions, variants_of("G4"), CONFIG)
    assert any(step.state.score.ndcg > 0 for [session] in sessions for step in session.steps)
    for [session] in sessions:
        assert session.start is not None
        assert session.start.score.ndcem is None
        totals = [session.start.score.total, *(step.state.score.total for step in session.steps)]
        assert totals == sorted(totals)
        assert session_line(read_session(session_line(session))) == session_line(session)


def test_judged_passages_that_the_index_lacks_end_the_search() -> None:
    question = Question("q", "which river floods egypt", judgements=(("nowhere", 1),))
    [[session]] = rocchio_sessions(bundled_engine(), HashReader([question]), [question], variants_of("G4"), CONFIG)
    assert session.ended == "answer nowhere"
