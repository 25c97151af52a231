"""Encoders in CTranslate2, without torch: wordpieces in, states out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Literal, NamedTuple

import ctranslate2
import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from orienteer.errors import ModelCorruptError
from orienteer.models.checks import check_bert, plain_tokenizer
from orienteer.models.ct2_format import bert_files
from orienteer.models.model_folder import dequantise, quantise

__all__ = ["BertEncoder", "Bounds", "Compute", "Ct2Encoder", "plain_tokenizer", "vocabulary"]

Compute = Literal["int8", "float32"]
Int32s = NDArray[np.int32]

_AVX512 = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}


def _use_avx512(cpuinfo: Path = Path("/proc/cpuinfo")) -> None:
    """CTranslate2 takes AVX-512 by itself on Intel's processors alone; AMD's with it encode in a seventh less time.

    An instruction set that the environment names already stays.
    """
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return
    flags = next((line.split() for line in lines if line.startswith("flags")), [])
    if set(flags) >= _AVX512:
        os.environ.setdefault("CT2_FORCE_CPU_ISA", "AVX512")


_use_avx512()  # read when the first model is opened


class Bounds(NamedTuple):
    """Rows of an encoder's tables. CTranslate2 reads beyond their ends without a word."""

    words: int
    positions: int = 1 << 30
    types: int = 1 << 30

    @classmethod
    def of_bert(cls, tensors: Mapping[str, NDArray[Any]]) -> Bounds:
        names = (f"encoder.embeddings.{name}_embeddings.weight" for name in ("word", "position", "token_type"))
        return cls(*(len(tensors[name]) for name in names))

    def check(self, tokens: Int32s, types: Sequence[int] | None) -> None:
        """Raises `ModelCorruptError` where a token, its place or its type has no row."""
        for what, count, rows in (
            ("tokens", 1 + int(tokens.max(initial=0)), self.words),
            ("places", tokens.shape[1], self.positions),
            ("types", 1 + max(types or (0,)), self.types),
        ):
            if count > rows:
                raise ModelCorruptError(
                    f"the model has {rows:,} {what}, this input needs {count:,}; take another model"
                )


class Ct2Encoder:
    """An encoder from CTranslate2's files: each row goes through alone, so that its states never depend on a batch.

    `threads` rows may be encoded at once, a core each. With `split_single`, a row that comes alone is computed on
    all of these cores instead; its states are the same to the bit.
    """

    def __init__(
        self, files: dict[str, bytes], compute: Compute, threads: int, bounds: Bounds, split_single: bool = False
    ) -> None:
        self._bounds = bounds

        def opened(rows: int, cores: int) -> Any:
            return ctranslate2.Encoder(
                "encoder", device="cpu", compute_type=compute, inter_threads=rows, intra_threads=cores, files=files
            )

        self._encoder = opened(threads, 1)
        self._of_one = opened(1, threads) if split_single and threads > 1 else self._encoder

    def __call__(
        self, ids: Sequence[int] | Int32s, types: Sequence[int] | None = None, *, alone: bool = False
    ) -> NDArray[np.float32]:
        """The last states [L, width] of tokens and, for a BERT, their types."""
        tokens = np.array([ids], np.int32)
        self._bounds.check(tokens, types)
        view = ctranslate2.StorageView.from_array
        row, length = view(tokens), view(np.array([len(ids)], np.int32))
        more = {} if types is None else {"token_type_ids": [list(types)]}
        result = (self._of_one if alone else self._encoder).forward_batch(row, length, **more)
        states: NDArray[np.float32] = np.array(result.last_hidden_state)[0]
        return states


class RecentStates:
    """An encoder that remembers its last rows: a session meets the same ones again where a step changed nothing.

    At most `size` bytes of states are kept. Safe to share between threads.
    """

    def __init__(self, encoder: Ct2Encoder, size: int = 64 << 20) -> None:
        self._encoder, self._room = encoder, size
        self._states: dict[tuple[bytes, bytes], NDArray[np.float32]] = {}  # the oldest first
        self._lock = Lock()

    def __call__(self, ids: Int32s, types: NDArray[np.uint8], *, alone: bool = False) -> NDArray[np.float32]:
        """As the encoder's; the states are read-only."""
        key = ids.tobytes(), types.tobytes()
        with self._lock:
            if (known := self._states.pop(key, None)) is not None:
                self._states[key] = known
                return known
        states = self._encoder(ids, types.tolist(), alone=alone)
        states.flags.writeable = False
        with self._lock:
            if key not in self._states:
                self._states[key] = states
                self._room -= states.nbytes
            while self._room < 0:
                self._room += self._states.pop(next(iter(self._states))).nbytes
        return states


class BertEncoder(Ct2Encoder):
    """A BERT from its tensors. Raises KeyError, ValueError or RuntimeError where they do not fit the configuration."""

    def __init__(
        self,
        config: Mapping[str, Any],
        tensors: Mapping[str, NDArray[Any]],
        tokenizer: Tokenizer,
        compute: Compute = "int8",
        threads: int = 1,
        split_single: bool = False,
    ) -> None:
        check_bert(config, tensors, tokenizer)
        self.vocabulary = vocabulary(tokenizer)
        stored = quantise(tensors) if compute == "int8" else dequantise(tensors)
        files = bert_files(config, stored, self.vocabulary)
        super().__init__(files, compute, threads, Bounds.of_bert(tensors), split_single)


def vocabulary(tokenizer: Tokenizer) -> list[str]:
    """The wordpieces in the order of their ids."""
    ids = tokenizer.get_vocab()
    return sorted(ids, key=ids.__getitem__)
