"""Strings that nobody should type, asked of the engine: no crash, no hang, only typed errors, each in little time.

String number i depends on the seed and i alone, so that one can be looked at again:

    python benchmarks/fuzz_queries.py --count 1000000
    python benchmarks/fuzz_queries.py --show 1234

A string's time is the CPU time of its thread, from the text to the hits. One above the limit is measured again,
because a machine that does other things as well gives it a slow moment now and then; its least time counts.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from heapq import heappush, heappushpop
from pathlib import Path
from typing import Any

import numpy as np

from orienteer.data.passage import Passage
from orienteer.engine.embedded.analysis import STOP_WORDS
from orienteer.engine.embedded.build import build_index
from orienteer.engine.embedded.engine import EmbeddedEngine, open_index
from orienteer.engine.embedded.warmup import warm_up
from orienteer.errors import OrienteerError, QueryError
from orienteer.query import FIELDS, G4, Query, parse

SEED = 13
PASSAGES = 10_000
LIMIT = 0.050  # seconds of CPU time a string
HANG = 60  # seconds of CPU time for a thousand strings, after which the process says where it stands, and ends
K = 5

SPECIAL = '+-!():^[]"{}~*?|&/\\'
STOPS = sorted(STOP_WORDS)
BOOSTS = (
    "0", "0.0", "0.1", "1", "2", "4", "8", "999.9999", "1000", "1000.0", "1000.0001", "1001", "0.0001", "-1", "1e3",
    "inf", "nan", "NaN", "1.", ".5", "", "0x10", "٣", "1,5", "0." + "0" * 40 + "1", "0." + "0" * 400 + "1",
    "9" * 30, "9" * 400, "9" * 5000, "1000." + "0" * 3000,
)  # fmt: skip
SCRIPTS = ((0x20, 0x7F), (0xA0, 0x250), (0x300, 0x370), (0x370, 0x530), (0x590, 0x700), (0x900, 0xE80),
           (0x1100, 0x1200), (0x2000, 0x2070), (0x3040, 0x3100), (0x4E00, 0x9FFF), (0xAC00, 0xD7A4),
           (0xD800, 0xE000), (0xFE00, 0xFE10), (0xFF00, 0xFFF0), (0x1F1E6, 0x1F200), (0x1F300, 0x1FAFF),
           (0x20000, 0x2A6DF), (0xE0000, 0xE01F0), (0, 0x20), (0, 0x110000))  # fmt: skip


class Strings:
    """String number i, and which kind it is of; words come from the index, frequent ones more often."""

    def __init__(self, words: list[str], seed: int):
        self.words, self.seed = words, seed
        self.kinds: list[tuple[Callable[[random.Random], str], int]] = [
            (self.unicode, 200), (self.specials, 150), (self.mutated, 280), (self.grammatical, 200),
            (self.nested, 40), (self.boosted, 60), (self.stopped, 40), (self.repeated, 24),
            (self.many_clauses, 3), (self.many_phrases, 1), (self.long, 2),
        ]  # fmt: skip

    def __call__(self, number: int) -> tuple[str, str]:
        rng = random.Random(self.seed << 40 | number)
        [kind] = rng.choices([kind for kind, _ in self.kinds], [share for _, share in self.kinds])
        return kind.__name__, kind(rng)

    def word(self, rng: random.Random) -> str:
        """Often a frequent word: they have the longest lists."""
        return self.words[int(len(self.words) * rng.random() ** 4)] if rng.random() < 0.9 else rng.choice(STOPS)

    def phrase(self, rng: random.Random, most: int = 6) -> str:
        return " ".join(self.word(rng) for _ in range(rng.randint(1, most)))

    def query(self, rng: random.Random, most: int = 6) -> Query:
        question = self.phrase(rng, 12) if rng.random() < 0.9 else ""
        refinements = []
        for _ in range(rng.randint(0, most)):
            term = self.phrase(rng, 3) if rng.random() < 0.3 else self.word(rng)
            refinements.append(rng.choice(list(G4.refinements(rng.choice(FIELDS), term))))
        return Query(question, tuple(refinements))

    def unicode(self, rng: random.Random) -> str:
        scripts = rng.choices(SCRIPTS, k=3)
        letters = (chr(rng.randrange(*rng.choice(scripts))) for _ in range(rng.randint(0, 60)))
        text = "".join(letters)
        return f'+(title:"{text}")' if rng.random() < 0.3 else text

    def specials(self, rng: random.Random) -> str:
        parts = [*SPECIAL, " ", " ", "\t", "\u3000", "title:", "contents:", "author:", "AND", "OR", "NOT", "&&", "||",
                 "\\u0041", "\\u12", "\\", "^2", '"', "TO"]  # fmt: skip
        return "".join(rng.choice(parts) if rng.random() < 0.7 else self.word(rng) for _ in range(rng.randint(1, 30)))

    def mutated(self, rng: random.Random) -> str:
        text = list(str(self.query(rng)))
        for _ in range(rng.randint(1, 5)):
            at = rng.randint(0, len(text))
            match rng.randrange(5):
                case 0:
                    del text[at : at + rng.randint(1, 4)]
                case 1:
                    text.insert(at, rng.choice(SPECIAL))
                case 2:
                    text.insert(at, chr(rng.randrange(*rng.choice(SCRIPTS))))
                case 3:
                    text[at:at] = text[at : at + rng.randint(1, 20)]
                case _:
                    other = rng.randint(0, len(text))
                    text = text[:at] + text[other:]
        return "".join(text)

    def grammatical(self, rng: random.Random) -> str:
        return str(self.query(rng, 12))

    def nested(self, rng: random.Random) -> str:
        depth = rng.choice([2, 7, 8, 9, 30, 1000, 5000])
        opening = "".join(rng.choice(["(", "(", "+(", "-(", "title:(", '("']) for _ in range(depth))
        if rng.random() < 0.5:
            opening = rng.choice(["(", "+(", "title:("]) + "(" * (depth - 1)
        return opening + self.word(rng) + ")" * max(0, depth + rng.choice([0, 0, 0, -1, 1]))

    def boosted(self, rng: random.Random) -> str:
        boost = rng.choice(BOOSTS)
        if rng.random() < 0.3:
            boost = repr(rng.choice([rng.random() * 1100, 10.0 ** rng.randint(-50, 10)]))
        shapes = ('(contents:"{}"^{})', '"{}"^{}', "({})^{}", '+(title:"{}"^{})', "(({}^{})^2)", "{}^{}^{}")
        clauses = (rng.choice(shapes).format(self.word(rng), boost, boost) for _ in range(rng.randint(1, 3)))
        return " ".join(clauses)

    def stopped(self, rng: random.Random) -> str:
        words = rng.choices(STOPS, k=rng.randint(1, 40))
        for _ in range(rng.randint(0, 2)):
            words[rng.randrange(len(words))] = self.word(rng)
        text = " ".join(words)
        return rng.choice(["{}", '"{}"', '+(contents:"{}")', '-(title:"{}")', '(title:"{}"^3)']).format(text)

    def repeated(self, rng: random.Random) -> str:
        word = self.word(rng)
        times = rng.choice([2, 10, 40, 200, 900])
        shape = rng.choice(["{}", '"{}"', '+(contents:"{}")', '-"{}"', '"{0} {0}"', '("{}"^4)'])
        return " ".join([shape.format(word)] * times)

    def many_clauses(self, rng: random.Random) -> str:
        count = rng.choice([1000, 1022, 1023, 1024, 1025, 1026, 1040, 3000])
        shapes = rng.choice(
            [("{}",), ('"{}"',), ('+"{}"',), ('-"{}"',), ('(title:"{}"^2)',), ("{}", '+"{}"', '-"{}"', '"{}"^3')]
        )
        return " ".join(rng.choice(shapes).format(self.word(rng)) for _ in range(count))

    def many_phrases(self, rng: random.Random) -> str:
        shape = rng.choice(['"{} {}"', '+"{} {}"', '-"{} {}"', '(title:"{} {}"^2)', '"{} the {}"'])
        return " ".join(shape.format(self.word(rng), self.word(rng)) for _ in range(rng.choice([50, 200, 1024])))

    def long(self, rng: random.Random) -> str:
        size = rng.choice([1_000, 10_000, 50_000, 100_000])
        unit = rng.choice(
            ["a", "a ", "ab cd ", '"', '"a" ', "\\", "\\\\", "\\u0041", "(", "+", "+ ", "- ", "-a ", "^", ":", "title:",
             "^1", "&", "|", "\u4e2d", "\u4e2d ", "é", "\U0001f600", "'", "a'", ".", "1.", "_", "\u0301", "\t", " ",
             "\u3000", "x" * 256 + " ", "x" * 257 + " ", "\u0e01" * 90 + " ", "a.b" * 80 + " "]
        )  # fmt: skip
        text = (unit * (size // len(unit) + 1))[:size]
        return rng.choice(["{}", '"{}"', '+(title:"{}")', 'a "{}', "{} end"]).format(text)


def run(
    index: Path | None = None,
    count: int = 1_000_000,
    first: int = 0,
    limit: float = LIMIT,
    seed: int = SEED,
    as_json: bool = False,
) -> bool:
    """Ask strings number `first` to `first + count`; True where none crashed or took longer than `limit`."""
    with tempfile.TemporaryDirectory(prefix="orienteer-fuzz-") as name:
        if index is None:
            index = Path(name) / "index"
            build_index(make_passages(PASSAGES, seed), index)
        return _fuzz(open_index(index, threads=1), count, first, limit, seed, as_json)


def _fuzz(engine: EmbeddedEngine, count: int, first: int, limit: float, seed: int, as_json: bool) -> bool:
    warm_up()
    strings = Strings(frequent_words(engine), seed)
    kinds: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    failures: list[str] = []
    seconds: dict[str, list[float]] = {}
    slowest: list[tuple[float, int, str, int]] = []
    # CPU time, not the clock's: a machine may be busy or asleep. The signal ends even a kernel that never returns.
    faulthandler.register(signal.SIGPROF, chain=True)
    started = time.perf_counter()
    for number in range(first, first + count):
        if number % 1000 == 0:
            signal.setitimer(signal.ITIMER_PROF, HANG)
        kind, text = strings(number)
        kinds[kind] += 1
        taken, result = _ask(engine, text)
        for _ in range(4):
            if taken < limit:
                break
            taken = min(taken, _ask(engine, text)[0])
        seconds.setdefault(kind, []).append(taken)
        entry = (taken, number, kind, len(text))
        (heappush if len(slowest) < 5 else heappushpop)(slowest, entry)
        if taken >= limit:
            failures.append(f"string {number} ({kind}, {len(text)} characters) took {taken * 1000:.1f} ms")
        if isinstance(result, QueryError):
            errors[type(result).__name__] += 1
        elif isinstance(result, Exception):
            failures.append(f"string {number} ({kind}): {type(result).__name__}: {result}"[:300])
        elif number % 10 == 0 and parse(str(result)) != result:
            failures.append(f"string {number} ({kind}) is not the query that its rendering reads as")
        done = number - first + 1
        if not as_json and done % 20_000 == 0:
            latest = f" ({failures[-1]})" if failures else ""
            print(f"{done:,} of {count:,}: {len(failures)} failures{latest}", file=sys.stderr, flush=True)
    signal.setitimer(signal.ITIMER_PROF, 0)
    report: dict[str, Any] = {
        "whole": not failures, "strings": count, "first": first, "passages": len(engine), "kinds": dict(kinds),
        "errors": dict(errors), "failures": failures[:50], "failure_count": len(failures),
        "mean_us": {kind: round(float(np.mean(times)) * 1e6, 1) for kind, times in seconds.items()},
        "slowest_ms": [(round(t * 1000, 2), *rest) for t, *rest in sorted(slowest, reverse=True)],
        "seconds": round(time.perf_counter() - started, 1),
    }  # fmt: skip
    print(json.dumps(report))
    return not failures


def _ask(engine: EmbeddedEngine, text: str) -> tuple[float, Query | Exception]:
    """The seconds of CPU time from the text to the hits, and the query, or what was raised."""
    started = time.thread_time()
    result: Query | Exception
    try:
        result = parse(text)
        list(engine.search(result, K))
    except Exception as error:
        result = error
    return time.thread_time() - started, result


def frequent_words(engine: EmbeddedEngine, most: int = 5000) -> list[str]:
    """Index terms, the most frequent first."""
    index = engine.index
    frequencies = np.diff(index.array("offsets"))[: index.terms]
    return [index.term(int(number)) for number in np.argsort(-frequencies, kind="stable")[:most]]


def make_passages(size: int, seed: int) -> list[Passage]:
    """Passages of some 100 words of a made-up language; frequencies are Zipf's, behind those of real stop words."""
    rng = random.Random(seed)
    syllables = [a + b for a in "bcdfghklmnprstvz" for b in "aeiou"]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(30_000)]
    weights = np.cumsum(1 / np.arange(30, len(words) + 30)).tolist()
    return [
        Passage(
            f"p{number}",
            " ".join(rng.choices(words, cum_weights=weights, k=3)) if number % 10 else "",
            " ".join(
                rng.choice(STOPS) if rng.random() < 0.3 else word
                for word in rng.choices(words, cum_weights=weights, k=rng.randint(60, 140))
            ),
        )
        for number in range(size)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--index", type=Path, help="an index of some 10,000 passages; one is made up without it")
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds of CPU time a string")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--json", action="store_true", dest="as_json")
    parser.add_argument("--show", type=int, help="print one string and end")
    arguments = vars(parser.parse_args())
    if (number := arguments.pop("show")) is not None:
        if arguments["index"] is None:
            raise OrienteerError("a string depends on the index's words: name it with --index")
        strings = Strings(frequent_words(open_index(arguments["index"])), arguments["seed"])
        print(json.dumps(strings(number)))
        return
    sys.exit(0 if run(**arguments) else 1)


if __name__ == "__main__":
    main()
