"""The bundled corpus: a small encyclopedia written for this project, with questions; demo and test fixture.

Many passages have siblings that a plain query confuses, and most questions are worded unlike their passage. The `test`
questions were set aside before anything was tuned on the corpus; choose on `train`, report on `test`.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Literal

from orienteer.data import Passage, Question, read_passages, read_questions

_FOLDER = Path(str(files("orienteer.bundled")))


def bundled_passages() -> list[Passage]:
    return list(read_passages([_FOLDER / "passages.jsonl"]))


def bundled_questions(split: Literal["train", "test"]) -> list[Question]:
    return list(read_questions(_FOLDER / f"questions-{split}.jsonl"))
