"""The bundled corpus: a small encyclopedia written for this project, with questions; demo and test fixture.

Many passages have siblings that a plain query confuses, and most questions are worded unlike their passage. The `test`
questions were set aside before anything was tuned on the corpus; choose on `train`, report on `test`.

Beside it a folder of manuals, `MANUALS`. Of its questions those of the source `manuals` are answered there; those of
the source `odd` are what a person tries first, and are not, though the manuals speak of legs, gold, Everest and Brazil.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from orienteer.data import Passage, Question, read_passages, read_questions

if TYPE_CHECKING:
    from orienteer.engine import EmbeddedEngine

_FOLDER = Path(str(files("orienteer.bundled")))
MANUALS = _FOLDER / "manuals"


def bundled_passages() -> list[Passage]:
    return list(read_passages([_FOLDER / "passages.jsonl"]))


def bundled_questions(split: Literal["train", "test", "manuals"]) -> list[Question]:
    return list(read_questions(_FOLDER / f"questions-{split}.jsonl"))


def bundled_engine() -> EmbeddedEngine:
    """An engine over the corpus, indexed at every call (a fraction of a second). Its files go with the process."""
    return _indexed(bundled_passages())


def manuals_engine() -> EmbeddedEngine:
    """An engine over the manuals."""
    return _indexed(read_passages(MANUALS))


def _indexed(passages: Iterable[Passage]) -> EmbeddedEngine:
    from orienteer.engine import build_index, open_index

    with tempfile.TemporaryDirectory() as folder:
        build_index(passages, folder)
        return open_index(folder)  # the mapped files outlive their names
