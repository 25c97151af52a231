"""An index that follows a folder equals a fresh index of the same documents, whatever happens to folder and writer."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orienteer.data import Split, read_passages
from orienteer.data.passage import Passage
from orienteer.engine.embedded import build
from orienteer.engine.embedded.build import build_index, update_index
from orienteer.engine.embedded.engine import open_index
from orienteer.engine.embedded.folder_sync import SyncState, merge_if_worth_it, sync_folder, watch_folder
from orienteer.engine.embedded.index import verify_index
from orienteer.engine.embedded.segmented_index import open_segments
from orienteer.engine.embedded.store import read_manifest
from orienteer.errors import DataError, FolderEmptiedError, FolderOccupiedError, IndexCorruptError, IndexLockedError
from orienteer.query import parse

WORDS = "red green blue sea ship storm light keeper rock harbour winter summer log of the and".split()
QUERIES = [parse(text) for text in ("red sea", "+storm light", "-keeper ship rock", 'title:red^4 "sea ship"', "only7")]
LONG_AGO = 1_600_000_000


@pytest.fixture(params=[0, 12], ids=["one segment", "deltas"])
def delta(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(build, "delta_limit", lambda passages: request.param)
    return int(request.param)


class Folder:
    """A folder of documents that changes at random."""

    def __init__(self, path: Path, seed: int):
        self.path, self.rng, self.ticks = path, random.Random(seed), 0
        self.path.mkdir(parents=True)

    def names(self) -> list[str]:
        return sorted(file.relative_to(self.path).as_posix() for file in self.path.rglob("*") if file.is_file())

    def write(self, name: str) -> None:
        rng = self.rng
        words = rng.choices([*WORDS, f"only{rng.randrange(20)}"], k=rng.randrange(1, 200))
        text = " ".join(words)
        suffix = name.rpartition(".")[2]
        if suffix == "md":
            text = f"# {words[0]}\n\n{text}\n"
        elif suffix == "csv":
            text = "name,year\n" + "".join(f"{word},{1990 + number}\n" for number, word in enumerate(words[:5]))
        elif suffix == "pdf":
            text = "no PDF"
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        self.date(file)

    def date(self, file: Path) -> None:
        """Another time for each change, long ago, on one of three days."""
        self.ticks += 1
        seconds = LONG_AGO + self.ticks + 86_400 * self.rng.randrange(3)
        os.utime(file, (seconds, seconds))

    def change(self) -> None:
        rng, names = self.rng, self.names()
        action = rng.choice(["add", "add", "change", "delete", "rename", "move", "touch", "copy"])
        new = f"{rng.choice(['', 'a/', 'a/b/', 'c/'])}{rng.choice('stuvw')}{rng.randrange(9)}.{rng.choice(SUFFIXES)}"
        if action == "add" or not names:
            self.write(new)
            return
        name = rng.choice(names)
        file = self.path / name
        match action:
            case "change":
                self.write(name)
            case "delete":
                file.unlink()
            case "touch":
                self.date(file)
            case _:
                target = self.path / (f"moved/{file.name}" if action == "move" else Path(new).with_suffix(file.suffix))
                target.parent.mkdir(parents=True, exist_ok=True)
                if action == "copy":
                    target.write_bytes(file.read_bytes())
                    self.date(target)
                else:
                    file.rename(target)


SUFFIXES = ["txt", "md", "csv", "txt", "pdf", "png"]


def in_order(index: Path, folder: Path) -> list[Passage]:
    """What a fresh reading of the folder gives, in the order in which the index holds it."""
    fresh = {passage.id: passage for passage in read_passages(folder, on_unreadable=lambda left_out: None)}
    engine = open_index(index)
    ids = [engine.id_at(number) for number in range(len(engine))]
    assert sorted(ids) == sorted(fresh)
    return [fresh[id] for id in ids]


def check_equal(index: Path, folder: Path, scratch: Path) -> None:
    """Results, metadata and, in one segment, every byte are those of a fresh index of the folder's documents."""
    passages = in_order(index, folder) if any(file.suffix != ".png" for file in folder.rglob("*.*")) else []
    build_index(passages, scratch, threads=1)
    synced, fresh = open_index(index, threads=1), open_index(scratch, threads=1)
    for query in QUERIES:
        assert list(synced.search(query, 100)) == list(fresh.search(query, 100))
    stored = [synced.passage_at(number) for number in range(len(synced))]
    assert stored == passages
    assert [dict(passage.metadata) for passage in stored] == [dict(passage.metadata) for passage in passages]
    if read_manifest(index).base is None:
        assert synced.fingerprint == fresh.fingerprint
    assert synced.passages_fingerprint == fresh.passages_fingerprint


