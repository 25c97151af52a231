"""What a reader is worth: answers from gold passages, ranks and probabilities over what BM25 finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2

import numpy as np
from numpy.typing import ArrayLike

from orienteer.data import Passage, Question
from orienteer.engine.protocol import Engine
from orienteer.query import Query
from orienteer.reader.answer_matching import exact_match, f1, holds_answer
from orienteer.reader.protocol import Reader, Reading


def auc(scores: ArrayLike, truths: Sequence[bool] | ArrayLike) -> float:
    """The chance that a true passage scores above a false one; ties count a half."""
    scores, truths = np.asarray(scores, np.float64), np.asarray(truths, bool)
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    true, false = int(truths.sum()), int((~truths).sum())
    return float((ranks[truths].sum() - true * (true + 1) / 2) / (true * false))


def calibration_error(probabilities: ArrayLike, truths: Sequence[bool] | ArrayLike, bins: int = 15) -> float:
    """ECE: over bins of equal mass, the mean distance of what was said from what was true."""
    said, true = np.asarray(probabilities, np.float64), np.asarray(truths, np.float64)
    parts = np.array_split(np.argsort(said, kind="stable"), bins)
    return float(sum(len(p) * abs(said[p].mean() - true[p].mean()) for p in parts if len(p)) / len(said))


def brier(probabilities: ArrayLike, truths: Sequence[bool] | ArrayLike) -> float:
    """The mean squared distance of a probability from the truth."""
    return float(np.mean((np.asarray(probabilities, np.float64) - np.asarray(truths, np.float64)) ** 2))


def bm25_passages(engine: Engine, questions: Sequence[Question], k: int) -> list[tuple[str, list[Passage]]]:
    """Each question with the top k passages of BM25: what `Reader.read_many` takes."""
    ranked = engine.search_many([Query(q.question) for q in questions], k)
    return [(q.question, engine.passages([hit.id for hit in hits])) for q, hits in zip(questions, ranked, strict=True)]


def read_ranked(question: str, engine: Engine, reader: Reader, depth: int) -> list[tuple[Passage, Reading]]:
    """The BM25 top `depth` of a question by PS, best first; equals stay in BM25's order."""
    [(_, passages)] = bm25_passages(engine, [Question("", question)], depth)
    pairs = list(zip(passages, reader.read(question, passages), strict=True))
    return sorted(pairs, key=lambda pair: -pair[1].logit)


Measures = dict[str, float]


def gold_measures(reader: Reader, questions: Sequence[Question], passages: Sequence[Passage]) -> Measures:
    """EM and F1 in percent, each question with its gold passage."""
    readings = reader.read_many([(q.question, [p]) for q, p in zip(questions, passages, strict=True)])
    answers = [reading.answer for [reading] in readings]
    pairs = list(zip(answers, questions, strict=True))
    return {
        "EM": 100 * float(np.mean([exact_match(answer, q.answers) for answer, q in pairs])),
        "F1": 100 * float(np.mean([f1(answer, q.answers) for answer, q in pairs])),
    }


@dataclass(frozen=True, slots=True)
class ReadHits:
    """A question with the passages BM25 found for it, best first, which of them hold an answer, how they read."""

    question: Question
    passages: Sequence[Passage]
    relevant: Sequence[bool]
    readings: Sequence[Reading]


def find_and_read(reader: Reader, engine: Engine, questions: Sequence[Question], k: int) -> list[ReadHits]:
    """The BM25 top k of each question, read."""
    found = bm25_passages(engine, questions, k)
    return [
        ReadHits(q, passages, [holds_answer(passage.text, q.answers) for passage in passages], readings)
        for q, (_, passages), readings in zip(questions, found, reader.read_many(found), strict=True)
    ]


def ranking_measures(found: Sequence[ReadHits], depth: int, by_score: bool = True) -> Measures:
    """Top-1, Top-5, NDCG@5 and EM-MR in percent of the first `depth` passages, ranked by PS or left as found."""
    rows: list[tuple[float, float, float, float]] = []
    for each in found:
        order = list(range(min(depth, len(each.passages))))
        if by_score:
            order.sort(key=lambda i: -each.readings[i].logit)
        rel = [each.relevant[i] for i in order[:5]]
        gain = sum(r / log2(i + 2) for i, r in enumerate(rel)) / sum(1 / log2(i + 2) for i in range(5))
        match = bool(order) and exact_match(each.readings[order[0]].answer, each.question.answers)
        rows.append((float(any(rel[:1])), float(any(rel)), gain, float(match)))
    means = 100 * np.mean(rows, axis=0)
    return dict(zip(("Top-1", "Top-5", "NDCG@5", "EM-MR"), map(float, means), strict=True))


def score_measures(found: Sequence[ReadHits], depth: int = 20) -> Measures:
    """How far PS over the first `depth` passages can be taken as a probability."""
    scores = [r.score for each in found for r in each.readings[:depth]]
    truths = [t for each in found for t in each.relevant[:depth]]
    base = float(np.mean(truths))
    return {
        "AUC": auc(scores, truths),
        "ECE": calibration_error(scores, truths),
        "Brier": brier(scores, truths),
        "Brier of the base rate": base * (1 - base),
        "base rate": base,
        "mean PS": float(np.mean(scores)),
    }


def title_effect(reader: Reader, found: Sequence[ReadHits], depth: int = 20) -> float:
    """How far blanking every title moves the mean PS of passages that are not the gold one."""
    others = [
        (each.question.question, [(p, r.score) for p, r in pairs if p.id != each.question.passage_id])
        for each in found
        for pairs in [list(zip(each.passages[:depth], each.readings[:depth], strict=True))]
    ]
    blank = reader.read_many([(question, [Passage(p.id, "", p.text) for p, _ in ps]) for question, ps in others])
    before = [score for _, ps in others for _, score in ps]
    after = [reading.score for row in blank for reading in row]
    return abs(float(np.mean(after)) - float(np.mean(before)))


def judge(
    reader: Reader, engine: Engine, questions: Sequence[Question], depth: int = 20, titles: int = 100
) -> dict[str, Measures]:
    """Everything above for one set of questions, by the name of what was measured.

    `titles` questions are read a second time with every title blanked.
    """
    result: dict[str, Measures] = {}
    gold = [q for q in questions if q.passage_id]
    if gold:
        passages = engine.passages([q.passage_id for q in gold if q.passage_id])
        result["gold passage"] = gold_measures(reader, gold, passages)
    found = find_and_read(reader, engine, questions, depth)
    result["BM25"] = ranking_measures(found, depth, by_score=False)
    for cut in (5, 20, 100):
        if cut <= depth:
            result[f"BM25@{cut}+PS"] = ranking_measures(found, cut)
    result["PS over the top 20"] = score_measures(found)
    if titles:
        result["titles blanked"] = {"mean PS moves by": title_effect(reader, found[:titles])}
    return {name: {k: round(v, 4) for k, v in measures.items()} for name, measures in result.items()}
