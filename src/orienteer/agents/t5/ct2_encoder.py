"""The encoder in CTranslate2, without torch: T5's own, made in memory from its tensors, or a BERT's."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import ctranslate2
import numpy as np
from numpy.typing import NDArray

from orienteer.agents.t5.config import Shape
from orienteer.agents.t5.model_files import quantise
from orienteer.models.ct2_format import encoder_binary, model_files
from orienteer.models.model_folder import dequantise
from orienteer.reader.runtime import Compute

_ACTIVATIONS = {"relu": 0, "gelu_new": 1, "silu": 2, "gelu": 3}


class TextEncoder:
    """Token ids in, one state a token out. Each text goes through alone, so that its states depend on it alone."""

    def __init__(
        self, shape: Shape, tensors: Mapping[str, NDArray[Any]], vocabulary: list[str], compute: Compute, threads: int
    ) -> None:
        """Raises KeyError, ValueError or RuntimeError where the tensors do not make this shape."""
        tensors = quantise(dequantise(tensors)) if compute == "int8" else dequantise(tensors)
        self._is_bert = shape.architecture == "bert"
        # CTranslate2 wants a name for each row of the word table; T5's table has more rows than its tokenizer names.
        names = [*vocabulary, *(f"<spare {n}>" for n in range(shape.vocabulary - len(vocabulary)))]
        if self._is_bert:
            assert shape.bert is not None
            files = model_files(shape.bert, _placed(tensors), names)
        else:
            files = _t5_files(shape, tensors, names)
        self._many = _opened(files, compute, rows=threads, cores=1)
        # A text that comes alone is shared by all cores; its states are the same to the bit.
        self._one = _opened(files, compute, rows=1, cores=threads) if threads > 1 else self._many

    def __call__(self, ids: Sequence[int], *, alone: bool = False) -> NDArray[np.float32]:
        """[L, width]"""
        stored = ctranslate2.StorageView.from_array
        row, size = stored(np.array([ids], np.int32)), stored(np.array([len(ids)], np.int32))
        types = {"token_type_ids": [[0] * len(ids)]} if self._is_bert else {}
        result = (self._one if alone else self._many).forward_batch(row, size, **types)
        states: NDArray[np.float32] = np.array(result.last_hidden_state)[0]
        return states


def _opened(files: dict[str, bytes], compute: Compute, rows: int, cores: int) -> Any:
    return ctranslate2.Encoder(
        "text", device="cpu", compute_type=compute, inter_threads=rows, intra_threads=cores, files=files
    )


def _placed(tensors: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The tensors of a BERT's encoder alone."""
    return {name: value for name, value in tensors.items() if name.startswith("encoder.")}


def _t5_files(shape: Shape, tensors: Mapping[str, NDArray[Any]], vocabulary: list[str]) -> dict[str, bytes]:
    settings = {"layer_norm_epsilon": shape.epsilon, "unk_token": "", "bos_token": "", "eos_token": ""}
    return {
        "model.bin": encoder_binary(_t5_variables(shape, tensors)),
        "config.json": json.dumps(settings).encode(),
        "vocabulary.json": json.dumps(vocabulary).encode(),
    }


def _t5_variables(shape: Shape, tensors: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    out: dict[str, NDArray[Any]] = {
        "encoder/activation": np.array(_ACTIVATIONS[shape.activation], np.int8),
        "encoder/embeddings_merge": np.array(0, np.int8),
        "encoder/multi_query_attention": np.array(0, np.int8),
        "encoder/num_heads": np.array(shape.heads, np.int16),
        "encoder/pre_norm": np.array(1, np.int8),
        "encoder/scale_embeddings": np.array(0, np.int8),
        "encoder/layer_norm/gamma": tensors["encoder.final_layer_norm.weight"],
    }

    def weight(target: str, *sources: str) -> None:
        """One matrix, or several on top of each other, with their scales where they have some."""
        out[f"{target}/weight"] = np.concatenate([tensors[f"{s}.weight"] for s in sources])
        if f"{sources[0]}.weight.scale" in tensors:
            out[f"{target}/weight_scale"] = np.concatenate([tensors[f"{s}.weight.scale"] for s in sources])

    weight("encoder/embeddings_0", "shared")
    places = tensors["encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"]
    for number in range(shape.encoder_layers):
        here, there = f"encoder/layer_{number}", f"encoder.block.{number}.layer"
        attention, feed = f"{there}.0.SelfAttention", f"{there}.1.DenseReluDense"
        weight(f"{here}/self_attention/linear_0", *(f"{attention}.{name}" for name in "qkv"))
        weight(f"{here}/self_attention/linear_1", f"{attention}.o")
        out |= {
            f"{here}/self_attention/queries_scale": np.array(1, np.float32),
            f"{here}/self_attention/relative_attention_bias": places,
            f"{here}/self_attention/relative_attention_max_distance": np.array(shape.max_distance, np.int32),
            f"{here}/self_attention/head_dim": np.array(shape.head_width, np.int32),
            f"{here}/self_attention/layer_norm/gamma": tensors[f"{there}.0.layer_norm.weight"],
            f"{here}/ffn/layer_norm/gamma": tensors[f"{there}.1.layer_norm.weight"],
        }
        weight(f"{here}/ffn/linear_0", f"{feed}.wi_0" if shape.gated else f"{feed}.wi")
        if shape.gated:
            weight(f"{here}/ffn/linear_0_noact", f"{feed}.wi_1")
        weight(f"{here}/ffn/linear_1", f"{feed}.wo")
    return out
