"""The words that a plan may think of once it has searched in thought: those of the index, kept in files once made."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from orienteer.agents.muzero.tries import (
    IndexTrieError,
    Spelling,
    Trie,
    as_table,
    build_trie,
    open_index_trie,
    write_index_trie,
)  # fmt: skip
from orienteer.engine.protocol import Engine, StoresTerms, fingerprint_of

_SMALL = 20_000  # terms: so few are spelt sooner than they are read


def index_words(engine: Engine, spelling: Spelling, folder: Path | None = None) -> Trie:
    """The trie of an engine's vocabulary; of an engine that does not tell its terms, that of all whole wordpieces.

    It is kept in `folder`, or in the user's cache, by the index's fingerprint.
    """
    if not isinstance(engine, StoresTerms):
        return in_memory(spelling.whole_words(), spelling)
    if engine.vocabulary_size <= _SMALL:
        return in_memory(_terms(engine), spelling)
    home = folder or cache_folder() / f"{fingerprint_of(engine)}-{spelling.digest}"
    found = open_index_trie(home, spelling)
    if found is None:
        terms = _terms(engine)
        try:
            write_index_trie(home, terms, spelling)
            found = open_index_trie(home, spelling)
        except IndexTrieError:  # nowhere to keep it
            found = None
    return found if found is not None else in_memory(_terms(engine), spelling)


def _terms(engine: StoresTerms) -> list[str]:
    return [engine.term(number) for number in range(engine.vocabulary_size)]


def in_memory(terms: Sequence[str], spelling: Spelling) -> Trie:
    words = list(spelling.of_index(terms))
    return build_trie(as_table(words), np.arange(len(words), dtype=np.int32))


def cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "orienteer" / "tries"
