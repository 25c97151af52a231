"""Questions to begin with, made from the index itself: what some of its titles name."""

from __future__ import annotations

from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine, StoresPassages

_LONGEST = 60  # characters of a title that makes a question
_LOOKED_AT = 400
_NAME = 4  # words
_ASKING = ("how", "what", "when", "where", "which", "who", "why")


def start_questions(engine: Engine, count: int = 8) -> list[Question]:
    """One for each of `count` titles at equal distances; none where the engine does not list its passages."""
    if not isinstance(engine, StoresPassages) or not len(engine):
        return []
    places = range(0, len(engine), max(1, len(engine) // _LOOKED_AT))
    titles = (engine.passage_at(place).title.strip() for place in places)
    short = [title for title in dict.fromkeys(titles) if title and len(title) <= _LONGEST]
    # A plain name makes a better question than the heading of a section.
    names = [title for title in short if ":" not in title and len(title.split()) <= _NAME]
    pool = names if len(names) >= count else short
    chosen = pool[:: max(1, len(pool) // count)][:count]
    return [Question(f"start-{number}", _question(title)) for number, title in enumerate(chosen)]


def _question(title: str) -> str:
    return title if title.split()[0].lower() in _ASKING else f"what is {title}"
