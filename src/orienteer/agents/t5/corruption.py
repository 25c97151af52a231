"""Span corruption, T5's way to learn a language: some spans of a text are replaced by marks, and written out again.

source   Ardle Light <0> on a reef. Its keeper Maren <1> lamp in 1871. <end>
target   <0> stands <1> Holt lit the first <2> <end>
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from orienteer.agents.t5.codec import Codec
from orienteer.agents.t5.stream import Place, Row
from orienteer.reader.errors import TrainingError

_MOST_MARKS = 100


@dataclass(frozen=True, slots=True)
class CorruptionConfig:
    """share   of a text's tokens that are taken out, in spans of `span` tokens on the mean."""

    length: int = 160  # tokens of a text at most
    rows: int = 48  # texts in a batch
    share: float = 0.15
    span: float = 3.0
    seed: int = 0


def marks_of(codec: Codec) -> list[int]:
    """The tokens that stand for spans: T5's `<extra_id_0>` …, or tokens that BERT's vocabulary keeps unused."""
    for name in ("<extra_id_{}>", "[unused{}]"):
        found = [codec.tokenizer.token_to_id(name.format(number)) for number in range(_MOST_MARKS)]
        known = [mark for mark in found if mark is not None]
        if len(known) >= 16:
            return known
    raise TrainingError(
        "the tokenizer has no tokens to mark spans with; expected <extra_id_0> … as T5 has, or [unused0] … as BERT has"
    )


def corrupted(ids: Sequence[int], marks: Sequence[int], end: int, config: CorruptionConfig, draw: random.Random) -> Row:
    """A text as source and target; neither has special tokens of its own but the end."""
    noise = max(1, round(config.share * len(ids)))
    spans = max(1, min(round(noise / config.span), noise, len(ids) - noise, len(marks) - 1))
    taken, kept = _parts(noise, spans, draw), _parts(len(ids) - noise, spans, draw)
    source: list[int] = []
    target: list[int] = []
    at = 0
    for number in range(spans):
        source += [*ids[at : at + kept[number]], marks[number]]
        at += kept[number]
        target += [marks[number], *ids[at : at + taken[number]]]
        at += taken[number]
    return Row([*source, *ids[at:], end], (([*target, marks[spans], end], 1.0),))


def _parts(total: int, count: int, draw: random.Random) -> list[int]:
    """A number as so many parts of at least one."""
    cuts = sorted(draw.sample(range(1, total), count - 1)) if total > 1 else []
    return [int(part) for part in np.diff([0, *cuts, total])]


def corrupted_batches(
    text: Callable[[int], str], count: int, codec: Codec, end: int, config: CorruptionConfig, start: Place | None = None
) -> Iterator[tuple[Place, list[Row]]]:
    """Endless batches of texts drawn from `count`, from a place on; `text` gives one by its number."""
    if count == 0:
        raise TrainingError("no passages to learn from; name an index that has some")
    marks = marks_of(codec)
    place = start or Place()
    while True:
        draw = random.Random(f"{config.seed}/{place.batch}")
        cut = [ids[: config.length] for ids in codec.pieces([text(draw.randrange(count)) for _ in range(config.rows)])]
        place = Place(batch=place.batch + 1)
        made = [corrupted(ids, marks, end, config, draw) for ids in cut if len(ids) >= 4]
        rows = [Row([*codec.first, *row.source], row.targets) for row in made]
        if rows:
            yield place, rows
