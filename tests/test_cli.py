"""The command line as a contract: what it prints, and one clear message for each mistake."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from orienteer import cli
from orienteer.engine import build_index, open_index
from orienteer.engine.embedded.store import LOCK, MANIFEST, read_manifest, verify

ROWS = [
    {"id": "oscar", "title": "Oscar the Grouch", "text": "Oscar is a green muppet who lives in a trash can."},
    {"id": "grover", "title": "Grover", "text": "Grover is a blue muppet who waits tables."},
    {"id": "kermit", "title": "Kermit", "text": "Kermit, a green frog, sings [bold]by a pond[/bold]."},
    {"id": "große-Straße 1", "title": "", "text": "東京 is not on the street."},
]


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def message(self) -> str:
        """What went wrong, as one message without a traceback."""
        assert self.code == 1, self
        assert self.out == ""
        assert self.err.startswith("error: ")
        assert "Traceback" not in self.err
        return self.err.removeprefix("error: ").strip()


class Command:
    """`orienteer …` in this process, through its entry point."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
        self.monkeypatch, self.capsys = monkeypatch, capsys

    def __call__(self, *arguments: object) -> Result:
        self.monkeypatch.setattr(sys, "argv", ["orienteer", *map(str, arguments)])
        self.capsys.readouterr()
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        out, err = self.capsys.readouterr()
        return Result(code, out, err)


@pytest.fixture
def orienteer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.setenv("COLUMNS", "200")
    return Command(monkeypatch, capsys)


@pytest.fixture
def passages(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "passages.jsonl", ROWS)


@pytest.fixture
def index(tmp_path: Path, passages: Path) -> Path:
    from orienteer.data import read_passages

    build_index(read_passages(passages), tmp_path / "index")
    return tmp_path / "index"


def write_rows(file: Path, rows: list[dict[str, Any]]) -> Path:
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return file


def shell(*arguments: object, **options: Any) -> Result:
    """`orienteer …` as a user starts it."""
    command = [sys.executable, "-c", "from orienteer.cli import main; main()", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, **options)
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())


# Help


def test_without_arguments_it_shows_its_commands(orienteer: Command) -> None:
    result = orienteer()
    for command in ("index", "search", "demo", "warmup", "bench"):
        assert command in result.out + result.err


@pytest.mark.long
@pytest.mark.parametrize(
    "command", [[], ["index"], ["search"], ["demo"], ["warmup"], ["bench"], ["bench", "refinements"], ["bench", "fuzz"]]
)
def test_every_command_has_help(orienteer: Command, command: list[str]) -> None:
    result = orienteer(*command, "--help")
    assert result.code == 0
    assert "Usage" in result.out
    assert "bool" not in result.out  # a flag is shown as a flag, not as an option with a value


@pytest.mark.parametrize("arguments", [["serach"], ["search", "--deep"], ["search", "x", "y", "-k", "0"]])
def test_a_mistyped_command_is_a_usage_error(orienteer: Command, arguments: list[str]) -> None:
    result = orienteer(*arguments)
    assert result.code == 2
    assert "Traceback" not in result.err


# index


def test_index_prints_what_it_made(orienteer: Command, passages: Path, tmp_path: Path) -> None:
    result = orienteer("index", passages, "--out", tmp_path / "new")
    assert result.code == 0
    assert result.out.startswith("4 passages, ")
    assert len(open_index(tmp_path / "new")) == 4


def test_index_json_gives_counts_and_fingerprint(orienteer: Command, passages: Path, tmp_path: Path) -> None:
    [row] = orienteer("index", passages, "--out", tmp_path / "new", "--json").rows
    assert row["passages"] == 4
    assert row["bad_rows"] == 0
    assert row["generation"] == 1
    assert row["fingerprint"] == read_manifest(tmp_path / "new").fingerprint


def test_index_takes_several_files_and_a_folder_of_texts(orienteer: Command, passages: Path, tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "ernie.txt").write_text("Ernie has a rubber duck.")
    more = write_rows(tmp_path / "more.jsonl", [{"id": "bert", "text": "Bert likes pigeons."}])
    [row] = orienteer("index", passages, more, tmp_path / "texts", "--out", tmp_path / "new", "--json").rows
    assert row["passages"] == 6


