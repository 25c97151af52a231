"""`find-query` on sets of passages that share a hidden property: F1, time, and recall of a hidden half.

orienteer bench find-query --index INDEX --out results/workshop/find-query.json

Kinds of sets, 10 to 50 passages each, drawn by the seed:
  title    all passages of one article
  titles   all passages of two articles
  family   all passages of the articles, two or more, whose titles begin with the same word
  entity   all passages that hold a name of two capitalised words
  both     all passages that hold two given words
  decade   all passages that hold a given word and a year of a given decade

Of each set: F1 of the query found for the whole set, by either objective. Then the query found for a random half, and
how much of the other half it matches, beside what the baselines, made of the same half, have among as many first hits;
and the same among as many first hits as the whole set has passages.
"""

from __future__ import annotations

import json
import re
import sys
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

_YEAR = re.compile(r"\b(1[5-9]|20)(\d)\d\b")
_NAME = re.compile(r"(?<![.!?] )\b([A-Z][a-z]{2,}) ([A-Z][a-z]{2,})\b")
KINDS = ("title", "titles", "family", "entity", "both", "decade")
LEAST, MOST = 10, 50
OBJECTIVES = ("f", "description")
BASELINES = ("tf-idf", "rm3", "more-like-this", "tree")


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
            case "family":
                found = family(engine, passage.title)
            case "both":
                words = sorted(set(engine.analyze(passage.text)))
                chosen = [words[int(draw.integers(len(words)))] for _ in range(2)] if words else ["", ""]
                lists = engine.matches([("contents", word) for word in chosen])
                large = min(part.size for part in lists) > 2 * MOST and chosen[0] != chosen[1]
                found = np.intersect1d(*lists).tolist() if large else []
            case _:
                words, years = sorted(set(engine.analyze(passage.text))), _YEAR.search(passage.text)
                found = []
                if words and years:
                    decade = [("contents", f"{years[1]}{years[2]}{digit}") for digit in range(10)]
                    word, *lists = engine.matches([("contents", words[int(draw.integers(len(words)))]), *decade])
                    large = word.size > 2 * MOST
                    found = np.intersect1d(word, np.concatenate(lists)).tolist() if large else []
        if LEAST <= len(found) <= MOST:
            made += 1
            yield found


def of_title(engine: EmbeddedEngine, title: str) -> list[int]:
    words = " ".join(re.findall(r"\w+", title))
    numbers = engine.matches([("title", words)])[0].tolist() if engine.analyze(words) else []
    return [number for number in numbers if engine.passage_at(number).title == title]


def family(engine: EmbeddedEngine, title: str) -> list[int]:
    first = [word.lower() for word in re.findall(r"\w+", title)[:1]]
    if not first or not engine.analyze(first[0]):
        return []
    numbers = engine.matches([("title", first[0])])[0].tolist()
    if len(numbers) > 50 * MOST:
        return []
    titles = {number: engine.passage_at(number).title for number in numbers}
    same = [n for n, each in titles.items() if [w.lower() for w in re.findall(r"\w+", each)[:1]] == first]
    return same if len({titles[number] for number in same}) > 1 else []


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


