"""A bare BERT of a few thousand random weights, as a folder, and as a program that is slow and obvious."""

from __future__ import annotations

import json
import sys
from math import erf
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save as save_safetensors

sys.path.insert(0, str(Path(__file__).parent.parent / "reader"))

from tiny import CONFIG, tiny_tensors, tiny_tokenizer

from orienteer.models.model_folder import Tensors


def bare_tensors(seed: int = 0) -> Tensors:
    named = tiny_tensors(seed).items()
    return {name.removeprefix("encoder."): value for name, value in named if name.startswith("encoder.")}


def save_bare(folder: Path, seed: int = 0, prefix: str = "", kind: str = "bert") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = tiny_tokenizer()
    config = {**CONFIG, "model_type": kind, "vocab_size": tokenizer.get_vocab_size()}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(tokenizer.to_str())
    tensors = {f"{prefix}{name}": value for name, value in bare_tensors(seed).items()}
    (folder / "model.safetensors").write_bytes(save_safetensors(tensors))
    return folder


def slow_vector(text: str, tensors: Tensors, pieces: int = 128) -> NDArray[np.float32]:
    """BERT's definition, written out: embeddings, attention, two layers; then the mean, as a unit vector."""
    tokenizer = tiny_tokenizer()
    inner = tokenizer.encode(text, add_special_tokens=False).ids[: pieces - 2]
    ids = [tokenizer.token_to_id("[CLS]"), *inner, tokenizer.token_to_id("[SEP]")]

    def linear(x: NDArray[np.float32], name: str) -> NDArray[np.float32]:
        return x @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"]

    def norm(x: NDArray[np.float32], name: str) -> NDArray[np.float32]:
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + CONFIG["layer_norm_eps"])
        return x * tensors[f"{name}.LayerNorm.weight"] + tensors[f"{name}.LayerNorm.bias"]

    def table(name: str) -> NDArray[np.float32]:
        return tensors[f"embeddings.{name}_embeddings.weight"]

    heads = CONFIG["num_attention_heads"]
    x = norm(table("word")[ids] + table("position")[: len(ids)] + table("token_type")[0], "embeddings")
    for layer in (f"encoder.layer.{n}" for n in range(CONFIG["num_hidden_layers"])):
        query, key, value = (
            np.stack(np.split(linear(x, f"{layer}.attention.self.{name}"), heads, axis=1))
            for name in ("query", "key", "value")
        )
        likeness = np.exp(query @ key.swapaxes(1, 2) / np.sqrt(query.shape[2]))
        mixed = np.concatenate(likeness / likeness.sum(2, keepdims=True) @ value, axis=1)
        x = norm(x + linear(mixed, f"{layer}.attention.output.dense"), f"{layer}.attention.output")
        wide = linear(x, f"{layer}.intermediate.dense")
        wide = wide * (1 + np.vectorize(erf)(wide / np.sqrt(2))) / 2
        x = norm(x + linear(wide, f"{layer}.output.dense"), f"{layer}.output")
    mean = x.mean(0)
    return mean / np.linalg.norm(mean)
