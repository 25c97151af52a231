"""Which actions a grammar state allows, and where each leads: the masks of every node, those deep in a plan too."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.muzero.grammar import (
    ANY_PIECE,
    CROSSED,
    FIELD,
    HAS_WORDS,
    INDEX,
    LEFT,
    LOCAL,
    MAY_STOP,
    NO_PIECE,
    NODE,
    OPERATOR,
    PIECE_ENDS,
    PIECE_GOES_ON,
    STACK,
    WORD_ENDS,
    Ints,
    QueryGrammar,
    Tables,
)  # fmt: skip
from orienteer.agents.muzero.grammar import INNER_PIECE as INNER
from orienteer.agents.muzero.grammar import LAST_PIECE as LAST
from orienteer.agents.muzero.tries import CHILD_ENDS, CHILD_GOES_ON, ENDS, LocalTries, Trie
from orienteer.engine.embedded.kernels.compile import kernel

NO_WORD = -1


class Rooms(NamedTuple):
    """The tries of many sessions: theirs end to end, and that of the whole index, which they share.

    roots     [sessions, 2, sources]: nodes of `local`
    may_stop  [sessions]
    """

    local: Trie
    roots: NDArray[np.int32]
    may_stop: NDArray[np.bool_]
    whole: Trie


def join(tries: list[LocalTries], may_stop: list[bool], index: Trie) -> tuple[Rooms, Ints]:
    """Tries of sessions end to end, and where each begins [sessions + 1]."""
    starts = np.concatenate([[0], np.cumsum([len(each.trie) for each in tries])]).astype(np.int32)
    firsts = [each.trie.first + start for each, start in zip(tries, starts, strict=False)]
    roots = [np.where(each.roots >= 0, each.roots + start, -1) for each, start in zip(tries, starts, strict=False)]
    if not tries:
        firsts, roots = [np.zeros(0, np.int32)], [np.zeros((0, 2, len(LOCAL)), np.int32)]
    parts: list[Any] = [
        np.concatenate([each.trie[place] for each in tries]) if tries else index[place][:0] for place in range(5)
    ]
    local = Trie(parts[0], np.concatenate(firsts).astype(np.int32), parts[2], parts[3], parts[4])
    joined = np.stack(roots).astype(np.int32) if tries else roots[0]
    return Rooms(local, joined, np.array(may_stop, np.bool_), index), starts


@kernel
def legal(state: Ints, session: int, tables: Tables, rooms: Rooms, actions: Ints, nodes: Ints) -> int:
    """Writes the legal actions in ascending order, and the trie node that each piece leads to; how many there are.

    Nothing is legal in a state that has come to its end.
    """
    stack, node, crossed = state[STACK], state[NODE], state[CROSSED]
    if stack == tables.stopped or (stack == 0 and state[LEFT] <= 0):
        return 0
    trie = rooms.whole if crossed else rooms.local
    told = 0
    if node >= 0:
        told = int(trie.told[node])
    found = 0
    for rule in range(tables.needs.size):
        if tables.after[stack, rule] < 0:
            continue
        need = tables.needs[rule]
        good = True
        if need == MAY_STOP:
            good = rooms.may_stop[session]
        elif need == HAS_WORDS:
            good = _has_words(state, rule, session, tables, rooms)
        elif need == WORD_ENDS:
            good = told & ENDS != 0
        elif need == PIECE_ENDS:
            good = told & CHILD_ENDS != 0
        elif need == PIECE_GOES_ON:
            good = told & CHILD_GOES_ON != 0
        if good:
            actions[found], nodes[found] = rule, -1
            found += 1
    takes = tables.takes[stack]
    if takes != NO_PIECE:
        rules = tables.needs.size
        first = trie.first[node]
        for child in range(first, first + trie.degree[node]):
            ends, goes_on = trie.told[child] & ENDS != 0, trie.degree[child] > 0
            if takes == ANY_PIECE or (takes == LAST and ends) or (takes == INNER and goes_on):
                actions[found], nodes[found] = rules + trie.piece[child], child
                found += 1
    return found


@kernel
def _has_words(state: Ints, rule: int, session: int, tables: Tables, rooms: Rooms) -> bool:
    """Whether a word can still follow once the rule is taken."""
    operator = tables.operator[rule] if tables.operator[rule] >= 0 else state[OPERATOR]
    field = tables.field[rule] if tables.field[rule] >= 0 else state[FIELD]
    wanted = 1 << tables.source[rule] if tables.source[rule] >= 0 else (1 << (INDEX + 1)) - 1
    for polarity in range(2):
        there = 1 << INDEX
        if not state[CROSSED]:
            there = 0
            for source in range(INDEX):
                if rooms.roots[session, polarity, source] >= 0:
                    there |= 1 << source
        if tables.allowed[polarity, operator + 1, field + 1] & wanted & there:
            return True
    return False


@kernel
def advance(state: Ints, session: int, action: int, node: int, tables: Tables, rooms: Rooms, out: Ints) -> int:
    """Writes the state after a legal action; gives the word that it completes, as a trie node, -1 for none.

    `node` is where a piece leads. A completed word is a search: from then on words come from the index.
    """
    out[:] = state
    stack = state[STACK]
    rules = tables.needs.size
    trie = rooms.whole if state[CROSSED] else rooms.local
    word = NO_WORD
    if action < rules:
        out[STACK] = tables.after[stack, action]
        if tables.operator[action] >= 0:
            out[OPERATOR] = tables.operator[action]
        if tables.field[action] >= 0:
            out[FIELD] = tables.field[action]
        source = tables.source[action]
        if source == INDEX:
            out[NODE] = 0
        elif source >= 0:
            out[NODE] = rooms.roots[session, tables.polarity[out[OPERATOR]], source]
        if tables.needs[action] == WORD_ENDS:
            word = state[NODE]
    else:
        out[NODE] = node
        after = tables.after_piece[stack]
        # END, where nothing else is left, comes with the piece.
        if tables.ends[after] >= 0 and trie.degree[node] == 0:
            after = tables.after[after, tables.ends[after]]
        out[STACK] = after
        if after == 0:
            word = node
    if word >= 0:
        out[OPERATOR] = out[FIELD] = out[NODE] = -1
        out[CROSSED] = 1
        out[LEFT] = state[LEFT] - 1
    return word


def most_actions(grammar: QueryGrammar, rooms: Rooms) -> int:
    """No state has more legal actions."""
    widest = max((int(trie.degree.max(initial=0)) for trie in (rooms.local, rooms.whole)), default=0)
    return len(grammar) + widest
