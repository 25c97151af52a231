"""What h starts from: the cloned agent's encoder and head; or a reader's or any BERT's encoder with a new head."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_safetensors
from tokenizers import Tokenizer

from orienteer.agents.action_space import OPERATORS, SLOTS
from orienteer.agents.muzero import model_files as own
from orienteer.agents.muzero.model_files import OWN, MuZeroFiles
from orienteer.agents.muzero.representation import sight_sizes
from orienteer.agents.pointer import model_files as pointer
from orienteer.agents.pointer.agent import plain_tokenizer
from orienteer.agents.pointer.features import MOMENT_FEATURES, TERM_FEATURES
from orienteer.agents.pointer.rendering import KINDS, SOURCES
from orienteer.errors import ModelCorruptError, ModelMissingError
from orienteer.models.model_folder import CONFIG, TOKENIZER, WEIGHTS, Tensors, dequantise
from orienteer.reader import folder as reader

HIDDEN = 256
_KINDS = "encoder.embeddings.token_type_embeddings.weight"


@dataclass(frozen=True, slots=True)
class Base:
    """Tensors of h as a pointer's are named; `cloned` where its head was trained, so that its opinion counts."""

    bert: Mapping[str, Any]
    tensors: Tensors
    tokenizer: str
    cloned: bool
    name: str

    @property
    def sizes(self) -> tuple[int, int]:
        """The lengths of what h sees: of a moment, and of a word."""
        return sight_sizes(int(self.bert["hidden_size"]), len(MOMENT_FEATURES), len(self.tensors["mix.bias"]))

    @property
    def looks(self) -> bool:
        """Whether it has learned what passages within sight are worth."""
        return "weigher.centre" in self.tensors

    @property
    def words(self) -> NDArray[np.float32]:
        """The word table [pieces, width]."""
        table: NDArray[np.float32] = dequantise(self.tensors)["encoder.embeddings.word_embeddings.weight"]
        return np.ascontiguousarray(table, np.float32)

    def plain_tokenizer(self) -> Tokenizer:
        return plain_tokenizer(self.tokenizer)


def load_base(name: str | Path) -> Base:
    """A MuZero's or a pointer's folder; a reader's, `shipped` for the one that comes with the package; or a BERT's."""
    folder = reader.SHIPPED if str(name) == "shipped" else Path(name)
    try:
        config = json.loads((folder / CONFIG).read_text())
    except (OSError, ValueError):
        raise ModelMissingError(
            f"{folder}: no model there; give the folder of a pointer, a reader or a BERT, or `shipped`"
        ) from None
    if "muzero" in config:
        return base_of(own.load_folder(folder))
    if "pointer" in config:
        found = pointer.load_folder(folder)
        return Base(found.config, found.tensors, found.tokenizer, True, folder.name)
    if "reader" in config:
        files = reader.load_folder(folder)
        encoder = {name: value for name, value in files.tensors.items() if name.startswith("encoder.")}
        return _with_head(files.config, encoder, files.tokenizer, folder.name)
    try:
        tensors = load_safetensors((folder / WEIGHTS).read_bytes())
        tokenizer = (folder / TOKENIZER).read_text()
    except (OSError, SafetensorError, ValueError) as error:
        raise ModelCorruptError(f"{folder}: no BERT can be read from there: {error}") from None
    encoder = {
        f"encoder.{n.removeprefix('bert.')}": v for n, v in tensors.items() if "pooler" not in n and "cls." not in n
    }
    return _with_head(config, encoder, tokenizer, folder.name)


def base_of(files: MuZeroFiles) -> Base:
    tensors = {name: value for name, value in files.tensors.items() if not name.startswith(OWN)}
    return Base(files.bert, tensors, files.tokenizer, bool(files.notes.get("cloned", False)), "muzero")


def _with_head(bert: Mapping[str, Any], encoder: Tensors, tokenizer: str, name: str) -> Base:
    """New layers with small random weights, the same for everybody."""
    width = int(bert["hidden_size"])
    tensors = dict(encoder)
    kinds = dequantise({k: v for k, v in encoder.items() if k.startswith(_KINDS)})[_KINDS]
    tensors.pop(f"{_KINDS}.scale", None)
    if len(kinds) != KINDS:
        # Questions as segment 0 was, all else as segment 1.
        tensors[_KINDS] = kinds[[0, *[min(1, len(kinds) - 1)] * (KINDS - 1)]]
    draw = np.random.default_rng(0)
    around = width + len(MOMENT_FEATURES)
    for layer, outer, inner in (
        ("term", HIDDEN, len(SOURCES) * width + len(TERM_FEATURES)), ("moment", HIDDEN, around),
        ("mix", HIDDEN, HIDDEN), ("slots", len(SLOTS), HIDDEN),
        ("whole", HIDDEN, around + len(OPERATORS) + HIDDEN), ("outcome", 2, HIDDEN),
    ):  # fmt: skip
        tensors[f"{layer}.weight"] = draw.normal(0, inner**-0.5, (outer, inner)).astype(np.float32)
        tensors[f"{layer}.bias"] = np.zeros(outer, np.float32)
    settings = {key: value for key, value in bert.items() if key not in ("_name_or_path", "architectures")}
    return Base({**settings, "type_vocab_size": KINDS}, tensors, tokenizer, False, name)
