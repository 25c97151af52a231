"""A reader of a few thousand random weights: the whole machinery, none of the skill."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from orienteer.models.model_folder import Tensors
from orienteer.reader.folder import save_folder

WORDS = "the a of in capital france paris is what who wrote seine river city lies on . , ? tolstoy war and peace"
CONFIG: dict[str, Any] = {
    "model_type": "bert",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 256,
    "type_vocab_size": 2,
}


def tiny_tokenizer() -> Tokenizer:
    letters = [mark + chr(code) for code in range(ord("a"), ord("z") + 1) for mark in ("", "##")]
    digits = [mark + digit for digit in "0123456789" for mark in ("", "##")]
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *dict.fromkeys([*WORDS.split(), *letters, *digits])]
    tokenizer = Tokenizer(WordPiece({name: i for i, name in enumerate(names)}, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    return tokenizer


def tiny_tensors(seed: int = 0) -> Tensors:
    generator = np.random.default_rng(seed)
    width, inner = CONFIG["hidden_size"], CONFIG["intermediate_size"]
    shapes: dict[str, tuple[int, ...]] = {
        "encoder.embeddings.word_embeddings.weight": (tiny_tokenizer().get_vocab_size(), width),
        "encoder.embeddings.position_embeddings.weight": (CONFIG["max_position_embeddings"], width),
        "encoder.embeddings.token_type_embeddings.weight": (2, width),
        "encoder.embeddings.LayerNorm.weight": (width,),
        "encoder.embeddings.LayerNorm.bias": (width,),
        "select.weight": (1, 2 * width),
        "select.bias": (1,),
        "span.weight": (2, width),
        "span.bias": (2,),
    }
    for number in range(CONFIG["num_hidden_layers"]):
        layer = f"encoder.encoder.layer.{number}"
        for name, rows, columns in (
            ("attention.self.query", width, width),
            ("attention.self.key", width, width),
            ("attention.self.value", width, width),
            ("attention.output.dense", width, width),
            ("intermediate.dense", inner, width),
            ("output.dense", width, inner),
        ):
            shapes |= {f"{layer}.{name}.weight": (rows, columns), f"{layer}.{name}.bias": (rows,)}
        for name in ("attention.output", "output"):
            shapes |= {f"{layer}.{name}.LayerNorm.weight": (width,), f"{layer}.{name}.LayerNorm.bias": (width,)}
    tensors = {name: generator.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}
    return {n: v + np.float32(1) if n.endswith("LayerNorm.weight") else v for n, v in tensors.items()}


def save_tiny(folder: Path, seed: int = 0) -> Path:
    tokenizer = tiny_tokenizer()
    config = {**CONFIG, "vocab_size": tokenizer.get_vocab_size()}
    save_folder(folder, config, tiny_tensors(seed), tokenizer.to_str())
    return folder
