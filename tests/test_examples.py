"""Every file of `examples/` runs as it stands, and does what it says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(*arguments: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A program in a folder of its own, where nothing of the repository is on its path by chance."""
    source = str(EXAMPLES.parent / "src")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [source, str(path or "")]))}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment)


def output(*arguments: str, path: Path | None = None) -> str:
    done = run(*arguments, path=path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.long
def test_search_finds_and_refines() -> None:
    lines = output(str(EXAMPLES / "search.py")).splitlines()
    assert "Sodium" in lines[0]
    assert lines[-3].split() == ["+title:davy", "['davy']"]


@pytest.mark.long
def test_ask_shows_each_query_and_the_answer() -> None:
    text = output(str(EXAMPLES / "ask.py"))
    assert text.startswith("q0  who first isolated sodium metal")
    assert "q5" in text
    assert "'Humphry Davy' with confidence" in text


@pytest.mark.long
def test_evaluate_prints_a_table_and_a_difference() -> None:
    text = output(str(EXAMPLES / "evaluate.py"))
    assert "NDCG@5" in text
    assert "prf-answer - bm25+ps" in text


@pytest.mark.long
def test_the_gymnasium_loop_plays_episodes() -> None:
    pytest.importorskip("gymnasium", reason="needs gymnasium: pip install 'orienteer[gym]'")
    assert output(str(EXAMPLES / "gym_loop.py")).count("return") == 3


@pytest.mark.long
def test_the_opensearch_example_says_what_it_needs() -> None:
    assert "examples/opensearch.py https://" in run(str(EXAMPLES / "opensearch.py")).stderr
    failed = run(str(EXAMPLES / "opensearch.py"), "http://127.0.0.1:9/none", "a question")
    assert failed.returncode == 1
    assert failed.stderr.startswith("error: ")
    assert "Traceback" not in failed.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder on the path that holds the example package and its entry point, as an installer would leave them."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "answer_words").symlink_to(EXAMPLES / "own_agent" / "src" / "answer_words")
    info = folder / "orienteer_answer_words-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: orienteer-answer-words\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text("[orienteer.agents]\nanswer-words = answer_words:AnswerWords\n")
    return folder


@pytest.mark.long
def test_an_agent_of_an_installed_package_is_listed_asked_and_evaluated(installed: Path, tmp_path: Path) -> None:
    listed = output("-m", "orienteer.cli", "agents", "--json", path=installed)
    assert '"answer-words"' in listed
    answered = output(
        "-m", "orienteer.cli", "ask", "who first isolated sodium metal", "--agent", "answer-words[boost=2]",
        "--steps", "2", path=installed,
    )  # fmt: skip
    assert "Answer: Humphry Davy" in answered
    program = (
        "from orienteer import evaluate; from orienteer.bundled import bundled_questions;"
        "r = evaluate(['bm25+ps', 'answer-words'], bundled_questions('test'), steps=5, limit=60);"
        "print(r.metrics['bm25+ps']['NDCG@5'], r.metrics['answer-words']['NDCG@5'])"
    )
    plain, own = map(float, output("-c", program, path=installed).split())
    assert own > plain


@pytest.mark.long
def test_a_package_that_cannot_be_loaded_harms_no_other_agent(installed: Path, tmp_path: Path) -> None:
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[orienteer.agents]\nbroken = no_such_module:Agent\n")
    assert "cannot be loaded: ModuleNotFoundError" in output("-m", "orienteer.cli", "agents", "--json", path=tmp_path)
    failed = run("-m", "orienteer.cli", "ask", "a question", "--agent", "broken", path=tmp_path)
    assert failed.returncode == 1
    assert "cannot be loaded" in failed.stderr
