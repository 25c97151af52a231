"""What a T5 agent's weights were trained to see; a model of another layout would read noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from orienteer.agents.t5.model_files import ModelFiles
from orienteer.errors import ModelCorruptError
from orienteer.query import GRAMMARS

SHIPPED = Path(__file__).parent / "weights"


@dataclass(frozen=True, slots=True)
class Layout:
    """max_source, max_target   tokens in and out
    title_words, snippet        words of a passage's title and text
    grammar                     that of the bare name `t5`
    """

    max_source: int = 512
    max_target: int = 32
    title_words: int = 10
    snippet: int = 30
    grammar: str = "G1"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def layout_of(files: ModelFiles) -> Layout:
    row: Mapping[str, Any] = files.told.get("layout", {})
    try:
        layout = Layout(**row)
        if layout.grammar not in GRAMMARS:
            raise ValueError(f"a grammar {layout.grammar!r}")
    except (TypeError, ValueError) as error:
        raise ModelCorruptError(f"the layout of a T5 agent cannot be read: {error}; train it again") from None
    return layout
