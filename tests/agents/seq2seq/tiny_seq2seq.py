"""Models of text to text of a few thousand random weights: a T5, and a BERT with T5's decoder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

sys.path.insert(0, str(Path(__file__).parents[2] / "reader"))
sys.path.insert(0, str(Path(__file__).parents[2] / "agents" / "pointer"))

import tiny
from tiny_pointer import pointer_tokenizer

from orienteer.agents.t5.config import Architecture, Shape
from orienteer.agents.t5.layout import Layout
from orienteer.agents.t5.model_files import ModelFiles, Purpose, load_folder, save_folder
from orienteer.models.model_folder import Tensors

SIGNS = ("'", ":", ".", ",", "boost", "contents", "title", "should", "must", "cannot", "contain", "stop", "grammar")


def seq2seq_tokenizer() -> Tokenizer:
    """The tiny pointer's vocabulary with the words of the agent's sentences."""
    from tokenizers.decoders import WordPiece as WordPieceDecoder
    from tokenizers.models import WordPiece

    known = pointer_tokenizer().get_vocab()
    names = sorted(known, key=known.__getitem__)
    names += [sign for sign in SIGNS if sign not in known]
    tokenizer = Tokenizer(WordPiece({name: i for i, name in enumerate(names)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = pointer_tokenizer().normalizer, pointer_tokenizer().pre_tokenizer
    tokenizer.decoder = WordPieceDecoder()
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    return tokenizer


def tiny_shape(architecture: Architecture = "t5", **changes: Any) -> Shape:
    tokenizer = seq2seq_tokenizer()
    bert = {**tiny.CONFIG, "max_position_embeddings": 512, "vocab_size": tokenizer.get_vocab_size()}
    told: dict[str, Any] = {
        "vocabulary": tokenizer.get_vocab_size(), "width": tiny.CONFIG["hidden_size"], "inner": 48, "heads": 2,
        "head_width": 12, "encoder_layers": 2, "decoder_layers": 2, "output_scale": 0.2,
        "end": tokenizer.token_to_id("[SEP]"), "bert": bert if architecture == "bert" else None,
    }  # fmt: skip
    return Shape(architecture, **{**told, **changes})


def tiny_tensors(shape: Shape, seed: int = 0) -> Tensors:
    generator = np.random.default_rng(seed)
    width, across, places = shape.width, shape.heads * shape.head_width, (shape.buckets, shape.heads)
    shapes: dict[str, tuple[int, ...]] = {}

    def attention(name: str) -> None:
        shapes.update({f"{name}.{each}.weight": (across, width) for each in "qkv"})
        shapes[f"{name}.o.weight"] = (width, across)

    def stack(name: str, layers: int, parts: tuple[str, ...]) -> None:
        for number in range(layers):
            for part, kind in enumerate(parts):
                here = f"{name}.block.{number}.layer.{part}"
                shapes[f"{here}.layer_norm.weight"] = (width,)
                if kind == "DenseReluDense":
                    for wi in ("wi_0", "wi_1") if shape.gated else ("wi",):
                        shapes[f"{here}.{kind}.{wi}.weight"] = (shape.inner, width)
                    shapes[f"{here}.{kind}.wo.weight"] = (width, shape.inner)
                else:
                    attention(f"{here}.{kind}")
        shapes[f"{name}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"] = places
        shapes[f"{name}.final_layer_norm.weight"] = (width,)

    stack("decoder", shape.decoder_layers, ("SelfAttention", "EncDecAttention", "DenseReluDense"))
    if shape.architecture == "t5":
        stack("encoder", shape.encoder_layers, ("SelfAttention", "DenseReluDense"))
        shapes["shared.weight"] = (shape.vocabulary, width)
    tensors = {name: generator.normal(0, 0.3, size).astype(np.float32) for name, size in shapes.items()}
    tensors = {n: v + np.float32(1) if n.endswith("norm.weight") else v for n, v in tensors.items()}
    if shape.architecture == "bert":
        tensors |= {name: value for name, value in tiny.tiny_tensors(seed).items() if name.startswith("encoder.")}
        for name, rows in (("word", shape.vocabulary), ("position", 512)):
            whole = f"encoder.embeddings.{name}_embeddings.weight"
            tensors[whole] = generator.normal(0, 0.3, (rows, width)).astype(np.float32)
    return tensors


def save_seq2seq(
    folder: Path, architecture: Architecture = "t5", seed: int = 0, purpose: Purpose = "t5", layout: Any = None
) -> Path:
    shape = tiny_shape(architecture)
    told = (layout or Layout()).as_dict()
    save_folder(folder, purpose, shape, tiny_tensors(shape, seed), seq2seq_tokenizer().to_str(), told)
    return folder


def tiny_files(folder: Path, architecture: Architecture = "t5", seed: int = 0) -> ModelFiles:
    return load_folder(save_seq2seq(folder, architecture, seed))
