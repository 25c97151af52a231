"""Encoders in CTranslate2's file format, made in memory; a BERT's from a reader's tensors.

CTranslate2 rounds activations to int8 row by row, so that a reading does not depend on what is read beside it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_BINARY_VERSION, _SPEC, _SPEC_REVISION = 6, "TransformerEncoderSpec", 1
_TYPE_IDS = {"float32": 0, "int8": 1, "int16": 2, "int32": 3}
_ADD_EMBEDDINGS = 1
_ACTIVATIONS = {"gelu": 3}


def bert_files(
    config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]], vocabulary: list[str]
) -> dict[str, bytes]:
    """A BERT as the files that `ctranslate2.Encoder(…, files=…)` wants."""
    variables = _bert_variables(config, tensors)
    return encoder_files(variables, vocabulary, config["layer_norm_eps"], ("[UNK]", "[CLS]", "[SEP]"))


def encoder_files(
    variables: Mapping[str, NDArray[Any]],
    vocabulary: list[str],
    epsilon: float,
    special_tokens: tuple[str, str, str] = ("", "", ""),
) -> dict[str, bytes]:
    """The files of an encoder with these variables; `epsilon` of its layer norms, tokens for unknown, start, end."""
    names = dict(zip(("unk_token", "bos_token", "eos_token"), special_tokens, strict=True))
    return {
        "model.bin": _binary(variables),
        "config.json": json.dumps({"layer_norm_epsilon": epsilon, **names}).encode(),
        "vocabulary.json": json.dumps(vocabulary).encode(),
    }


def stacked(tensors: Mapping[str, NDArray[Any]], target: str, *sources: str) -> dict[str, NDArray[Any]]:
    """The variable `target`: one matrix, or several on top of each other, with their int8 scales if they have some."""
    out = {f"{target}/weight": np.concatenate([tensors[f"{source}.weight"] for source in sources])}
    if f"{sources[0]}.weight.scale" in tensors:
        out[f"{target}/weight_scale"] = np.concatenate([tensors[f"{source}.weight.scale"] for source in sources])
    return out


def _bert_variables(config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    out: dict[str, NDArray[Any]] = {
        "encoder/activation": np.array(_ACTIVATIONS[config["hidden_act"]], np.int8),
        "encoder/embeddings_merge": np.array(_ADD_EMBEDDINGS, np.int8),
        "encoder/multi_query_attention": np.array(0, np.int8),
        "encoder/num_heads": np.array(config["num_attention_heads"], np.int16),
        "encoder/pre_norm": np.array(0, np.int8),
        "encoder/scale_embeddings": np.array(0, np.int8),
        "encoder/position_encodings/encodings": tensors["encoder.embeddings.position_embeddings.weight"],
    }

    def weight(target: str, *sources: str) -> None:
        out.update(stacked(tensors, target, *sources))

    def linear(target: str, *sources: str) -> None:
        weight(target, *sources)
        out[f"{target}/bias"] = np.concatenate([tensors[f"{s}.bias"] for s in sources])

    def norm(target: str, source: str) -> None:
        out[f"{target}/gamma"] = tensors[f"{source}.weight"]
        out[f"{target}/beta"] = tensors[f"{source}.bias"]

    weight("encoder/embeddings_0", "encoder.embeddings.word_embeddings")
    weight("encoder/embeddings_1", "encoder.embeddings.token_type_embeddings")
    norm("encoder/layernorm_embedding", "encoder.embeddings.LayerNorm")
    for number in range(config["num_hidden_layers"]):
        here, there = f"encoder/layer_{number}", f"encoder.encoder.layer.{number}"
        attention = f"{there}.attention.self"
        linear(f"{here}/self_attention/linear_0", *(f"{attention}.{name}" for name in ("query", "key", "value")))
        linear(f"{here}/self_attention/linear_1", f"{there}.attention.output.dense")
        norm(f"{here}/self_attention/layer_norm", f"{there}.attention.output.LayerNorm")
        linear(f"{here}/ffn/linear_0", f"{there}.intermediate.dense")
        linear(f"{here}/ffn/linear_1", f"{there}.output.dense")
        norm(f"{here}/ffn/layer_norm", f"{there}.output.LayerNorm")
    return out


def _binary(variables: Mapping[str, NDArray[Any]]) -> bytes:
    """An encoder's variables as `model.bin` holds them."""
    parts = [struct.pack("<I", _BINARY_VERSION), _string(_SPEC), struct.pack("<II", _SPEC_REVISION, len(variables))]
    for name, value in sorted(variables.items()):
        data = np.ascontiguousarray(value).tobytes()
        shape = struct.pack(f"<B{value.ndim}I", value.ndim, *value.shape)
        parts += [_string(name), shape, struct.pack("<BI", _TYPE_IDS[value.dtype.name], len(data)), data]
    return b"".join([*parts, struct.pack("<I", 0)])  # no aliases


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<H", len(data) + 1) + data + b"\0"
