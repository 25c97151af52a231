"""`analyze` for many texts at once, by the compiled tokenizer that builds indexes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from orienteer.engine.embedded.analysis import ACCEPTS, CLASS_OF, LOWER, STOP_WORDS, TRANSITIONS
from orienteer.engine.embedded.kernels.tokenize import tokenize_batch

_TOGETHER = 256  # texts: a batch has room for some 65,000 different terms
_STOP_WORDS = " ".join(sorted(STOP_WORDS)).encode()


def analyze_texts(texts: Sequence[str]) -> list[list[str | None]]:
    """The index terms of each text by position; None where a stop word was removed."""
    return [terms for at in range(0, len(texts), _TOGETHER) for terms in _analysed(texts[at : at + _TOGETHER])]


def _analysed(texts: Sequence[str]) -> Iterator[list[str | None]]:
    parts = [_STOP_WORDS, *(text.encode("utf-8", "replace") for text in texts)]  # passage 0: they are numbered first
    ends = np.cumsum([len(part) for part in parts])
    bounds = np.stack([ends - [len(part) for part in parts]] * 2 + [ends], axis=1).astype(np.int64)
    buffer = np.frombuffer(b"".join(parts), np.uint8)
    stream, stream_ends, _, _, term_ends, letters = tokenize_batch(
        buffer, bounds, CLASS_OF, LOWER, TRANSITIONS, ACCEPTS, len(STOP_WORDS)
    )
    written = letters.tobytes()
    terms: list[str | None] = [written[start:end].decode() for start, end in pairwise(term_ends.tolist())]
    terms.append(None)  # number -1
    for start, end in pairwise(stream_ends.tolist()):
        yield [terms[number] for number in stream[start:end].tolist()]
