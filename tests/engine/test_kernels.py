"""Kernels wait for the first call before numba is imported; then none may be left waiting where another calls it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import orienteer

PACKAGE = Path(orienteer.__file__).parent
MODULES = sorted(
    ".".join(("orienteer", *file.relative_to(PACKAGE).with_suffix("").parts))
    for file in PACKAGE.rglob("*.py")
    if "kernels.compile import" in file.read_text(encoding="utf-8")
)

PROGRAM = """
import importlib, sys
from orienteer.engine.embedded.kernels import compile as kernels
modules = [importlib.import_module(name) for name in sys.argv[1:]]
kernels.load()
left = [
    (module.__name__, name)
    for module in modules for name, value in vars(module).items() if isinstance(value, kernels._Waiting)
]
assert not left, left
assert kernels.is_loaded()
"""


def test_there_are_modules_with_kernels_in_several_rooms() -> None:
    assert len({module.split(".")[1] for module in MODULES}) >= 5


@pytest.mark.parametrize("order", ["engine first", "agents first"])
def test_no_kernel_is_left_waiting_in_whatever_order_modules_are_imported(order: str) -> None:
    names = MODULES[::-1] if order == "engine first" else MODULES
    done = subprocess.run([sys.executable, "-c", PROGRAM, *names], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
