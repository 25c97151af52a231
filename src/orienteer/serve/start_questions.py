"""Questions to begin with, made from the index itself, so that it answers them.

Best is a heading that asks by itself; then what a passage says of something ("A hydrant is a …"); then what a title
names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from orienteer.data.passage import Passage, Question
from orienteer.engine.protocol import Engine, StoresPassages
from orienteer.session.observation import is_stop_word

_LONGEST = 60  # characters of a question
_LOOKED_AT = 400
_NAME = 4  # words
_ASKING = re.compile(r"(how|what|when|where|which|who|why)\b", re.I)
_SAYS_WHAT_IT_IS = re.compile(
    r"(?:(?P<article>The|An?) (?=\w))?(?P<name>[\w'-]+(?: [\w'-]+){0,3}?)(?: \([^)]{1,40}\))? "
    r"(?P<verb>is|was|are|were) (?:an?|the|one) "
)


def start_questions(engine: Engine, count: int = 8) -> list[Question]:
    """`count` questions of passages at equal distances; none where the engine does not list its passages."""
    if not isinstance(engine, StoresPassages) or not len(engine):
        return []
    places = range(0, len(engine), max(1, len(engine) // _LOOKED_AT))
    passages = [engine.passage_at(place) for place in places]
    kinds = (_asked(passages), _defined(passages), _named(passages), _titled(passages))
    chosen: list[str] = []
    for kind in kinds:
        new = [each for each in dict.fromkeys(kind) if each not in chosen and len(each) <= _LONGEST]
        wanted = count - len(chosen)
        chosen += new[:: max(1, len(new) // max(1, wanted))][:wanted]
    return [Question(f"start-{number}", text) for number, text in enumerate(chosen)]


def _asked(passages: list[Passage]) -> Iterator[str]:
    """Titles and headings that are questions."""
    for passage in passages:
        title = passage.title.strip()
        heading = title.rpartition(": ")[2]
        if _ASKING.match(heading) and (heading.endswith("?") or heading == title):
            yield heading


def _defined(passages: list[Passage]) -> Iterator[str]:
    """Of sentences that say what something is."""
    for passage in passages:
        found = _SAYS_WHAT_IT_IS.match(passage.text)
        words = found["name"].lower().split() if found else []
        if found and any(map(str.isalpha, found["name"])) and not any(w != "of" and is_stop_word(w) for w in words):
            article = f"{found['article'].lower()} " if found["article"] else ""
            yield f"what {found['verb']} {article}{found['name']}"


def _named(passages: list[Passage]) -> Iterator[str]:
    """Of short titles: a plain name makes a better question than the heading of a section."""
    for title in _titles(passages):
        if ":" not in title and len(title.split()) <= _NAME and any(map(str.isalpha, title)):
            yield f"what is {title}"


def _titled(passages: list[Passage]) -> Iterator[str]:
    return (f"what is {title}" for title in _titles(passages))


def _titles(passages: list[Passage]) -> Iterator[str]:
    return (title for each in passages if (title := each.title.strip()) and not _ASKING.match(title))
