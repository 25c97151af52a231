"""The legal refinements of a moment as a trie over tokens: operators × fields × the observation's unused terms."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from orienteer.agents.action_space import SLOTS, grammar_slots, open_slots, usable
from orienteer.agents.t5.codec import Codec
from orienteer.agents.t5.rendering import STOP_SENTENCE, frame
from orienteer.agents.t5.trie import Trie
from orienteer.query import Grammar, Refinement
from orienteer.session import STOP, Lexicon, Observation, Stop

_REMEMBERED = 1 << 15  # terms come back step after step

Tokens = tuple[int, ...]
Name = tuple[str, int]  # what a trie calls a refinement: its term, its slot

_PROBES = ("novels", "o'neil", "1,000.5", "b'", "x-ray")


class Speller:
    """The tokens of a term's sentences, one a slot; none where the vocabulary cannot spell the term.

    Tokenizers of T5's and BERT's kind cut at blanks before all else: the tokens of a sentence are those of its words,
    one after another, and the words of a frame need be cut only once. Where a tokenizer is of another kind, every
    sentence is cut whole.
    """

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._frames = [_split(*frame(*slot)) for slot in SLOTS]
        self._quotes = sorted({(left, right) for _, left, right, _ in self._frames})
        words = sorted({word for before, _, _, after in self._frames for word in (before, after)})
        self._fixed = dict(zip(words, map(tuple, codec.pieces(words)), strict=True))
        self.stop: Tokens = tuple(codec.pieces([STOP_SENTENCE])[0])
        self.by_words = all(self._joined(term) == self._whole(term) for term in _PROBES)
        self.sentences = lru_cache(_REMEMBERED)(self._joined if self.by_words else self._whole)

    def _joined(self, term: str) -> tuple[Tokens, ...]:
        cut = self._codec.pieces([f"{left}{term}{right}" for left, right in self._quotes])
        spelled = dict(zip(self._quotes, cut, strict=True))
        return self._known([
            (*self._fixed[before], *spelled[left, right], *self._fixed[after])
            for before, left, right, after in self._frames
        ])  # fmt: skip

    def _whole(self, term: str) -> tuple[Tokens, ...]:
        return self._known(map(tuple, self._codec.pieces([term.join(frame(*slot)) for slot in SLOTS])))

    def _known(self, sentences: Iterable[Tokens]) -> tuple[Tokens, ...]:
        found = tuple(sentences)
        return () if any(self._codec.unknown in tokens for tokens in found) else found


def _split(before: str, after: str) -> tuple[str, str, str, str]:
    """A frame as the words before the term's own word, what touches the term left and right, the words after it."""
    head, _, left = before.rpartition(" ")
    right, _, tail = after.partition(" ")
    return head, left, right, tail


class Legal:
    """Tries of what an agent may write."""

    def __init__(self, codec: Codec, grammar: Grammar, lexicon: Lexicon, most: int) -> None:
        self._speller, self._lexicon, self._most = Speller(codec), lexicon, most
        self._allowed = grammar_slots(grammar)

    def trie(self, observation: Observation) -> Trie:
        """Names are `Name`s, and STOP where the agent may stop; empty where there is no term left.

        A term too long to be written is left out. Of terms that are spelled alike, as BERT spells `cafe` and `café`,
        the first is meant.
        """
        terms = usable(observation, self._lexicon)
        slots = open_slots(terms) & self._allowed
        trie = Trie()
        for term, open in zip(terms, slots.tolist(), strict=True):
            for slot, tokens in enumerate(self._speller.sentences(term.text)):
                if open[slot] and len(tokens) <= self._most:
                    trie.add(tokens, (term.text, slot))
        if observation.may_stop:
            trie.add(self._speller.stop, STOP)
        return trie


def action_of(name: Name | Stop) -> Refinement | Stop:
    if isinstance(name, Stop):
        return name
    term, slot = name
    operator, field = SLOTS[slot]
    return operator.apply(field, term)
