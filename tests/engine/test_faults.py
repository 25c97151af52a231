"""Killed writers, damaged files, full disks, hostile queries: small counts of what `benchmarks` does in large."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orienteer.data.passage import Passage
from orienteer.engine import build_index, open_index, update_index
from orienteer.engine.embedded.index import Index
from orienteer.engine.embedded.store import HEADER_BYTES, LOCK, MANIFEST, ArrayWriter, read_manifest, verify
from orienteer.errors import IndexCorruptError, IndexFilesError, IndexLockedError, OrienteerError

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PASSAGES = [Passage(f"p{number}", f"title {number % 7}", f"green muppet {number} street") for number in range(40)]


def outcome(script: str, *arguments: str) -> dict[str, Any]:
    """What a benchmark prints; in a process of its own, so that a crash is seen and forks are cheap."""
    command = [sys.executable, str(BENCHMARKS / script), "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    assert done.stdout, f"{script} ended with {done.returncode}\n{done.stderr[-3000:]}"
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def check_whole(result: dict[str, Any]) -> None:
    for name in ("kills", "steps", "corruptions", "full_disks"):
        assert result[name]["failures"] == []
    assert result["whole"]


@pytest.mark.long
def test_no_kill_no_damage_and_no_full_disk_loses_a_commit() -> None:
    counts = ("--kills", "12", "--corruptions", "39", "--full-disks", "2", "--stride", "4", "--passages", "1000")
    result = outcome("faults.py", *counts)
    check_whole(result)
    assert [result[name]["tried"] for name in ("kills", "corruptions", "full_disks")] == [12, 39, 10]
    assert result["steps"]["tried"] > 20


@pytest.mark.long
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_every_write_of_a_saved_session_interrupted_leaves_the_old_or_the_new_one() -> None:
    result = outcome("crash_points.py", "--only", "session")
    assert result["failures"] == []
    assert [row["fault"] for row in result["points"] if row["points"] >= 3] == ["kill", "EIO", "ENOSPC"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_every_write_of_everything_interrupted_leaves_the_old_or_the_new_state() -> None:
    assert outcome("crash_points.py")["failures"] == []


@pytest.mark.slow
def test_200_kills_and_300_corruptions() -> None:
    result = outcome("faults.py")
    check_whole(result)
    for operation in ("build", "add", "delete"):
        phases = {where for where in result["kills"]["where"] if where.startswith(operation)}
        assert len(phases) >= 4, f"kills hit only {phases}"


@pytest.mark.long
def test_20_000_hostile_queries_are_answered_or_refused_in_time() -> None:
    # Four times the 50 ms that `orienteer bench fuzz` allows: a shared machine must not make this test fail by chance.
    result = outcome("fuzz_queries.py", "--count", "20000", "--limit", "0.2")
    assert result["failures"] == []
    assert result["strings"] == 20_000
    assert len(result["kinds"]) == 11
    refused = {"QuerySyntaxError", "UnknownFieldError", "TermTooLongError", "BoostError", "TooManyClausesError"}
    assert set(result["errors"]) == refused


@pytest.mark.slow
def test_1_000_000_hostile_queries_are_answered_or_refused_in_time() -> None:
    assert outcome("fuzz_queries.py", "--count", "1000000")["failures"] == []


# Damage, bit by bit


@pytest.mark.long
def test_a_bit_flipped_anywhere_in_a_header_is_found_at_opening(tmp_path: Path) -> None:
    manifest = build_index(PASSAGES[:3], tmp_path)
    file = tmp_path / manifest.folder / "best_codes.npy"
    whole = file.read_bytes()
    for bit in range(0, HEADER_BYTES * 8, 3):
        file.write_bytes(flipped(whole, bit))
        with pytest.raises(IndexCorruptError, match="damaged header"):
            Index.open(tmp_path)


@pytest.mark.long
def test_the_first_and_the_last_bit_of_every_payload_are_guarded_by_verify(tmp_path: Path) -> None:
    manifest = build_index(PASSAGES[:3], tmp_path)
    for name in manifest.files:
        file = tmp_path / manifest.folder / name
        whole = file.read_bytes()
        for bit in {HEADER_BYTES * 8, len(whole) * 8 - 1} if len(whole) > HEADER_BYTES else ():
            file.write_bytes(flipped(whole, bit))
            assert verify(tmp_path) == [str(file)]
        file.write_bytes(whole)
    assert verify(tmp_path) == []


def test_a_bit_flipped_anywhere_in_the_manifest_is_found_at_opening(tmp_path: Path) -> None:
    build_index(PASSAGES[:3], tmp_path)
    whole = (tmp_path / MANIFEST).read_bytes()
    for bit in range(0, len(whole) * 8, 61):
        (tmp_path / MANIFEST).write_bytes(flipped(whole, bit))
        with pytest.raises(IndexFilesError):
            read_manifest(tmp_path)


@pytest.mark.parametrize("added", [b"\n", b" ", b"\0", b"{}", b"x"])
def test_a_manifest_with_something_after_it_is_refused(tmp_path: Path, added: bytes) -> None:
    build_index(PASSAGES[:3], tmp_path)
    with (tmp_path / MANIFEST).open("ab") as file:
        file.write(added)
    with pytest.raises(IndexCorruptError):
        open_index(tmp_path)


def test_an_index_cut_to_any_length_is_refused(tmp_path: Path) -> None:
    manifest = build_index(PASSAGES[:3], tmp_path)
    file = tmp_path / manifest.folder / "stream.npy"
    whole = file.read_bytes()
    for size in range(0, len(whole), 3):
        file.write_bytes(whole[:size])
        with pytest.raises(IndexCorruptError, match=f"has {size} bytes where {len(whole)} were written"):
            Index.open(tmp_path)


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


# Other writers and full disks


def test_a_writer_in_another_process_locks_until_it_dies(tmp_path: Path) -> None:
    build_index(PASSAGES, tmp_path)
    holding = (
        "import fcntl, sys, time; file = open(sys.argv[1], 'a+b'); fcntl.flock(file, fcntl.LOCK_EX); "
        "print('locked', flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", holding, str(tmp_path / LOCK)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        try:
            with pytest.raises(IndexLockedError):
                update_index(tmp_path, delete=["p1"])
            assert len(open_index(tmp_path)) == len(PASSAGES)
        finally:
            other.kill()
    assert update_index(tmp_path, delete=["p1"]).counts["passages"] == len(PASSAGES) - 1


def test_a_writer_holds_its_lock_to_the_end(tmp_path: Path) -> None:
    build_index(PASSAGES, tmp_path)
    held = []

    def watching() -> Iterator[Passage]:
        yield Passage("new", "", "")
        with (tmp_path / LOCK).open("a+b") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                held.append(error.errno)

    update_index(tmp_path, add=watching())
    assert held in ([errno.EWOULDBLOCK], [errno.EACCES])


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte, where the user may mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    try:
        mounted = os.geteuid() == 0 and subprocess.run(mount, capture_output=True).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("only root may mount a small disk")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_is_one_message_and_the_old_index_stays(small_disk: Path) -> None:
    path = small_disk / "index"
    before = build_index(PASSAGES, path)
    many = [Passage(f"q{number}", "", f"a text of its own {number} " * 30) for number in range(3000)]
    for write in (lambda: build_index(many, path), lambda: update_index(path, add=many)):
        with pytest.raises(OrienteerError, match=r"no space left to write the index at .*; the previous index"):
            write()
        assert read_manifest(path) == before
        assert verify(path) == []
        assert sorted(file.name for file in path.iterdir()) == [before.folder, MANIFEST, LOCK]
    assert update_index(path, delete=["p0"]).counts["passages"] == len(PASSAGES) - 1


@pytest.mark.long
def test_a_disk_that_fills_at_any_write_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "index"
    before = build_index(PASSAGES[:10], path)
    whole = ArrayWriter.append
    allowed = 0
    messages = set()

    def append(self: ArrayWriter, array: Any) -> None:
        nonlocal allowed
        allowed -= 1
        if allowed < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        whole(self, array)

    monkeypatch.setattr(ArrayWriter, "append", append)
    for writes in range(100):
        allowed = writes
        try:
            update_index(path, delete=["p0"])
            break
        except OrienteerError as error:
            messages.add(str(error).partition(" to write")[0])
        assert read_manifest(path) == before
        assert verify(path) == []
        assert sorted(file.name for file in path.iterdir()) == [before.folder, MANIFEST, LOCK]
    assert 10 < writes < 99
    assert messages == {"no space left"}
    assert read_manifest(path).generation == before.generation + 1


def test_a_file_size_limit_is_a_full_disk_too(tmp_path: Path) -> None:
    before = build_index(PASSAGES, tmp_path)
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, old[1]))
    try:
        with pytest.raises(OrienteerError, match="no space left"):
            build_index(PASSAGES, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert read_manifest(tmp_path) == before
