"""The report: every table and figure of the paper, examples by rule, and text from elsewhere that stays text."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from evaluated_world import AGENTS, FORTY, WANDERER, run, tree
from lexical_reader import LexicalReader
from small_world import PASSAGES, QUESTIONS

from orienteer.data.passage import Passage, Question
from orienteer.engine import ReferenceEngine
from orienteer.evaluation import EvaluationError, draw_landscape, paper, read_landscape, write_tables
from orienteer.evaluation.journal import file_names
from orienteer.evaluation.report import choose_examples, example_table
from orienteer.evaluation.summaries import ACTION_TYPES, LABELS, action_type, bin_of, ranks_of
from orienteer.evaluation.tables import code, plain, ranked, value
from orienteer.query import G4, Refinement
from orienteer.session import UNDO, Read, read_records

TABLES = ("tab:results", "tab:results-t5", "tab:results-full", "tab:PRF-results", "tab:rocchio_expansion_steps")


@pytest.fixture(scope="module")
def out(engine: ReferenceEngine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    run(engine, folder, agents=[*AGENTS, "bm25@100+ps", "prf-rm3-or"], command="orienteer evaluate …")
    return folder


@pytest.fixture(scope="module")
def report(out: Path) -> str:
    return (out / "report.md").read_text()


def section(report: str, heading: str) -> str:
    return report.split(f"{heading}\n", 1)[1].split("\n#", 1)[0]


@pytest.mark.parametrize("table", TABLES)
def test_the_report_has_every_table_of_the_paper(report: str, table: str) -> None:
    rows = [line for line in section(report, f"### `{table}`").splitlines() if line.startswith("|")]
    assert len(rows) > 3
    assert len({row.count(" | ") for row in rows[2:]}) == 1, "all rows have the same columns"
    assert any("paper" in row for row in rows)
    assert any("ours" in row for row in rows)


def test_every_figure_of_the_paper_stands_in_its_table(report: str) -> None:
    def in_section(table: str, values: object) -> None:
        text = section(report, f"### `{table}`")
        assert isinstance(values, tuple)
        for each in values:
            assert each is None or (f"{each:.2f}" if isinstance(each, float) else f"{each:,}") in text

    for values in paper.RESULTS["test"].values():
        in_section("tab:results", values)
    for data in paper.RESULTS_FULL.values():
        for values in data.values():
            in_section("tab:results-full", values)
    for values in paper.RESULTS_T5.values():
        in_section("tab:results-t5", values)
    for values in paper.PRF.values():
        in_section("tab:PRF-results", values)
    in_section("tab:rocchio_expansion_steps", paper.EXPANSION_STEPS)


def test_the_paper_agrees_with_itself() -> None:
    """Figures that the paper prints twice, read off twice."""
    columns = list(paper.COLUMNS)
    for measure in ("NDCG@5", "Top-1", "Top-5"):
        assert paper.RESULTS["test"][measure] == paper.RESULTS_FULL["test"][measure]
        for data in ("dev", "test"):
            in_table = paper.RESULTS_FULL[data][measure][columns.index("+RM3")]
            assert in_table == paper.PRF[measure, data, "rm3"][paper.PRF_OPERATORS.index("-or")]
    g1 = dict(zip(paper.T5_MEASURES, paper.RESULTS_T5["G1"], strict=True))
    for measure in ("NDCG@5", "Top-1", "Top-5", "EM-MR"):
        assert g1[measure] == paper.RESULTS_FULL["dev"][measure][columns.index("T5-G1")]


def test_our_figures_stand_beside_the_papers(out: Path, report: str) -> None:
    metrics = json.loads((out / "metrics.json").read_text())
    rows = section(report, "### `tab:results`").splitlines()
    ours = rows[next(i for i, row in enumerate(rows) if "**Top-5**" in row) + 1]
    cells = [cell.strip() for cell in ours.strip("|").split("|")]
    agents = ["bm25", "bm25+ps", "prf-rm3-or", *[None] * 5, "bm25@100+ps", "prf-idf-t", *[None] * 4]
    assert cells == ["", "ours, dev", *(f"{metrics[a]['Top-5']:.2f}" if a else "–" for a in agents)]


def test_the_report_names_command_measures_and_what_the_differences_are_worth(report: str) -> None:
    assert "Command: <code>orienteer evaluate …</code>" in report
    for heading in ("All agents", "What the differences are worth", "Headroom closed", "How sessions went",
                    "By answer overlap with the training set", "Figures", "Example sessions"):  # fmt: skip
        assert f"## {heading}\n" in report
    assert "### Against <code>bm25+ps</code>" in report
    assert "### Against <code>bm25@100+ps</code>" in report


def test_several_sets_stand_in_one_set_of_tables(out: Path, engine: ReferenceEngine, tmp_path: Path) -> None:
    run(engine, tmp_path / "test", data="test", questions=QUESTIONS)
    write_tables({"dev": out, "test": tmp_path / "test"}, tmp_path / "tables.md")
    text = (tmp_path / "tables.md").read_text()
    for table in TABLES:
        assert "ours, " in section(text, f"### `{table}`")
        assert re.search(r"ours, (T5, )?dev", section(text, f"### `{table}`"))
        assert re.search(r"ours, (T5, )?test", section(text, f"### `{table}`"))
    with pytest.raises(EvaluationError, match="holds no finished evaluation"):
        write_tables({"dev": tmp_path / "none"}, tmp_path / "tables.md")


def test_an_agent_stands_in_its_column_from_whichever_folder_its_weights_were() -> None:
    t5s = "|".join(f"t5-G{n}=my/t5" for n in range(5))
    metrics = {
        "t5-G1=my/t5": {"NDCG@5": 1.0}, f"ensemble(muzero-paper=m|{t5s})": {"NDCG@5": 2.0}, "muzero": {"NDCG@5": 3.0},
        "copynet-G1": {"NDCG@5": 4.0}, "pointer=other": {"NDCG@5": 5.0}, "pointer": {"NDCG@5": 6.0},
    }  # fmt: skip
    columns = {name: value(metrics, agents, "NDCG@5") for name, agents in paper.COLUMNS.items()}
    assert (columns["T5-G1"], columns["MuZero+T5s"], columns["MuZero"]) == (1.0, 2.0, None)
    assert value(metrics, ("pointer",), "NDCG@5") == 6.0


def test_the_largest_is_bold_and_the_second_underlined() -> None:
    assert ranked([1.0, 3.0, None, 2.0]) == ["1.00", "**3.00**", "–", "<ins>2.00</ins>"]
    assert ranked([2.001, 2.0, 1.0]) == ["**2.00**", "**2.00**", "<ins>1.00</ins>"], "equal as printed"
    assert ranked([None, None]) == ["–", "–"]
    assert ranked([10.0, 9.0])[0] == "**10.00**", "by number, not by letters"


def test_examples_are_the_largest_gain_the_largest_loss_and_the_median() -> None:
    nan = float("nan")
    assert choose_examples([0.1, nan, -0.3, 0.5, 0.0, 0.5]) == {"Largest gain": 3, "Largest loss": 2, "Median": 0}
    assert choose_examples([0.2, 0.1]) == {"Largest gain": 0, "Smallest gain": 1, "Median": 1}
    assert choose_examples([nan, nan]) == {}


def test_a_report_to_publish_quotes_no_question_and_no_passage(engine: ReferenceEngine, tmp_path: Path) -> None:
    quoting = run(engine, tmp_path / "quoting", agents=[WANDERER]).out / "report.md"
    silent = run(engine, tmp_path / "silent", agents=[WANDERER], texts=False).out / "report.md"
    asked = next(q.question for q in QUESTIONS if q.question in quoting.read_text())
    assert asked not in silent.read_text()
    assert not (tmp_path / "silent" / "examples").exists()


def test_an_example_shows_queries_scores_answers_and_ranks(out: Path, engine: ReferenceEngine) -> None:
    text = (out / "examples" / "wanderer.md").read_text()
    records = {r.question.id: r for r in read_records(out / "sessions" / "wanderer.jsonl")}
    rewards = [
        r.steps[-1].score.total - r.steps[0].score.total if r.steps and r.steps[0].score and r.steps[-1].score else 0.0
        for r in records.values() if r.question.answers
    ]  # fmt: skip
    assert f"### Largest gain of <code>wanderer</code>: {max(rewards):+.3f}" in text
    judged = [r for r in records.values() if r.question.answers]
    best = judged[rewards.index(max(rewards))]
    shown = text.split("### ")[1]
    assert f"| **q0** | {code(best.steps[0].query)} | {best.steps[0].score.total:.3f} |" in shown  # type: ignore[union-attr]
    last = best.steps[-1]
    assert f"| **q{len(best.steps) - 1}** | {code(last.query)} | {last.score.total:.3f} |" in shown  # type: ignore[union-attr]
    [ranks] = ranks_of(engine, [best.question.question])
    for place, id in enumerate(last.best, 1):
        passage = best.passages[id]
        rank = str(ranks[id]) if id in ranks else "&gt; 1000"
        mark = "✓" if passage.exact else "✗"
        row = next(line for line in shown.splitlines()[::-1] if line.startswith(f"| d{place} |"))
        assert f"**{plain(passage.title or '(no title)')}** (BM25 rank: {rank})" in row
        assert f"**{plain(passage.answer or '')}** {mark}" in row


def test_an_answer_is_marked_right_only_when_it_is_the_gold_one(out: Path) -> None:
    record = next(r for r in read_records(out / "sessions" / "wanderer.jsonl") if r.best)
    first = record.best[0]
    for relevant, exact, mark in ((True, False, "✗"), (True, True, "✓"), (False, False, "✗")):
        passage = replace(
            record.passages[first], relevant=relevant, exact=exact, answer="keeper", text="the keeper of it"
        )
        changed = replace(record, passages={**record.passages, first: passage})
        assert f"… the **keeper** {mark} of it …" in example_table(changed, {})
    elsewhere = replace(record.passages[first], answer="keeper", text="cut before it", exact=True)
    assert "cut before it [**keeper** ✓]" in example_table(
        replace(record, passages={**record.passages, first: elsewhere}), {}
    )


def test_retrieved_text_stays_text(tmp_path: Path) -> None:
    nasty = "![x](http://evil) www.evil <script>alert(1)</script> | a_b*c* `d` \x1b[2J\n# head lamp reef Maren Holt"
    assert plain("<a|b> *c*\n\x07[d](e-f)") == r"&lt;a\|b&gt; \*c\* \[d\](e-f)"
    assert plain("http://x www.y") == "http&#58;//x www&#46;y"
    engine = ReferenceEngine([*PASSAGES, Passage("nasty", nasty, nasty)])
    questions = [Question("q", "lamp <script> reef ` | head", ("Maren Holt",))]
    run(engine, tmp_path, questions=questions)
    for name, data in tree(tmp_path).items():
        if name.endswith(".md"):
            text = data.decode()
            assert "<script>" not in text
            assert "![x](" not in text
            assert "http://evil" not in text.replace(code(questions[0].question), "")
            assert "\x1b" not in text
            assert len({line.count(" | ") for line in text.splitlines() if re.match(r"\| (d\d|\*\*q\d)", line)}) <= 1


def test_every_refinement_of_the_grammar_has_an_action_type() -> None:
    kinds = {action_type(r) for field in ("contents", "title") for r in G4.refinements(field, "x")}  # type: ignore[arg-type]
    assert kinds | {action_type(UNDO), action_type(Read(("a",)))} == set(ACTION_TYPES)
    assert action_type(Refinement("^", "contents", "x", 0.1)) == "^.1"
    assert action_type(Refinement("-", "title", "x")) == "-t"


def test_depth_is_the_rank_under_the_question_as_asked(engine: ReferenceEngine) -> None:
    [ranks, none, bad] = ranks_of(engine, ["who painted the tower of Ardle red", "zyxwv", "lamp " * 1100])
    assert ranks["ardle-2"] == 1
    assert none == bad == {}
    assert [LABELS[bin_of(rank)] for rank in (1, 5, 6, 1000, 1001, None)] == [
        "1–5", "1–5", "6–10", "501–1000", "> 1000", "> 1000",
    ]  # fmt: skip


def test_the_numbers_behind_the_figures_are_those_of_the_records(out: Path) -> None:
    data = json.loads((out / "figures.json").read_text())
    assert set(data["agents"]) == {"prf-idf-t", "prf-rm3-or", "wanderer"}, "agents that refine"
    records = list(read_records(out / "sessions" / "wanderer.jsonl"))
    mine = data["agents"]["wanderer"]
    assert sum(mine["lengths"]) == mine["sessions"] == len(FORTY)
    taken = sum(n * count for n, count in enumerate(mine["lengths"]))
    assert taken == sum(max(0, len(record.steps) - 1) for record in records)
    assert sum(mine["actions"].values()) == pytest.approx(1)
    assert sum(mine["depths"]) == sum(len(record.passages) for record in records)
    assert sum(mine["final_depths"]) == sum(len(record.best) for record in records)
    metrics = json.loads((out / "metrics.json").read_text())["wanderer"]
    for name, values in mine["by_step"].items():
        assert len(values) == 5
        assert values[-1] == pytest.approx(metrics[name])
    gains = [g["mean"] * g["sessions"] for g in mine["gains"]]
    assert 100 * sum(gains) / json.loads((out / "metrics.json").read_text())["_run"]["judged"] == pytest.approx(
        metrics["reward"]
    )
    assert all(gain["low"] <= gain["high"] for gain in mine["gains"])


@pytest.mark.long
def test_figures_are_drawn_the_same_twice(engine: ReferenceEngine, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = [{"lambda1": a / 5, "lambda2": b / 5, "NDCG@5": a, "EM-MR": b, "Top-5": a + b}
            for a in range(6) for b in range(6 - a)]  # fmt: skip
    (tmp_path / "landscape.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    priced = replace(WANDERER, name="wander$er$")
    for name in ("one", "two"):
        run(engine, tmp_path / name, figures=True, landscape=tmp_path / "landscape.jsonl", agents=["bm25", priced])
    files = tree(tmp_path / "one")
    assert files == tree(tmp_path / "two")
    names = {"session-lengths", "gain-per-step", "action-types", "depth", "measures-by-step", "reward-landscape"}
    assert {Path(file).stem for file in files if file.startswith("figures/")} == names
    for name in names:
        assert files[f"figures/{name}.svg"].lstrip().startswith(b"<?xml")
        assert f"![{name}](figures/{name}.svg)" in files["report.md"].decode()
    assert b"wander$er$" in files["figures/depth.svg"]


def test_agents_that_never_refine_have_no_figures(engine: ReferenceEngine, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    run(engine, tmp_path, figures=True, agents=["bm25", "bm25+ps"], reader=LexicalReader())
    assert "None was drawn" in (tmp_path / "report.md").read_text()


@pytest.mark.parametrize("line", ["{", "[]", '{"lambda1": 0.2}', '{"lambda1": "x"}'])
def test_a_landscape_that_is_none_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "l.jsonl").write_text(line + "\n")
    with pytest.raises(EvaluationError, match=r"l\.jsonl, line 1: .*expected a JSON object"):
        read_landscape(tmp_path / "l.jsonl")
    with pytest.raises(EvaluationError, match="no points"):
        draw_landscape([], tmp_path / "l.svg")


def test_agents_have_files_of_their_own_whatever_their_names() -> None:
    names = file_names(["bm25+ps", "bm25@100+ps", "prf-idf^.1", "a/b", "a|b", "A/B", "../x", "t5=/models/t5", "", "…"])
    assert [names[n] for n in ("bm25+ps", "bm25@100+ps", "prf-idf^.1")] == ["bm25+ps", "bm25@100+ps", "prf-idf^.1"]
    assert len({name.lower() for name in names.values()}) == len(names)
    assert all("/" not in name and not name.startswith(".") and name for name in names.values())
