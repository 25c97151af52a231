"""Questions to begin with, made from the index itself: what some of its titles name."""

from __future__ import annotations

from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine, StoresPassages

_LONGEST = 60  # characters of a title that makes a question
_LOOKED_AT = 400


def start_questions(engine: Engine, count: int = 8) -> list[Question]:
    """One for each of `count` titles at equal distances; none where the engine does not list its passages."""
    if not isinstance(engine, StoresPassages) or not len(engine):
        return []
    places = range(0, len(engine), max(1, len(engine) // _LOOKED_AT))
    titles = (engine.passage_at(place).title.strip() for place in places)
    short = [title for title in dict.fromkeys(titles) if title and len(title) <= _LONGEST]
    chosen = short[:: max(1, len(short) // count)][:count]
    return [Question(f"start-{number}", f"what is {title}") for number, title in enumerate(chosen)]
