"""Tries over terms as sequences of wordpieces: those of an observation, and that of an index's vocabulary.

Nodes are numbered level by level, so that the children of a node follow each other: a node is its piece, the number of
its first child, the number of its children, and flags: nine bytes. The trie of an index is kept in memory-mapped files.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from orienteer.data.atomic import atomic_path, atomic_write
from orienteer.engine.protocol import Engine, StoresTerms, fingerprint_of
from orienteer.errors import ModelCorruptError, OrienteerError
from orienteer.models.checks import encode_ids
from orienteer.reader.encoding import pieces
from orienteer.session import Term
from orienteer.session.observation import Source

# Sources of terms within an observation.
LOCAL: tuple[Source, ...] = ("question", "title", "snippet", "answer")
MOST_PIECES = 16  # of a word; the rest is cut off
# Flags of a node: a word ends here; a word ends at a child; a child has children.
ENDS, CHILD_ENDS, CHILD_GOES_ON = 1, 2, 4

Pieces = tuple[int, ...]


class Trie(NamedTuple):
    """Arrays [nodes]; node 0 is the root. `word` is the number of the word that ends there, -1 for none."""

    piece: NDArray[np.uint16]
    first_child: NDArray[np.int32]
    num_children: NDArray[np.uint16]
    flags: NDArray[np.uint8]
    word: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.piece)

    def children(self, node: int) -> range:
        first = int(self.first_child[node])
        return range(first, first + int(self.num_children[node]))

    def child(self, node: int, piece: int) -> int:
        """The child with a piece; -1 where there is none."""
        children = self.children(node)
        position = int(np.searchsorted(self.piece[children.start : children.stop], piece))
        return children[position] if position < len(children) and self.piece[children[position]] == piece else -1

    def words(self) -> Iterator[tuple[Pieces, int]]:
        """Every word with its number, by a walk through the trie: slow, for tests."""
        waiting: list[tuple[int, Pieces]] = [(0, ())]
        while waiting:
            node, before = waiting.pop()
            if self.flags[node] & ENDS:
                yield before, int(self.word[node])
            waiting += [(child, (*before, int(self.piece[child]))) for child in self.children(node)]


def build_trie(table: NDArray[np.int32], numbers: NDArray[np.int32]) -> Trie:
    """From words as rows of pieces [words, most pieces], padded with -1; of equal rows the first counts."""
    size, width = table.shape
    order = np.lexsort(table.T[::-1]) if size else np.zeros(0, np.int64)  # stable
    table, numbers = table[order], numbers[order]
    # A row begins a node at a level where it is the first with its pieces up to there.
    differs = np.ones((size, width), np.bool_)
    differs[1:] = np.logical_or.accumulate(table[1:] != table[:-1], axis=1)
    begins = differs & (table >= 0)
    per_level = begins.sum(0)
    levels = int(np.count_nonzero(per_level))
    offsets = np.concatenate([[1], 1 + np.cumsum(per_level)])
    total = int(offsets[levels])
    piece, word = np.zeros(total, np.uint16), np.full(total, -1, np.int32)
    first, count = np.zeros(total, np.int32), np.zeros(total, np.int64)
    lengths = (table >= 0).sum(1)
    above = np.zeros(size, np.int64)  # each row's node one level up
    for level in range(levels):
        rows = np.flatnonzero(begins[:, level])
        nodes = offsets[level] + np.arange(len(rows))
        piece[nodes] = table[rows, level]
        parents = above[rows]
        count += np.bincount(parents, minlength=total)
        lead = np.flatnonzero(np.diff(parents, prepend=-1))
        first[parents[lead]] = nodes[lead]
        here = offsets[level] + np.cumsum(begins[:, level]) - 1
        done = np.flatnonzero(lengths == level + 1)[::-1]  # backwards, so that the first of equal rows stays
        word[here[done]] = numbers[done]
        above = here
    flags = np.where(word >= 0, ENDS, 0).astype(np.uint8)
    for bit, holds in ((CHILD_ENDS, word >= 0), (CHILD_GOES_ON, count > 0)):
        up_to = np.concatenate([[0], np.cumsum(holds)])
        flags |= np.where((count > 0) & (up_to[first + count] > up_to[first]), bit, 0).astype(np.uint8)
    return Trie(piece, first, count.astype(np.uint16), flags, word)


def as_table(words: Sequence[Pieces]) -> NDArray[np.int32]:
    """Words as rows padded with -1."""
    table = np.full((len(words), max(map(len, words), default=0)), -1, np.int32)
    for row, word in zip(table, words, strict=True):
        row[: len(word)] = word
    return table


class TermTokenizer:
    """Terms as wordpieces, cached."""

    def __init__(self, tokenizer: Tokenizer, size: int = 1 << 16) -> None:
        if tokenizer.get_vocab_size() > 1 << 16:
            raise ModelCorruptError(
                f"a tokenizer of {tokenizer.get_vocab_size():,} pieces; expected at most 65,536, as a BERT has"
            )
        self._tokenizer = tokenizer
        self._unknown = tokenizer.token_to_id("[UNK]") or 0
        self.pieces: Callable[[str], Pieces] = lru_cache(size)(self._pieces)

    def _pieces(self, term: str) -> Pieces:
        """At most `MOST_PIECES`; one unknown piece for a term that has none. Two terms may have equal pieces."""
        [encoded] = pieces(self._tokenizer, [term])
        return tuple(encoded.ids[:MOST_PIECES]) or (self._unknown,)

    def index_pieces(self, terms: Sequence[str]) -> Iterator[Pieces]:
        """The pieces of those terms of an index that have no unknown letter and not too many pieces."""
        for start in range(0, len(terms), 1 << 14):
            batch = list(terms[start : start + (1 << 14)])
            for ids in encode_ids(self._tokenizer, batch):
                if 0 < len(ids) <= MOST_PIECES and self._unknown not in ids:
                    yield tuple(ids)

    def whole_words(self) -> list[str]:
        """The tokens that are complete words."""
        return sorted(name for name in self._tokenizer.get_vocab() if name.isalnum())

    def token(self, piece: int) -> str:
        return str(self._tokenizer.id_to_token(int(piece)))

    def text(self, pieces: Iterable[int]) -> str:
        """The text of a sequence of pieces."""
        return "".join(self.token(piece).removeprefix("##") for piece in pieces)

    @property
    def digest(self) -> str:
        return hashlib.sha256(self._tokenizer.to_str().encode()).hexdigest()[:16]


class LocalTries(NamedTuple):
    """The tries of an observation in one: `roots` [2, sources] are those of Σ↑ and Σ↓ by source, -1 where empty."""

    trie: Trie
    roots: NDArray[np.int32]


def local_tries(
    terms: Sequence[Term], term_tokenizer: TermTokenizer, promoted: Sequence[bool] | None = None
) -> LocalTries:
    """One trie per source; a word's number is that of its term.

    Both polarities share their tries, unless exploration is guided: then `promoted` says which terms are Σ↑; the others
    are Σ↓. A polarity that would have no term takes all.
    """
    pieces_of_terms = [term_tokenizer.pieces(term.text) for term in terms]
    polarities: list[tuple[int, Sequence[bool]]] = [(0, [True] * len(terms))]
    if promoted is not None:
        down = [not is_promoted for is_promoted in promoted]
        polarities = [(p, wanted) for p, wanted in ((0, promoted), (1, down))]
        polarities = [(p, wanted if any(wanted) else [True] * len(terms)) for p, wanted in polarities]
    words: list[Pieces] = []
    numbers: list[int] = []
    for polarity, wanted in polarities:
        for position, source in enumerate(LOCAL):
            root = polarity * len(LOCAL) + position
            for number, (term, term_pieces) in enumerate(zip(terms, pieces_of_terms, strict=True)):
                if wanted[number] and source in term.sources:
                    words.append((root, *term_pieces))
                    numbers.append(number)
    trie = build_trie(as_table(words), np.array(numbers, np.int32))
    roots = np.full((2, len(LOCAL)), -1, np.int32)
    for node in trie.children(0):
        roots.reshape(-1)[trie.piece[node]] = node
    if promoted is None:
        roots[1] = roots[0]
    return LocalTries(trie, roots)


# Fields of `Trie` and the names of their files.
_FILES = {"piece": "piece", "first_child": "first", "num_children": "degree", "flags": "told"}
_DONE = "trie.json"


class IndexTrieError(OrienteerError):
    """Files of an index's trie that cannot be written or are damaged."""


