"""h at work, without torch: what it makes of observations, each encoded once; CTranslate2 in int8."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import ctranslate2
import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from orienteer.agents.lookahead.value_model import Weigher
from orienteer.agents.muzero.deterministic_matmul import Floats
from orienteer.agents.muzero.observation_tokens import Look, layered_kinds, layered_table
from orienteer.agents.pointer.head import pool
from orienteer.agents.pointer.linear import linear
from orienteer.errors import ModelCorruptError
from orienteer.models.ct2_format import model_files
from orienteer.models.model_folder import dequantise, quantise
from orienteer.reader.runtime import Compute

_KINDS = "encoder.embeddings.token_type_embeddings.weight"
_LAYERS = ("layers.idf", "layers.ps")
_HEAD = ("term", "moment", "mix", "slots", "whole", "outcome")


class Sight(NamedTuple):
    """What h makes of an observation.

    whole   [size]: the first token's state, the moment's features, the best of all words, stop and gain
    terms   [terms, width]: each word that may be used, from its states in every source
    slots   [terms, slots] and `stop`: what the cloned agent would do, as scores
    """

    whole: Floats
    terms: Floats
    slots: Floats
    stop: float


class Eyes:
    """The encoder and the cloned agent's head, from tensors named as a pointer's."""

    def __init__(
        self, bert: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]], tokenizer: Tokenizer,
        *, compute: Compute = "int8", threads: int = 0,
    ) -> None:  # fmt: skip
        threads = threads or len(os.sched_getaffinity(0))
        ids = tokenizer.get_vocab()
        own = {name: value for name, value in tensors.items() if not name.startswith("muzero.")}
        try:
            plain = dequantise(own)
            layers = [plain.get(name) for name in _LAYERS]
            # The layers are absent until h is trained: then a token's kind is its type alone.
            self._layered = layers[0] is not None and layers[1] is not None
            matrices = quantise(own) if compute == "int8" else dict(plain)
            if layers[0] is not None and layers[1] is not None:
                matrices.pop(f"{_KINDS}.scale", None)
                matrices[_KINDS] = layered_table(plain[_KINDS], layers[0], layers[1])
            model = model_files(bert, matrices, sorted(ids, key=ids.__getitem__))
            self._encoder = ctranslate2.Encoder(
                "muzero", device="cpu", compute_type=compute, inter_threads=threads, intra_threads=1, files=model
            )
            self.weigher = Weigher(plain) if "weigher.centre" in plain else None
            self.words = np.ascontiguousarray(plain["encoder.embeddings.word_embeddings.weight"], np.float32)
            self._head = {
                name: (np.ascontiguousarray(plain[f"{name}.weight"].T, np.float32), plain[f"{name}.bias"])
                for name in _HEAD
            }
        except (KeyError, RuntimeError, ValueError) as error:
            raise ModelCorruptError(f"these weights do not make an h: {error!r}; train it again") from None
        digest = hashlib.sha256()
        for name in sorted(own):
            digest.update(name.encode() + np.ascontiguousarray(own[name]).tobytes())
        self.fingerprint = f"{digest.hexdigest()[:16]}-{compute}"
        self._workers = ThreadPoolExecutor(threads, "muzero") if threads > 1 else None

    def see(self, looks: Sequence[Look], grammar: Floats) -> list[Sight]:
        """Each alone on one core: what is seen does not depend on the company. `grammar` as `grammar_bits`."""
        mapped = self._workers.map if self._workers and len(looks) > 1 else map
        return list(mapped(lambda look: self._see(look, grammar), looks))

    def _see(self, look: Look, grammar: Floats) -> Sight:
        row = look.rendered
        kinds = layered_kinds(row.types, look.idf, look.ps) if self._layered else row.types
        stored = ctranslate2.StorageView.from_array
        size = stored(np.array([len(row.ids)], np.int32))
        found = self._encoder.forward_batch(stored(row.ids[None]), size, token_type_ids=[kinds.tolist()])
        states = np.array(found.last_hidden_state)[0]  # [L, width]
        pooled = np.concatenate([pool(states, row.occurrences, len(look.of_terms)), look.of_terms], 1)
        around = np.concatenate([states[0], look.of_moment])[None]
        terms = _relu(self._linear("term", pooled) + self._linear("moment", around))
        terms = _relu(self._linear("mix", terms))
        best = terms.max(0) if len(terms) else np.zeros(terms.shape[1], np.float32)
        whole = _relu(self._linear("whole", np.concatenate([around[0], grammar, best])[None]))
        [outcome] = self._linear("outcome", whole)
        return Sight(np.concatenate([around[0], best, outcome]), terms, self._linear("slots", terms), float(outcome[0]))

    def _linear(self, name: str, x: Floats) -> Floats:
        return linear(x, *self._head[name])


def sight_sizes(bert_width: int, moment_features: int, hidden: int) -> tuple[int, int]:
    """The lengths of `whole` and of a term."""
    return bert_width + moment_features + hidden + 2, hidden


def _relu(x: Floats) -> Floats:
    return np.maximum(x, np.float32(0))
