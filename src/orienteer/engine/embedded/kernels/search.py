"""The top k of one query, without scoring what cannot be among them.

A query's clauses come as rows (see `clauses.py`): where its list starts and ends, whether the list is the index's or
was made for the query (`extra`), its weight, and for `search_all` the most it can add (`most`). The score of a posting
is weight - weight / saturation[code], in float32; sums are in double, as Lucene's.

Results grow in `top_documents`, `top_scores` [k], best first, equal scores by passage number.

`allowed` bool [passages] says which passages may be results; an empty one allows all. Weights know nothing of it.
"""

from __future__ import annotations

import numpy as np

from orienteer.engine.embedded.kernels.compile import inlined, kernel
from orienteer.engine.embedded.kernels.stream import unpack_one

WINDOW = 1024  # passages a window; the index holds where each long list stands at each
BLOCK_BITS = 4  # four to the third power are a window's blocks, see `search_any`
BLOCK = 1 << BLOCK_BITS  # passages a block; a long list has a bound for each
BLOCKS = WINDOW // BLOCK  # of a window
GROUP = 32  # windows among which the best is remembered
STEPS = 255  # of 1 - 1 / saturation, in which the bounds of long lists are given
SEEDS = 16  # windows whose best block is searched before all others
FEW_SEEDS = 4  # the same, where a floor is known
SLACK = 1e-6  # relative; covers the rounding of double sums to float32 in comparisons with bounds


@inlined
def advance(documents, at, end, target):
    """The first place at or after `at` whose passage is not before `target`: gallop, then bisect."""
    if at >= end or documents[at] >= target:
        return at
    step = 1
    low = at
    while low + step < end and documents[low + step] < target:
        low += step
        step *= 2
    high = min(low + step, end)
    while high - low > 1:
        middle = (low + high) >> 1
        if documents[middle] < target:
            low = middle
        else:
            high = middle
    return high


@inlined
def insert(top_documents, top_scores, count, document, score):
    """Put a passage into the results if it belongs there; returns how many there are."""
    k = top_scores.size
    if count == k:
        if score < top_scores[k - 1] or (score == top_scores[k - 1] and document > top_documents[k - 1]):
            return count
        place = k - 1
    else:
        place = count
        count += 1
    while place > 0 and (
        score > top_scores[place - 1] or (score == top_scores[place - 1] and document < top_documents[place - 1])
    ):
        top_documents[place] = top_documents[place - 1]
        top_scores[place] = top_scores[place - 1]
        place -= 1
    top_documents[place] = document
    top_scores[place] = score
    return count


@inlined
def excluded(document, documents, extra_documents, not_start, not_end, not_extra):
    """Whether any MUST_NOT list holds the passage."""
    for i in range(not_start.size):
        lists = extra_documents if not_extra[i] else documents
        at = advance(lists, not_start[i], not_end[i], document)
        if at < not_end[i] and lists[at] == document:
            return True
    return False


@inlined
def place_of(documents, at, stop, document):
    """Where `document` is in documents[at:stop], or the place of the next one: bisect without branches, then look."""
    size = stop - at
    while size > 8:
        half = size >> 1
        at += half if documents[at + half] <= document else 0
        size -= half
    while at < stop and documents[at] < document:
        at += 1
    return at


@inlined
def any_allowed(allowed, first, limit):
    """Whether a passage of first..limit may be a result."""
    document = first
    while document < limit and not allowed[document]:
        document += 1
    return document < limit


@inlined
def add_bounds(bounds, steps, weight):
    """Add a list's bounds, in steps of `weight`, to those of the blocks."""
    for block in range(bounds.size):
        bounds[block] += weight * np.float32(steps[block])


@inlined
def highest_of_four(values, highest):
    """The highest of each four neighbours, of integers: in vectors, which a plain loop over more of them is not."""
    for i in range(highest.size):
        first, second, third, fourth = values[4 * i], values[4 * i + 1], values[4 * i + 2], values[4 * i + 3]
        first = first if first > second else second
        third = third if third > fourth else fourth
        highest[i] = first if first > third else third


@inlined
def highest_in(values, low, high):
    """The place of the highest of values[low:high]."""
    best = low
    for i in range(low + 1, high):
        if values[i] > values[best]:
            best = i
    return best


