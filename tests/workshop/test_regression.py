"""The regression report: what got worse is named, and only a change of index or ranking moves it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_workshop_commands import Run, run  # noqa: F401

from orienteer.data.passage import Passage, Question
from orienteer.engine import EmbeddedEngine, build_index, open_index
from orienteer.workshop.learn import Changes
from orienteer.workshop.ranking_setting import Setting
from orienteer.workshop.regression import (
    RegressionError,
    compare,
    make_report,
    read_changes,
    read_report,
    report_file,
    write_report,
)
from orienteer.workshop.thumbs import Thumb, ThumbStore

PARTS = range(8)
PASSAGES = [Passage(f"part{n}", f"Part{n}", f"The part{n} of the engine.") for n in PARTS]
# Shorter and of the same words, so that they push the good ones out.
RIVALS = [Passage(f"rival{n}x{m}", "", f"part{n} part{n} part{n}") for n in PARTS for m in range(12)]
QUESTIONS = [Question(f"q{n}", f"part{n}", judgements=((f"part{n}", 1),)) for n in PARTS]


def engine_of(folder: Path, passages: list[Passage]) -> EmbeddedEngine:
    build_index(passages, folder, threads=1)
    return open_index(folder, threads=1)


def test_the_same_index_and_ranking_move_nothing(tmp_path: Path) -> None:
    engine = engine_of(tmp_path / "index", PASSAGES)
    last = make_report(engine, QUESTIONS)
    result = compare(engine, QUESTIONS, make_report(engine, QUESTIONS), last)
    assert (result.compared, result.value, result.difference) == (8, 1.0, 0.0)
    assert not result.worse
    assert not result.drop_is_shown


def test_a_question_whose_passage_leaves_the_first_ten_is_named_with_it(tmp_path: Path) -> None:
    before = engine_of(tmp_path / "before", PASSAGES)
    after = engine_of(tmp_path / "after", PASSAGES + [each for each in RIVALS if each.id.startswith("rival3x")])
    result = compare(after, QUESTIONS, make_report(after, QUESTIONS), make_report(before, QUESTIONS))
    [worse] = result.worse
    assert (worse.question, worse.before, worse.after, worse.left, worse.gone) == ("part3", 1.0, 0.0, ("part3",), ())
    assert result.difference == pytest.approx(-1 / 8)
    assert not result.drop_is_shown  # one of eight may be chance


def test_a_drop_of_most_questions_is_shown_and_one_of_too_few_is_not(tmp_path: Path) -> None:
    before, after = engine_of(tmp_path / "before", PASSAGES), engine_of(tmp_path / "after", PASSAGES + RIVALS)
    last = make_report(before, QUESTIONS)
    result = compare(after, QUESTIONS, make_report(after, QUESTIONS), last)
    assert result.high < 0
    assert result.drop_is_shown
    few = compare(after, QUESTIONS[:4], make_report(after, QUESTIONS[:4]), last)
    assert few.high < 0
    assert not few.drop_is_shown
    back = compare(before, QUESTIONS, last, make_report(after, QUESTIONS))
    assert len(back.better) == 8
    assert not back.drop_is_shown


def test_a_passage_that_is_deleted_counts_as_lost_and_is_named(tmp_path: Path) -> None:
    before, after = engine_of(tmp_path / "before", PASSAGES), engine_of(tmp_path / "after", PASSAGES[1:])
    result = compare(after, QUESTIONS, make_report(after, QUESTIONS), make_report(before, QUESTIONS))
    assert [(each.question, each.gone) for each in result.worse] == [("part0", ("part0",))]


def test_new_judgements_alone_move_nothing(tmp_path: Path) -> None:
    engine = engine_of(tmp_path / "index", PASSAGES)
    last = make_report(engine, QUESTIONS)
    more = [Question(q.id, q.question, judgements=(*q.judgements, ("part0", 2))) for q in QUESTIONS]
    more.append(Question("new", "engine", judgements=(("part5", 1),)))
    result = compare(engine, more, make_report(engine, more), last)
    assert (result.questions, result.compared) == (9, 8)
    assert result.value < 1
    assert result.difference == 0


def test_another_ranking_is_part_of_what_is_compared(tmp_path: Path) -> None:
    engine = engine_of(tmp_path / "index", PASSAGES + RIVALS)
    titled = Changes(Setting(title_weight=3.0), boosts={f"part{n}": 0.5 for n in PARTS})
    last, today = make_report(engine, QUESTIONS, titled), make_report(engine, QUESTIONS)
    assert last.changed_ranking
    assert compare(engine, QUESTIONS, today, last).drop_is_shown


def test_a_report_is_read_back_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    engine = engine_of(tmp_path / "index", PASSAGES)
    report, file = make_report(engine, QUESTIONS, indexes=["older"]), report_file(tmp_path / "index")
    assert file == tmp_path / "index.regression.json"
    assert read_report(file) is None
    write_report(file, report)
    assert read_report(file) == report
    assert report.indexes == ("older", engine.fingerprint)
    file.write_text('{"made": 1}')
    with pytest.raises(RegressionError, match="not a report; delete it"):
        read_report(file)
    with pytest.raises(RegressionError, match="no question has a relevant passage"):
        make_report(engine, [Question("q", "part1", judgements=(("part1", 0),))])


def test_rankings_of_tune_and_of_learn_are_read(tmp_path: Path) -> None:
    file = tmp_path / "ranking.json"
    file.write_text(json.dumps({"ranking": Setting(k1=2.0)._asdict()}))
    assert read_changes(file) == Changes(Setting(k1=2.0))
    row = {"setting": Setting(b=0.5)._asdict(), "synonyms": {"a": ["b"]}, "boosts": {"c": 1.0}}
    for kind, expected in (
        ("boosts", Changes(boosts={"c": 1.0})), ("synonyms", Changes(synonyms={"a": ("b",)})), ("nothing", Changes()),
        ("all", Changes(Setting(b=0.5), {"a": ("b",)}, {"c": 1.0})),
    ):  # fmt: skip
        file.write_text(json.dumps(row | {"recommended": kind}))
        assert read_changes(file) == expected
    file.write_text("[]")
    with pytest.raises(RegressionError, match="not a ranking"):
        read_changes(file)


def test_the_command_warns_every_night_until_it_is_repaired_or_accepted(run: Run, tmp_path: Path) -> None:  # noqa: F811
    index, thumbs = tmp_path / "index", tmp_path / "thumbs.jsonl"
    engine = engine_of(index, PASSAGES)
    store = ThumbStore(thumbs)
    for n in PARTS:
        store.add(Thumb(engine.fingerprint, f"part{n}", f"part{n}", 1))
    options = ("regression", "--index", index, "--thumbs", thumbs)
    code, printed, _ = run(*options)
    assert code == 0
    assert "the first report" in printed
    assert run(*options)[0] == 0
    changed = engine_of(index, PASSAGES + RIVALS)  # another fingerprint; the thumbs still count
    assert changed.fingerprint != engine.fingerprint
    release = tmp_path / "release.json"
    release.write_bytes(report_file(index).read_bytes())
    for _ in range(2):
        code, printed, _ = run(*options)
        assert code == 3
        assert "a drop is shown" in printed
        assert "left the first ten: part7" in printed
    code, printed, _ = run(*options, "--json", "--accept")
    assert code == 0
    assert json.loads(printed)["drop_is_shown"] is True
    assert run(*options)[0] == 0
    written = release.read_bytes()
    assert run(*options, "--against", release)[0] == 3
    assert release.read_bytes() == written
    store.add(Thumb(changed.fingerprint, "part7", "part7", 0))  # taken back on the changed index
    assert "7 judged questions" in run(*options)[1]


def test_the_command_uses_the_ranking_that_is_switched_on(run: Run, tmp_path: Path) -> None:  # noqa: F811
    index, thumbs = tmp_path / "index", tmp_path / "thumbs.jsonl"
    engine = engine_of(index, PASSAGES + RIVALS)
    for n in PARTS:
        ThumbStore(thumbs).add(Thumb(engine.fingerprint, f"part{n}", f"part{n}", 1))
    on = {"setting": Setting(title_weight=3.0)._asdict(), "synonyms": {}, "boosts": {}}
    (tmp_path / "learned.json").write_text(json.dumps({engine.fingerprint: on}))
    options = ("regression", "--index", index, "--thumbs", thumbs)
    assert "nDCG@10 1.0000" in run(*options)[1]
    (tmp_path / "learned.json").unlink()
    assert run(*options)[0] == 3


def test_the_command_says_what_is_missing(run: Run, tmp_path: Path) -> None:  # noqa: F811
    for options, message in (
        ((), "either --thumbs FILE or --judged FILE"),
        (("--thumbs", tmp_path / "none.jsonl", "--against", tmp_path / "none.json"), "expected an older report"),
        (("--thumbs", tmp_path / "none.jsonl"), "name a file with --report"),
        (("--thumbs", tmp_path / "none.jsonl", "--report", tmp_path / "r.json"), "no such file"),
    ):
        code, _, told = run("regression", *options)
        assert code == 1
        assert message in told.replace("\n", " ")
