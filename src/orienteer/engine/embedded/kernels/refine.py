"""The top k of query + r for a thousand refinements r of one query, in one pass over the passages.

The query's own scores are computed once, window by window of passages; a refinement only touches the postings of its
term. What each operator needs:

  +term    the best k of the term's postings, by the query's score and the term's
  term^w   the best k among the term's postings, and the query's best passages without the term
  -term    the query's best passages without the term

so each group (one term in one field) is walked once for all its operators, and one list of the query's best passages
serves all groups. A posting is skipped when the query's score of its passage plus the most the term could add stays
below what every one of the group's refinements already has k of.

A *variant* is one + or ^ refinement: `required` (its clause is MUST), its weight, and `replaced`, the weight that the
same term already has in the query (Lucene adds the boosts of equal clauses), 0 for none. `allowed` as in `search.py`.
"""

from __future__ import annotations

import numpy as np

from orienteer.engine.embedded.kernels.compile import inlined, kernel
from orienteer.engine.embedded.kernels.search import SLACK, advance, any_allowed, excluded, insert
from orienteer.engine.embedded.kernels.stream import rank_at

OUT = -np.inf
STEPS = 32  # of saturated frequency, 1 - 1 / saturation, by which a posting's possible gain is bounded
PATIENCE = 16  # postings looked at in vain before a group's bounds are brought up to date


@inlined
def variant_score(required, weight, replaced, saturation, musts, shoulds, has_must):
    """Lucene's score of a passage with the variant's clause added, rounded where Lucene rounds."""
    change = np.float64(weight - weight / saturation)
    if replaced > 0:
        change -= np.float64(replaced - replaced / saturation)
    if required:
        return np.float32(np.float32(musts + change) + np.float32(shoulds))
    if has_must:
        return np.float32(np.float32(musts) + np.float32(shoulds + change))
    return np.float32(shoulds + change)


@inlined
def set_useful(useful, first, last, floor, slope):
    """By step of saturated frequency: the query's score below which no variant first..last can use a passage."""
    for step in range(STEPS):
        most = (step + 1.0) / STEPS * (1.0 + SLACK)
        lowest = np.inf
        for v in range(first, last):
            lowest = min(lowest, floor[v] - slope[v] * most)
        useful[step] = lowest


@kernel
def scores_by_code(weight, length, saturation):
    """A clause's score for each code, where its list is long enough to pay for the table; else an empty table."""
    if length < 2 * saturation.size:
        return np.empty(0, np.float32)
    return weight - weight / saturation