@kernel
def fill_steps(documents, codes, start, end, steps_of, steps):
    """One list's row of `block_steps`: steps_of uint8 [codes] is what a code can add; steps uint8 [blocks], all 0."""
    for at in range(start, end):
        block = np.int64(documents[at]) >> BLOCK_BITS
        steps[block] = max(steps[block], steps_of[codes[at]])


@kernel
def search_any(
    documents, codes, extra_documents, extra_codes, saturation, window_starts, block_steps, size,
    start, end, extra, weight, row,
    not_start, not_end, not_extra, allowed, floor,
    top_documents, top_scores,
):  # fmt: skip
    """Passages that match at least one SHOULD clause. Clauses come short lists first, then long ones by weight.

    The passages are cut into blocks; each has a bound, the sum of what each clause can add there: for a long list (at
    the clause's `row`) by the table `block_steps` (see `block_bounds.py`), for a short one from its postings. A block
    whose bound does not reach the k-th score is passed over. The most promising blocks of a few windows come first, so
    that the k-th score is high from the start. Within a block the clauses are added one after another, until what the
    rest can add is too little.

    `floor` is a score that results have to reach.
    """
    n = start.size
    k = top_scores.size
    windows = (size + WINDOW - 1) // WINDOW
    short = 0
    while short < n and row[short] < 0:
        short += 1
    bounds = np.zeros(windows * BLOCKS, np.float32)
    step = np.empty(n, np.float32)
    total_weight = 0.0
    for i in range(n):
        w = weight[i]
        total_weight += w
        step[i] = w / np.float32(STEPS)
        if i >= short:
            add_bounds(bounds, block_steps[row[i]], step[i])
        else:
            lists = extra_documents if extra[i] else documents
            list_codes = extra_codes if extra[i] else codes
            for at in range(start[i], end[i]):
                bounds[np.int64(lists[at]) >> BLOCK_BITS] += w - w / saturation[list_codes[at]]
    # Floats that are not negative are ordered as integers.
    by_four, by_sixteen = np.empty(bounds.size // 4, np.int32), np.empty(bounds.size // 16, np.int32)
    bits = np.empty(windows, np.int32)
    highest_of_four(bounds.view(np.int32), by_four)
    highest_of_four(by_four, by_sixteen)
    highest_of_four(by_sixteen, bits)
    promise = bits.view(np.float32)
    groups = np.empty((windows + GROUP - 1) // GROUP, np.int64)  # the best window of each group of windows
    for group in range(groups.size):
        groups[group] = highest_in(bits, group * GROUP, min(group * GROUP + GROUP, windows))
    # A sum of n float32 is known to within n * 2^-24 of itself, w - w / x to within 2^-22 of w.
    share = 1.0 - (2 * n + 8) * 2.0**-24
    lost = total_weight * 2.0**-22
    filtered = allowed.size > 0
    cursor = start.copy()
    stop = end.copy()
    begin = start.copy()  # of the short lists: where the windows in turn have come to
    rest = np.zeros(n + 1)  # [i]: the most that long lists i.. can add in this block
    sums = np.full(BLOCK, -1.0)
    count = 0
    threshold = floor * (1.0 - SLACK)
    reach = threshold * share - lost
    seeds = SEEDS if floor == 0.0 else FEW_SEEDS
    for turn in range(seeds + windows):
        seeding = turn < seeds
        group = 0
        if seeding:
            for other in range(1, groups.size):
                if bits[groups[other]] > bits[groups[group]]:
                    group = other
        window = groups[group] if seeding else np.int64(turn - seeds)
        top = promise[window]
        if top < reach or top == 0.0:
            continue
        first = window * WINDOW
        for i in range(short):
            lists = extra_documents if extra[i] else documents
            cursor[i] = advance(lists, begin[i], end[i], first)
            if not seeding:
                begin[i] = cursor[i]
        for i in range(short, n):
            at = row[i] * (windows + 1) + window
            cursor[i] = start[i] + window_starts[at]
            stop[i] = start[i] + window_starts[at + 1]
        left = np.float32(0.0)
        for block in range(window * BLOCKS, (window + 1) * BLOCKS):
            bound = bounds[block]
            if bound < reach or bound == 0.0:
                continue
            if seeding and bound < top:
                left = max(left, bound)
                continue
            bounds[block] = 0.0
            first = block * BLOCK
            limit = first + BLOCK
            if filtered and not any_allowed(allowed, first, min(limit, size)):
                continue
            for i in range(n - 1, short - 1, -1):
                rest[i] = rest[i + 1] + step[i] * np.float64(block_steps[row[i], block])
            best = 0.0
            hopeless = False
            for i in range(n):
                if i >= short:
                    if best + rest[i] < reach:
                        hopeless = True
                        break
                    if block_steps[row[i], block] == 0:
                        continue
                lists = extra_documents if extra[i] else documents
                list_codes = extra_codes if extra[i] else codes
                at = place_of(lists, cursor[i], stop[i], first)
                w = weight[i]
                while at < stop[i] and lists[at] < limit:
                    place = np.int64(lists[at]) - first
                    total = max(sums[place], 0.0) + np.float64(w - w / saturation[list_codes[at]])
                    sums[place] = total
                    best = max(best, total)
                    at += 1
                cursor[i] = at
            if not hopeless and best >= threshold:
                for place in range(BLOCK):
                    total = sums[place]
                    if total < threshold:
                        continue
                    document = first + place
                    if filtered and not allowed[document]:
                        continue
                    if excluded(document, documents, extra_documents, not_start, not_end, not_extra):
                        continue
                    count = insert(top_documents, top_scores, count, document, np.float32(total))
                    if count == k:
                        threshold = max(threshold, top_scores[k - 1] * (1.0 - SLACK))
                        reach = threshold * share - lost
            sums[:] = -1.0
        if seeding:
            promise[window] = left
            groups[group] = highest_in(bits, group * GROUP, min(group * GROUP + GROUP, windows))
    return count


@kernel
def search_all(
    documents, codes, extra_documents, extra_codes, saturation,
    must_start, must_end, must_extra, must_weight,
    start, end, extra, weight, most,
    not_start, not_end, not_extra, allowed, floor,
    top_documents, top_scores,
):  # fmt: skip
    """Passages that match every MUST clause (shortest list first) and no MUST_NOT clause; SHOULD clauses add.

    `floor` is a score that results have to reach.
    """
    k = top_scores.size
    n = start.size
    required = must_start.copy()
    optional = start.copy()
    bound = np.zeros(n + 1)
    for i in range(n - 1, -1, -1):
        bound[i] = bound[i + 1] + most[i]
    filtered = allowed.size > 0
    count = 0
    threshold = floor * (1.0 - SLACK)
    lead = extra_documents if must_extra[0] else documents
    while required[0] < must_end[0]:
        document = np.int64(lead[required[0]])
        if filtered and not allowed[document]:
            required[0] += 1
            continue
        matched = True
        for i in range(1, must_start.size):
            lists = extra_documents if must_extra[i] else documents
            at = advance(lists, required[i], must_end[i], document)
            required[i] = at
            if at == must_end[i]:
                return count
            if lists[at] != document:
                required[0] = advance(lead, required[0], must_end[0], np.int64(lists[at]))
                matched = False
                break
        if not matched:
            continue
        musts = 0.0
        for i in range(must_start.size):
            list_codes = extra_codes if must_extra[i] else codes
            musts += must_weight[i] - must_weight[i] / saturation[list_codes[required[i]]]
        required[0] += 1
        shoulds = 0.0
        hopeless = False
        for i in range(n):
            if musts + shoulds + bound[i] < threshold:
                hopeless = True
                break
            lists = extra_documents if extra[i] else documents
            at = advance(lists, optional[i], end[i], document)
            optional[i] = at
            if at < end[i] and lists[at] == document:
                list_codes = extra_codes if extra[i] else codes
                shoulds += weight[i] - weight[i] / saturation[list_codes[at]]
        if hopeless or musts + shoulds < threshold:
            continue
        if excluded(document, documents, extra_documents, not_start, not_end, not_extra):
            continue
        score = np.float32(np.float32(musts) + np.float32(shoulds))
        count = insert(top_documents, top_scores, count, document, score)
        if count == k:
            threshold = top_scores[k - 1] * (1.0 - SLACK)
    return count


@kernel
def find_terms(terms, term_ends, wanted, wanted_ends, found):
    """The number of each wanted term in the sorted vocabulary, or -1."""
    for w in range(found.size):
        low, high = 0, term_ends.size - 1
        start, stop = wanted_ends[w], wanted_ends[w + 1]
        found[w] = -1
        while low < high:
            middle = (low + high) >> 1
            at, end = term_ends[middle], term_ends[middle + 1]
            i = start
            while i < stop and at < end and wanted[i] == terms[at]:
                i += 1
                at += 1
            if i == stop and at == end:
                found[w] = middle
                break
            if at < end and (i == stop or terms[at] > wanted[i]):
                high = middle
            else:
                low = middle + 1


@kernel
def phrase_list(
    documents,
    offsets,
    stream,
    ranked,
    bases,
    widths,
    stream_ends,
    title_positions,
    lists,
    terms,
    places,
    in_title,
    found,
    frequencies,
):
    """Passages with the phrase's terms at the given distances, and how often; returns how many passages.

    lists int64 [terms]: the terms' list numbers, shortest first; terms, places: the phrase in order.
    """
    count = 0
    own = np.empty(1024, np.int32)  # a passage's terms by position
    cursor = np.empty(lists.size, np.int64)
    for i in range(lists.size):
        cursor[i] = offsets[lists[i]]
    while cursor[0] < offsets[lists[0] + 1]:
        document = np.int64(documents[cursor[0]])
        cursor[0] += 1
        matched = True
        for i in range(1, lists.size):
            end = offsets[lists[i] + 1]
            cursor[i] = advance(documents, cursor[i], end, document)
            if cursor[i] == end:
                return count
            if documents[cursor[i]] != document:
                matched = False
                break
        if not matched:
            continue
        begin = stream_ends[document - 1] if document > 0 else np.int64(0)
        most = title_positions[document] if in_title else stream_ends[document] - begin
        if own.size < most:
            own = np.empty(2 * most, np.int32)
        stop = unpack_one(stream, begin, stream_ends[document], most, ranked, bases, widths, own)
        frequency = 0
        for at in range(stop - places[-1]):
            here = True
            for i in range(terms.size):
                if own[at + places[i]] != terms[i]:
                    here = False
                    break
            if here:
                frequency += 1
        if frequency:
            found[count] = document
            frequencies[count] = frequency
            count += 1
    return count


@kernel
def phrase_pass(
    stream, ranked, bases, widths, stream_ends, title_positions,
    first, rarest, beside, distance, before, terms, places, ends, in_title,
):  # fmt: skip
    """`phrase_list` for many phrases in one pass over all passages: phrase, passage, frequency, passages ascending.

    Phrases come by their rarest term: rarest int32 [phrases + 1]; first int32 [terms + 1]: at a term's number + 1 the
    first phrase that has it for its rarest, or -1. `beside` is another term of the phrase and `distance` how far from
    the rarest it stands, `before` how far the rarest is from the phrase's start. terms, places: all phrases one after
    another, cut by `ends` int64 [phrases + 1].
    """
    room = 1024
    which = np.empty(room, np.int64)
    documents = np.empty(room, np.uint32)
    frequencies = np.empty(room, np.uint32)
    last = np.full(beside.size, -1, np.int64)  # each phrase's latest posting
    count = 0
    begin = np.int64(0)
    titles_only = np.all(in_title)
    own = np.empty(1024, np.int32)  # a passage's terms by position
    for document in range(stream_ends.size):
        title_end = np.int64(title_positions[document])
        most = title_end if titles_only else stream_ends[document] - begin
        if own.size < most:
            own = np.empty(2 * most, np.int32)
        end = unpack_one(stream, begin, stream_ends[document], most, ranked, bases, widths, own)
        begin = stream_ends[document]
        for at in range(end):
            term = own[at]
            if term < -1 or term + 1 >= first.size:
                raise IndexError("the stream holds a term that is not in the vocabulary")
            phrase = np.int64(first[term + 1])
            if phrase < 0:
                continue
            while rarest[phrase] == term:
                other = at + distance[phrase]
                if 0 <= other < end and own[other] == beside[phrase]:
                    start = at - before[phrase]
                    here = start >= 0
                    here &= start + places[ends[phrase + 1] - 1] < (title_end if in_title[phrase] else end)
                    i = ends[phrase]
                    while here and i < ends[phrase + 1]:
                        here = own[start + places[i]] == terms[i]
                        i += 1
                    if here:
                        if last[phrase] >= 0 and documents[last[phrase]] == document:
                            frequencies[last[phrase]] += 1
                        else:
                            if count == room:
                                room *= 2
                                which = np.concatenate((which, np.empty_like(which)))
                                documents = np.concatenate((documents, np.empty_like(documents)))
                                frequencies = np.concatenate((frequencies, np.empty_like(frequencies)))
                            which[count] = phrase
                            documents[count] = document
                            frequencies[count] = 1
                            last[phrase] = count
                            count += 1
                phrase += 1
    return which[:count], documents[:count], frequencies[:count]