@pytest.mark.long
def test_add_and_delete_equal_a_fresh_build(orienteer: Command, index: Path, tmp_path: Path) -> None:
    bert = {"id": "bert", "title": "Bert", "text": "Bert likes pigeons."}
    more = write_rows(tmp_path / "more.jsonl", [bert])
    ids = tmp_path / "ids.txt"
    ids.write_text("große-Straße 1\noscar\n", encoding="utf-8")
    [added] = orienteer("index", more, "--add", "--out", index, "--json").rows
    assert (added["passages"], added["generation"]) == (5, 2)
    [deleted] = orienteer("index", "--delete", ids, "--out", index, "--json").rows
    assert (deleted["passages"], deleted["generation"]) == (3, 3)
    fresh = write_rows(tmp_path / "fresh.jsonl", [*ROWS[1:3], bert])
    [built] = orienteer("index", fresh, "--out", tmp_path / "fresh", "--json").rows
    assert built["fingerprint"] == deleted["fingerprint"]


def test_add_and_delete_in_one_commit_replace_a_passage(orienteer: Command, index: Path, tmp_path: Path) -> None:
    more = write_rows(tmp_path / "more.jsonl", [{"id": "oscar", "title": "", "text": "Oscar moved out."}])
    ids = tmp_path / "ids.txt"
    ids.write_text("oscar")
    [row] = orienteer("index", more, "--add", "--delete", ids, "--out", index, "--json").rows
    assert (row["passages"], row["generation"]) == (4, 2)
    assert open_index(index).passages(["oscar"])[0].text == "Oscar moved out."


def test_verify_says_that_an_index_is_whole(orienteer: Command, index: Path) -> None:
    assert "is whole" in orienteer("index", "--verify", "--out", index).out
    [row] = orienteer("index", "--verify", "--out", index, "--json").rows
    assert row["damaged"] == []
    assert row["bytes"] > 0


def test_verify_names_the_file_with_a_flipped_bit(orienteer: Command, index: Path) -> None:
    file = index / read_manifest(index).folder / "text.npy"
    data = bytearray(file.read_bytes())
    data[-1] ^= 4
    file.write_bytes(data)
    message = orienteer("index", "--verify", "--out", index).message
    assert f"damaged: {file}; build the index again" in message


# search


def test_search_json_gives_ids_scores_and_titles(orienteer: Command, index: Path) -> None:
    [row] = orienteer("search", index, "green +muppet", "--json").rows
    assert row["query"] == "green +muppet"
    assert [hit["id"] for hit in row["hits"]] == ["oscar", "grover"]
    assert set(row["hits"][0]) == {"id", "score", "title"}
    assert row["hits"][0]["title"] == "Oscar the Grouch"
    assert row["hits"][0]["score"] > row["hits"][1]["score"] > 0


def test_search_for_people_shows_titles_texts_and_ids_as_they_are(orienteer: Command, index: Path) -> None:
    result = orienteer("search", index, "green frog", "-k", "1")
    assert "1. Kermit" in result.out
    assert "[bold]by a pond[/bold]" in result.out
    assert "Oscar" not in result.out


@pytest.mark.long
def test_search_that_finds_nothing_says_so(orienteer: Command, index: Path) -> None:
    assert orienteer("search", index, "nowhere").out == "no passage matches\n"
    assert orienteer("search", index, "nowhere", "--json").rows == [{"query": "nowhere", "hits": []}]
    assert orienteer("search", index, "").out == "no passage matches\n"


def test_explain_shows_shares_that_add_up(orienteer: Command, index: Path) -> None:
    [row] = orienteer("search", index, 'green +(title:"oscar") -(contents:"frog")', "--explain", "--json").rows
    [hit] = row["hits"]
    assert {(share["occur"], share["term"]) for share in hit["shares"]} == {
        ("must", "oscar"), ("should", "green"), ("must_not", "frog"),
    }  # fmt: skip
    assert sum(share["score"] for share in hit["shares"]) == pytest.approx(hit["score"], rel=1e-6)
    shown = orienteer("search", index, "green", "--explain").out
    assert "clause" in shown
    assert "contents:green" in shown


