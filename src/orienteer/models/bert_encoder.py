"""A BERT encoder in CTranslate2, without torch: wordpieces in, states out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import ctranslate2
import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from orienteer.models.ct2_format import model_files
from orienteer.models.model_folder import dequantise, quantise

Compute = Literal["int8", "float32"]


class BertEncoder:
    """Each row goes through alone: nothing is padded, and its states do not depend on what is encoded beside it.

    `threads` rows may be encoded at once, a core each. Raises KeyError, ValueError or RuntimeError where the tensors
    do not make a BERT of this configuration.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        tensors: Mapping[str, NDArray[Any]],
        tokenizer: Tokenizer,
        compute: Compute = "int8",
        threads: int = 1,
    ) -> None:
        self.vocabulary = vocabulary(tokenizer)
        stored = quantise(tensors) if compute == "int8" else dequantise(tensors)
        self._encoder = ctranslate2.Encoder(
            "bert",
            device="cpu",
            compute_type=compute,
            inter_threads=threads,
            intra_threads=1,
            files=model_files(config, stored, self.vocabulary),
        )

    def __call__(self, ids: Sequence[int], types: Sequence[int]) -> NDArray[np.float32]:
        """The last states [L, width] of wordpieces and their token types."""
        view = ctranslate2.StorageView.from_array
        row, length = view(np.array([ids], np.int32)), view(np.array([len(ids)], np.int32))
        result = self._encoder.forward_batch(row, length, token_type_ids=[list(types)])
        states: NDArray[np.float32] = np.array(result.last_hidden_state)[0]
        return states


def plain_tokenizer(text: str) -> Tokenizer:
    """A tokenizer from its JSON, without truncation or padding of its own."""
    tokenizer = Tokenizer.from_str(text)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def vocabulary(tokenizer: Tokenizer) -> list[str]:
    """The wordpieces in the order of their ids."""
    ids = tokenizer.get_vocab()
    return sorted(ids, key=ids.__getitem__)
