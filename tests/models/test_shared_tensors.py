"""A shipped model takes its encoder from the shipped pointer instead of storing it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from tiny_pointer import save_pointer

import orienteer.models.model_folder as model_folder
from orienteer.agents.muzero.model_files import SHIPPED as MUZERO
from orienteer.agents.pointer.model_files import SHIPPED as POINTER
from orienteer.agents.t5.model_files import SHIPPED as T5
from orienteer.errors import ModelCorruptError
from orienteer.models.model_folder import CONFIG, WEIGHTS, read_folder, share_tensors, write_folder

MEGABYTES = 90


def a_copy_with_a_head(folder: Path, pointer: Path) -> Path:
    """A pointer's tensors under another name, with one of its own."""
    stored = read_folder(pointer, ["pointer"])
    tensors = {**stored.tensors, "own.weight": np.ones(3, np.float32)}
    write_folder(folder, "t5", stored.config, {"note": 1}, tensors, stored.tokenizer)
    return folder


def with_shared(folder: Path, **changes: Any) -> Path:
    config = json.loads((folder / CONFIG).read_text())
    config["t5"]["shared"] |= changes
    (folder / CONFIG).write_text(json.dumps(config))
    return folder


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pointer = tmp_path / "pointer"
    save_pointer(pointer)
    monkeypatch.setattr(model_folder, "_SHARED", {"pointer": pointer / WEIGHTS})
    folder = a_copy_with_a_head(tmp_path / "t5", pointer)
    share_tensors(folder, "t5", "pointer")
    return folder


def test_a_model_that_shares_its_tensors_is_the_same_and_stores_only_its_own(shared: Path, tmp_path: Path) -> None:
    whole = read_folder(a_copy_with_a_head(tmp_path / "whole", tmp_path / "pointer"), ["t5"])
    stored = read_folder(shared, ["t5"])
    assert list(load_file(shared / WEIGHTS)) == ["own.weight"]
    assert stored.tensors.keys() == whole.tensors.keys()
    assert all(np.array_equal(stored.tensors[name], value) for name, value in whole.tensors.items())
    assert "shared" not in stored.entry, "what is written again holds all of its tensors"


def test_sharing_twice_changes_nothing(shared: Path) -> None:
    before = {file.name: file.read_bytes() for file in shared.iterdir()}
    share_tensors(shared, "t5", "pointer")
    assert {file.name: file.read_bytes() for file in shared.iterdir()} == before


def test_another_pointer_than_the_one_that_it_was_made_for_is_refused(shared: Path, tmp_path: Path) -> None:
    with (tmp_path / "pointer" / WEIGHTS).open("ab") as file:
        file.write(b" ")
    with pytest.raises(ModelCorruptError, match="made for another shipped pointer"):
        read_folder(shared, ["t5"])


@pytest.mark.parametrize(
    "changes",
    [{"model": "../../etc"}, {"model": ["pointer"]}, {"tensors": "all"}, {"tensors": ["absent"]}, {"tensors": [[]]}],
)
def test_a_strangers_folder_names_no_file_and_no_absent_tensor(shared: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(ModelCorruptError):
        read_folder(with_shared(shared, **changes), ["t5"])


@pytest.mark.parametrize("wrong", ["pointer", 7, [], {"model": "pointer"}])
def test_a_strangers_entry_that_is_no_entry_is_refused(shared: Path, wrong: Any) -> None:
    config = json.loads((shared / CONFIG).read_text())
    config["t5"]["shared"] = wrong
    (shared / CONFIG).write_text(json.dumps(config))
    with pytest.raises(ModelCorruptError):
        read_folder(shared, ["t5"])


def test_the_shipped_t5_and_muzero_share_the_pointers_encoder_and_all_models_fit_in_the_package() -> None:
    pointer = load_file(POINTER / WEIGHTS)
    for folder in (T5, MUZERO):
        again = [n for n, v in load_file(folder / WEIGHTS).items() if n in pointer and np.array_equal(v, pointer[n])]
        assert not again, f"run tools/share_tensors.py: {folder} stores {again[0]} again"
    package = POINTER.parents[2]
    assert sum(file.stat().st_size for file in package.rglob("weights/*")) < MEGABYTES * 1_000_000
