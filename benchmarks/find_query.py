"""`find-query` on sets of passages that share a hidden property: F1, time, and recall of a hidden half.

python benchmarks/find_query.py --index INDEX --out results/workshop/find-query.json

Kinds of sets, 10 to 50 passages each, drawn by the seed:
  title    all passages of one article
  titles   all passages of two articles
  entity   all passages that hold a name of two capitalised words
  both     all passages that hold two given words

Of each set: F1 of the query found for the whole set; then the query found for a random half, and how much of the
other half it matches, beside what the baselines, made of the same half, have among as many first hits.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from orienteer.data.atomic import atomic_write
from orienteer.engine.embedded.engine import EmbeddedEngine, open_index
from orienteer.query import Query, Refinement
from orienteer.workshop.find_query import find_query

_NAME = re.compile(r"(?<![.!?] )\b([A-Z][a-z]{2,}) ([A-Z][a-z]{2,})\b")
KINDS = ("title", "titles", "entity", "both")
LEAST, MOST = 10, 50


def sets(engine: EmbeddedEngine, kind: str, count: int, seed: int) -> Iterator[list[int]]:
    """Passage numbers of so many sets of a kind."""
    draw = np.random.default_rng([seed, KINDS.index(kind)])
    made = 0
    while made < count:
        passage = engine.passage_at(int(draw.integers(len(engine))))
        match kind:
            case "title":
                found = of_title(engine, passage.title)
            case "titles":
                other = engine.passage_at(int(draw.integers(len(engine)))).title
                parts = [of_title(engine, title) for title in (passage.title, other)]
                found = sorted(parts[0] + parts[1]) if min(map(len, parts)) >= 4 and other != passage.title else []
            case "entity":
                names = _NAME.findall(passage.text)
                name = " ".join(names[int(draw.integers(len(names)))]) if names else ""
                found = engine.matches([("contents", name.lower())])[0].tolist() if name else []
            case _:
                words = sorted(set(engine.analyze(passage.text)))
                chosen = [words[int(draw.integers(len(words)))] for _ in range(2)] if words else ["", ""]
                lists = engine.matches([("contents", word) for word in chosen])
                large = min(part.size for part in lists) > 2 * MOST and chosen[0] != chosen[1]
                found = np.intersect1d(*lists).tolist() if large else []
        if LEAST <= len(found) <= MOST:
            made += 1
            yield found


def of_title(engine: EmbeddedEngine, title: str) -> list[int]:
    words = " ".join(re.findall(r"\w+", title))
    numbers = engine.matches([("title", words)])[0].tolist() if engine.analyze(words) else []
    return [number for number in numbers if engine.passage_at(number).title == title]


Ranking = Callable[[int], Sequence[int]]


def term_weights(engine: EmbeddedEngine, numbers: Sequence[int]) -> list[tuple[str, float, float]]:
    """Terms of the passages with tf·idf and P(w | relevance model), the passages alike."""
    tf: Counter[str] = Counter()
    model: Counter[str] = Counter()
    for number in numbers:
        terms = engine.analyze(engine.passage_at(number).contents)
        tf.update(terms)
        for term, count in Counter(terms).items():
            model[term] += count / len(terms) / len(numbers)
    return [(term, count * engine.idf("contents", term), model[term]) for term, count in tf.items()]


def searched(engine: EmbeddedEngine, query: Query) -> Ranking:
    return lambda size: [engine.number_of(hit.id) for hit in engine.search(query, size)]


def tf_idf(engine: EmbeddedEngine, numbers: Sequence[int], terms: int = 12) -> Ranking:
    best = sorted(term_weights(engine, numbers), key=lambda row: -row[1])[:terms]
    return searched(engine, Query("", tuple(Refinement("or", "contents", term) for term, _, _ in best)))


def rm3(engine: EmbeddedEngine, numbers: Sequence[int], terms: int = 12) -> Ranking:
    """The relevance model of the passages, its likeliest terms boosted by their probability."""
    best = sorted(term_weights(engine, numbers), key=lambda row: -row[2])[:terms]
    most = best[0][2]
    return searched(engine, Query("", tuple(Refinement("^", "contents", t, p / most) for t, _, p in best)))


def decision_tree(engine: EmbeddedEngine, numbers: Sequence[int], seed: int, depth: int = 4) -> Ranking:
    """A tree over the presence of terms, grown by Gini against 3,000 random passages; its positive leaves' passages."""
    draw = np.random.default_rng(seed)
    negatives = np.setdiff1d(draw.integers(0, len(engine), 3000), numbers)
    sample = np.concatenate([np.array(numbers), negatives])
    positive = np.arange(sample.size) < len(numbers)
    weight = np.where(positive, 1.0, 10.0)
    counts = Counter(t for n in numbers for t in set(engine.analyze(engine.passage_at(n).contents)))
    terms = [term for term, _ in counts.most_common(400)]
    lists = engine.matches([("contents", term) for term in terms])
    holds = np.stack([np.isin(sample, passages) for passages in lists])  # [terms, sample]
    rules: list[list[tuple[int, bool]]] = []

    def impurity(inside: Any) -> Any:
        total, good = (holds_in := inside) @ weight, holds_in @ (weight * positive)
        return 2 * good * (1 - good / np.maximum(total, 1e-9))

    def grow(rows: Any, path: list[tuple[int, bool]]) -> None:
        good, total = (weight * positive * rows).sum(), (weight * rows).sum()
        if good == 0:
            return
        if good == total or len(path) == depth:
            if good * 2 > total:
                rules.append(path)
            return
        inside = (holds & rows).astype(np.float64)
        split = impurity(inside) + impurity(rows - inside)
        term = int(np.argmin(split))
        grow(rows & holds[term], [*path, (term, True)])
        grow(rows & ~holds[term], [*path, (term, False)])

    grow(np.ones(sample.size, np.bool_), [])
    matched = np.zeros(len(engine), np.bool_)
    for rule in rules:
        if not any(wanted for _, wanted in rule):
            continue  # absence alone matches nearly everything, and is no query
        inside = np.ones(len(engine), np.bool_)
        for term, wanted in rule:
            has = np.zeros(len(engine), np.bool_)
            has[lists[term]] = True
            inside &= has if wanted else ~has
        matched |= inside
    shuffled = draw.permutation(np.flatnonzero(matched))
    return lambda size: shuffled[:size].tolist()


