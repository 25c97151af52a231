"""The top k of one query, without scoring what cannot be among them.

A query's clauses come as rows (see `clauses.py`): where its list starts and ends, whether the list is the index's or
was made for the query (`extra`), its weight, the most it can add (`most`). The score of a posting is
weight - weight / saturation[code], in float32; sums are in double, as Lucene's.

Results grow in `top_documents`, `top_scores` [k], best first, equal scores by passage number.

`allowed` bool [passages] says which passages may be results; an empty one allows all. Weights know nothing of it.
"""

from __future__ import annotations

import numpy as np

from orienteer.engine.embedded.kernels.compile import inlined, kernel

WINDOW = 1024  # passages a window; the index holds each long list's best code in each
SEEDS = 8  # windows searched before all others
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


@kernel
def search_any(
    documents, codes, extra_documents, extra_codes, saturation, window_starts, window_best, size,
    start, end, extra, weight, most, row,
    not_start, not_end, not_extra, allowed,
    top_documents, top_scores,
):  # fmt: skip
    """Passages that match at least one SHOULD clause. Clauses come by `most`, highest first.

    The passages are cut into windows; in each window each clause has a bound: the score of the list's best code there,
    which the index holds for long lists (at the clause's `row`), or `most` where a short list has any passage there.
    The most promising windows are searched first, so that the k-th score is high from the start; a window whose bounds
    do not add up to it is passed over. Within a window, lists whose bounds together stay below the k-th score are not
    walked, only looked up for passages that the other lists found (MaxScore).
    """
    n = start.size
    k = top_scores.size
    windows = (size + WINDOW - 1) // WINDOW
    own = np.zeros((n, windows), np.float32)  # the most a clause can add in a window
    begin = np.zeros((n, windows + 1), np.uint32)  # where its list stands there, from the list's start
    promise = np.zeros(windows)
    for i in range(n):
        if row[i] >= 0:
            w = weight[i]
            for window in range(windows):
                best = window_best[row[i] * windows + window]
                if best > 0:
                    own[i, window] = w - w / saturation[best - 1]
                    promise[window] += own[i, window]
            begin[i] = window_starts[row[i] * (windows + 1) : (row[i] + 1) * (windows + 1)]
        else:
            lists = extra_documents if extra[i] else documents
            last = np.int64(-1)
            for at in range(start[i], end[i]):
                here = np.int64(lists[at]) // WINDOW
                if here != last:
                    own[i, here] = most[i]
                    promise[here] += most[i]
                    begin[i, here] = at - start[i]
                    last = here
                begin[i, here + 1] = at + 1 - start[i]
    filtered = allowed.size > 0
    if filtered:
        for window in range(windows):
            first = np.int64(window) * WINDOW
            if promise[window] > 0.0 and not any_allowed(allowed, first, min(first + WINDOW, size)):
                promise[window] = 0.0
    bound = np.zeros(n + 1)  # [i]: the most that lists i.. can add in this window
    sums = np.full(WINDOW, -1.0)
    touched = np.empty(WINDOW, np.int64)
    count = 0
    threshold = 0.0
    for turn in range(SEEDS + windows):
        window = np.int64(turn - SEEDS) if turn >= SEEDS else np.int64(np.argmax(promise))
        if promise[window] < threshold or promise[window] == 0.0:
            continue
        promise[window] = 0.0
        first = window * WINDOW
        walked = n
        bound[n] = 0.0
        for i in range(n - 1, -1, -1):
            bound[i] = bound[i + 1] + own[i, window]
            if bound[i] < threshold:
                walked = i
        found = 0
        for i in range(walked):
            if own[i, window] == 0.0:
                continue
            lists = extra_documents if extra[i] else documents
            list_codes = extra_codes if extra[i] else codes
            w = weight[i]
            for at in range(start[i] + begin[i, window], start[i] + begin[i, window + 1]):
                place = np.int64(lists[at]) - first
                score = w - w / saturation[list_codes[at]]
                if sums[place] < 0.0:
                    sums[place] = score
                    touched[found] = place
                    found += 1
                else:
                    sums[place] += score
        for t in range(found):
            place = touched[t]
            total = sums[place]
            sums[place] = -1.0
            document = first + place
            if filtered and not allowed[document]:
                continue
            hopeless = False
            for i in range(walked, n):
                if total + bound[i] < threshold:
                    hopeless = True
                    break
                if own[i, window] == 0.0:
                    continue
                lists = extra_documents if extra[i] else documents
                stop = start[i] + begin[i, window + 1]
                at = place_of(lists, start[i] + begin[i, window], stop, document)
                if at < stop and lists[at] == document:
                    list_codes = extra_codes if extra[i] else codes
                    total += weight[i] - weight[i] / saturation[list_codes[at]]
            if hopeless or total < threshold:
                continue
            if excluded(document, documents, extra_documents, not_start, not_end, not_extra):
                continue
            count = insert(top_documents, top_scores, count, document, np.float32(total))
            if count == k:
                threshold = top_scores[k - 1] * (1.0 - SLACK)
    return count


@kernel
def search_all(
    documents, codes, extra_documents, extra_codes, saturation,
    must_start, must_end, must_extra, must_weight,
    start, end, extra, weight, most,
    not_start, not_end, not_extra, allowed,
    top_documents, top_scores,
):  # fmt: skip
    """Passages that match every MUST clause (shortest list first) and no MUST_NOT clause; SHOULD clauses add."""
    k = top_scores.size
    n = start.size
    required = must_start.copy()
    optional = start.copy()
    bound = np.zeros(n + 1)
    for i in range(n - 1, -1, -1):
        bound[i] = bound[i + 1] + most[i]
    filtered = allowed.size > 0
    count = 0
    threshold = -1.0
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
        stop = begin + title_positions[document] if in_title else stream_ends[document]
        frequency = 0
        for at in range(begin, stop - places[-1]):
            here = True
            for i in range(terms.size):
                if stream[at + places[i]] != terms[i]:
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
    stream, stream_ends, title_positions, first, rarest, beside, distance, before, terms, places, ends, in_title
):
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
    for document in range(stream_ends.size):
        end = stream_ends[document]
        title_end = begin + title_positions[document]
        for at in range(begin, title_end if titles_only else end):
            term = stream[at]
            if term < -1 or term + 1 >= first.size:
                raise IndexError("the stream holds a term that is not in the vocabulary")
            phrase = np.int64(first[term + 1])
            if phrase < 0:
                continue
            while rarest[phrase] == term:
                other = at + distance[phrase]
                if begin <= other < end and stream[other] == beside[phrase]:
                    start = at - before[phrase]
                    here = start >= begin
                    here &= start + places[ends[phrase + 1] - 1] < (title_end if in_title[phrase] else end)
                    i = ends[phrase]
                    while here and i < ends[phrase + 1]:
                        here = stream[start + places[i]] == terms[i]
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
        begin = end
    return which[:count], documents[:count], frequencies[:count]
