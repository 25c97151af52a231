"""Tries hold their words, all of them and nothing else, in memory and in files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from little_vocabulary import SPELLING, TERMS

from orienteer.agents.muzero.grammar import LOCAL
from orienteer.agents.muzero.root import node_words
from orienteer.agents.muzero.tries import (
    CHILD_ENDS,
    CHILD_GOES_ON,
    ENDS,
    MOST_PIECES,
    IndexTrieError,
    as_table,
    build_trie,
    local_tries,
    open_index_trie,
    write_index_trie,
)  # fmt: skip

words_of_pieces = st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=6).map(tuple), max_size=30)


@given(words_of_pieces)
def test_a_trie_holds_the_first_of_every_spelling_and_nothing_else(words: list[tuple[int, ...]]) -> None:
    trie = build_trie(as_table(words), np.arange(len(words), dtype=np.int32))
    first = {word: number for number, word in reversed(list(enumerate(words)))}
    assert dict(trie.words()) == first


@given(words_of_pieces)
def test_a_node_tells_what_its_children_are(words: list[tuple[int, ...]]) -> None:
    trie = build_trie(as_table(words), np.arange(len(words), dtype=np.int32))
    for node in range(len(trie)):
        children = trie.children(node)
        assert bool(trie.flags[node] & ENDS) == (trie.word[node] >= 0)
        assert bool(trie.flags[node] & CHILD_ENDS) == any(trie.word[child] >= 0 for child in children)
        assert bool(trie.flags[node] & CHILD_GOES_ON) == any(trie.num_children[child] for child in children)
        assert [trie.child(node, int(trie.piece[child])) for child in children] == list(children)
        assert trie.child(node, 99) == -1


@given(words_of_pieces)
def test_the_words_below_a_node_are_those_that_go_through_it(words: list[tuple[int, ...]]) -> None:
    trie = build_trie(as_table(words), np.arange(len(words), dtype=np.int32))
    found = node_words(trie)
    pairs = set(zip(found.nodes.tolist(), found.words.tolist(), strict=True))
    for word, number in trie.words():
        node = 0
        assert (0, number) in pairs
        for piece in word:
            node = trie.child(node, piece)
            assert (node, number) in pairs
    assert len(pairs) == len(found.nodes) == found.counts.sum()


def test_each_source_has_its_own_words() -> None:
    tries = local_tries(TERMS, SPELLING)
    for place, source in enumerate(LOCAL):
        root = int(tries.roots[0, place])
        below = {int(w) for n, w in zip(*node_words(tries.trie)[:2], strict=True) if n == root}
        assert below == {number for number, each in enumerate(TERMS) if source in each.sources}
    assert (tries.roots[0] == tries.roots[1]).all()


def test_a_term_of_unknown_letters_or_of_many_pieces_still_has_a_spelling() -> None:
    unknown = SPELLING.pieces("\u200b")
    assert len(unknown) == 1
    assert SPELLING.pieces("灯塔") == 2 * unknown
    assert len(SPELLING.pieces("lamp" + "x" * 300)) <= MOST_PIECES
    assert SPELLING.pieces("a\ud800b")


def test_a_mapped_trie_is_the_one_that_was_written(tmp_path: Path) -> None:
    terms = ["river", "rivers", "灯塔", "storm", "x" * 40, "lighthouse"]
    assert write_index_trie(tmp_path / "trie", terms, SPELLING) == 4
    trie = open_index_trie(tmp_path / "trie", SPELLING)
    assert trie is not None
    spelt = set()
    waiting = [(0, ())]
    while waiting:
        node, before = waiting.pop()
        if trie.flags[node] & ENDS:
            spelt.add(SPELLING.text(before))
        waiting += [(child, (*before, int(trie.piece[child]))) for child in trie.children(node)]
    assert spelt == {"river", "rivers", "storm", "lighthouse"}
    assert sum(each.nbytes for each in trie[:4]) == 9 * len(trie)


def test_a_missing_trie_is_none_and_a_damaged_one_an_error(tmp_path: Path) -> None:
    assert open_index_trie(tmp_path / "trie", SPELLING) is None
    write_index_trie(tmp_path / "trie", ["river", "storm"], SPELLING)
    file = tmp_path / "trie" / "first.npy"
    file.write_bytes(file.read_bytes()[:-4])
    with pytest.raises(IndexTrieError, match="delete the folder"):
        open_index_trie(tmp_path / "trie", SPELLING)