def write_index_trie(folder: Path, terms: Sequence[str], term_tokenizer: TermTokenizer) -> int:
    """Writes the trie of an index's vocabulary; returns the number of its words.

    `trie.json` is written last: without it there is no trie.
    """
    words = list(term_tokenizer.index_pieces(terms))
    trie = build_trie(as_table(words), np.arange(len(words), dtype=np.int32))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise IndexTrieError(f"{folder}: cannot be written: {error.strerror}; choose another folder") from None
    for name, file_name in _FILES.items():
        with atomic_path(folder / f"{file_name}.npy") as partial, partial.open("wb") as file:
            np.save(file, getattr(trie, name))
    info = {"words": len(words), "nodes": len(trie), "spelling": term_tokenizer.digest}
    atomic_write(folder / _DONE, json.dumps(info) + "\n")
    return len(words)


def open_index_trie(folder: Path, term_tokenizer: TermTokenizer) -> Trie | None:
    """The trie in a folder, memory-mapped; None if there is none that was made with this tokenizer."""
    try:
        info: dict[str, Any] = json.loads((folder / _DONE).read_text())
        if info["spelling"] != term_tokenizer.digest:
            return None
        # Copy-on-write, though nothing writes: read-only arrays would be another type for the compiled kernels.
        piece, first, count, flags = (
            np.asarray(np.load(folder / f"{name}.npy", mmap_mode="c")) for name in _FILES.values()
        )  # fmt: skip
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise IndexTrieError(f"{folder}: a damaged trie ({error}); delete the folder, it is made again") from None
    if {len(each) for each in (piece, first, count, flags)} != {info["nodes"]}:
        raise IndexTrieError(f"{folder}: a damaged trie, its files differ in length; delete the folder")
    # Words of the index are only imagined, never sent to the engine, so their numbers are not stored.
    return Trie(piece, first, count, flags, np.full(1, -1, np.int32))


