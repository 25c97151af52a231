"""Text-to-text models of a few thousand random weights: a T5, and a BERT with T5's decoder."""

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

from orienteer.agents.t5.model_files import Architecture, ModelFiles, Purpose, Seq2SeqConfig, load_folder, save_folder
from orienteer.agents.t5.rendering import Layout
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


def tiny_config(architecture: Architecture = "t5", **changes: Any) -> Seq2SeqConfig:
    tokenizer = seq2seq_tokenizer()
    bert = {**tiny.CONFIG, "max_position_embeddings": 512, "vocab_size": tokenizer.get_vocab_size()}
    settings: dict[str, Any] = {
        "vocabulary": tokenizer.get_vocab_size(), "width": tiny.CONFIG["hidden_size"], "inner": 48, "heads": 2,
        "head_width": 12, "encoder_layers": 2, "decoder_layers": 2, "output_scale": 0.2,
        "end": tokenizer.token_to_id("[SEP]"), "bert": bert if architecture == "bert" else None,
    }  # fmt: skip
    return Seq2SeqConfig(architecture, **{**settings, **changes})


def tiny_tensors(config: Seq2SeqConfig, seed: int = 0) -> Tensors:
    generator = np.random.default_rng(seed)
    width, across, places = config.width, config.heads * config.head_width, (config.buckets, config.heads)
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
                    for wi in ("wi_0", "wi_1") if config.gated else ("wi",):
                        shapes[f"{here}.{kind}.{wi}.weight"] = (config.inner, width)
                    shapes[f"{here}.{kind}.wo.weight"] = (width, config.inner)
                else:
                    attention(f"{here}.{kind}")
        shapes[f"{name}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"] = places
        shapes[f"{name}.final_layer_norm.weight"] = (width,)

    stack("decoder", config.decoder_layers, ("SelfAttention", "EncDecAttention", "DenseReluDense"))
    if config.architecture == "t5":
        stack("encoder", config.encoder_layers, ("SelfAttention", "DenseReluDense"))
        shapes["shared.weight"] = (config.vocabulary, width)
    tensors = {name: generator.normal(0, 0.3, size).astype(np.float32) for name, size in shapes.items()}
    tensors = {n: v + np.float32(1) if n.endswith("norm.weight") else v for n, v in tensors.items()}
    if config.architecture == "bert":
        tensors |= {name: value for name, value in tiny.tiny_tensors(seed).items() if name.startswith("encoder.")}
        for name, rows in (("word", config.vocabulary), ("position", 512)):
            whole = f"encoder.embeddings.{name}_embeddings.weight"
            tensors[whole] = generator.normal(0, 0.3, (rows, width)).astype(np.float32)
    return tensors


def save_seq2seq(
    folder: Path, architecture: Architecture = "t5", seed: int = 0, purpose: Purpose = "t5", layout: Any = None
) -> Path:
    config, tokenizer = tiny_config(architecture), seq2seq_tokenizer().to_str()
    save_folder(folder, purpose, config, tiny_tensors(config, seed), tokenizer, (layout or Layout()).as_dict())
    return folder


def tiny_files(folder: Path, architecture: Architecture = "t5", seed: int = 0) -> ModelFiles:
    return load_folder(save_seq2seq(folder, architecture, seed))
