"""A question and its passages as the string that the answer generator reads, in the T5 agent's phrases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from orienteer.agents.t5.model_files import ModelFiles
from orienteer.agents.t5.rendering import passage_sentences
from orienteer.errors import ModelCorruptError
from orienteer.query.refinement import clean
from orienteer.session import ObservedPassage

SHIPPED = Path(__file__).parent / "weights"


@dataclass(frozen=True, slots=True)
class Layout:
    """What the weights were trained to see: tokens in and out, words of a passage's title and text."""

    max_source: int = 512
    max_target: int = 32
    title_words: int = 10
    snippet: int = 70

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def layout_of(files: ModelFiles) -> Layout:
    row: Mapping[str, Any] = files.told.get("layout", {})
    try:
        return Layout(**row)
    except TypeError as error:
        raise ModelCorruptError(f"the layout of an answerer cannot be read: {error}; train it again") from None


def render(question: str, passages: Sequence[ObservedPassage], layout: Layout) -> str:
    parts = [part for each in passages for part in passage_sentences(each, layout.title_words, layout.snippet)]
    return " ".join([f"Query: '{clean(question)}'.", *parts])
