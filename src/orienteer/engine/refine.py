"""`refine`: a thousand refinements of one query, prepared for the kernels and put together from their pieces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orienteer.engine.clauses import Compiled, Postings, Rows, Text, text_of_term
from orienteer.engine.index import Index
from orienteer.engine.kernels import refine as kernels
from orienteer.query import Refinement

WINDOW = 1 << 14  # passages a window: their scores stay in the processor's cache
PART = 1 << 16  # passages below which a second thread costs more than it saves
BASE_RESULTS = 64  # how many of the query's own results are kept, for - and ^

SAME, NOTHING, BOOST, REQUIRE, EXCLUDE = range(5)
_KIND = {"or": BOOST, "^": BOOST, "+": REQUIRE, "-": EXCLUDE}


@dataclass(frozen=True)
class Plan:
    """Refinements grouped by text: each group's postings are walked once for all its operators."""

    groups: list[tuple[Text, Postings]]
    first_variant: NDArray[np.int64]  # [groups + 1]
    required: NDArray[np.bool_]  # [variants]
    weight: NDArray[np.float32]
    replaced: NDArray[np.float32]
    slope: NDArray[np.float64]  # what the variant adds to a passage's score, a unit of saturated frequency
    kinds: NDArray[np.int64]  # [refinements]
    group_of: NDArray[np.int64]
    variant_of: NDArray[np.int64]


def plan(query: Compiled, refinements: Sequence[Refinement]) -> Plan:
    numbers: dict[tuple[str, str], int] = {}
    which = np.array([numbers.setdefault((r.field, r.term), len(numbers)) for r in refinements], np.int64)
    ops = np.array([_KIND[r.op] for r in refinements])
    boosts = np.array([r.weight for r in refinements], np.float32)
    # Different words may be one text (`Queen`, `queen`); a text that no passage has needs no group.
    texts = [text_of_term(field, term) for field, term in numbers]
    known = query.lists.find(text for text in texts if text is not None)
    place: dict[Text, int] = {}
    groups: list[tuple[Text, Postings]] = []
    group_of_word = np.full(len(texts), -1)
    absent = np.zeros(len(texts), np.bool_)
    for word, text in enumerate(texts):
        if text is None:
            continue
        if (postings := known[text]) is None:
            absent[word] = True
            continue
        if (group := place.setdefault(text, len(place))) == len(groups):
            groups.append((text, postings))
        group_of_word[word] = group
    group_of = group_of_word[which]
    kinds = np.where(group_of >= 0, ops, SAME)
    kinds[absent[which] & (ops == REQUIRE)] = NOTHING
    walked = np.flatnonzero((kinds == REQUIRE) | (kinds == BOOST))
    walked = walked[np.argsort(group_of[walked], kind="stable")]
    own = group_of[walked]
    required = kinds[walked] == REQUIRE
    old_boost = np.zeros((2, len(groups)))
    old_weight = np.zeros((2, len(groups)), np.float32)
    for kind, clauses in enumerate((query.should, query.must)):
        for clause in clauses:
            if (group := place.get(clause.text)) is not None:  # type: ignore[assignment]
                old_boost[kind, group] = clause.boost
                old_weight[kind, group] = clause.weight
    idf = np.array([postings.idf for _, postings in groups], np.float32)
    kind = required.astype(np.int64)
    weight = (boosts[walked].astype(np.float64) + old_boost[kind, own]).astype(np.float32) * idf[own]
    replaced = old_weight[kind, own]
    slope = weight.astype(np.float64) - replaced
    variant_of = np.zeros(len(refinements), np.int64)
    variant_of[walked] = np.arange(walked.size)
    return Plan(
        groups, np.searchsorted(own, np.arange(len(groups) + 1)), required, weight, replaced,
        slope, kinds, group_of, variant_of,
    )  # fmt: skip


def run(
    index: Index, query: Compiled, work: Plan, k: int, parts: int, pool: Callable[[], Executor]
) -> tuple[Any, Any, Any]:
    """Passage numbers and scores [refinements, k], and how many each has; -1 where `search` has to be asked."""
    depth = BASE_RESULTS + k
    arrays = query.lists.arrays()
    share = 1.0 - 1.0 / arrays[4].astype(np.float64)  # [codes]: saturated frequency
    step_of = (share * kernels.STEPS).astype(np.uint8)
    must = Rows.of(sorted(query.must, key=lambda clause: clause.postings.end - clause.postings.start))
    should, must_not = Rows.of(query.should), Rows.of(query.must_not)
    rows = (
        must.start, must.end, must.extra, must.weight, should.start, should.end, should.extra, should.weight,
        must_not.start, must_not.end, must_not.extra,
    )  # fmt: skip
    lists = [postings for _, postings in work.groups]
    starts = np.array([postings.start for postings in lists], np.int64)
    ends = np.array([postings.end for postings in lists], np.int64)
    extra = np.array([postings.extra for postings in lists], np.bool_)
    groups = starts, ends, extra, work.first_variant
    variants = work.required, work.weight, work.replaced, work.slope, share, step_of

    def walk(low: int, high: int) -> tuple[Any, ...]:
        base = np.empty(depth, np.int64), np.empty(depth, np.float32)
        own = np.empty((work.weight.size, k), np.int64), np.empty((work.weight.size, k), np.float32)
        counted = kernels.refine_pass(*arrays, *rows, *groups, *variants, low, high, WINDOW, *base, *own)
        return (*base, *own, *counted)

    if parts == 1:
        base_numbers, base_scores, own_numbers, own_scores, base_count, own_counts = walk(0, index.size)
    else:
        edges = [index.size * part // parts for part in range(parts + 1)]
        walked = list(pool().map(walk, edges[:-1], edges[1:]))
        base_numbers, base_scores, base_count = _merged_base(
            [part[0:2] for part in walked], [part[4] for part in walked]
        )
        own_numbers, own_scores, own_counts = kernels.merge_variants(
            np.stack([part[2] for part in walked]), np.stack([part[3] for part in walked]),
            np.stack([part[5] for part in walked]),
        )  # fmt: skip
    holds = np.zeros((len(lists), depth), np.bool_)
    terms = np.array([postings.term for postings in lists], np.int64)
    fields = np.array([text.field for text, _ in work.groups], np.int64)
    kernels.members(
        index.array("stream"), index.array("stream_ends"), index.array("title_positions"), arrays[2],
        terms, fields, starts, ends, extra, base_numbers, base_count, holds,
    )  # fmt: skip
    size = work.kinds.size
    numbers, scores = np.empty((size, k), np.int64), np.empty((size, k), np.float32)
    counts = np.empty(size, np.int64)
    kernels.refine_results(
        work.kinds, work.group_of, work.variant_of, base_numbers, base_scores, base_count, base_count < depth, holds,
        own_numbers, own_scores, own_counts, numbers, scores, counts,
    )  # fmt: skip
    return numbers, scores, counts


def _merged_base(parts: list[Any], counts: list[int]) -> tuple[Any, Any, int]:
    """The query's own results from those of each range; ranges come in order, so a stable sort keeps ties."""
    depth = parts[0][0].size
    numbers = np.concatenate([numbers[:count] for (numbers, _), count in zip(parts, counts, strict=True)])
    scores = np.concatenate([scores[:count] for (_, scores), count in zip(parts, counts, strict=True)])
    best = np.argsort(-scores, kind="stable")[:depth]
    return numbers[best], scores[best], best.size
