"""Records: all that happened in one line, and the same line again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from lexical_reader import LexicalReader
from small_world import HARD_QUESTIONS, PASSAGES, QUESTIONS, Scripted, Wanderer, plus

from orienteer.engine import EmbeddedEngine, ReferenceEngine
from orienteer.session import (
    UNDO,
    Environment,
    Record,
    RecordError,
    ReplayError,
    Settings,
    check_replay,
    from_line,
    read_records,
    record,
    replay,
    run_sessions,
    to_line,
    write_records,
)
from orienteer.session.display import console_lines


@pytest.fixture
def records(engine: EmbeddedEngine) -> list[Record]:
    environment = Environment(engine, LexicalReader(), Settings(steps=7, allow_stop=True, seed=3))
    sessions = run_sessions(environment, Wanderer(), [*QUESTIONS, *HARD_QUESTIONS]).sessions
    return [record(session, environment, "wanderer") for session in sessions]


def test_a_record_read_back_is_the_same(records: list[Record]) -> None:
    for each in records:
        assert from_line(to_line(each)) == replace(each, question=from_line(to_line(each)).question)
        assert to_line(from_line(to_line(each))) == to_line(each)
        assert to_line(each).count(b"\n") == 1


def test_a_record_says_what_it_was_played_with(records: list[Record], engine: EmbeddedEngine) -> None:
    row = json.loads(to_line(records[0]))
    assert (row["version"], row["agent"], row["reader"]) == (1, "wanderer", "lexical stand-in")
    assert row["index"] == engine.fingerprint
    assert row["settings"]["seed"] == 3
    assert "seconds" not in json.dumps(row)


def test_replaying_gives_the_same_bytes(records: list[Record], engine: EmbeddedEngine) -> None:
    for each in records:
        stored = from_line(to_line(each))
        assert to_line(replay(stored, engine, LexicalReader())) == to_line(each)
        check_replay(stored, engine, LexicalReader())


def test_a_session_that_failed_or_undid_replays_too(engine: EmbeddedEngine) -> None:
    environment = Environment(engine, LexicalReader())
    scripts = (Scripted(plus("tower"), UNDO, plus("storm"), plus("visitors")), Scripted(plus("tower"), "nonsense"))
    for script in scripts:
        for session in run_sessions(environment, script, QUESTIONS).sessions:
            check_replay(from_line(to_line(record(session, environment, "script"))), engine, LexicalReader())


def test_another_index_or_reader_is_refused(records: list[Record], engine: EmbeddedEngine) -> None:
    with pytest.raises(ReplayError, match="open the same index"):
        check_replay(records[0], ReferenceEngine(PASSAGES), LexicalReader())
    with pytest.raises(ReplayError, match="open the same reader"):
        check_replay(records[0], engine, LexicalReader("another"))


def test_a_record_that_was_changed_is_found_out_at_its_step(records: list[Record], engine: EmbeddedEngine) -> None:
    row = json.loads(to_line(records[0]))
    row["steps"][2]["best"].reverse()
    with pytest.raises(ReplayError, match="'q1' differs at step 2"):
        check_replay(from_line(json.dumps(row)), engine, LexicalReader())
    row = json.loads(to_line(records[0]))
    row["passages"]["ardle-1"]["score"] += 1e-12
    with pytest.raises(ReplayError, match="other passages"):
        check_replay(from_line(json.dumps(row)), engine, LexicalReader())


def test_passages_among_the_best_are_recorded_with_title_and_snippet_and_others_without(records: list[Record]) -> None:
    for each in records:
        shown = {id for step in each.steps for id in step.best}
        assert {id for id, passage in each.passages.items() if passage.text is not None} == shown


def test_files_are_written_whole_and_read_back(records: list[Record], tmp_path: Path) -> None:
    file = tmp_path / "sessions.jsonl"
    assert write_records(file, records) == len(records)
    assert [to_line(each) for each in read_records(file)] == [to_line(each) for each in records]
    assert [path.name for path in tmp_path.iterdir()] == ["sessions.jsonl"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"{", "not JSON"), (b"[]", "no version"), (b"{}", "no version"), (b'{"version": 99}', "version 99"),
        (b'{"version": 1}', "a damaged record: KeyError"), (b"\xff\xfe", "not JSON"),
    ],
)  # fmt: skip
def test_a_line_that_is_no_record_is_refused_with_file_and_line(line: bytes, says: str, tmp_path: Path) -> None:
    file = tmp_path / "sessions.jsonl"
    file.write_bytes(line + b"\n")
    with pytest.raises(RecordError, match=rf"line 1: .*{says}"):
        list(read_records(file))


@pytest.mark.parametrize("place", ["settings", "steps", "passages", "ended", "question"])
def test_a_damaged_record_is_refused(records: list[Record], place: str) -> None:
    for wrong in (7, "x", ["x"], {"x": 1}, [{"x": 1}]):
        row = json.loads(to_line(records[0]))
        if isinstance(row[place], str) and place == "question":
            del row[place]
        else:
            row[place] = wrong
        with pytest.raises(RecordError, match="damaged"):
            from_line(json.dumps(row))


def test_a_missing_file_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="cannot be read"):
        list(read_records(tmp_path / "none.jsonl"))


def test_a_session_is_laid_out_for_the_terminal(records: list[Record]) -> None:
    for each in records:
        for every_step in (False, True):
            text = "\n".join(line.plain for line in console_lines(each, every_step=every_step))
            assert f"{each.queries} queries, {len(each.passages)} passages read" in text
            if each.best:
                assert "Answer: " in text
    text = "\n".join(line.plain for line in console_lines(records[0]))
    assert text.startswith("q0 who lit the first lamp on the reef  0.")
    assert "expected: Maren Holt" in text


def test_control_characters_of_a_passage_do_not_reach_the_terminal(records: list[Record]) -> None:
    id = records[0].best[0]
    nasty = replace(records[0].passages[id], title="\x1b[2Jgone\x07", text="\x1b]0;x\x07 lamp", answer="lamp")
    changed = replace(records[0], passages={**records[0].passages, id: nasty})
    assert "\x1b" not in "".join(line.plain for line in console_lines(changed))


def test_the_answer_is_marked_where_it_stands_as_whole_words(records: list[Record]) -> None:
    id = records[0].best[0]
    passage = replace(records[0].passages[id], text="built in 1210 with 210 steps", answer="210", exact=True)
    changed = replace(records[0], passages={**records[0].passages, id: passage})
    [line] = [line for line in console_lines(changed) if "built in 1210" in line.plain]
    assert [line.plain[span.start : span.end] for span in line.spans if "blue" in str(span.style)] == ["210"]
    assert "1210 with " in line.plain[: next(s.start for s in line.spans if "blue" in str(s.style))]