@pytest.mark.long
def test_queries_of_a_file_give_a_json_line_each(orienteer: Command, index: Path, tmp_path: Path) -> None:
    asked = ["green", 'muppet -(title:"oscar")', "nowhere", "東京", "9 -9"]
    file = tmp_path / "queries.txt"
    file.write_text("\n".join([*asked, ""]), encoding="utf-8")
    for options in (["--json"], [], ["--threads", "1"]):
        rows = orienteer("search", index, "--queries", file, *options).rows
        assert [row["query"] for row in rows] == asked
        assert [[hit["id"] for hit in row["hits"]] for row in rows] == [
            ["kermit", "oscar"], ["grover"], [], ["große-Straße 1"], [],
        ]  # fmt: skip
        assert set(rows[0]["hits"][0]) == {"id", "score", "title"}


@pytest.mark.long
def test_more_queries_than_a_batch_keep_their_order(orienteer: Command, index: Path, tmp_path: Path) -> None:
    file = tmp_path / "queries.txt"
    asked = [f"green {number}" for number in range(1500)]
    file.write_text("\n".join(asked))
    assert [row["query"] for row in orienteer("search", index, "--queries", file).rows] == asked


@pytest.mark.long
def test_queries_are_read_from_standard_input(index: Path) -> None:
    result = shell("search", index, "--queries", "-", "--json", input="green\n東京\n".encode())
    assert [row["query"] for row in result.rows] == ["green", "東京"]
    assert result.code == 0


