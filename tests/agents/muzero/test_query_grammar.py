"""The grammar writes exactly the refinements there are, in both of its shapes, and never gets stuck."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from little_vocabulary import SPELLING, TERMS, choices, moved, term, written

from orienteer.agents.muzero.grammar import (
    INDEX,
    SOURCES,
    STACK,
    STEPS_LEFT,
    USES_INDEX,
    QueryGrammar,
    TrieTables,
    join_tries,
    query_grammar,
)
from orienteer.agents.muzero.tries import Trie, as_table, build_trie, local_tries
from orienteer.query import G0, G2, G4, GRAMMARS, Grammar
from orienteer.session import Term

INDEX_WORDS = ["river", "rivers", "storm", "tower"]


def index_trie() -> Trie:
    words = [SPELLING.pieces(word) for word in INDEX_WORDS]
    return build_trie(as_table(words), np.arange(len(words), dtype=np.int32))


def trie_tables_of(terms: list[Term], promoted: list[bool] | None = None, may_stop: bool = False) -> TrieTables:
    trie_tables, _ = join_tries([local_tries(terms, SPELLING, promoted)], [may_stop], index_trie())
    return trie_tables


def expected(grammar: Grammar, terms: list[Term], fields: str) -> set[tuple[str, str, int]]:
    found = set()
    for number, each in enumerate(terms):
        for operator in grammar.operators:
            for field in operator.fields:
                anywhere = fields == "any" or operator.op == "or"
                good = anywhere or bool({"title"} & each.sources if field == "title" else each.sources - {"title"})
                if good:
                    found.add((f"{operator.op}{operator.weight:g}", field, number))
    return found


@pytest.mark.long
@pytest.mark.parametrize("shape", ["short", "paper"])
@pytest.mark.parametrize("fields", ["found", "any"])
@pytest.mark.parametrize("name", list(GRAMMARS))
def test_every_refinement_of_a_grammar_can_be_written_and_no_other(name: str, fields: str, shape: str) -> None:
    grammar = query_grammar(GRAMMARS[name], shape, fields)  # type: ignore[arg-type]
    assert set(written(grammar, trie_tables_of(TERMS))) == expected(GRAMMARS[name], TERMS, fields)


def test_a_refinement_with_a_word_of_one_piece_takes_two_rules_or_seven() -> None:
    assert len(_shortest(query_grammar(G2, "short"))) == 2
    assert len(_shortest(query_grammar(G2, "paper"))) == 7


def _shortest(grammar: QueryGrammar) -> list[int]:
    trie_tables = trie_tables_of([term("lamp", "snippet")])
    waiting: list[tuple[list[int], np.ndarray]] = [([], grammar.start(1))]  # type: ignore[type-arg]
    while True:
        path, state = waiting.pop(0)
        for action, node in choices(state, 0, grammar, trie_tables):
            after, word = moved(state, 0, action, node, grammar, trie_tables)
            if word >= 0:
                return [*path, action]
            waiting.append(([*path, action], after))


@given(
    seed=st.integers(0, 10**6),
    shape=st.sampled_from(["short", "paper"]),
    fields=st.sampled_from(["found", "any"]),
    may_stop=st.booleans(),
    chosen=st.sets(st.integers(0, len(TERMS) - 1)),
    promoted=st.one_of(st.none(), st.lists(st.booleans(), min_size=len(TERMS), max_size=len(TERMS))),
    name=st.sampled_from(list(GRAMMARS)),
)
def test_a_walk_by_legal_actions_never_gets_stuck(
    seed: int, shape: str, fields: str, may_stop: bool, chosen: set[int], promoted: list[bool] | None, name: str
) -> None:
    grammar = query_grammar(GRAMMARS[name], shape, fields)  # type: ignore[arg-type]
    terms = [TERMS[number] for number in sorted(chosen)]
    advice = [promoted[number] for number in sorted(chosen)] if promoted else None
    trie_tables = trie_tables_of(terms, advice, may_stop)
    draw = np.random.default_rng(seed)
    state = grammar.start(3)
    while found := choices(state, 0, grammar, trie_tables):
        assert [action for action, _ in found] == sorted({action for action, _ in found})
        action, node = found[draw.integers(len(found))]
        state, _ = moved(state, 0, action, node, grammar, trie_tables)
    # A walk ends by stop, after the last search, or at once where there is nothing to write with.
    at_start = state[STACK] == 0 and not state[USES_INDEX]
    assert state[STACK] == grammar.tables.stopped or state[STEPS_LEFT] == 0 or (at_start and not may_stop)


@pytest.mark.parametrize("shape", ["short", "paper"])
def test_after_a_search_in_thought_words_come_from_the_index_alone(shape: str) -> None:
    grammar = query_grammar(G4, shape)  # type: ignore[arg-type]
    trie_tables = trie_tables_of(TERMS)
    state = grammar.start(2)
    state[USES_INDEX] = 1
    words, waiting = set(), [(state, ())]
    while waiting:
        state, spelt = waiting.pop()
        for action, node in choices(state, 0, grammar, trie_tables):
            if action < len(grammar) and grammar.rules[action].source >= 0:
                assert grammar.rules[action].source == INDEX
            so_far = (*spelt, action - len(grammar)) if action >= len(grammar) else spelt
            after, word = moved(state, 0, action, node, grammar, trie_tables)
            if word >= 0:
                words.add(SPELLING.text(so_far))
                assert after[STEPS_LEFT] == 1
            else:
                waiting.append((after, so_far))
    assert words == set(INDEX_WORDS)


def test_advice_gives_minus_the_words_to_demote_and_all_else_those_to_promote() -> None:
    promoted = [number in (0, 1) for number in range(len(TERMS))]
    trie_tables = trie_tables_of(TERMS, promoted)
    for operator, _, number in written(query_grammar(G4), trie_tables):
        assert promoted[number] == (operator[0] != "-")


def test_advice_that_promotes_nothing_promotes_everything() -> None:
    trie_tables = trie_tables_of(TERMS, [False] * len(TERMS))
    plain = {number for operator, _, number in written(query_grammar(G4), trie_tables) if operator == "or1"}
    assert plain == set(range(len(TERMS)))


def test_stop_is_there_only_where_the_agent_may_stop() -> None:
    grammar = query_grammar(G0)
    for may_stop in (False, True):
        found = [
            action for action, _ in choices(grammar.start(1), 0, grammar, trie_tables_of(TERMS, may_stop=may_stop))
        ]
        assert (grammar.stop in found) == may_stop


def test_nothing_can_be_written_without_words_or_after_the_last_step() -> None:
    grammar = query_grammar(G4)
    assert choices(grammar.start(5), 0, grammar, trie_tables_of([])) == []
    assert choices(grammar.start(0), 0, grammar, trie_tables_of(TERMS)) == []


@pytest.mark.parametrize("shape", ["short", "paper"])
def test_every_rule_has_its_like_for_the_index(shape: str) -> None:
    grammar = query_grammar(G4, shape)  # type: ignore[arg-type]
    for number, like in enumerate(grammar.as_index):
        rule, other = grammar.rules[number], grammar.rules[like]
        assert (rule.needs, rule.operator, rule.field) == (other.needs, other.operator, other.field)
        assert other.source in (-1, INDEX)


def test_labels_say_what_a_rule_chooses() -> None:
    grammar = query_grammar(G4)
    labels = {grammar.label(number) for number in range(len(grammar))}
    assert {"stop", "end", f"plain {SOURCES[0]}", "^2 contents snippet", "- title title"} <= labels
