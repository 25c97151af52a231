"""The bundled corpus: a small encyclopedia written for this project, with questions; demo and test fixture.

Many passages have siblings that a plain query confuses, and most questions are worded unlike their passage. The `test`
questions were set aside before anything was tuned on the corpus; choose on `train`, report on `test`.
"""

from __future__ import annotations

import tempfile
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from orienteer.data import Passage, Question, read_passages, read_questions

if TYPE_CHECKING:
    from orienteer.engine import EmbeddedEngine

_FOLDER = Path(str(files("orienteer.bundled")))


def bundled_passages() -> list[Passage]:
    return list(read_passages([_FOLDER / "passages.jsonl"]))


def bundled_questions(split: Literal["train", "test"]) -> list[Question]:
    return list(read_questions(_FOLDER / f"questions-{split}.jsonl"))


def bundled_engine() -> EmbeddedEngine:
    """An engine over the corpus, indexed at every call (a fraction of a second). Its files go with the process."""
    from orienteer.engine import build_index, open_index

    with tempfile.TemporaryDirectory() as folder:
        build_index(bundled_passages(), folder)
        return open_index(folder)  # the mapped files outlive their names
