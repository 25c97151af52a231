"""Atomic files: never through a link, never over what is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from orienteer.data import atomic
from orienteer.data.atomic import atomic_write
from orienteer.errors import WriteError


def test_a_link_in_the_place_of_the_file_is_replaced_and_not_written_through(tmp_path: Path) -> None:
    victim, file = tmp_path / "victim", tmp_path / "file.json"
    victim.write_text("precious")
    file.symlink_to(victim)
    atomic_write(file, "new")
    assert victim.read_text() == "precious"
    assert file.read_text() == "new"
    assert not file.is_symlink()


def test_a_link_under_the_temporary_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    monkeypatch.setattr(atomic.secrets, "token_hex", lambda size: "guessed")
    (tmp_path / ".file.json.guessed.partial").symlink_to(victim)
    with pytest.raises(WriteError):
        atomic_write(tmp_path / "file.json", "new")
    assert victim.read_text() == "precious"


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "file.json"
    file.write_text("old")

    def parts() -> object:
        yield b"half"
        raise OSError(28, "No space left on device")

    with pytest.raises(WriteError, match="No space left"):
        atomic_write(file, parts())  # type: ignore[arg-type]
    assert [each.name for each in tmp_path.iterdir()] == ["file.json"]
    assert file.read_text() == "old"