@pytest.mark.long
def test_a_reader_that_goes_away_is_no_traceback(index: Path, tmp_path: Path) -> None:
    file = tmp_path / "queries.txt"
    file.write_text("green\n" * 20_000)
    command = [
        sys.executable,
        "-c",
        "from orienteer.cli import main; main()",
        "search",
        str(index),
        "--queries",
        str(file),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()


@pytest.mark.long
def test_bytes_that_are_no_text_are_a_query_like_any_other(index: Path) -> None:
    command = [sys.executable, "-c", "from orienteer.cli import main; main()", "search", str(index)]
    for options in (["--json"], []):
        done = subprocess.run([*map(os.fsencode, [*command, *options]), b"green \xff"], capture_output=True)
        assert done.returncode == 0, done.stderr.decode()
        assert b"oscar" in done.stdout


@pytest.mark.long
def test_json_is_utf8_in_any_locale(index: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    result = shell("search", index, "東京", "--json", env=environment)
    assert result.rows[0]["hits"][0]["id"] == "große-Straße 1"


def test_control_characters_of_a_passage_do_not_reach_the_terminal(orienteer: Command, tmp_path: Path) -> None:
    evil = "evil \x1b]0;owned\x07 \x1b[31m \x9b31m text"
    file = write_rows(tmp_path / "evil.jsonl", [{"id": "e", "title": evil, "text": evil}])
    orienteer("index", file, "--out", tmp_path / "evil")
    shown = orienteer("search", tmp_path / "evil", "evil").out
    assert "text" in shown
    assert not {"\x1b", "\x07", "\x9b"} & set(shown)
    asked = orienteer("search", tmp_path / "evil", "evil", "--json")
    assert not {"\x1b", "\x07", "\x9b"} & set(asked.out)
    assert asked.rows[0]["hits"][0]["title"] == evil  # escaped, not lost


def test_markup_in_a_path_is_not_interpreted(orienteer: Command, passages: Path, tmp_path: Path) -> None:
    folder = tmp_path / "[red]an index[" / "]"
    folder.parent.mkdir()
    assert f"in {folder} (" in orienteer("index", passages, "--out", folder).out  # not folded, so that one can copy it
    assert "[red]an index[" in orienteer("search", tmp_path / "[red]an index[" / "nothing", "x").message


# What a user can get wrong: one message each, exit code 1, nothing lost


def test_a_missing_file_of_passages(orienteer: Command, index: Path, tmp_path: Path) -> None:
    before = read_manifest(index)
    message = orienteer("index", tmp_path / "nowhere.jsonl", "--out", index).message
    assert "nowhere.jsonl: no such file or folder; check the path" in message
    assert read_manifest(index) == before
    orienteer("index", tmp_path / "nowhere.jsonl", "--out", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_file_of_an_unknown_format(orienteer: Command, tmp_path: Path) -> None:
    (tmp_path / "passages.png").write_bytes(b"%PDF")
    message = orienteer("index", tmp_path / "passages.png", "--out", tmp_path / "new").message
    assert "unknown format .png; expected .jsonl" in message


def test_an_unreadable_row_is_named_by_file_and_line(orienteer: Command, index: Path, passages: Path) -> None:
    before = read_manifest(index)
    with passages.open("a") as file:
        file.write('{"id": "broken", "text": \n')
    for options in ([], ["--add"]):
        message = orienteer("index", passages, *options, "--out", index).message
        assert "passages.jsonl:5: invalid JSON" in message
        assert read_manifest(index) == before
        assert verify(index) == []


def test_skip_bad_counts_and_names_the_rows_left_out(orienteer: Command, passages: Path, tmp_path: Path) -> None:
    with passages.open("a") as file:
        file.write('{"id": "broken"\n{"id": 7}\n{"id": "bert", "text": "Bert"}\n')
    result = orienteer("index", passages, "--skip-bad", "--out", tmp_path / "new", "--json")
    assert (result.rows[0]["passages"], result.rows[0]["bad_rows"]) == (5, 2)
    assert "2 bad rows skipped" in result.err
    assert "passages.jsonl:5: " in result.err
    assert "2 bad rows left out" in orienteer("index", passages, "--skip-bad", "--out", tmp_path / "new").out


def test_duplicate_ids_are_named_with_their_places(orienteer: Command, passages: Path, tmp_path: Path) -> None:
    more = write_rows(tmp_path / "more.jsonl", [{"id": "bert", "text": ""}, {"id": "grover", "text": "again"}])
    message = orienteer("index", passages, more, "--out", tmp_path / "new").message
    assert "two passages have the id 'grover'" in message
    assert f"{passages}:2" in message
    assert f"{more}:2" in message


def test_an_id_that_the_index_already_holds(orienteer: Command, index: Path, tmp_path: Path) -> None:
    before = read_manifest(index)
    more = write_rows(tmp_path / "more.jsonl", [{"id": "bert", "text": ""}, {"id": "grover", "text": "again"}])
    message = orienteer("index", more, "--add", "--out", index).message
    assert "'grover'" in message
    assert f"{more}:2" in message
    assert read_manifest(index) == before


@pytest.mark.long
def test_an_index_of_another_version(orienteer: Command, index: Path, passages: Path) -> None:
    raw = json.loads((index / MANIFEST).read_bytes())
    (index / MANIFEST).write_text(json.dumps(raw | {"version": 99}))
    for arguments in (
        ["search", index, "green"],
        ["index", "--verify", "--out", index],
        ["index", passages, "--add", "--out", index],
    ):
        message = orienteer(*arguments).message
        assert "has index format 99, this Orienteer reads format 3 and 4; build the index again" in message


def test_a_damaged_index(orienteer: Command, index: Path) -> None:
    file = index / read_manifest(index).folder / "stream.npy"
    os.truncate(file, 130)
    for arguments in (["search", index, "green"], ["index", "--verify", "--out", index]):
        assert "stream.npy has 130 bytes where" in orienteer(*arguments).message


def test_an_unknown_field(orienteer: Command, index: Path) -> None:
    message = orienteer("search", index, "green author:smith").message
    assert "unknown field 'author'; expected contents or title" in message
    assert message.splitlines()[1:] == ["  green author:smith", "        ^"]


def test_an_unbalanced_quote(orienteer: Command, index: Path) -> None:
    message = orienteer("search", index, 'green "muppet').message
    assert "an open quote" in message
    assert message.splitlines()[1:] == ['  green "muppet', "        ^"]


def test_a_bad_query_of_a_file_is_named_by_its_line(orienteer: Command, index: Path, tmp_path: Path) -> None:
    file = tmp_path / "queries.txt"
    file.write_text('green\n\nmuppet "\n')
    message = orienteer("search", index, "--queries", file).message
    assert f"{file}:3: an open quote" in message


def test_too_many_clauses(orienteer: Command, index: Path) -> None:
    assert "1024 clauses" in orienteer("search", index, "green " * 1025).message


def test_no_such_index(orienteer: Command, tmp_path: Path) -> None:
    for arguments in (["search", tmp_path / "no", "green"], ["index", "--verify", "--out", tmp_path / "no"]):
        message = orienteer(*arguments).message
        assert f"no index at {tmp_path / 'no'}" in message
        assert "make one with `orienteer index" in message
    assert not (tmp_path / "no").exists()


def test_add_and_delete_want_an_index(orienteer: Command, passages: Path, tmp_path: Path) -> None:
    (tmp_path / "ids").write_text("oscar")
    assert "no index at" in orienteer("index", passages, "--add", "--out", tmp_path / "no").message
    assert "no index at" in orienteer("index", "--delete", tmp_path / "ids", "--out", tmp_path / "no").message
    assert not (tmp_path / "no").exists()


def test_an_unknown_id_to_delete(orienteer: Command, index: Path, tmp_path: Path) -> None:
    before = read_manifest(index)
    (tmp_path / "ids").write_text("oscar\nelmo\n")
    message = orienteer("index", "--delete", tmp_path / "ids", "--out", index).message
    assert "cannot delete 'elmo': the index does not hold it" in message
    assert read_manifest(index) == before


def test_a_missing_file_of_ids_or_queries(orienteer: Command, index: Path, tmp_path: Path) -> None:
    assert "cannot read the ids in" in orienteer("index", "--delete", tmp_path / "no", "--out", index).message
    assert "cannot read the queries in" in orienteer("search", index, "--queries", tmp_path / "no").message
    assert "cannot read the queries in" in orienteer("search", index, "--queries", tmp_path).message


def test_ids_written_on_another_system_are_read(orienteer: Command, index: Path, tmp_path: Path) -> None:
    (tmp_path / "ids").write_bytes("\ufeffoscar\r\ngroße-Straße 1\r\n".encode())
    [row] = orienteer("index", "--delete", tmp_path / "ids", "--out", index, "--json").rows
    assert row["passages"] == 2


def test_a_second_writer(orienteer: Command, index: Path, passages: Path) -> None:
    with (index / LOCK).open("a+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        message = orienteer("index", passages, "--out", index).message
    assert f"another process is writing {index}; try again when it is done" in message


def test_a_full_disk(orienteer: Command, index: Path, passages: Path) -> None:
    before = read_manifest(index)
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, old[1]))
    try:
        message = orienteer("index", passages, "--out", index).message
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert f"no space left to write the index at {index}; the previous index, if any, is untouched" in message
    assert read_manifest(index) == before
    assert verify(index) == []


def test_a_file_where_a_folder_is_expected(orienteer: Command, passages: Path) -> None:
    before = passages.read_bytes()
    assert "is a file; name a folder" in orienteer("index", passages, "--out", passages).message
    assert "that is a file, an index is a folder" in orienteer("search", passages, "green").message
    assert passages.read_bytes() == before


def test_what_the_user_may_not_read(orienteer: Command, index: Path, passages: Path, tmp_path: Path) -> None:
    orienteer("index", passages, "--out", tmp_path / "other")
    orienteer("search", index, "green")
    passages.chmod(0)
    (index / MANIFEST).chmod(0)
    user = os.geteuid()
    try:
        if user == 0:  # whom no permission stops
            os.seteuid(65534)
        reading = orienteer("index", passages, "--out", tmp_path / "new")
        searching = orienteer("search", index, "green")
    finally:
        os.seteuid(user)
    assert "passages.jsonl: cannot be read: Permission denied; check the path and its permissions" in reading.message
    assert f"the index at {index} cannot be read: permission denied" in searching.message


@pytest.mark.long
def test_nothing_to_do(orienteer: Command, index: Path, passages: Path, tmp_path: Path) -> None:
    assert "--out DIR" in orienteer("index", passages).message
    assert "nothing to do" in orienteer("index", "--out", index).message
    (tmp_path / "ids").write_text("oscar")
    assert "need --add" in orienteer("index", passages, "--delete", tmp_path / "ids", "--out", index).message
    assert "give one query, or a file of them" in orienteer("search", index).message
    assert "give one query, or a file of them" in orienteer("search", index, "a", "--queries", passages).message


# The other commands


def test_warmup_makes_the_kernels_ready(orienteer: Command) -> None:
    assert orienteer("warmup").out.startswith("kernels ready")


@pytest.mark.long
def test_the_program_starts_as_a_user_starts_it(index: Path) -> None:
    result = shell("search", index, "green", "--json")
    assert (result.code, result.err) == (0, "")
    assert [hit["id"] for hit in result.rows[0]["hits"]] == ["kermit", "oscar"]


@pytest.mark.long
@pytest.mark.parametrize(("given", "told"), [(None, "1"), ("3", "3")])
def test_small_products_stay_on_one_core_unless_told_and_numpy_is_not_there_before_it_is_said(
    given: str | None, told: str
) -> None:
    says = "import os, sys, orienteer.cli; print('numpy' in sys.modules, os.environ['OPENBLAS_NUM_THREADS'])"
    others = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    environment = others if given is None else others | {"OPENBLAS_NUM_THREADS": given}
    done = subprocess.run([sys.executable, "-c", says], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.split() == ["False", told]


# Sessions


def test_a_message_is_printed_to_the_letter(orienteer: Command, index: Path) -> None:
    assert r"escape it as \[" in orienteer("search", index, "who [a TO b]").message


def test_an_agent_that_needs_answers_is_not_asked(orienteer: Command) -> None:
    assert "play it with `evaluate`" in orienteer("ask", "who is green", "--agent", "rocchio-G1").message
    assert "play it with `evaluate`" in orienteer("ask", "who is green", "--agent", "ensemble(bm25|rocchio)").message


@pytest.mark.long
def test_an_empty_question_is_refused(orienteer: Command) -> None:
    assert "an empty question" in orienteer("ask", "  ").message


def test_agents_are_listed_as_a_table_or_as_objects(orienteer: Command) -> None:
    listed, rows = orienteer("agents").out, orienteer("agents", "--json").rows
    assert {"name", "about", "needs"} == set(rows[0])
    assert all(row["name"] in listed for row in rows)
    assert "pointer[order=ps]" in listed


@pytest.mark.long
def test_a_recorded_session_is_shown_or_printed_as_it_was(orienteer: Command, index: Path, tmp_path: Path) -> None:
    asked = orienteer("ask", "who is green", "--index", index, "--agent", "bm25+ps", "--json").out
    (tmp_path / "sessions.jsonl").write_text(asked)
    assert orienteer("show", tmp_path / "sessions.jsonl", "--json").out == asked
    assert "Oscar" in orienteer("show", tmp_path / "sessions.jsonl").out


@pytest.mark.long
def test_reading_without_an_index_reads_the_bundled_corpus(orienteer: Command) -> None:
    [row] = orienteer("read", "who first isolated sodium metal", "--depth", 5, "--json").rows
    assert len(row["passages"]) == 5


def test_training_a_pointer_says_first_what_it_lacks(orienteer: Command, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="training needs the extra [train]")
    given = ("--sessions", tmp_path / "s", "--questions", tmp_path / "q", "--index", tmp_path / "i", "--out", tmp_path)
    assert "give --minutes or --steps" in orienteer("train", "pointer", *given).message
    assert "--layers '0,x'" in orienteer("train", "pointer", *given, "--steps", 1, "--layers", "0,x").message
