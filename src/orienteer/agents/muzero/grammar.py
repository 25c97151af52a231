"""The query grammar of `sec:app-muzero`: its rules, its states, and the legal actions of every state.

Few stacks γ can ever arise, so all of them are enumerated once, and a rule is a step from one number to another. The
output buffer ω is three integers more: the operator, the field, and the trie node that the word has reached.

There are two shapes of one language. `paper` takes every rule by itself:

    Q ⇒ W Q | U Q | STOP     U ⇒ Op Field W     Op ⇒ + | - | ^i     Field ⇒ title | contents     W ⇒ W^x
    W^x ⇒ V^x | V^x R^x      R^x ⇒ V̄^x | V̄^x R^x      V^x, V̄^x ⇒ a wordpiece

`short` joins what is chosen together, so that a refinement with a word of one piece takes two rules, not seven: plans
reach further, and the discount, which is applied per rule, weighs less.

    Q ⇒ op field W^x Q | STOP     W^x ⇒ piece R^x     R^x ⇒ piece R^x | END

A rule that is the only one left after a piece, END at a leaf, is taken with the piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.muzero.tries import CHILD_ENDS, CHILD_GOES_ON, ENDS, LOCAL, LocalTries, Trie
from orienteer.engine.embedded.kernels.compile import kernel
from orienteer.query import FIELDS, G4, Field, Grammar, Operator

Shape = Literal["short", "paper"]
Fields = Literal["found", "any"]

# x of W^x: q, τ, β, α, and the whole index, which a plan uses once it has completed a word.
SOURCES: tuple[str, ...] = (*LOCAL, "index")
INDEX = len(LOCAL)
OPERATORS: tuple[Operator, ...] = G4.operators

UP, DOWN = 0, 1  # polarity: whether an operator takes its words from Σ↑ or from Σ↓ where exploration is guided

# Conditions of a rule: none, the agent may stop, a word can follow, the word ends here, some piece ends a word, some
# piece goes on.
ALWAYS, MAY_STOP, HAS_WORDS, WORD_ENDS, PIECE_ENDS, PIECE_GOES_ON = range(6)

# Which pieces a stack allows: none, any, those that end a word, those that do not.
NO_PIECE, ANY_PIECE, LAST_PIECE, INNER_PIECE = range(4)

# The columns of a grammar state, int32. USES_INDEX is 1 once a word is complete: later words come from the index.
STACK, OPERATOR, FIELD, NODE, USES_INDEX, STEPS_LEFT = range(6)
STATE_SIZE = 6

Int32s = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Rule:
    """left ⇒ right; what it writes into ω, by number, -1 for nothing; and its condition, `needs`."""

    left: str
    right: tuple[str, ...]
    needs: int = ALWAYS
    operator: int = -1
    field: int = -1
    source: int = -1

    def __str__(self) -> str:
        return f"{self.left} ⇒ {' '.join(self.right)}"


class Tables(NamedTuple):
    """The grammar as arrays, for the kernels.

    after        [stacks, rules]: the stack that a rule leads to; -1 where the rule has another left side
    after_piece  [stacks]: the stack that a piece leads to
    takes        [stacks]: which pieces
    needs        [rules], and what each writes: operator, field, source
    allowed      [2, operators + 1, fields + 1]: bits of the sources that a word may come from, with polarity, operator
                 and field; 0 stands for not yet chosen
    polarity     [operators]
    ends         [stacks]: the END of a stack; -1 where it has none
    stopped      the stack of nothing
    """

    after: NDArray[np.int16]
    after_piece: NDArray[np.int16]
    takes: NDArray[np.int8]
    needs: NDArray[np.int8]
    operator: NDArray[np.int8]
    field: NDArray[np.int8]
    source: NDArray[np.int8]
    allowed: NDArray[np.int32]
    polarity: NDArray[np.int8]
    ends: NDArray[np.int16]
    stopped: int


@dataclass(frozen=True)
class QueryGrammar:
    """Rules and reachable stacks; stack 0 is [Q]. Action n is rule n if n < len(rules), else piece n - len(rules)."""

    grammar: Grammar
    shape: Shape
    fields: Fields
    rules: tuple[Rule, ...]
    stacks: tuple[tuple[str, ...], ...]

    def __len__(self) -> int:
        return len(self.rules)

    @cached_property
    def tables(self) -> Tables:
        number = {stack: position for position, stack in enumerate(self.stacks)}
        after = np.full((len(self.stacks), len(self.rules)), -1, np.int16)
        after_piece = np.full(len(self.stacks), -1, np.int16)
        takes = np.zeros(len(self.stacks), np.int8)
        for position, stack in enumerate(self.stacks):
            for column, rule in enumerate(self.rules):
                if stack and stack[0] == rule.left:
                    after[position, column] = number[rule.right + stack[1:]]
            if kind := _takes(stack, self.shape):
                takes[position], after_piece[position] = kind, number[_after_piece(stack)]
        ends = np.full(len(self.stacks), -1, np.int16)
        for column, rule in enumerate(self.rules):
            if rule.needs == WORD_ENDS:
                ends[after[:, column] >= 0] = column
        needs, operator, field, source = (np.array(each, np.int8) for each in zip(*self._columns(), strict=True))
        return Tables(
            after, after_piece, takes, needs, operator, field, source, _allowed(self.grammar, self.fields),
            np.array([DOWN if operator.op == "-" else UP for operator in OPERATORS], np.int8),
            ends, number[()],
        )  # fmt: skip

    def _columns(self) -> Iterator[tuple[int, int, int, int]]:
        for rule in self.rules:
            yield rule.needs, rule.operator, rule.field, rule.source

    @cached_property
    def stop(self) -> int:
        return next(number for number, rule in enumerate(self.rules) if rule.needs == MAY_STOP)

    @cached_property
    def as_index(self) -> NDArray[np.int32]:
        """[rules]: the rule that takes the word from the index where this one takes it from the observation."""
        number = {(str(rule), rule.operator, rule.field): position for position, rule in enumerate(self.rules)}
        return np.array(
            [number[str(_of_index(rule)), rule.operator, rule.field] for rule in self.rules], np.int32
        )  # fmt: skip

    def start(self, steps_left: int) -> Int32s:
        """γ = [Q], ω empty, no word completed."""
        return np.array([0, -1, -1, -1, 0, steps_left], np.int32)

    def label(self, rule: int) -> str:
        """A rule in a few letters, for the display of a tree."""
        made = self.rules[rule]
        if made.needs == MAY_STOP:
            return "stop"
        if made.needs == WORD_ENDS:
            return "end"
        parts = [_sign(made.operator)] if made.operator >= 0 else []
        parts += [FIELDS[made.field]] if made.field >= 0 and made.operator != 0 else []
        parts += [SOURCES[made.source]] if made.source >= 0 else []
        return " ".join(parts) or str(made)


def query_grammar(grammar: Grammar = G4, shape: Shape = "short", fields: Fields = "found") -> QueryGrammar:
    """The rules of one of G0 to G4.

    `fields`: a title's word as `title` and any other as `contents`, as Rocchio has it; or any word with any field.
    """
    rules = tuple(_short(grammar, fields) if shape == "short" else _paper(grammar))
    return QueryGrammar(grammar, shape, fields, rules, _stacks(rules, shape))


def _short(grammar: Grammar, fields: Fields) -> Iterator[Rule]:
    yield Rule("Q", (), MAY_STOP)
    for operator in grammar.operators:
        number = OPERATORS.index(operator)
        for field in operator.fields:
            for source in range(len(SOURCES)):
                if _fits(operator, field, source, fields):
                    yield Rule("Q", (f"W{source}", "Q"), HAS_WORDS, number, FIELDS.index(field), source)
    for source in range(len(SOURCES)):
        yield Rule(f"R{source}", (), WORD_ENDS)


def _paper(grammar: Grammar) -> Iterator[Rule]:
    yield Rule("Q", (), MAY_STOP)
    others = [operator for operator in grammar.operators if operator.op != "or"]
    if len(others) < len(grammar.operators):
        yield Rule("Q", ("W", "Q"), HAS_WORDS, 0, 0)
    if others:
        yield Rule("Q", ("U", "Q"), HAS_WORDS)
        yield Rule("U", ("Op", "Field", "W"), HAS_WORDS)
    for operator in others:
        yield Rule("Op", (), HAS_WORDS, OPERATORS.index(operator))
    if others:
        for number in range(len(FIELDS)):
            yield Rule("Field", (), HAS_WORDS, field=number)
    for source in range(len(SOURCES)):
        yield Rule("W", (f"W{source}",), HAS_WORDS, source=source)
        for left, piece in ((f"W{source}", f"V{source}"), (f"R{source}", f"v{source}")):
            yield Rule(left, (piece,), PIECE_ENDS)
            yield Rule(left, (piece, f"R{source}"), PIECE_GOES_ON)


def in_index(symbol: str) -> str:
    """A symbol with its source, if it has one, changed into the index."""
    return f"{symbol[0]}{INDEX}" if symbol[-1].isdigit() else symbol


def _of_index(rule: Rule) -> Rule:
    return replace(rule, left=in_index(rule.left), right=tuple(map(in_index, rule.right)))


def _stacks(rules: tuple[Rule, ...], shape: Shape) -> tuple[tuple[str, ...], ...]:
    """Every stack that is reachable from [Q], in breadth-first order."""
    stacks: dict[tuple[str, ...], None] = {("Q",): None, (): None}
    waiting: list[tuple[str, ...]] = [("Q",)]
    while waiting:
        stack = waiting.pop(0)
        nexts = [rule.right + stack[1:] for rule in rules if stack and stack[0] == rule.left]
        if _takes(stack, shape):
            nexts.append(_after_piece(stack))
        for each in nexts:
            if each not in stacks:
                stacks[each] = None
                waiting.append(each)
    return tuple(stacks)


def _takes(stack: tuple[str, ...], shape: Shape) -> int:
    """Which pieces the top of a stack allows."""
    top = stack[0] if stack else ""
    if top[:1] in ("V", "v"):
        return INNER_PIECE if stack[1][0] == "R" else LAST_PIECE
    return ANY_PIECE if shape == "short" and top[:1] in ("W", "R") else NO_PIECE


def _after_piece(stack: tuple[str, ...]) -> tuple[str, ...]:
    top = stack[0]
    return stack[1:] if top[0] in "Vv" else (f"R{top[1:]}", *stack[1:])


def _fits(operator: Operator, field: Field, source: int, fields: Fields) -> bool:
    """Whether a word of this source may be used with this operator in this field."""
    if operator.op == "or" or source == INDEX or fields == "any":
        return True
    return (field == "title") == (LOCAL[source] == "title")


def _allowed(grammar: Grammar, fields: Fields) -> Int32s:
    bits = np.zeros((2, len(OPERATORS) + 1, len(FIELDS) + 1), np.int32)
    for number, operator in enumerate(OPERATORS):
        if operator not in grammar.operators:
            continue
        polarity = DOWN if operator.op == "-" else UP
        for field in operator.fields:
            sources = sum(1 << s for s in range(len(SOURCES)) if _fits(operator, field, s, fields))
            position = FIELDS.index(field) + 1
            for at in ((number + 1, position), (number + 1, 0), (0, position), (0, 0)):
                bits[(polarity, *at)] |= sources
    return bits


def _sign(operator: int) -> str:
    made = OPERATORS[operator]
    return {"or": "plain", "^": f"^{made.weight:g}"}.get(made.op, made.op)


NO_WORD = -1


class TrieTables(NamedTuple):
    """The tries of a batch of sessions, concatenated in `local`, and the trie of the index, which they share.

    roots     [sessions, 2, sources] nodes of `local`, -1 where empty
    may_stop  [sessions]
    """

    local: Trie
    roots: NDArray[np.int32]
    may_stop: NDArray[np.bool_]
    index_trie: Trie


def join_tries(tries: list[LocalTries], may_stop: list[bool], index: Trie) -> tuple[TrieTables, Int32s]:
    """The tries of sessions concatenated, and the first node of each [sessions + 1]."""
    starts = np.concatenate([[0], np.cumsum([len(each.trie) for each in tries])]).astype(np.int32)
    firsts = [each.trie.first_child + start for each, start in zip(tries, starts, strict=False)]
    roots = [np.where(each.roots >= 0, each.roots + start, -1) for each, start in zip(tries, starts, strict=False)]
    if not tries:
        firsts, roots = [np.zeros(0, np.int32)], [np.zeros((0, 2, len(LOCAL)), np.int32)]
    parts: list[Any] = [
        np.concatenate([each.trie[position] for each in tries]) if tries else index[position][:0]
        for position in range(5)
    ]
    local = Trie(parts[0], np.concatenate(firsts).astype(np.int32), parts[2], parts[3], parts[4])
    joined = np.stack(roots).astype(np.int32) if tries else roots[0]
    return TrieTables(local, joined, np.array(may_stop, np.bool_), index), starts


@kernel
def legal_actions(
    state: Int32s, session: int, tables: Tables, trie_tables: TrieTables, actions: Int32s, nodes: Int32s
) -> int:
    """Writes the legal actions in ascending order and the trie node of each (-1 for a rule); returns their number.

    A final state has no legal action.
    """
    stack, node, uses_index = state[STACK], state[NODE], state[USES_INDEX]
    if stack == tables.stopped or (stack == 0 and state[STEPS_LEFT] <= 0):
        return 0
    trie = trie_tables.index_trie if uses_index else trie_tables.local
    flags = 0
    if node >= 0:
        flags = int(trie.flags[node])
    count = 0
    for rule in range(tables.needs.size):
        if tables.after[stack, rule] < 0:
            continue
        need = tables.needs[rule]
        good = True
        if need == MAY_STOP:
            good = trie_tables.may_stop[session]
        elif need == HAS_WORDS:
            good = _has_words(state, rule, session, tables, trie_tables)
        elif need == WORD_ENDS:
            good = flags & ENDS != 0
        elif need == PIECE_ENDS:
            good = flags & CHILD_ENDS != 0
        elif need == PIECE_GOES_ON:
            good = flags & CHILD_GOES_ON != 0
        if good:
            actions[count], nodes[count] = rule, -1
            count += 1
    takes = tables.takes[stack]
    if takes != NO_PIECE:
        rules = tables.needs.size
        first = trie.first_child[node]
        for child in range(first, first + trie.num_children[node]):
            ends, goes_on = trie.flags[child] & ENDS != 0, trie.num_children[child] > 0
            if takes == ANY_PIECE or (takes == LAST_PIECE and ends) or (takes == INNER_PIECE and goes_on):
                actions[count], nodes[count] = rules + trie.piece[child], child
                count += 1
    return count


@kernel
def _has_words(state: Int32s, rule: int, session: int, tables: Tables, trie_tables: TrieTables) -> bool:
    """Whether a word can follow after the rule."""
    operator = tables.operator[rule] if tables.operator[rule] >= 0 else state[OPERATOR]
    field = tables.field[rule] if tables.field[rule] >= 0 else state[FIELD]
    wanted = 1 << tables.source[rule] if tables.source[rule] >= 0 else (1 << (INDEX + 1)) - 1
    for polarity in range(2):
        available = 1 << INDEX
        if not state[USES_INDEX]:
            available = 0
            for source in range(INDEX):
                if trie_tables.roots[session, polarity, source] >= 0:
                    available |= 1 << source
        if tables.allowed[polarity, operator + 1, field + 1] & wanted & available:
            return True
    return False


@kernel
def advance(
    state: Int32s, session: int, action: int, node: int, tables: Tables, trie_tables: TrieTables, out: Int32s
) -> int:
    """Writes the state after a legal action; returns the trie node of the word that it completes, -1 for none.

    `node` is the trie node of a piece. A completed word is an imagined query: later words come from the index.
    """
    out[:] = state
    stack = state[STACK]
    rules = tables.needs.size
    trie = trie_tables.index_trie if state[USES_INDEX] else trie_tables.local
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
            out[NODE] = trie_tables.roots[session, tables.polarity[out[OPERATOR]], source]
        if tables.needs[action] == WORD_ENDS:
            word = state[NODE]
    else:
        out[NODE] = node
        after = tables.after_piece[stack]
        # END, where no other action is legal, is taken with the piece.
        if tables.ends[after] >= 0 and trie.num_children[node] == 0:
            after = tables.after[after, tables.ends[after]]
        out[STACK] = after
        if after == 0:
            word = node
    if word >= 0:
        out[OPERATOR] = out[FIELD] = out[NODE] = -1
        out[USES_INDEX] = 1
        out[STEPS_LEFT] = state[STEPS_LEFT] - 1
    return word


def max_legal_actions(grammar: QueryGrammar, trie_tables: TrieTables) -> int:
    """An upper bound for the number of legal actions of any state."""
    widest = max(
        (int(trie.num_children.max(initial=0)) for trie in (trie_tables.local, trie_tables.index_trie)), default=0
    )
    return len(grammar) + widest