@kernel
def refine_pass(
    documents, codes, extra_documents, extra_codes, saturation,
    must_start, must_end, must_extra, must_weight,
    start, end, extra, weight,
    not_start, not_end, not_extra, allowed,
    group_start, group_end, group_extra, first_variant,
    required, variant_weight, replaced, slope, slack, floor,
    share, step_of, size, window,
    base_documents, base_scores, variant_documents, variant_scores,
):  # fmt: skip
    """Walk all passages once. Returns how many base results there are, and how many each variant has.

    `floor` float64 [variants]: what a passage's score must reach for the variant to want it; it rises in the walk.
    """
    n_must, n_should, n_groups = must_start.size, start.size, group_start.size
    k = variant_scores.shape[1]
    has_must = n_must > 0
    counts = np.zeros(required.size, np.int64)
    base_count = 0
    base_threshold = OUT  # the k-th score of the query itself: what a boosted passage has to reach
    list_threshold = 0.0  # the last score of the base results
    shoulds = np.full(window, OUT if has_must else 0.0)
    musts = np.zeros(window if has_must else 1)
    matched = np.empty(window, np.int64)
    useful = np.full((n_groups, STEPS), OUT)
    stale = np.ones(n_groups, np.bool_)
    cursor, required_at, optional_at, not_at = group_start.copy(), must_start.copy(), start.copy(), not_start.copy()
    tables = [scores_by_code(weight[i], end[i] - start[i], saturation) for i in range(n_should)]

    filtered = allowed.size > 0
    first = np.int64(0)
    while first < size:
        limit = min(first + window, size)
        found = 0
        if filtered and not any_allowed(allowed, first, limit):
            if has_must:
                lead = extra_documents if must_extra[0] else documents
                required_at[0] = advance(lead, required_at[0], must_end[0], limit)
            first = limit
            continue
        if has_must:
            lead = extra_documents if must_extra[0] else documents
            if required_at[0] >= must_end[0]:
                break
            if lead[required_at[0]] >= limit:  # nothing to see before the next required passage
                first += (np.int64(lead[required_at[0]]) - first) // window * window
                continue
            while required_at[0] < must_end[0] and lead[required_at[0]] < limit:
                document = np.int64(lead[required_at[0]])
                if filtered and not allowed[document]:
                    required_at[0] += 1
                    continue
                list_codes = extra_codes if must_extra[0] else codes
                total = np.float64(must_weight[0] - must_weight[0] / saturation[list_codes[required_at[0]]])
                required_at[0] += 1
                here = True
                for i in range(1, n_must):
                    lists = extra_documents if must_extra[i] else documents
                    required_at[i] = advance(lists, required_at[i], must_end[i], document)
                    if required_at[i] == must_end[i] or lists[required_at[i]] != document:
                        here = False
                        break
                    list_codes = extra_codes if must_extra[i] else codes
                    total += must_weight[i] - must_weight[i] / saturation[list_codes[required_at[i]]]
                if not here or excluded(document, documents, extra_documents, not_at, not_end, not_extra):
                    continue
                optional = 0.0
                for i in range(n_should):
                    lists = extra_documents if extra[i] else documents
                    optional_at[i] = advance(lists, optional_at[i], end[i], document)
                    if optional_at[i] < end[i] and lists[optional_at[i]] == document:
                        list_codes = extra_codes if extra[i] else codes
                        optional += weight[i] - weight[i] / saturation[list_codes[optional_at[i]]]
                place = document - first
                musts[place] = total
                shoulds[place] = optional
                matched[found] = place
                found += 1
                score = np.float32(np.float32(total) + np.float32(optional))
                base_count = insert(base_documents, base_scores, base_count, document, score)
        else:
            if filtered:
                part = allowed[first:limit]
                for place in range(limit - first):
                    shoulds[place] = 0.0 if part[place] else OUT
            for i in range(n_should):
                lists = extra_documents if extra[i] else documents
                list_codes = extra_codes if extra[i] else codes
                stop = end[i]
                at = advance(lists, optional_at[i], stop, first) if filtered else optional_at[i]
                table = tables[i]
                if table.size:
                    while at < stop and lists[at] < limit:
                        shoulds[np.int64(lists[at]) - first] += table[list_codes[at]]
                        at += 1
                else:
                    w = weight[i]
                    while at < stop and lists[at] < limit:
                        shoulds[np.int64(lists[at]) - first] += w - w / saturation[list_codes[at]]
                        at += 1
                optional_at[i] = at
            for i in range(not_start.size):
                lists = extra_documents if not_extra[i] else documents
                if filtered:
                    not_at[i] = advance(lists, not_at[i], not_end[i], first)
                while not_at[i] < not_end[i] and lists[not_at[i]] < limit:
                    shoulds[np.int64(lists[not_at[i]]) - first] = OUT
                    not_at[i] += 1
            for block in range(0, limit - first, 8):
                if block + 8 <= limit - first:
                    some = (
                        (shoulds[block] > list_threshold)
                        | (shoulds[block + 1] > list_threshold)
                        | (shoulds[block + 2] > list_threshold)
                        | (shoulds[block + 3] > list_threshold)
                        | (shoulds[block + 4] > list_threshold)
                        | (shoulds[block + 5] > list_threshold)
                        | (shoulds[block + 6] > list_threshold)
                        | (shoulds[block + 7] > list_threshold)
                    )
                    if not some:
                        continue
                for place in range(block, min(block + 8, limit - first)):
                    if shoulds[place] > list_threshold:
                        base_count = insert(
                            base_documents, base_scores, base_count, first + place, np.float32(shoulds[place])
                        )
                        if base_count == base_scores.size:
                            list_threshold = np.float64(base_scores[-1]) * (1.0 - SLACK)

        if base_count >= k and base_scores[k - 1] > base_threshold:
            base_threshold = np.float64(base_scores[k - 1])
            for v in range(required.size):
                if not required[v]:
                    floor[v] = max(floor[v], base_threshold * (1.0 - SLACK) - slack[v])
            stale[:] = True
        for g in range(n_groups):
            first_of, last_of = first_variant[g], first_variant[g + 1]
            if first_of == last_of:
                continue
            lists = extra_documents if group_extra[g] else documents
            list_codes = extra_codes if group_extra[g] else codes
            stop = group_end[g]
            at = advance(lists, cursor[g], stop, first) if has_must or filtered else cursor[g]
            enough = useful[g]
            in_vain = 0
            while at < stop and lists[at] < limit:
                place = np.int64(lists[at]) - first
                base = shoulds[place] + musts[place] if has_must else shoulds[place]
                code = list_codes[at]
                at += 1
                if base < enough[step_of[code]] or base == OUT:
                    continue
                changed = False
                for v in range(first_of, last_of):
                    if base + slope[v] * share[code] < floor[v]:
                        continue
                    score = variant_score(
                        required[v], variant_weight[v], replaced[v], saturation[code],
                        musts[place] if has_must else 0.0, shoulds[place], has_must,
                    )  # fmt: skip
                    if not required[v] and score < base_threshold:
                        continue
                    if counts[v] == k and score <= variant_scores[v, k - 1]:
                        continue
                    counts[v] = insert(variant_documents[v], variant_scores[v], counts[v], first + place, score)
                    if counts[v] == k:
                        floor[v] = max(floor[v], np.float64(variant_scores[v, k - 1]) * (1.0 - SLACK) - slack[v])
                        changed = True
                if changed:
                    stale[g] = True
                else:
                    in_vain += 1
                    if in_vain >= PATIENCE and stale[g]:
                        set_useful(enough, first_of, last_of, floor, slope)
                        stale[g] = False
                        in_vain = 0
            cursor[g] = at
        if has_must:
            for i in range(found):
                shoulds[matched[i]] = OUT
        elif not filtered:
            shoulds[:] = 0.0
        first = limit
    return base_count, counts


