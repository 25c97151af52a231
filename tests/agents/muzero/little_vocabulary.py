"""A tokenizer of whole words and letters, terms, and walks through the grammar."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from orienteer.agents.muzero.grammar import (
    FIELD,
    NODE,
    OPERATOR,
    OPERATORS,
    USES_INDEX,
    Int32s,
    QueryGrammar,
    TrieTables,
    advance,
    legal_actions,
    max_legal_actions,
)
from orienteer.agents.muzero.tries import TermTokenizer
from orienteer.session import Term
from orienteer.session.observation import Source

WHOLE = "light house keeper lamp tower reef storm dial burden river"
PARTS = "s ect house ed er"


def little_tokenizer() -> Tokenizer:
    letters = [mark + chr(code) for code in range(ord("a"), ord("z") + 1) for mark in ("", "##")]
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"[unused{n}]" for n in range(40)), *WHOLE.split()]
    names = list(dict.fromkeys([*names, *(f"##{part}" for part in PARTS.split()), *letters]))
    tokenizer = Tokenizer(WordPiece({name: i for i, name in enumerate(names)}, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    return tokenizer


SPELLING = TermTokenizer(little_tokenizer())


def term(text: str, *sources: Source) -> Term:
    return Term(text, 1.0, frozenset(sources))


TERMS = [
    term("light", "question", "title"), term("lighthouse", "question", "snippet"), term("lights", "snippet"),
    term("dialects", "snippet"), term("dialect", "answer", "snippet"), term("lamp", "title"), term("zq", "answer"),
]  # fmt: skip

Written = tuple[str, str, int]  # operator with its weight, field, word's number


def choices(state: Int32s, session: int, grammar: QueryGrammar, trie_tables: TrieTables) -> list[tuple[int, int]]:
    size = max_legal_actions(grammar, trie_tables)
    actions, nodes = np.empty(size, np.int32), np.empty(size, np.int32)
    count = legal_actions(state, session, grammar.tables, trie_tables, actions, nodes)
    return list(zip(actions[:count].tolist(), nodes[:count].tolist(), strict=True))


def moved(
    state: Int32s, session: int, action: int, node: int, grammar: QueryGrammar, trie_tables: TrieTables
) -> tuple[Int32s, int]:
    after = np.empty_like(state)
    word = advance(state, session, action, node, grammar.tables, trie_tables, after)
    return after, int(word)


def written(grammar: QueryGrammar, trie_tables: TrieTables, session: int = 0) -> Iterator[Written]:
    """Every refinement that the grammar can write from [Q] before it searches, by trying all."""
    waiting = [grammar.start(3)]
    while waiting:
        state = waiting.pop()
        for action, node in choices(state, session, grammar, trie_tables):
            after, word = moved(state, session, action, node, grammar, trie_tables)
            if word >= 0:
                assert after[USES_INDEX]
                assert after[OPERATOR] == after[FIELD] == after[NODE] == -1
                operator = OPERATORS[state[OPERATOR]]
                field = "title" if state[FIELD] == 1 else "contents"
                yield f"{operator.op}{operator.weight:g}", field, int(trie_tables.local.word[word])
            else:
                waiting.append(after)
