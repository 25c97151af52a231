"""What a decoder may write: the legal refinements of a state as a trie over tokens, or spans of the passages."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.action_space import SLOTS, grammar_slots, open_slots, usable_terms
from orienteer.agents.t5.model_files import Codec
from orienteer.agents.t5.rendering import STOP_SENTENCE, frame
from orienteer.query import Grammar, Refinement
from orienteer.session import STOP, Lexicon, Observation, Stop

Tokens = tuple[int, ...]
TrieNode = dict[int, Any]
TermSlot = tuple[str, int]  # a refinement as a value of a trie: its term, its slot

_VALUE = -1  # no token has this id; it holds the value of the sequence that ends here
_CACHED_TERMS = 1 << 15  # the same terms appear step after step
_PROBES = ("novels", "o'neil", "1,000.5", "b'", "x-ray")


class Trie:
    """Token sequences, each with a value; of two values of the same sequence, the first stays."""

    def __init__(self, sequences: Iterable[tuple[Sequence[int], Hashable]] = ()) -> None:
        self.root: TrieNode = {}
        for tokens, value in sequences:
            self.add(tokens, value)

    def add(self, tokens: Sequence[int], value: Hashable) -> None:
        node = self.root
        for token in tokens:
            node = node.setdefault(token, {})
        node.setdefault(_VALUE, value)

    def allowed(self, node: TrieNode) -> list[int]:
        return [token for token in node if token != _VALUE]

    def value(self, node: TrieNode) -> Any:
        return node.get(_VALUE)

    def advance(self, node: TrieNode, token: int) -> TrieNode:
        child: TrieNode = node[token]
        return child

    def __bool__(self) -> bool:
        return bool(self.root)


class SentenceTokenizer:
    """The tokens of a term's sentences, one sentence a slot; none where the vocabulary cannot spell the term.

    Tokenizers of T5's and BERT's kind split at blanks before all else: the tokens of a sentence are those of its
    words, one after another, so the words of a frame are tokenized once. With any other tokenizer (`by_words` is
    False), every sentence is tokenized whole.
    """

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._frames = [_split(*frame(*slot)) for slot in SLOTS]
        self._quotes = sorted({(left, right) for _, left, right, _ in self._frames})
        words = sorted({word for before, _, _, after in self._frames for word in (before, after)})
        self._frame_tokens = dict(zip(words, map(tuple, codec.tokenize(words)), strict=True))
        self.stop: Tokens = tuple(codec.tokenize([STOP_SENTENCE])[0])
        self.by_words = all(self._by_words(term) == self._whole(term) for term in _PROBES)
        self.sentences = lru_cache(_CACHED_TERMS)(self._by_words if self.by_words else self._whole)

    def _by_words(self, term: str) -> tuple[Tokens, ...]:
        quoted = self._codec.tokenize([f"{left}{term}{right}" for left, right in self._quotes])
        tokens = dict(zip(self._quotes, quoted, strict=True))
        return self._spellable([
            (*self._frame_tokens[before], *tokens[left, right], *self._frame_tokens[after])
            for before, left, right, after in self._frames
        ])  # fmt: skip

    def _whole(self, term: str) -> tuple[Tokens, ...]:
        return self._spellable(map(tuple, self._codec.tokenize([term.join(frame(*slot)) for slot in SLOTS])))

    def _spellable(self, sentences: Iterable[Tokens]) -> tuple[Tokens, ...]:
        tokens = tuple(sentences)
        return () if any(self._codec.unknown in each for each in tokens) else tokens


def _split(before: str, after: str) -> tuple[str, str, str, str]:
    """A frame as the words before the term's own word, what touches the term left and right, the words after it."""
    head, _, left = before.rpartition(" ")
    right, _, tail = after.partition(" ")
    return head, left, right, tail


class LegalActions:
    """Makes the trie of the legal actions of a state: operators × fields × the observation's unused terms."""

    def __init__(self, codec: Codec, grammar: Grammar, lexicon: Lexicon, max_length: int) -> None:
        self._sentences, self._lexicon, self._max_length = SentenceTokenizer(codec), lexicon, max_length
        self._grammar_slots = grammar_slots(grammar)

    def trie(self, observation: Observation) -> Trie:
        """Values are `TermSlot`s, and STOP where the agent may stop; empty where there is no term left.

        A term too long to be written is left out. Of terms with the same tokens, such as `cafe` and `café` in BERT's
        vocabulary, the first is meant.
        """
        terms = usable_terms(observation, self._lexicon)
        slots = open_slots(terms) & self._grammar_slots
        trie = Trie()
        for term, is_open in zip(terms, slots.tolist(), strict=True):
            for slot, tokens in enumerate(self._sentences.sentences(term.text)):
                if is_open[slot] and len(tokens) <= self._max_length:
                    trie.add(tokens, (term.text, slot))
        if observation.may_stop:
            trie.add(self._sentences.stop, STOP)
        return trie


def action_of(value: TermSlot | Stop) -> Refinement | Stop:
    if isinstance(value, Stop):
        return value
    term, slot = value
    operator, field = SLOTS[slot]
    return operator.apply(field, term)


_BREAK = -1  # between texts; no token has this id

SpanNode = tuple[NDArray[np.int64], int]  # positions where the span may begin, and its length in tokens


class PassageSpans:
    """Spans of whole words of some texts; a span's value is the text itself, case and accents included."""

    def __init__(self, codec: Codec, texts: Sequence[str], max_length: int) -> None:
        ids, starts, ends, owners = [_BREAK], [0], [0], [0]
        for number, tokens in enumerate(codec.tokenize_with_offsets(texts)):
            for token, (start, end) in [*tokens, (_BREAK, (0, 0))]:
                ids.append(token)
                starts.append(start)
                ends.append(end)
                owners.append(number)
        self._texts, self._max_length = texts, max_length
        self._ids, self._starts, self._ends, self._owners = map(np.array, (ids, starts, ends, owners))
        positions = range(len(ids))
        known = [ids[p] not in (_BREAK, codec.unknown) for p in positions]
        first = [known[p] and _word_starts(texts[owners[p]], starts[p]) for p in positions]
        self._is_last = np.array([known[p] and _word_ends(texts[owners[p]], ends[p]) for p in positions])
        self._ids[~np.array(known)] = _BREAK
        self.root: SpanNode = (np.flatnonzero(first), 0)

    def allowed(self, node: SpanNode) -> list[int]:
        begins, length = node
        if length >= self._max_length:
            return []
        # A text's last token is followed by a break, so this never leaves the array.
        return [token for token in np.unique(self._ids[begins + length]).tolist() if token != _BREAK]

    def value(self, node: SpanNode) -> str | None:
        begins, length = node
        complete = begins[self._is_last[begins + length - 1]] if length else begins[:0]
        if not len(complete):
            return None
        first = int(complete[0])
        text = self._texts[int(self._owners[first])]
        return text[int(self._starts[first]) : int(self._ends[first + length - 1])]

    def advance(self, node: SpanNode, token: int) -> SpanNode:
        begins, length = node
        return begins[self._ids[begins + length] == token], length + 1


def _word_starts(text: str, at: int) -> bool:
    return text[at : at + 1].isalnum() and not (at and text[at - 1].isalnum())


def _word_ends(text: str, at: int) -> bool:
    return bool(at) and text[at - 1].isalnum() and not text[at : at + 1].isalnum()
