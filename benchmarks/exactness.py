"""How often `refine`, `search`, the reference engine and Lucene disagree, on random pairs; it should be never.

A pair is a state, a question after 0 to 5 refinements, and one further refinement of it. Half of the pairs are on the
given index, with questions of the given file: words and phrases of the best passages and of anywhere, every operator,
`refine` against one `search` each, and a sample of them against Lucene where a jar is given. The other half are on
collections of all passages over a few words, `refine` against `search` and the reference engine, the pass cut into
small windows.

    python benchmarks/exactness.py INDEX QUESTIONS 1000000 [--lucene-jar JAR]
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import typer

from lucene_bench import lucene_search
from orienteer.data import Passage, read_questions
from orienteer.engine import EmbeddedEngine, open_index
from orienteer.engine.embedded import refine as refining
from orienteer.engine.embedded.build import build_index
from orienteer.engine.protocol import Hit
from orienteer.engine.reference import ReferenceEngine
from orienteer.errors import OrienteerError
from orienteer.query import FIELDS, G4, Query, Refinement
from peers import lucene_folder

K = 5
SEED = 17
TERMS = 40  # words of a real state that are refined by
LUCENE_SHARE = 20  # one real pair in so many is also asked of Lucene
SHOWN = 5  # disagreements named in the report

WORLDS = [(("red", "sea"), 2, 3), (("red", "sea", "the"), 1, 3), (("red", "sea", "sky"), 1, 3)]
WORDS = ["red", "sea", "sky", "Sea", "absent", "the", "red sea", "sea red", "red red", "red the sea", "the red"]


@dataclass
class Tally:
    """Pairs compared, and the queries on which two answers differed."""

    pairs: int = 0
    different: list[str] = field(default_factory=list)

    def compare(self, query: Query, ours: Sequence[Hit], others: Sequence[Hit]) -> None:
        self.pairs += 1
        if list(ours) != list(others):
            self.different.append(str(query))


def run(index: Path, questions: Path, pairs: int, lucene_jar: Path | None = None) -> None:
    started = time.perf_counter()
    engine = open_index(index, threads=1)
    asked = [row.question for row in read_questions(questions)]
    if not asked or not len(engine):
        raise OrienteerError(f"no questions in {questions} or no passages in {index}; nothing to compare")
    rng = random.Random(SEED)
    real, sample = _real(engine, asked, pairs - pairs // 2, rng)
    small, slow = _small(pairs // 2, rng)
    lucene = Tally()
    if lucene_jar is not None:
        timed = lucene_search(lucene_jar, lucene_folder(index, engine, lucene_jar), sample, K, repeats=1, warmup=0)
        for query, answer in zip(sample, timed, strict=True):
            lucene.compare(query, engine.search(query, K), [_float32(hit) for hit in answer.hits])
    report = {"passages": len(engine), "pairs": real.pairs + small.pairs, "seconds": 0.0}
    checks = {
        "refine_search": real,
        "refine_search_small": small,
        "refine_reference_small": slow,
        "search_lucene": lucene,
    }
    for name, tally in checks.items():
        report[name] = {"compared": tally.pairs, "different": len(tally.different), "examples": tally.different[:SHOWN]}
    report["seconds"] = round(time.perf_counter() - started, 1)
    sys.stdout.write(json.dumps(report, ensure_ascii=False) + "\n")


def _real(engine: EmbeddedEngine, asked: list[str], pairs: int, rng: random.Random) -> tuple[Tally, list[Query]]:
    tally, sample = Tally(), []
    while tally.pairs < pairs:
        query = Query(rng.choice(asked))
        for _ in range(rng.randint(0, 5)):
            refined = query.refine(rng.choice(_candidates(engine, query, rng, 8)))
            query = refined if len(engine.search(refined, 1)) else query
        candidates = _candidates(engine, query, rng, TERMS)[: pairs - tally.pairs]
        k = rng.choice([1, K, K, 20])
        lists = engine.refine(query, candidates, k)
        for refinement, hits in zip(candidates, lists, strict=True):
            one = query.refine(refinement)
            tally.compare(one, hits, engine.search(one, k))
            if rng.randrange(LUCENE_SHARE) == 0:
                sample.append(one)
    return tally, sample


def _candidates(engine: EmbeddedEngine, query: Query, rng: random.Random, terms: int) -> list[Refinement]:
    """Every operator on words and phrases of the best passages, on the question's words, on words of anywhere."""
    passages = engine.passages([hit.id for hit in engine.search(query, K)])
    words = [word for passage in passages for word in engine.analyze(passage.contents)] or ["absent"]
    chosen = [*rng.choices(words, k=terms), *engine.analyze(query.question)[:3], "the", "absentword"]
    chosen += [engine.index.term(rng.randrange(engine.index.terms)) for _ in range(terms // 4)]
    for passage in passages[:3]:
        text = (rng.choice([passage.title, passage.text]) or "absent").split()
        start = rng.randrange(len(text))
        chosen.append(" ".join(text[start : start + rng.randint(2, 4)])[:200])
    found = [r for term in dict.fromkeys(chosen) for field in FIELDS for r in G4.refinements(field, term)]
    rng.shuffle(found)
    return found


def _float32(hit: Hit) -> Hit:
    """Java prints as few digits as tell one float32 from the next."""
    return Hit(hit.id, float(np.float32(hit.score)))


def _small(pairs: int, rng: random.Random) -> tuple[Tally, Tally]:
    """On every passage over a few words; the window and the number of base results are put back afterwards."""
    fast, slow = Tally(), Tally()
    usual = refining.WINDOW, refining.BASE_RESULTS
    candidates = [r for term in WORDS for field in FIELDS for r in G4.refinements(field, term)]
    candidates += [Refinement("^", field, term, 1000.0) for term in WORDS[:8] for field in FIELDS]
    with tempfile.TemporaryDirectory() as folder:
        worlds = [_world(Path(folder) / str(number), *world) for number, world in enumerate(WORLDS)]
        try:
            while fast.pairs < pairs:
                engine, reference = rng.choice(worlds)
                question = " ".join(rng.choices(WORDS[:6], k=rng.randint(0, 4)))
                query = Query(question, tuple(rng.choices(candidates, k=rng.randint(0, 5))))
                refining.WINDOW, refining.BASE_RESULTS = rng.choice([1, 2, 3, 8, 1 << 14]), rng.choice([1, 2, 3, 64])
                chosen = rng.sample(candidates, min(100, pairs - fast.pairs))
                k = rng.randint(1, 20)
                lists = engine.refine(query, chosen, k)
                for refinement, hits in zip(chosen, lists, strict=True):
                    one = query.refine(refinement)
                    fast.compare(one, hits, engine.search(one, k))
                    slow.compare(one, hits, reference.search(one, k))
        finally:
            refining.WINDOW, refining.BASE_RESULTS = usual
    return fast, slow


def _world(
    folder: Path, words: Sequence[str], longest_title: int, longest_text: int
) -> tuple[EmbeddedEngine, ReferenceEngine]:
    def texts(longest: int) -> Iterator[str]:
        for length in range(longest + 1):
            yield from map(" ".join, product(words, repeat=length))

    pairs = enumerate(product(texts(longest_title), texts(longest_text)))
    passages = [Passage(str(number), title, text) for number, (title, text) in pairs]
    build_index(passages, folder)
    reference = ReferenceEngine(passages)
    for index in reference._fields.values():
        index.scores = cache(index.scores)  # type: ignore[method-assign]  # the same few clauses come again and again
    return open_index(folder, threads=1), reference


if __name__ == "__main__":
    typer.run(run)