def measure(engine: EmbeddedEngine, numbers: list[int], seed: int) -> dict[str, float]:
    ids = [engine.id_at(number) for number in numbers]
    wall, cpu = time.perf_counter(), time.process_time()
    whole = find_query(engine, ids, seconds=60)
    row = {
        "size": len(ids), "f1": whole.best.quality.f, "clauses": len(whole.best.clauses),
        "cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - wall,
    }  # fmt: skip
    order = np.random.default_rng(seed).permutation(len(numbers))
    seen = [numbers[i] for i in order[: len(order) // 2]]
    hidden = {numbers[i] for i in order[len(order) // 2 :]}
    half = find_query(engine, [engine.id_at(number) for number in seen], seconds=60)
    matches = np.flatnonzero(engine.scores(half.best.query) > -np.inf)
    row["half_matches"] = int(matches.size)
    row["hidden_recall"] = len(hidden & set(matches.tolist())) / len(hidden)
    baselines = {"tf-idf": tf_idf(engine, seen), "rm3": rm3(engine, seen), "tree": decision_tree(engine, seen, seed)}
    for name, ranking in baselines.items():
        row[f"hidden_recall_{name}"] = len(hidden & set(ranking(int(matches.size)))) / len(hidden)
    return row


def interval(values: Sequence[float], seed: int = 0) -> list[float]:
    draws = np.random.default_rng(seed).choice(np.array(values), (2000, len(values))).mean(axis=1)
    return [round(float(each), 4) for each in np.quantile(draws, [0.025, 0.975])]


def summary(rows: Sequence[dict[str, float]]) -> dict[str, Any]:
    names = [name for name in rows[0] if name.startswith("hidden_recall")]
    ours = np.array([row["hidden_recall"] for row in rows])
    best = max((n for n in names if n != "hidden_recall"), key=lambda n: np.mean([row[n] for row in rows]))
    other = np.array([row[best] for row in rows])
    draws = np.random.default_rng(0).integers(0, len(rows), (2000, len(rows)))
    ratios = ours[draws].mean(axis=1) / np.maximum(other[draws].mean(axis=1), 1e-9)
    return {
        "sets": len(rows), "f1_mean": float(np.mean([row["f1"] for row in rows])),
        "f1_interval": interval([row["f1"] for row in rows]),
        "share_f1_90": float(np.mean([row["f1"] >= 0.9 for row in rows])),
        "clauses_mean": float(np.mean([row["clauses"] for row in rows])),
        "cpu_s_median": float(np.median([row["cpu_s"] for row in rows])), "cpu_s_max": max(r["cpu_s"] for r in rows),
        **{name: [float(np.mean([r[name] for r in rows])), *interval([r[name] for r in rows])] for name in names},
        "best_baseline": best.removeprefix("hidden_recall_"),
        "ratio": [float(ours.mean() / max(other.mean(), 1e-9)), *np.quantile(ratios, [0.025, 0.975]).tolist()],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--sets", type=int, default=25, help="of each kind")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    engine = open_index(given.index, threads=1)
    find_query(engine, [engine.id_at(0)], clauses=2)  # compiles
    rows: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
    drawn = {kind: sets(engine, kind, given.sets, given.seed) for kind in KINDS}
    for number in range(given.sets):
        for kind in KINDS:  # in turn, so that a run that is stopped has some of each
            rows[kind].append(measure(engine, next(drawn[kind]), given.seed + number))
            print(kind, json.dumps(rows[kind][-1]), flush=True)
            if given.out:
                atomic_write(given.out, json.dumps(outcome(engine, rows, given.seed), indent=1) + "\n")
    print(json.dumps({name: value for name, value in outcome(engine, rows, given.seed).items() if name != "rows"}))


def outcome(engine: EmbeddedEngine, rows: dict[str, list[dict[str, float]]], seed: int) -> dict[str, Any]:
    together = [row for each in rows.values() for row in each]
    return {
        "passages": len(engine), "index": engine.fingerprint, "seed": seed, "all": summary(together),
        **{kind: summary(each) for kind, each in rows.items() if each}, "rows": rows,
    }  # fmt: skip


if __name__ == "__main__":
    main()
