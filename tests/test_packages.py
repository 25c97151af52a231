"""The lock files that make installs from, and the list of licences."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

import packages


def test_the_locks_hold_every_package_that_the_project_asks_for_with_hashes() -> None:
    assert list(packages.lock_faults()) == []


def test_a_package_without_an_entry_or_a_hash_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "ROOT", tmp_path)
    monkeypatch.setattr(packages, "LOCKS", {"run.lock": ("more",)})
    (tmp_path / "requirements").mkdir()
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "orienteer"\ndependencies = ["First_Package>=1"]\n'
        '[project.optional-dependencies]\nmore = ["orienteer[other]", "second"]\nother = ["third[x]>2"]\n'
    )
    lock = tmp_path / "requirements" / "run.lock"
    lock.write_text("first-package==1.0 \\\n    --hash=sha256:aa\nsecond==2.0\n")
    faults = list(packages.lock_faults())
    assert len(faults) == 2
    assert "second==2.0" in faults[0]
    assert "third is missing" in faults[1]


@pytest.mark.parametrize(
    "licence", ["MIT", "MIT License", "BSD-3-Clause AND Apache-2.0", "GPL-3.0 OR MIT", "Apache Software License"]
)
def test_a_licence_that_we_may_build_on_passes(licence: str) -> None:
    assert packages.is_allowed(licence)


@pytest.mark.parametrize(
    "licence", ["AGPL-3.0", "GPL-3.0-only", "LGPL-2.1", "MIT AND GPL-2.0", "unknown", "", "Other/Proprietary License"]
)
def test_another_licence_is_refused(licence: str) -> None:
    assert not packages.is_allowed(licence)
