"""The encoder of a text-to-text model in CTranslate2, without torch: T5's own or a BERT's, built in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.t5.model_files import Seq2SeqConfig, quantise
from orienteer.models.bert_encoder import Bounds, Compute, Ct2Encoder
from orienteer.models.ct2_format import bert_files, encoder_files, stacked
from orienteer.models.model_folder import dequantise

_ACTIVATIONS = {"relu": 0, "gelu_new": 1, "silu": 2, "gelu": 3}


class SourceEncoder:
    """Token ids in, one state a token out."""

    def __init__(
        self,
        config: Seq2SeqConfig,
        tensors: Mapping[str, NDArray[Any]],
        vocabulary: list[str],
        compute: Compute,
        threads: int,
    ) -> None:
        """Raises KeyError, ValueError or RuntimeError where the tensors do not fit the configuration."""
        tensors = quantise(dequantise(tensors)) if compute == "int8" else dequantise(tensors)
        # CTranslate2 needs a name for each row of the word table; T5's table has more rows than its tokenizer names.
        names = [*vocabulary, *(f"<spare {n}>" for n in range(config.vocabulary - len(vocabulary)))]
        self._bert = config.bert if config.architecture == "bert" else None
        if self._bert is None:
            files = encoder_files(_t5_variables(config, tensors), names, config.epsilon)
        else:
            files = bert_files(self._bert, tensors, names)
        bounds = Bounds(len(tensors["shared.weight"])) if self._bert is None else Bounds.of_bert(tensors)
        self._encoder = Ct2Encoder(files, compute, threads, bounds, split_single=True)

    def __call__(self, ids: Sequence[int], *, alone: bool = False) -> NDArray[np.float32]:
        """[L, width]"""
        return self._encoder(ids, None if self._bert is None else [0] * len(ids), alone=alone)


def _t5_variables(config: Seq2SeqConfig, tensors: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    out: dict[str, NDArray[Any]] = {
        "encoder/activation": np.array(_ACTIVATIONS[config.activation], np.int8),
        "encoder/embeddings_merge": np.array(0, np.int8),
        "encoder/multi_query_attention": np.array(0, np.int8),
        "encoder/num_heads": np.array(config.heads, np.int16),
        "encoder/pre_norm": np.array(1, np.int8),
        "encoder/scale_embeddings": np.array(0, np.int8),
        "encoder/layer_norm/gamma": tensors["encoder.final_layer_norm.weight"],
    }

    def weight(target: str, *sources: str) -> None:
        out.update(stacked(tensors, target, *sources))

    weight("encoder/embeddings_0", "shared")
    bias = tensors["encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"]
    for number in range(config.encoder_layers):
        layer, block = f"encoder/layer_{number}", f"encoder.block.{number}.layer"
        attention, feed = f"{block}.0.SelfAttention", f"{block}.1.DenseReluDense"
        weight(f"{layer}/self_attention/linear_0", *(f"{attention}.{name}" for name in "qkv"))
        weight(f"{layer}/self_attention/linear_1", f"{attention}.o")
        out |= {
            f"{layer}/self_attention/queries_scale": np.array(1, np.float32),
            f"{layer}/self_attention/relative_attention_bias": bias,
            f"{layer}/self_attention/relative_attention_max_distance": np.array(config.max_distance, np.int32),
            f"{layer}/self_attention/head_dim": np.array(config.head_width, np.int32),
            f"{layer}/self_attention/layer_norm/gamma": tensors[f"{block}.0.layer_norm.weight"],
            f"{layer}/ffn/layer_norm/gamma": tensors[f"{block}.1.layer_norm.weight"],
        }
        weight(f"{layer}/ffn/linear_0", f"{feed}.wi_0" if config.gated else f"{feed}.wi")
        if config.gated:
            weight(f"{layer}/ffn/linear_0_noact", f"{feed}.wi_1")
        weight(f"{layer}/ffn/linear_1", f"{feed}.wo")
    return out
