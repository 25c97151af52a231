"""Files of sessions: what is written is read again, and what is left out can be made again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from generated_world import ASKED, CONFIG, Bundled, run
from hash_reader import HashReader

from orienteer.rocchio import RocchioError, RocchioSession, read_sessions, training_steps, write_compact
from orienteer.rocchio.sessions import SEARCHED, header_line, read_header, read_session, session_line
from orienteer.session import Environment


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sessions") / "sessions.jsonl"
    run(out)
    return out


def everything(path: Path) -> list[RocchioSession]:
    return list(read_sessions(path)[1])


def test_what_is_written_is_read_again(file: Path) -> None:
    header, _ = read_sessions(file)
    sessions = everything(file)
    lines = [header_line(header), *(session_line(session) for session in sessions)]
    assert b"".join(lines) == file.read_bytes()
    assert sum(len(session.steps) for session in sessions) > 20
    assert any(step.others for session in sessions for step in session.steps)


def test_no_text_of_a_question_or_passage_is_in_the_file(file: Path) -> None:
    text = file.read_text()
    assert not any(question.question in text for question in ASKED)


@pytest.mark.parametrize("suffix", ["", ".zst", ".xz", ".gz"])
def test_the_compact_form_holds_refinements_and_scores_and_what_was_not_searched(
    file: Path, tmp_path: Path, suffix: str
) -> None:
    small = tmp_path / f"small.jsonl{suffix}"
    count = write_compact([file, file], small)
    header, sessions = read_sessions(small)
    assert header.compact
    assert header.config == CONFIG
    kept = list(sessions)
    every = everything(file)
    assert count == len(kept) == 2 * len(every)
    for a, b in zip(every + every, kept, strict=True):
        assert (a.id, a.variant, a.ended, a.read) == (b.id, b.variant, b.ended, b.read)
        assert [step.refinement for step in a.steps] == [step.refinement for step in b.steps]
        assert [[r for r, _ in step.others] for step in a.steps] == [[r for r, _ in step.others] for step in b.steps]
        assert (a.start is None) == (b.start is None)
        assert b.start is None or not b.start.best
        for was, now in zip(a.steps, b.steps, strict=True):
            assert now.state.score.total == pytest.approx(was.state.score.total, abs=1e-6)
            assert now.state.relevant == was.state.relevant
    if suffix:
        assert small.stat().st_size < file.stat().st_size / 4


def test_files_that_were_made_differently_are_not_joined(file: Path, tmp_path: Path) -> None:
    header, _ = read_sessions(file)
    other = tmp_path / "other.jsonl"
    other.write_bytes(header_line(replace(header, reader="another")))
    with pytest.raises(RocchioError, match="was not made as"):
        write_compact([file, other], tmp_path / "both.jsonl")


@pytest.mark.long
@pytest.mark.parametrize("compact", [False, True])
def test_the_observations_of_every_step_can_be_made_again(file: Path, tmp_path: Path, compact: bool) -> None:
    path = file
    if compact:
        path = tmp_path / "small.jsonl.zst"
        write_compact([file], path)
    engine, reader = Bundled().open()
    header, sessions = read_sessions(path)
    recorded = list(sessions)
    rebuilt = list(training_steps(header, recorded, ASKED, engine, reader, batch_size=7))
    assert len(rebuilt) == len(recorded)
    asked = {question.id: question for question in ASKED}
    for session, steps in zip(recorded, rebuilt, strict=True):
        if session.ended not in SEARCHED:
            assert steps == []
            continue
        expected = [step.refinement for step in session.steps] + [None] * (session.ended == "best")
        assert [step.refinement for step in steps] == expected
        environment = Environment(engine, reader, header.config.settings_of(session.variant))
        [played] = environment.open([asked[session.id]])
        for step in steps:
            assert [step.observation] == environment.observe([played])
            if step.refinement is not None:
                [played] = environment.step([played], [step.refinement])


def test_an_agent_may_see_shorter_snippets_than_the_search_saw(file: Path) -> None:
    engine, reader = Bundled().open()
    header, sessions = read_sessions(file)
    [steps] = training_steps(header, [next(sessions)], ASKED, engine, reader, snippet=5)
    assert all(len(passage.snippet.split()) <= 5 for passage in steps[0].observation.passages)


def test_another_reader_index_or_question_is_refused(file: Path) -> None:
    engine, reader = Bundled().open()
    header, sessions = read_sessions(file)
    first = next(sessions)
    with pytest.raises(RocchioError, match="made with the reader"):
        list(training_steps(header, [first], ASKED, engine, HashReader(ASKED, seed=9)))
    with pytest.raises(RocchioError, match="made with the index"):
        list(training_steps(replace(header, index="x"), [first], ASKED, engine, reader))
    with pytest.raises(RocchioError, match="no question has the id"):
        list(training_steps(header, [first], ASKED[1:], engine, reader))
    found = next(session for session in sessions if session.final and any(session.final.relevant))
    asked = next(question for question in ASKED if question.id == found.id)
    changed = replace(asked, answers=("nothing of the kind",))
    with pytest.raises(RocchioError, match="was recorded"):
        list(training_steps(header, [found], [changed], engine, reader))


def test_a_session_that_rounding_turns_another_way_gives_the_steps_before(file: Path) -> None:
    """Readers in int8 round differently on another kind of processor."""
    engine, reader = Bundled().open()
    header, sessions = read_sessions(file)
    batch = [session for session in sessions if session.steps][:8]

    def shifted(session: RocchioSession, by: float) -> RocchioSession:
        last = session.steps[-1]
        score = replace(last.state.score, total=last.state.score.total + by)
        steps = (*session.steps[:-1], replace(last, state=replace(last.state, score=score)))
        return replace(session, steps=steps)

    whole = list(training_steps(header, batch, ASKED, engine, reader))
    near = list(training_steps(header, [shifted(each, 0.01) for each in batch], ASKED, engine, reader))
    assert [len(steps) for steps in near] == [len(steps) for steps in whole]
    first = list(training_steps(header, [shifted(batch[0], 0.1), *batch[1:]], ASKED, engine, reader))
    assert first[1:] == whole[1:]
    assert [step.observation for step in first[0]] == [s.observation for s in whole[0]][: len(batch[0].steps)]
    with pytest.raises(RocchioError, match="was recorded"):
        list(training_steps(header, [shifted(each, 0.1) for each in batch], ASKED, engine, reader))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"", "not a file of Rocchio sessions"), (b"[]", "not a file"), (b'{"id": "x"}', "not a file"),
        (b'{"rocchio": 99}', "version 99"), (b'{"rocchio": 1}', "damaged first line"),
    ],
)  # fmt: skip
def test_a_file_of_something_else_is_refused(line: bytes, says: str) -> None:
    with pytest.raises(RocchioError, match=says):
        read_header(line)


BAD_LINES = [b"", b"{}", b"[]", b'{"ended": "never"}', b'{"id":"x","grammar":"G9","ended":"best"}']


@pytest.mark.parametrize("line", BAD_LINES)
def test_a_line_of_something_else_is_refused(line: bytes) -> None:
    with pytest.raises(RocchioError, match="not a Rocchio session"):
        read_session(line)


def test_an_error_names_file_and_line(file: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    broken.write_bytes(b"".join(lines[:3]) + b"{}\n")
    with pytest.raises(RocchioError, match=r"broken.jsonl, line 4: not a Rocchio session"):
        everything(broken)
