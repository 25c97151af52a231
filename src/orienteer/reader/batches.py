"""Which passages training reads, in which order: a stream of batches that the seed alone decides."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, groupby

from tokenizers import Tokenizer

from orienteer.errors import TrainingError
from orienteer.reader.config import Share, StreamConfig
from orienteer.reader.encoding import Marks, Offset, Pieces, Window, head_and_room, pieces, window_at
from orienteer.reader.mining import Evidence, TrainingRow


@dataclass(frozen=True, slots=True)
class Example:
    """A window and what is true of it: wordpiece spans of the answer, none where it does not hold it."""

    window: Window
    spans: tuple[tuple[int, int], ...]  # places in window.ids, both ends inclusive
    selects: bool  # whether the selection losses count it: questions without negatives teach spans only
    group: int  # the draw it belongs to: a positive passage and its negatives stay together
    teacher: float | None = None  # the logit that a teacher gave the passage


def batches(rows: Sequence[TrainingRow], tokenizer: Tokenizer, config: StreamConfig) -> Iterator[list[Example]]:
    """Endless batches of similar length; the same seed and rows give the same stream."""
    generator = random.Random(config.seed)
    draws = _draws(rows, config, generator)
    while True:
        pool: list[_Draw] = []
        while len(pool) < config.pool:
            pool += next(draws)
        groups = groups_of(_encode(pool, tokenizer, config.max_pieces, generator))
        groups.sort(key=lambda group: max(len(example.window.ids) for example in group))
        cut = list(cut_whole(groups, config.batch))
        generator.shuffle(cut)
        yield from cut


def groups_of(examples: Iterable[Example]) -> list[list[Example]]:
    """Neighbours of one draw, together."""
    return [list(group) for _, group in groupby(examples, key=lambda example: example.group)]


def cut_whole(groups: Iterable[list[Example]], size: int) -> Iterator[list[Example]]:
    """Groups laid end to end and cut into runs of `size` examples or a few more, never inside a group."""
    run: list[Example] = []
    for group in groups:
        run += group
        if len(run) >= size:
            yield run
            run = []
    if run:
        yield run


@dataclass(frozen=True, slots=True)
class _Draw:
    question: str
    evidence: Evidence
    title: str
    selects: bool
    group: int


def _draws(rows: Sequence[TrainingRow], config: StreamConfig, generator: random.Random) -> Iterator[list[_Draw]]:
    """A positive passage and its negatives, again and again."""
    by_source: dict[str, list[TrainingRow]] = defaultdict(list)
    for row in rows:
        by_source[row.source].append(row)
    if not by_source:
        raise TrainingError("no training rows; mine some first, or give another file")
    shares = {s: config.shares.get(s, Share(len(found) / len(rows), 1.0)) for s, found in by_source.items()}
    names, weights = list(shares), [share.weight for share in shares.values()]
    orders = {name: _endless(by_source[name], generator) for name in names}
    for group in count():
        [name] = generator.choices(names, weights)
        row = next(orders[name])
        held = row.gold
        if row.retrieved and (held is None or generator.random() < shares[name].retrieved):
            held = generator.choice(row.retrieved)
        if held is None:
            continue
        wanted = int(shares[name].negatives + generator.random())
        negatives = generator.sample(row.negatives, min(wanted, len(row.negatives)))
        drawn = [(e, "" if generator.random() < config.blank_titles else e.title) for e in (held, *negatives)]
        yield [_Draw(row.question, evidence, title, bool(row.negatives), group) for evidence, title in drawn]


def _endless(rows: list[TrainingRow], generator: random.Random) -> Iterator[TrainingRow]:
    while True:
        yield from generator.sample(rows, len(rows))


def _encode(
    pool: Sequence[_Draw], tokenizer: Tokenizer, max_pieces: int, generator: random.Random
) -> Iterator[Example]:
    marks = Marks.of(tokenizer)
    questions = pieces(tokenizer, [draw.question for draw in pool])
    titles = pieces(tokenizer, [draw.title for draw in pool])
    texts = pieces(tokenizer, [draw.evidence.text for draw in pool])
    for draw, question, title, text in zip(pool, questions, titles, texts, strict=True):
        head, room = head_and_room(question, title, marks, max_pieces)
        yield _example(draw, head, text, room, generator)


def _example(draw: _Draw, head: list[int], text: Pieces, room: int, generator: random.Random) -> Example:
    """One window of the passage: around an answer where there is one, else anywhere."""
    spans = [span for chars in draw.evidence.spans if (span := piece_span(text.offsets, *chars))]
    low, high = 0, max(0, len(text.ids) - room)
    if spans and high:
        first, last = generator.choice(spans)
        low, high = max(0, min(last - room + 1, high)), min(first, high)
    start = generator.randint(low, max(low, high))
    window = window_at(head, text, start, room)
    shift = len(head) - start
    inside = tuple((s + shift, e + shift) for s, e in spans if s >= start and e < start + len(window.offsets))
    return Example(window, inside, draw.selects, draw.group, draw.evidence.teacher)


def piece_span(offsets: Sequence[Offset], start: int, end: int) -> tuple[int, int] | None:
    """The first and last wordpiece that touch the characters [start, end)."""
    touched = [i for i, (s, e) in enumerate(offsets) if s < end and e > start]
    return (touched[0], touched[-1]) if touched else None