def walk(tmp_path: Path, rounds: int, seed: int) -> None:
    folder, index = Folder(tmp_path / "docs", seed), tmp_path / "index"
    for _ in range(12):
        folder.change()
    for turn in range(rounds):
        for _ in range(folder.rng.randrange(1, 4)):
            folder.change()
        sync_folder(folder.path, index, threads=1, allow_empty=True)
        check_equal(index, folder.path, tmp_path / "fresh")
        if turn % 7 == 0:
            assert not sync_folder(folder.path, index, threads=1).is_new
            assert verify_index(index) == []
    update_index(index, merge=True)
    check_equal(index, folder.path, tmp_path / "fresh")
    assert not sync_folder(folder.path, index).is_new, "a merge keeps the state"


@pytest.mark.long
def test_any_rounds_of_changes_equal_a_fresh_index(tmp_path: Path, delta: int) -> None:
    walk(tmp_path, 25, seed=delta)


@pytest.mark.slow
def test_1_000_rounds_of_changes_equal_a_fresh_index(tmp_path: Path, delta: int) -> None:
    walk(tmp_path, 500, seed=delta + 100)


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    docs = tmp_path / "docs"
    for name, text in (("a.txt", "red lighthouse"), ("b.md", "# Sea\n\ngreen storm"), ("deep/c.txt", "blue rock")):
        file = docs / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        os.utime(file, (LONG_AGO, LONG_AGO))
    return docs