_SMALL = 20_000  # terms: so few are tokenized faster than a file is read


def vocabulary_trie(engine: Engine, term_tokenizer: TermTokenizer, folder: Path | None = None) -> Trie:
    """The trie of an engine's vocabulary; for an engine that does not list its terms, that of all whole-word tokens.

    It is stored in `folder`, or in the user's cache under the index's fingerprint.
    """
    if not isinstance(engine, StoresTerms):
        return build_vocabulary_trie(term_tokenizer.whole_words(), term_tokenizer)
    if engine.vocabulary_size <= _SMALL:
        return build_vocabulary_trie(_terms(engine), term_tokenizer)
    home = folder or cache_folder() / f"{fingerprint_of(engine)}-{term_tokenizer.digest}"
    trie = open_index_trie(home, term_tokenizer)
    if trie is None:
        terms = _terms(engine)
        try:
            write_index_trie(home, terms, term_tokenizer)
            trie = open_index_trie(home, term_tokenizer)
        except OrienteerError:  # not writable
            trie = None
    return trie if trie is not None else build_vocabulary_trie(_terms(engine), term_tokenizer)


def _terms(engine: StoresTerms) -> list[str]:
    return [engine.term(number) for number in range(engine.vocabulary_size)]


def build_vocabulary_trie(terms: Sequence[str], term_tokenizer: TermTokenizer) -> Trie:
    words = list(term_tokenizer.index_pieces(terms))
    return build_trie(as_table(words), np.arange(len(words), dtype=np.int32))


def cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "orienteer" / "tries"
