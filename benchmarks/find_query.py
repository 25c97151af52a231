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

With `--lucene-jar` MoreLikeThis is Lucene's own program, in its own Java machine over an index of the same passages;
without it this baseline is our statement of its formula alone. A report that has all sets is completed, not made anew.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lucene_bench import lucene_index, lucene_more_like_this
from orienteer.data.atomic import atomic_write
from orienteer.engine.embedded.engine import EmbeddedEngine, open_index
from orienteer.errors import OrienteerError
from orienteer.query import Query, Refinement
from orienteer.workshop.find_query import find_query

_YEAR = re.compile(r"\b(1[5-9]|20)(\d)\d\b")
_NAME = re.compile(r"(?<![.!?] )\b([A-Z][a-z]{2,}) ([A-Z][a-z]{2,})\b")
KINDS = ("title", "titles", "family", "entity", "both", "decade")
LEAST, MOST = 10, 50
OBJECTIVES = ("f", "description")
BASELINES = ("tf-idf", "rm3", "more-like-this", "tree")
LUCENE = "lucene-more-like-this"


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
    best = more_like_this_terms(like_weights(engine, numbers))
    return searched(engine, Query("", tuple(Refinement("or", "contents", term) for term in best)))


def more_like_this_terms(weights: Mapping[str, float]) -> list[str]:
    """Of equal weights the first in the alphabet; Lucene takes any."""
    return sorted(weights, key=lambda term: (-weights[term], term))[:25]


def like_weights(engine: EmbeddedEngine, numbers: Sequence[int]) -> dict[str, float]:
    tf = Counter(term for number in numbers for term in engine.analyze(engine.passage_at(number).contents))
    often = sorted(term for term, count in tf.items() if count >= 2)
    sizes = [each.size for each in engine.matches([("contents", term) for term in often])]
    return {
        term: tf[term] * (np.log((len(engine) + 1) / (size + 1)) + 1)
        for term, size in zip(often, sizes, strict=True) if size >= 5
    }  # fmt: skip


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
    seen, hidden = halves(numbers, seed)

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


