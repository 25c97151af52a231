"""Checks the packages that make installs: each has a hash in requirements/*.lock, and a licence that we may build on.

    python tools/packages.py            # in the environment that make made
    python tools/packages.py --list     # every package with its licence

A package's licence is what its metadata says: an SPDX expression, a classifier, or the first line of a free text.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageMetadata, distributions
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCKS = {"serve.lock": ("serve",), "dev.lock": ("dev",), "docs.lock": ("docs",)}

# Permissive, or weak copyleft that binds only changes of the package itself.
ALLOWED = (
    "0BSD", "Apache", "BSD", "CC0", "CNRI-Python", "ISC", "MIT", "MPL", "Mozilla Public License", "PSF", "Python-2.0",
    "Python Software Foundation", "Unlicense", "Zlib", "BlueOak", "BSL-1.0", "Public Domain", "LLVM-exception", "HPND",
)  # fmt: skip
FORBIDDEN = ("AGPL", "Affero", "SSPL", "Commons Clause", "Proprietary", "BUSL", "NonCommercial", "GPL")
# Read by hand where the metadata says too little, or names a part that is not what we use.
KNOWN = {"pypdfium2": "BSD-3-Clause OR Apache-2.0"}


def main() -> int:
    licences = dict(sorted(installed_licences()))
    if "--list" in sys.argv:
        for name, licence in licences.items():
            print(f"{name:32} {licence}")
        return 0
    faults = [*lock_faults(), *(f"{name}: {licence}" for name, licence in licences.items() if not is_allowed(licence))]
    for fault in faults:
        print(fault, file=sys.stderr)
    if not faults:
        print(f"{len(licences)} packages, each with a known licence; locks hold all that pyproject.toml asks for")
    return 1 if faults else 0


def lock_faults() -> Iterator[str]:
    """What pyproject.toml asks for and a lock lacks, and every line of a lock without a hash or an exact version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for lock, extras in LOCKS.items():
        pinned = dict(entries(lock))
        for entry in pinned.values():
            if "==" not in entry or "--hash=sha256:" not in entry:
                yield f"requirements/{lock}: {entry.splitlines()[0]}: no exact version or no hash; run make lock"
        asked = [*project["dependencies"], *(each for extra in extras for each in requirements(project, extra))]
        for missing in sorted({canonical(each) for each in asked} - pinned.keys()):
            yield f"requirements/{lock}: {missing} is missing; run make lock"


def requirements(project: dict[str, dict[str, list[str]]], extra: str) -> Iterator[str]:
    for each in project["optional-dependencies"][extra]:
        if own := re.fullmatch(r"orienteer\[(.*)\]", each):
            for other in own[1].split(","):
                yield from requirements(project, other)
        else:
            yield each


def installed_licences() -> Iterator[tuple[str, str]]:
    """Of the packages in the locks, those that are installed here."""
    locked = {name for lock in LOCKS for name, _ in entries(lock)}
    for each in distributions():
        if (name := canonical(each.metadata["Name"])) in locked:
            yield name, KNOWN.get(name) or licence_of(each.metadata)


def entries(lock: str) -> Iterator[tuple[str, str]]:
    """Name and text of each entry of a lock."""
    for entry in re.split(r"\n(?=\S)", (ROOT / "requirements" / lock).read_text().strip()):
        yield canonical(entry), entry


def licence_of(metadata: PackageMetadata) -> str:
    """Of an expression, a classifier and a text, the first that says something."""
    if expression := metadata.get("License-Expression"):
        return str(expression)
    marks = [each for each in metadata.get_all("Classifier") or () if each.startswith("License ::")]
    named = ", ".join(mark.rpartition(" :: ")[2] for mark in marks if not mark.endswith("OSI Approved"))
    return named or (str(metadata.get("License") or "").strip().splitlines() or ["unknown"])[0][:100]


def is_allowed(licence: str) -> bool:
    """Of alternatives one is enough; what is joined by AND must be allowed in every part."""
    return any(
        all(_names(part, ALLOWED) and not _names(part, FORBIDDEN) for part in re.split(r"\bAND\b|,", choice))
        for choice in re.split(r"\bOR\b", licence)
    )


def _names(part: str, licences: tuple[str, ...]) -> bool:
    return any(re.search(rf"(?<![A-Za-z]){re.escape(each)}", part, re.IGNORECASE) for each in licences)


def canonical(requirement: str) -> str:
    """The name of a requirement as indexes compare it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=!~; ]", requirement.strip())[0]).lower()


if __name__ == "__main__":
    sys.exit(main())
