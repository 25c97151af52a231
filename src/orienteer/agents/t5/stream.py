"""Which texts training takes, in which order: batches of like length that the seed alone decides."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp
from typing import NamedTuple

from orienteer.agents.t5.codec import Codec
from orienteer.errors import TrainingError

_HELD_OUT = 50  # one question of so many


@dataclass(frozen=True, slots=True)
class Pair:
    """A source and its targets with what each is worth, best first.

    question   a digest of the question's id, to hold some questions out
    state      the source without its prefix, in UTF-8: half as large in memory, and shared by several prefixes
    rate       how much of the epochs draw it
    """

    question: int
    state: bytes
    targets: tuple[tuple[str, float], ...]
    prefix: str = ""
    rate: float = 1.0

    @property
    def source(self) -> str:
        return self.prefix + self.state.decode()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a stream stands: the batch that comes next. Any batch is found without making those before it."""

    epoch: int = 0
    pool: int = 0
    batch: int = 0


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """tokens        of the encoder in a batch, padding included
    pool          pairs sorted by length together
    targets       of a source at most, the best ones
    temperature   each is drawn with the probability softmax(worth / temperature); 0: only the best
    """

    max_source: int = 512
    max_target: int = 32
    tokens: int = 8192
    pool: int = 512
    targets: int = 4
    temperature: float = 0.0
    seed: int = 0


class Row(NamedTuple):
    """An example in tokens: what the encoder gets, and what the decoder shall write, each with its weight."""

    source: list[int]
    targets: tuple[tuple[list[int], float], ...]

    @property
    def size(self) -> float:
        """Tokens to write, weighted."""
        return sum(weight * len(ids) for ids, weight in self.targets)


def batches(
    pairs: Sequence[Pair], codec: Codec, config: StreamConfig, start: Place | None = None
) -> Iterator[tuple[Place, list[Row]]]:
    """Endless batches from a place on, each with the place after it."""
    if not pairs:
        raise TrainingError("no examples to learn from; give sessions that improve on something")
    place = start or Place()
    while True:
        draw = random.Random(f"{config.seed}/{place.epoch}")
        drawn = [pair for pair in pairs if pair.rate >= 1 or draw.random() < pair.rate]
        draw.shuffle(drawn)
        pools = -(-len(drawn) // config.pool)
        while place.pool < pools:
            pool = drawn[place.pool * config.pool : (place.pool + 1) * config.pool]
            cut = _cut(pool, codec, config, random.Random(f"{config.seed}/{place.epoch}/{place.pool}"))
            for number in range(place.batch, len(cut)):
                last = number == len(cut) - 1
                place = Place(place.epoch, place.pool + last, 0 if last else number + 1)
                yield place, cut[number]
        place = Place(place.epoch + 1)


def _cut(pool: Sequence[Pair], codec: Codec, config: StreamConfig, draw: random.Random) -> list[list[Row]]:
    """A pool in batches of like length, in any order."""
    cut = by_tokens([_one_of(row, draw) for row in rows_of(pool, codec, config)], config.tokens)
    draw.shuffle(cut)
    return cut


def _one_of(row: Row, draw: random.Random) -> Row:
    """A row with one of its targets: over the epochs what all of them teach together, for the price of one."""
    [drawn] = draw.choices([ids for ids, _ in row.targets], [weight for _, weight in row.targets])
    return Row(row.source, ((drawn, 1.0),))


def by_tokens(rows: Sequence[Row], most: int) -> list[list[Row]]:
    """Rows sorted by length, cut into batches that padding does not make longer than `most` tokens."""
    out: list[list[Row]] = []
    for row in sorted(rows, key=lambda row: len(row.source)):
        if out and (len(out[-1]) + 1) * len(row.source) <= most:
            out[-1].append(row)
        else:
            out.append([row])
    return out


def rows_of(pairs: Sequence[Pair], codec: Codec, config: StreamConfig) -> list[Row]:
    """Pairs in tokens."""
    sources = codec.sources([pair.source for pair in pairs], config.max_source)
    weighted = [_weighted(pair, config) for pair in pairs]
    cut = iter(codec.targets([text for targets in weighted for text, _ in targets], config.max_target))
    return [
        Row(source, tuple((next(cut), weight) for _, weight in targets))
        for source, targets in zip(sources, weighted, strict=True)
    ]


def _weighted(pair: Pair, config: StreamConfig) -> list[tuple[str, float]]:
    """The best targets with their weights, which add up to one."""
    if config.temperature <= 0:
        return [(pair.targets[0][0], 1.0)]
    ranked = sorted(pair.targets, key=lambda each: -each[1])[: config.targets]
    shares = [exp((worth - ranked[0][1]) / config.temperature) for _, worth in ranked]
    return [(text, share / sum(shares)) for (text, _), share in zip(ranked, shares, strict=True)]


def hold_out(pairs: Sequence[Pair]) -> tuple[list[Pair], list[Pair]]:
    """Pairs to learn from, and those of one question in fifty, to watch the loss on."""
    held = [pair for pair in pairs if pair.question % _HELD_OUT == 0]
    return [pair for pair in pairs if pair.question % _HELD_OUT], held