def halves(numbers: Sequence[int], seed: int) -> tuple[list[int], set[int]]:
    """The half that is seen, in a random order, and the hidden one."""
    order = np.random.default_rng(seed).permutation(len(numbers))
    return [numbers[i] for i in order[: len(order) // 2]], {numbers[i] for i in order[len(order) // 2 :]}


def weights_of(weights: Mapping[str, float], terms: Sequence[str]) -> list[float]:
    """From the highest to the lowest, as many as Lucene takes at most."""
    own = sorted((weights.get(term, 0.0) for term in terms), reverse=True)
    return own + [0.0] * (25 - len(own))


def measure_lucene(
    engine: EmbeddedEngine,
    jar: str,
    index: Path,
    drawn: Sequence[tuple[list[int], int]],
    rows: Sequence[dict[str, float]],
) -> str:
    """Completes the rows of sets, each drawn with its seed, by Lucene's MoreLikeThis; Lucene's version."""
    if not index.is_dir():
        lucene_index(jar, (engine.passage_at(number) for number in range(len(engine))), index)
    split = [halves(numbers, seed) for numbers, seed in drawn]
    sizes = [int(max(row["matches_description"], row["size"], 1)) for row in rows]
    texts = [[engine.passage_at(number).contents for number in seen] for seen, _ in split]
    found = lucene_more_like_this(jar, index, zip(texts, sizes, strict=True))
    for row, like, (seen, hidden) in zip(rows, found, split, strict=True):
        first = [engine.number_of(id) for id in like.ids]
        for measured, size in (("recall", int(row["matches_description"])), ("at_size", int(row["size"]))):
            row[f"{measured}_{LUCENE}"] = len(hidden & set(first[:size])) / len(hidden)
        ours = more_like_this(engine, seen)(int(row["size"]))
        weights = like_weights(engine, seen)
        terms = more_like_this_terms(weights)
        row["same_terms"] = float(set(like.terms) == set(terms))
        row["same_weights"] = float(np.allclose(weights_of(weights, like.terms), weights_of(weights, terms), rtol=1e-6))
        row["same_order"] = float(list(ours) == first[: int(row["size"])])
        row["same_first"] = len(set(ours) & set(first[: int(row["size"])])) / max(len(ours), 1)
    return found[0].lucene


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
        baselines = [*BASELINES, LUCENE] if f"{measured}_{LUCENE}" in rows[0] else BASELINES
        found[measured] = {
            name.removeprefix(f"{measured}_"): [mean(name), *interval([row[name] for row in rows])] for name in names
        }
        ours = np.array([row[f"{measured}_description"] for row in rows])
        best = max((f"{measured}_{name}" for name in baselines), key=mean)
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
    if "same_terms" in rows[0]:
        found["agreement"] = {name: mean(name) for name in ("same_weights", "same_terms", "same_order", "same_first")}
    return found


def run(
    index: Path, sets_in_all: int, seed: int, lucene_jar: str | None, lucene: Path | None, out: Path | None,
    as_json: bool,
) -> None:  # fmt: skip
    engine = open_index(index, threads=1)
    find_query(engine, [engine.id_at(0)], clauses=2)  # compiles
    rows = finished(out, engine, seed) or {kind: [] for kind in KINDS}
    had = sum(map(len, rows.values()))
    sources = {kind: sets(engine, kind, sets_in_all, seed) for kind in KINDS}
    # In turn, so that a run that is stopped has some of each.
    drawn = [(KINDS[n % len(KINDS)], next(sources[KINDS[n % len(KINDS)]]), seed + n) for n in range(sets_in_all)]
    for number, (kind, numbers, own_seed) in enumerate(drawn):
        if number < had:
            continue
        rows[kind].append(measure(engine, numbers, own_seed))
        print(f"{number + 1} of {sets_in_all} sets", end="\n" if as_json else "\r", file=sys.stderr, flush=True)
        if out:
            atomic_write(out, json.dumps(outcome(engine, rows, seed), indent=1) + "\n")
    version = None
    if lucene_jar:
        together = [row for n in range(sets_in_all) for row in rows[KINDS[n % len(KINDS)]][n // len(KINDS) :][:1]]
        with tempfile.TemporaryDirectory(prefix="orienteer-lucene-") as folder:
            place = lucene or Path(folder) / "index"
            cases = [(numbers, own_seed) for _, numbers, own_seed in drawn]
            version = measure_lucene(engine, lucene_jar, place, cases, together)
    else:
        print("no --lucene-jar: MoreLikeThis is our statement of its formula, not Lucene", file=sys.stderr)
    result = outcome(engine, rows, seed) | ({"lucene": version} if version else {})
    if out:
        atomic_write(out, json.dumps(result, indent=1) + "\n")
    del result["rows"]
    print(json.dumps(result) if as_json else json.dumps(result, indent=1))


def finished(out: Path | None, engine: EmbeddedEngine, seed: int) -> dict[str, list[dict[str, float]]] | None:
    """The rows of an earlier report of the same index and seed."""
    if out is None or not out.is_file():
        return None
    report = json.loads(out.read_text())
    if (report.get("index"), report.get("seed")) != (engine.fingerprint, seed):
        raise OrienteerError(f"{out} is of another index or seed; delete it, or name another file")
    return {kind: list(report["rows"].get(kind, [])) for kind in KINDS}


def outcome(engine: EmbeddedEngine, rows: dict[str, list[dict[str, float]]], seed: int) -> dict[str, Any]:
    together = [row for each in rows.values() for row in each]
    return {
        "passages": len(engine), "index": engine.fingerprint, "seed": seed, "all": summary(together),
        **{kind: summary(each) for kind, each in rows.items() if each}, "rows": rows,
    }  # fmt: skip
