"""Twenty simulated thumbs: what `learn` makes of them, judged on questions that gave none.

orienteer bench thumbs --index scifact-index --beir scifact --out results/workshop/thumbs-scifact.json

A draw takes random questions of one split and gives thumbs as a person would: up for the judged passages among BM25's
first ten, down for one of the others, until there are twenty. Rankings are judged on all questions of the other
split: as it is, the refit of BM25's parameters alone, synonyms alone, boosts alone, all together, and what `learn`
recommends. Where both splits are the same file, its questions of even places teach and those of odd places judge.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from orienteer.data import read_questions
from orienteer.data.atomic import atomic_write
from orienteer.data.passage import Question
from orienteer.engine.embedded.engine import EmbeddedEngine, open_index
from orienteer.errors import OrienteerError
from orienteer.query import Query
from orienteer.workshop.learn import KINDS, LEAST, Changes, learn, value_with
from orienteer.workshop.ranking_setting import DEFAULT
from orienteer.workshop.tune import exact_values


def thumbs_of(engine: EmbeddedEngine, questions: Sequence[Question], count: int, draw: Any) -> list[Question]:
    """Questions with so many thumbs in all; a question whose first ten hold nothing relevant gets none."""
    given: list[Question] = []
    left = count
    for place in draw.permutation(len(questions)).tolist():
        question = questions[place]
        hits = [hit.id for hit in engine.search(Query(question.question), 10)]
        good = [id for id in hits if dict(question.judgements).get(id, 0) > 0]
        bad = [id for id in hits if id not in good]
        if good:
            some = [(id, 1) for id in good]
            if bad:
                some.append((bad[int(draw.integers(len(bad)))], 0))
            given.append(replace(question, judgements=tuple(some[:left])))
            left -= len(some)
        if left <= 0:
            break
    return given


def values_with(engine: EmbeddedEngine, questions: Sequence[Question], changes: Changes) -> Any:
    return np.array([value_with(engine, each, changes) for each in questions])


def interval(differences: Any) -> list[float]:
    """Mean over draws and questions; 95 % of a bootstrap that draws both anew. [draws, questions]"""
    random = np.random.default_rng(0)
    draws, questions = differences.shape
    means = [
        differences[random.integers(0, draws, draws)][:, random.integers(0, questions, questions)].mean()
        for _ in range(1000)
    ]
    return [round(float(each), 5) for each in (differences.mean(), *np.quantile(means, [0.025, 0.975]))]


def run(
    index: Path, learned_from: Path, judged_by: Path, thumbs: int, draws: int, seed: int, out: Path | None
) -> None:  # fmt: skip
    engine = open_index(index, threads=1)
    training, test = ([each for each in read_questions(file) if each.grades] for file in (learned_from, judged_by))
    if learned_from == judged_by:
        training, test = training[::2], test[1::2]
    started = time.process_time()
    nothing = exact_values(engine, test, DEFAULT)
    known: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    gains: dict[str, list[Any]] = {kind: [] for kind in (*KINDS, "recommended")}
    for number in range(draws):
        given = thumbs_of(engine, training, thumbs, np.random.default_rng([seed, number]))
        if len(given) < LEAST:
            continue
        proposal = learn(engine, given, seed=seed)
        outcome = {"nothing": np.zeros_like(nothing)}
        for kind in KINDS:
            changes = proposal.changes.only(kind)
            if (key := repr(changes)) not in known:
                known[key] = values_with(engine, test, changes) - nothing
            outcome[kind] = known[key]
            gains[kind].append(outcome[kind])
        gains["recommended"].append(outcome[proposal.recommended])
        rows.append({
            "questions": proposal.questions, "thumbs": proposal.thumbs, "setting": proposal.changes.setting._asdict(),
            "number_of_synonyms": len(proposal.changes.synonyms), "number_of_boosts": len(proposal.changes.boosts),
            "recommended": proposal.recommended, **{kind: float(outcome[kind].mean()) for kind in KINDS},
        })  # fmt: skip
        print(f"{number + 1} of {draws} draws", end="\r", file=sys.stderr, flush=True)
        result = summary(engine, rows, gains, nothing, seed, time.process_time() - started)
        if out:
            atomic_write(out, json.dumps(result | {"draws": rows}, indent=1) + "\n")
    if not rows:
        raise OrienteerError(f"no draw has {LEAST} questions with a thumb up; give more --thumbs")
    print(json.dumps(result, indent=1))


def summary(
    engine: EmbeddedEngine, rows: Sequence[dict[str, Any]], gains: dict[str, list[Any]], nothing: Any, seed: int,
    cpu: float,
) -> dict[str, Any]:  # fmt: skip
    arrays = {kind: np.stack(each) for kind, each in gains.items()}  # [draws, questions]
    shares = {name: float(np.mean([row[f"number_of_{name}"] > 0 for row in rows])) for name in ("synonyms", "boosts")}
    return {
        "index": engine.fingerprint, "seed": seed, "number_of_draws": len(rows), "test_questions": int(nothing.size),
        "nothing": round(float(nothing.mean()), 5), **{kind: interval(each) for kind, each in arrays.items()},
        "all_less_refit": interval(arrays["all"] - arrays["refit"]),
        "share_recommending_a_change": float(np.mean([row["recommended"] != "nothing" for row in rows])),
        **{f"share_with_{name}": share for name, share in shares.items()}, "cpu_s": round(cpu, 1),
    }  # fmt: skip