def test_a_sync_tells_what_it_did_and_one_of_nothing_new_commits_nothing(docs: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"
    first = sync_folder(docs, index)
    assert (first.added, first.manifest.passages) == (("a.txt", "b.md", "deep/c.txt"), 3)
    again = sync_folder(docs, index)
    assert (again.is_new, again.unchanged, again.manifest.generation) == (False, 3, 1)
    (docs / "a.txt").write_text("yellow lighthouse")
    (docs / "b.md").unlink()
    (docs / "deep" / "c.txt").rename(docs / "c.txt")
    (docs / "new.txt").write_text("a new keeper")
    result = sync_folder(docs, index)
    assert (result.added, result.changed, result.deleted) == (("new.txt",), ("a.txt",), ("b.md",))
    assert result.moved == (("deep/c.txt", "c.txt"),)
    assert [hit.id for hit in open_index(index).search(parse("yellow keeper rock storm red"), 9)] != []
    check_equal(index, docs, tmp_path / "fresh")


def test_a_moved_document_is_not_read_again(docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from orienteer.data import texts

    index = tmp_path / "index"
    sync_folder(docs, index)
    (docs / "b.md").rename(docs / "deep" / "b.md")
    with monkeypatch.context() as patch:
        patch.setattr(texts, "read_document", lambda path: pytest.fail(f"{path} is read"))
        assert sync_folder(docs, index).moved == (("b.md", "deep/b.md"),)
    check_equal(index, docs, tmp_path / "fresh")


def test_a_file_with_its_old_size_and_times_but_a_new_content_is_seen_while_it_may_still_change(tmp_path: Path) -> None:
    docs, index = tmp_path / "docs", tmp_path / "index"
    docs.mkdir()
    (docs / "a.txt").write_text("red")
    facts = (docs / "a.txt").stat()
    sync_folder(docs, index)
    (docs / "a.txt").write_text("sea")
    os.utime(docs / "a.txt", ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert sync_folder(docs, index).changed == ("a.txt",)


def test_unreadable_files_are_named_each_time_and_read_once(docs: Path, tmp_path: Path) -> None:
    (docs / "broken.pdf").write_bytes(b"%PDF-1.4 and no more")
    (docs / "picture.png").write_bytes(b"\x89PNG")
    index = tmp_path / "index"
    reasons = {each.file: each.reason for each in sync_folder(docs, index).unreadable}
    assert set(reasons) == {"broken.pdf", "picture.png"}
    again = sync_folder(docs, index)
    assert not again.is_new
    assert {each.file: each.reason for each in again.unreadable} == reasons


def test_other_words_a_passage_cut_everything_anew(docs: Path, tmp_path: Path) -> None:
    (docs / "long.txt").write_text("the keeper lit the lamp. " * 60)
    index = tmp_path / "index"
    many = sync_folder(docs, index).manifest.passages
    result = sync_folder(docs, index, split=Split(30))
    assert len(result.changed) == 4
    assert result.manifest.passages > many


def test_passages_of_no_document_stay_and_documents_of_an_ordinary_index_follow_the_folder(
    docs: Path, tmp_path: Path
) -> None:
    index = tmp_path / "index"
    build_index([Passage("row", "", "a row of a table"), *read_passages(docs)], index)
    (docs / "b.md").unlink()
    sync_folder(docs, index)
    assert {open_index(index).id_at(number) for number in range(3)} == {"row", "a.txt#1", "deep/c.txt#1"}


def test_the_index_may_lie_in_the_folder_itself(docs: Path) -> None:
    sync_folder(docs, docs / "index")
    assert not sync_folder(docs, docs / "index").is_new


def test_an_emptied_folder_empties_the_index_only_where_that_is_allowed(docs: Path, tmp_path: Path) -> None:
    before = sync_folder(docs, tmp_path / "index").manifest
    for file in list(docs.rglob("*.*")):
        file.unlink()
    with pytest.raises(FolderEmptiedError, match=r"is the folder mounted\?.*--allow-empty"):
        sync_folder(docs, tmp_path / "index")
    assert read_manifest(tmp_path / "index") == before
    assert sync_folder(docs, tmp_path / "index", allow_empty=True).manifest.passages == 0
    assert list(open_index(tmp_path / "index").search(parse("red"), 5)) == []


def test_mistakes_are_refused(docs: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such folder"):
        sync_folder(tmp_path / "nowhere", tmp_path / "index")
    with pytest.raises(FolderOccupiedError):
        sync_folder(docs, docs)
    sync_folder(docs, tmp_path / "index")
    opened = open_segments(tmp_path / "index")
    update_index(tmp_path / "index", delete=["a.txt#1"])
    with pytest.raises(IndexLockedError, match="meanwhile"):
        update_index(tmp_path / "index", delete=["b.md#1"], opened=opened)


@pytest.mark.parametrize(
    "state", [b"{}", b"[1", b'{"version":1,"words":100,"overlap":0,"files":{"a":[1]}}', b"[" * 9999]
)
def test_a_damaged_state_is_one_clear_error(state: bytes) -> None:
    with pytest.raises(IndexCorruptError, match="synced folder"):
        SyncState.from_bytes(state)


def test_a_change_by_other_commands_is_put_right_by_the_next_sync(docs: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"
    sync_folder(docs, index)
    update_index(index, delete=["a.txt#1"])
    assert open_segments(index).sources == b""
    sync_folder(docs, index)
    check_equal(index, docs, tmp_path / "fresh")


# Killed writers

_VICTIM = """
import os, sys
from orienteer.engine.embedded import build, folder_sync
build.delta_limit = lambda passages: int(sys.argv[4])
seen, step = 0, int(sys.argv[3])
def hook(event, arguments):
    global seen
    if event in ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree") or (
        event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)
    ):
        if str(arguments[0]).startswith(sys.argv[2]):
            if seen == step:
                os.kill(os.getpid(), 9)
            seen += 1
sys.addaudithook(hook)
folder_sync.sync_folder(sys.argv[1], sys.argv[2], threads=1)
"""


def kills(tmp_path: Path, count: int, stride: int, limit: int) -> int:
    """Syncs that are killed before their first, second, … change of a file; each is done again by the next."""
    folder, index = Folder(tmp_path / "docs", 1), tmp_path / "index"
    for _ in range(12):
        folder.change()
    sync_folder(folder.path, index, threads=1)
    killed, step, turn = 0, 0, 0
    while killed < count:
        turn += 1
        folder.change()
        folder.write(f"sure{turn}.txt")
        before = read_manifest(index).fingerprint
        victim = [sys.executable, "-c", _VICTIM, str(folder.path), str(index), str(step), str(limit)]
        ended = subprocess.run(victim, capture_output=True, text=True, timeout=120)
        assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
        if ended.returncode:
            killed += 1
            step += stride
            assert verify_index(index) == []
            if read_manifest(index).fingerprint == before:
                assert f"sure{turn}.txt" in sync_folder(folder.path, index, threads=1).added
        else:
            step = 0
        sync_folder(folder.path, index, threads=1)
        check_equal(index, folder.path, tmp_path / "fresh")
    return killed


@pytest.mark.long
def test_a_killed_sync_loses_nothing(tmp_path: Path, delta: int) -> None:
    assert kills(tmp_path, 4, 11, delta) == 4


@pytest.mark.slow
def test_200_killed_syncs_lose_nothing(tmp_path: Path, delta: int) -> None:
    assert kills(tmp_path, 100, 1, delta) == 100


# Following live


@pytest.fixture
def watching(docs: Path, tmp_path: Path) -> Iterator[list[object]]:
    """What a watching thread reports, as it comes."""
    stop, results = threading.Event(), []

    def follow() -> None:
        for result in watch_folder(docs, tmp_path / "index", stop=stop.is_set, poll=0.05):
            results.append(result)

    thread = threading.Thread(target=follow)
    thread.start()
    yield results
    stop.set()
    thread.join(60)
    assert not thread.is_alive()


def wait_for(results: list[object], count: int) -> object:
    deadline = time.monotonic() + 60
    while len(results) < count:
        assert time.monotonic() < deadline, "no sync within a minute"
        time.sleep(0.01)
    return results[count - 1]


def test_a_watched_folder_is_followed_through_adds_changes_moves_and_deletes(
    docs: Path, tmp_path: Path, watching: list[object]
) -> None:
    assert wait_for(watching, 1).manifest.passages == 3  # type: ignore[attr-defined]
    (docs / "new.txt").write_text("a keeper")
    assert wait_for(watching, 2).added == ("new.txt",)  # type: ignore[attr-defined]
    (docs / "new.txt").rename(docs / "newer.txt")
    assert wait_for(watching, 3).moved == (("new.txt", "newer.txt"),)  # type: ignore[attr-defined]
    (docs / "newer.txt").unlink()
    assert wait_for(watching, 4).deleted == ("newer.txt",)  # type: ignore[attr-defined]
    check_equal(tmp_path / "index", docs, tmp_path / "fresh")


def test_a_watched_folder_that_vanishes_leaves_the_index_and_is_followed_when_it_is_back(
    docs: Path, tmp_path: Path, watching: list[object], caplog: pytest.LogCaptureFixture
) -> None:
    before = wait_for(watching, 1).manifest  # type: ignore[attr-defined]
    docs.rename(tmp_path / "unmounted")
    deadline = time.monotonic() + 60
    while "no such folder" not in caplog.text:
        assert time.monotonic() < deadline, "no warning within a minute"
        time.sleep(0.01)
    assert read_manifest(tmp_path / "index") == before
    (tmp_path / "unmounted" / "new.txt").write_text("a keeper")
    (tmp_path / "unmounted").rename(docs)
    assert wait_for(watching, 2).added == ("new.txt",)  # type: ignore[attr-defined]


def test_a_delta_is_merged_once_it_has_grown(docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "delta_limit", lambda passages: 100)
    index = tmp_path / "index"
    sync_folder(docs, index)
    (docs / "new.txt").write_text("a keeper")
    sync_folder(docs, index)
    assert read_manifest(index).base is not None
    assert not merge_if_worth_it(index)
    monkeypatch.setattr(build, "delta_limit", lambda passages: 4)
    assert merge_if_worth_it(index)
    assert read_manifest(index).base is None
    assert not sync_folder(docs, index).is_new
