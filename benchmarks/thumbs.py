"""Twenty simulated thumbs: what `learn` makes of them, judged on questions that gave none.

orienteer bench thumbs --index scifact-index --beir scifact --out results/workshop/thumbs.json

A draw takes random questions of one split and gives thumbs as a person would: up for the judged passages among BM25's
first ten, down for one of the others, until there are twenty. Three rankings are judged on all questions of the
other split: as it is, the refit of BM25's parameters alone, the refit with synonyms; and what `learn` recommends.
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
from orienteer.query import Query
from orienteer.workshop.learn import LEAST, expanded, learn
from orienteer.workshop.tune import DEFAULT, Setting, exact_values, ndcg_of

KINDS = ("refit", "both", "recommended")


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


def values_with(engine: EmbeddedEngine, questions: Sequence[Question], setting: Setting, synonyms: Any) -> Any:
    queries = [expanded(engine, setting, synonyms, each.question) for each in questions]
    scored = (engine.scores_with(query, setting.similarity) for query in queries)
    return np.array([ndcg_of(engine, each, scores) for each, scores in zip(questions, scored, strict=True)])


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
    training = [each for each in read_questions(learned_from) if each.grades]
    test = [each for each in read_questions(judged_by) if each.grades]
    started = time.process_time()
    nothing = exact_values(engine, test, DEFAULT)
    known: dict[Setting, Any] = {DEFAULT: nothing}
    rows: list[dict[str, Any]] = []
    values: dict[str, list[Any]] = {kind: [] for kind in KINDS}
    for number in range(draws):
        given = thumbs_of(engine, training, thumbs, np.random.default_rng([seed, number]))
        if len(given) < LEAST:
            continue
        proposal = learn(engine, given, seed=seed)
        if proposal.setting not in known:
            known[proposal.setting] = exact_values(engine, test, proposal.setting)
        refit = known[proposal.setting]
        both = values_with(engine, test, proposal.setting, proposal.synonyms) if proposal.synonyms else refit
        outcome = {"refit": refit, "both": both, "nothing": nothing}
        for kind in ("refit", "both"):
            values[kind].append(outcome[kind] - nothing)
        values["recommended"].append(outcome[proposal.recommended] - nothing)
        rows.append({
            "questions": proposal.questions, "thumbs": proposal.thumbs, "setting": proposal.setting._asdict(),
            "synonyms": len(proposal.synonyms), "recommended": proposal.recommended,
            "refit": float((refit - nothing).mean()), "both": float((both - nothing).mean()),
        })  # fmt: skip
        print(f"{number + 1} of {draws} draws", end="\r", file=sys.stderr, flush=True)
        result = summary(engine, rows, values, nothing, seed, time.process_time() - started)
        if out:
            atomic_write(out, json.dumps(result | {"draws": rows}, indent=1) + "\n")
    print(json.dumps(result, indent=1))


def summary(
    engine: EmbeddedEngine, rows: Sequence[dict[str, Any]], values: dict[str, list[Any]], nothing: Any, seed: int,
    cpu: float,
) -> dict[str, Any]:  # fmt: skip
    arrays = {kind: np.stack(each) for kind, each in values.items()}
    return {
        "index": engine.fingerprint, "seed": seed, "number_of_draws": len(rows), "test_questions": int(nothing.size),
        "nothing": round(float(nothing.mean()), 5), **{kind: interval(each) for kind, each in arrays.items()},
        "both_less_refit": interval(arrays["both"] - arrays["refit"]),
        "share_recommending_a_change": float(np.mean([row["recommended"] != "nothing" for row in rows])),
        "share_with_synonyms": float(np.mean([row["synonyms"] > 0 for row in rows])), "cpu_s": round(cpu, 1),
    }  # fmt: skip
