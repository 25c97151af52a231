"""`refine`: groups the refinements of one query for the kernels, and assembles their results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orienteer.engine.embedded.clauses import Compiled, FieldTerms, Postings, Rows, text_of_term
from orienteer.engine.embedded.index import Index
from orienteer.engine.embedded.kernels import refine as kernels
from orienteer.engine.embedded.kernels.search import SLACK
from orienteer.query import FIELDS, Refinement

WINDOW = 1 << 14  # passages a window: their scores stay in the processor's cache
BASE_RESULTS = 64  # how many of the query's own results are kept, for - and ^

SAME, NOTHING, BOOST, REQUIRE, EXCLUDE = range(5)
_KIND = {"or": BOOST, "^": BOOST, "+": REQUIRE, "-": EXCLUDE}


@dataclass(frozen=True)
class GroupedRefinements:
    """Refinements grouped by text: each group's postings are walked once for all its operators."""

    groups: list[tuple[FieldTerms, Postings]]
    first_variant: NDArray[np.int64]  # [groups + 1]
    required: NDArray[np.bool_]  # [variants]
    weight: NDArray[np.float32]
    replaced: NDArray[np.float32]
    slope: NDArray[np.float64]  # what the variant adds to a passage's score, a unit of saturated frequency
    kinds: NDArray[np.int64]  # [refinements]
    group_of: NDArray[np.int64]
    variant_of: NDArray[np.int64]


@dataclass(frozen=True)
class PlannedRefinements:
    """Refinements as arrays: what does not depend on the index, so that all segments and shards share it."""

    refinements: Sequence[Refinement]
    texts: list[FieldTerms | None]  # of the distinct words; None for stop words
    which: NDArray[np.int64]  # [refinements]: the place in `texts`
    ops: NDArray[np.int64]  # [refinements]
    boosts: NDArray[np.float32]  # [refinements]

    def __len__(self) -> int:
        return len(self.refinements)


def plan(refinements: Sequence[Refinement]) -> PlannedRefinements:
    size = len(refinements)
    if not size:
        return PlannedRefinements([], [], np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))
    words = [each.term for each in refinements]
    numbers = {word: number for number, word in enumerate(dict.fromkeys(words))}
    word = np.fromiter(map(numbers.__getitem__, words), np.int64, size)
    field = np.fromiter([each.field == "title" for each in refinements], np.bool_, size)
    distinct, which = np.unique(2 * word + field, return_inverse=True)
    names = list(numbers)
    return PlannedRefinements(
        refinements, [text_of_term(FIELDS[key & 1], names[key >> 1]) for key in distinct.tolist()], which,
        np.fromiter([_KIND[each.op] for each in refinements], np.int64, size),
        np.fromiter([each.weight for each in refinements], np.float32, size),
    )  # fmt: skip


def group(query: Compiled, planned: PlannedRefinements) -> GroupedRefinements:
    texts, which, ops, boosts = planned.texts, planned.which, planned.ops, planned.boosts
    # Different words may be one text (`Queen`, `queen`); a text that no passage has needs no group.
    known = query.lists.find(text for text in texts if text is not None)
    place: dict[FieldTerms, int] = {}
    groups: list[tuple[FieldTerms, Postings]] = []
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
    walked_groups = group_of[walked]
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
    weight = (boosts[walked].astype(np.float64) + old_boost[kind, walked_groups]).astype(np.float32) * idf[
        walked_groups
    ]
    replaced = old_weight[kind, walked_groups]
    slope = weight.astype(np.float64) - replaced
    variant_of = np.zeros(len(planned), np.int64)
    variant_of[walked] = np.arange(walked.size)
    return GroupedRefinements(
        groups, np.searchsorted(walked_groups, np.arange(len(groups) + 1)), required, weight, replaced,
        slope, kinds, group_of, variant_of,
    )  # fmt: skip


def run(
    index: Index, query: Compiled, grouped: GroupedRefinements, k: int, allowed: NDArray[np.bool_],
    floors: NDArray[np.float32] | None = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Passage numbers and scores [refinements, k], and how many each has; -1 where `search` has to be asked.

    floors [refinements]: a score that results have to reach; of those below it some or all may be missing.
    """
    depth = BASE_RESULTS + k
    arrays = query.lists.arrays()
    share = 1.0 - 1.0 / arrays[4].astype(np.float64)  # [codes]: saturated frequency
    step_of = (share * kernels.STEPS).astype(np.uint8)
    # A score is known to within 1e-6 of itself, and, as w - w / x rounds relative to w, to 2^-22 of its weight.
    slack = (grouped.weight.astype(np.float64) + grouped.replaced) * 2.0**-22
    floor = np.full(grouped.weight.size, kernels.OUT)  # [variants]
    if floors is not None:
        walked = np.flatnonzero((grouped.kinds == REQUIRE) | (grouped.kinds == BOOST))
        floor[grouped.variant_of[walked]] = floors[walked]
        floor = floor * (1.0 - SLACK) - slack
    must = Rows.of(sorted(query.must, key=lambda clause: clause.postings.end - clause.postings.start))
    should, must_not = Rows.of(query.should), Rows.of(query.must_not)
    lists = [postings for _, postings in grouped.groups]
    starts = np.array([postings.start for postings in lists], np.int64)
    ends = np.array([postings.end for postings in lists], np.int64)
    extra = np.array([postings.extra for postings in lists], np.bool_)
    base_numbers, base_scores = np.empty(depth, np.int64), np.empty(depth, np.float32)
    variant_numbers, variant_scores = (
        np.empty((grouped.weight.size, k), np.int64),
        np.empty((grouped.weight.size, k), np.float32),
    )
    base_count, variant_counts = kernels.refine_pass(
        *arrays, must.start, must.end, must.extra, must.weight, should.start, should.end, should.extra, should.weight,
        must_not.start, must_not.end, must_not.extra, allowed, starts, ends, extra, grouped.first_variant,
        grouped.required, grouped.weight, grouped.replaced, grouped.slope, slack, floor, share, step_of,
        index.size, WINDOW,
        base_numbers, base_scores, variant_numbers, variant_scores,
    )  # fmt: skip
    holds = np.zeros((len(lists), depth), np.bool_)
    terms = np.array([postings.term for postings in lists], np.int64)
    fields = np.array([text.field for text, _ in grouped.groups], np.int64)
    kernels.members(
        index.array("stream"), *index.packed[2:], index.array("stream_ends"), index.array("title_positions"), arrays[2],
        index.rank_of[terms], fields, starts, ends, extra, base_numbers, base_count, holds,
    )  # fmt: skip
    size = grouped.kinds.size
    numbers, scores = np.empty((size, k), np.int64), np.empty((size, k), np.float32)
    counts = np.empty(size, np.int64)
    kernels.refine_results(
        grouped.kinds, grouped.group_of, grouped.variant_of, base_numbers, base_scores, base_count, base_count < depth,
        holds, variant_numbers, variant_scores, variant_counts, numbers, scores, counts,
    )  # fmt: skip
    return numbers, scores, counts