@kernel
def merge_lists(numbers, scores, starts, k, merged_numbers, merged_scores):
    """The best k of several parts' lists, row by row; of equal scores the earlier part's first.

    numbers, scores [parts, rows, k]: a part's own numbers, -inf where a list has ended; starts [parts]: what to add.
    """
    at = np.empty(scores.shape[0], np.int64)
    for row in range(scores.shape[1]):
        at[:] = 0
        for rank in range(k):
            best = -1
            for part in range(at.size):
                if at[part] < k and (best < 0 or scores[part, row, at[part]] > scores[best, row, at[best]]):
                    best = part
            merged_numbers[row, rank] = numbers[best, row, at[best]] + starts[best]
            merged_scores[row, rank] = scores[best, row, at[best]]
            at[best] += 1


@kernel
def members(
    stream, bases, widths, stream_ends, title_positions, extra_documents,
    group_rank, group_field, group_start, group_end, group_extra, base_documents, base_count, holds,
):  # fmt: skip
    """holds bool [groups, base results]: which of the query's best passages have the group's term.

    Terms are compared by their ranks, as the stream has them: the terms themselves are far apart in memory.
    """
    n_groups = group_rank.size
    size = 16
    while size < 4 * n_groups:
        size *= 2
    slots = np.full((size, 2), -1, np.int32)  # by field: the group of a term
    keys = np.full(size, -1, np.int64)
    for g in range(n_groups):
        if group_extra[g]:
            for i in range(base_count):
                at = advance(extra_documents, group_start[g], group_end[g], base_documents[i])
                holds[g, i] = at < group_end[g] and extra_documents[at] == base_documents[i]
            continue
        slot = (group_rank[g] * 2654435761) & (size - 1)
        while keys[slot] != -1 and keys[slot] != group_rank[g]:
            slot = (slot + 1) & (size - 1)
        keys[slot] = group_rank[g]
        slots[slot, group_field[g]] = g
    for i in range(base_count):
        document = base_documents[i]
        bit = stream_ends[document - 1] if document > 0 else np.int64(0)
        at = -1
        while bit < stream_ends[document]:
            rank, taken = rank_at(stream, bit, bases, widths)
            bit += taken
            at += 1
            if rank < 0:
                continue
            slot = (rank * 2654435761) & (size - 1)
            while keys[slot] != -1 and keys[slot] != rank:
                slot = (slot + 1) & (size - 1)
            if keys[slot] == rank:
                if slots[slot, 0] >= 0:
                    holds[slots[slot, 0], i] = True
                if at < title_positions[document] and slots[slot, 1] >= 0:
                    holds[slots[slot, 1], i] = True


@kernel
def refine_results(
    kinds, groups, variants, base_documents, base_scores, base_count, base_complete, holds,
    variant_documents, variant_scores, variant_counts, out_documents, out_scores, out_counts,
):  # fmt: skip
    """Each refinement's top k from the pieces. kinds: 0 nothing changes, 1 nothing matches, 2 ^, 3 +, 4 -.

    out_counts is -1 where the base results did not reach far enough (a - whose term most of them have).
    """
    k = out_scores.shape[1]
    for r in range(kinds.size):
        kind = kinds[r]
        count = 0
        if kind == 0:
            count = min(k, base_count)
            out_documents[r, :count] = base_documents[:count]
            out_scores[r, :count] = base_scores[:count]
        elif kind == 3:
            v = variants[r]
            count = variant_counts[v]
            out_documents[r, :count] = variant_documents[v, :count]
            out_scores[r, :count] = variant_scores[v, :count]
        elif kind == 4:
            for i in range(base_count):
                if not holds[groups[r], i]:
                    out_documents[r, count] = base_documents[i]
                    out_scores[r, count] = base_scores[i]
                    count += 1
                    if count == k:
                        break
            if count < k and not base_complete:
                count = -1
        elif kind == 2:
            v = variants[r]
            i = 0
            j = 0
            while count < k:
                while i < base_count and holds[groups[r], i]:
                    i += 1
                left = i < base_count
                right = j < variant_counts[v]
                if not left and not right:
                    break
                if right and (
                    not left
                    or variant_scores[v, j] > base_scores[i]
                    or (variant_scores[v, j] == base_scores[i] and variant_documents[v, j] < base_documents[i])
                ):
                    out_documents[r, count] = variant_documents[v, j]
                    out_scores[r, count] = variant_scores[v, j]
                    j += 1
                else:
                    out_documents[r, count] = base_documents[i]
                    out_scores[r, count] = base_scores[i]
                    i += 1
                count += 1
        out_counts[r] = count