def more_like_this(engine: EmbeddedEngine, numbers: Sequence[int]) -> Ranking:
    """Our statement of Lucene's MoreLikeThis with its defaults, not Lucene itself: the 25 best terms by tf·idf.

    A term occurs twice or more in the passages together, and in five passages or more of the index; idf is
    ln((N + 1) / (df + 1)) + 1; no boosts.
    """
    tf = Counter(term for number in numbers for term in engine.analyze(engine.passage_at(number).contents))
    often = sorted(term for term, count in tf.items() if count >= 2)
    sizes = [each.size for each in engine.matches([("contents", term) for term in often])]
    weights = {
        term: tf[term] * (np.log((len(engine) + 1) / (size + 1)) + 1)
        for term, size in zip(often, sizes, strict=True) if size >= 5
    }  # fmt: skip
    best = sorted(weights, key=lambda term: (-weights[term], term))[:25]
    return searched(engine, Query("", tuple(Refinement("or", "contents", term) for term in best)))


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
    row: dict[str, float] = {"size": len(ids)}
    for objective in OBJECTIVES:
        cpu = time.process_time()
        whole = find_query(engine, ids, objective=objective, seconds=300).best
        row |= {
            f"f1_{objective}": whole.quality.f, f"clauses_{objective}": len(whole.clauses),
            f"cpu_s_{objective}": time.process_time() - cpu,
        }  # fmt: skip
    order = np.random.default_rng(seed).permutation(len(numbers))
    seen = [numbers[i] for i in order[: len(order) // 2]]
    hidden = {numbers[i] for i in order[len(order) // 2 :]}

    def recall(among: Sequence[int]) -> float:
        return len(hidden & set(among)) / len(hidden)

    for objective in OBJECTIVES:
        half = find_query(engine, [engine.id_at(number) for number in seen], objective=objective, seconds=300).best
        matches = np.flatnonzero(engine.scores(half.query) > -np.inf).tolist()
        row |= {f"matches_{objective}": len(matches), f"recall_{objective}": recall(matches)}
    # The last objective's result decides the size; its own hits are in the order of their scores.
    row["at_size_description"] = recall(searched(engine, half.query)(len(ids)))
    baselines = {
        "tf-idf": tf_idf(engine, seen), "rm3": rm3(engine, seen), "more-like-this": more_like_this(engine, seen),
        "tree": decision_tree(engine, seen, seed),
    }  # fmt: skip
    for name, ranking in baselines.items():
        row |= {f"recall_{name}": recall(ranking(len(matches))), f"at_size_{name}": recall(ranking(len(ids)))}
    return row


def interval(values: Sequence[float], seed: int = 0) -> list[float]:
    draws = np.random.default_rng(seed).choice(np.array(values), (2000, len(values))).mean(axis=1)
    return [round(float(each), 4) for each in np.quantile(draws, [0.025, 0.975])]


def summary(rows: Sequence[dict[str, float]]) -> dict[str, Any]:
    def mean(name: str) -> float:
        return round(float(np.mean([row[name] for row in rows])), 4)

    found: dict[str, Any] = {"sets": len(rows), "size": mean("size")}
    for objective in OBJECTIVES:
        f1 = np.array([row[f"f1_{objective}"] for row in rows])
        cpu = [row[f"cpu_s_{objective}"] for row in rows]
        found[objective] = {
            "f1": mean(f"f1_{objective}"), "f1_interval": interval(f1.tolist()),
            "share_f1_90": round(float(np.mean(f1 >= 0.9)), 4), "clauses": mean(f"clauses_{objective}"),
            "cpu_s_median": round(float(np.median(cpu)), 2), "cpu_s_max": round(max(cpu), 2),
            "share_within_10_s": round(float(np.mean(np.array(cpu) <= 10)), 4),
        }  # fmt: skip
    for measured in ("recall", "at_size"):
        names = [name for name in rows[0] if name.startswith(f"{measured}_")]
        found[measured] = {
            name.removeprefix(f"{measured}_"): [mean(name), *interval([row[name] for row in rows])] for name in names
        }
        ours = np.array([row[f"{measured}_description"] for row in rows])
        best = max((f"{measured}_{name}" for name in BASELINES), key=mean)
        other = np.array([row[best] for row in rows])
        draws = np.random.default_rng(0).integers(0, len(rows), (2000, len(rows)))
        ratios = ours[draws].mean(axis=1) / np.maximum(other[draws].mean(axis=1), 1e-9)
        found[measured] |= {
            "best_baseline": best.removeprefix(f"{measured}_"),
            "ratio": [
                round(float(each), 3)
                for each in (ours.mean() / max(other.mean(), 1e-9), *np.quantile(ratios, [0.025, 0.975]))
            ],
        }
    return found


def run(index: Path, sets_in_all: int, seed: int, out: Path | None, as_json: bool) -> None:
    engine = open_index(index, threads=1)
    find_query(engine, [engine.id_at(0)], clauses=2)  # compiles
    rows: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
    drawn = {kind: sets(engine, kind, sets_in_all, seed) for kind in KINDS}
    for number in range(sets_in_all):
        kind = KINDS[number % len(KINDS)]  # in turn, so that a run that is stopped has some of each
        rows[kind].append(measure(engine, next(drawn[kind]), seed + number))
        print(f"{number + 1} of {sets_in_all} sets", end="\n" if as_json else "\r", file=sys.stderr, flush=True)
        if out:
            atomic_write(out, json.dumps(outcome(engine, rows, seed), indent=1) + "\n")
    result = outcome(engine, rows, seed)
    del result["rows"]
    print(json.dumps(result) if as_json else json.dumps(result, indent=1))


def outcome(engine: EmbeddedEngine, rows: dict[str, list[dict[str, float]]], seed: int) -> dict[str, Any]:
    together = [row for each in rows.values() for row in each]
    return {
        "passages": len(engine), "index": engine.fingerprint, "seed": seed, "all": summary(together),
        **{kind: summary(each) for kind, each in rows.items() if each}, "rows": rows,
    }  # fmt: skip
