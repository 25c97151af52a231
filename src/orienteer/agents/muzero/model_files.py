"""Files of weights, read without torch: model folders, pretrained encoders, and the weights published to actors.

A MuZero folder is a model folder whose config.json has an entry "muzero" with the whole `Config`. Tensors of h are
named as a pointer's; those of g and f begin with "muzero.".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load as load_safetensors
from safetensors.numpy import save_file
from tokenizers import Tokenizer

from orienteer.agents.action_space import OPERATORS, SLOTS
from orienteer.agents.encoding import KINDS, SOURCES, STATE_FEATURES, TERM_FEATURES, check_features
from orienteer.agents.lookahead.value_model import has_value_model
from orienteer.agents.muzero.config import Config
from orienteer.agents.muzero.representation import encoding_sizes
from orienteer.agents.pointer import model_files as pointer
from orienteer.data.atomic import atomic_path
from orienteer.errors import ModelCorruptError, ModelMissingError, TrainingError, WriteError
from orienteer.models.bert_encoder import plain_tokenizer
from orienteer.models.model_folder import (
    CONFIG,
    TOKENIZER,
    WEIGHTS,
    ModelFolder,
    Tensors,
    dequantise,
    load_model,
    quantise,
    write_folder,
)
from orienteer.reader import folder as reader

SHIPPED = Path(__file__).parent / "weights"
LARGEST = 30_000_000  # bytes of the shipped folder
NETWORKS = "muzero."  # how the names of g's and f's tensors begin


@dataclass(frozen=True, slots=True)
class MuZeroFiles:
    """What a MuZero folder holds; `bert` is the encoder's configuration."""

    bert: Mapping[str, Any]
    tensors: Tensors
    tokenizer: str  # the JSON of the tokenizer
    config: Config
    fingerprint: str
    notes: Mapping[str, Any]

    @property
    def has_layers(self) -> bool:
        """Whether h sees idf and PS of each token; it does once it was trained."""
        return {"layers.idf", "layers.ps"} <= self.tensors.keys()

    @property
    def networks(self) -> Tensors:
        """The tensors of g and f, without their prefix."""
        return {name.removeprefix(NETWORKS): value for name, value in self.tensors.items() if name.startswith(NETWORKS)}


def load_folder(folder: Path) -> MuZeroFiles:
    """Reads a MuZero folder and verifies its checksums."""
    return load_model(folder, ("muzero",), _parse)


def _parse(stored: ModelFolder) -> MuZeroFiles:
    entry = stored.entry
    check_features(stored.folder, (entry.get("term_features", ()), entry.get("moment_features", ())))
    config, notes = Config.from_dict(entry["config"]), entry.get("notes", {})
    return MuZeroFiles(stored.config, stored.tensors, stored.tokenizer, config, stored.fingerprint, notes)


def save_folder(
    folder: Path, bert: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]], tokenizer: str, config: Config,
    **notes: Any,
) -> None:  # fmt: skip
    """Writes a MuZero folder; `notes` go into its config.json."""
    features = {"term_features": TERM_FEATURES, "moment_features": STATE_FEATURES}
    entry = {"config": config.as_dict(), "notes": notes, **features}
    write_folder(folder, "muzero", bert, entry, tensors, tokenizer)


def for_shipping(files: MuZeroFiles) -> Tensors:
    """The encoder in int8, all other matrices in half precision: less than 30 MB with a MiniLM."""
    return {
        name: value.astype(np.float16) if value.ndim == 2 and value.dtype == np.float32 else value
        for name, value in quantise(files.tensors).items()
    }


PUBLISHED = "published.safetensors"


def publish(folder: Path, tensors: Mapping[str, NDArray[Any]], update: int) -> None:
    """Writes the newest weights for the actors."""
    write(folder / PUBLISHED, tensors, {"update": str(update)})


def published(folder: Path) -> tuple[dict[str, NDArray[Any]], int]:
    """The newest weights and their number of updates."""
    path = folder / PUBLISHED
    try:
        with safe_open(path, "np") as file:
            update = int(file.metadata()["update"])
            return {name: file.get_tensor(name) for name in file.keys()}, update  # noqa: SIM118
    except (SafetensorError, OSError, KeyError) as error:
        raise TrainingError(
            f"{path}: no weights for actors there ({error}); actors need the learner's folder"
        ) from None


def write(path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> None:
    """Writes arrays atomically: a kill at any time leaves the last file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as partial:
        try:
            save_file({name: np.asarray(value, order="C") for name, value in arrays.items()}, partial, dict(metadata))
        except SafetensorError as error:  # safetensors' own, also for a full disk
            raise WriteError(f"{path}: cannot be written: {error}; free the disk or choose another") from None


HIDDEN = 256
_KINDS = "encoder.embeddings.token_type_embeddings.weight"


@dataclass(frozen=True, slots=True)
class PretrainedEncoder:
    """Tensors of h, named as a pointer's; `cloned` if its head was trained, so that its scores can be a prior."""

    bert: Mapping[str, Any]
    tensors: Tensors
    tokenizer: str
    cloned: bool
    name: str

    @property
    def encoding_sizes(self) -> tuple[int, int]:
        """The lengths of `EncodedObservation.summary` and of a row of `terms`."""
        return encoding_sizes(int(self.bert["hidden_size"]), len(STATE_FEATURES), len(self.tensors["mix.bias"]))

    @property
    def has_value_model(self) -> bool:
        """Whether it has the value model that a lookahead needs."""
        return has_value_model(self.tensors)

    @property
    def word_embeddings(self) -> NDArray[np.float32]:
        """The word table [pieces, width]."""
        table: NDArray[np.float32] = dequantise(self.tensors)["encoder.embeddings.word_embeddings.weight"]
        return np.ascontiguousarray(table, np.float32)

    def plain_tokenizer(self) -> Tokenizer:
        return plain_tokenizer(self.tokenizer)


def load_pretrained(name: str | Path) -> PretrainedEncoder:
    """From the folder of a MuZero, a pointer, a reader (`shipped`: the one of the package) or a BERT."""
    folder = reader.SHIPPED if str(name) == "shipped" else Path(name)
    try:
        config = json.loads((folder / CONFIG).read_text())
    except (OSError, ValueError):
        raise ModelMissingError(
            f"{folder}: no model there; give the folder of a pointer, a reader or a BERT, or `shipped`"
        ) from None
    if "muzero" in config:
        return pretrained_from(load_folder(folder))
    if "pointer" in config:
        clone = pointer.load_folder(folder)
        return PretrainedEncoder(clone.config, clone.tensors, clone.tokenizer, True, folder.name)
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


def pretrained_from(files: MuZeroFiles) -> PretrainedEncoder:
    tensors = {name: value for name, value in files.tensors.items() if not name.startswith(NETWORKS)}
    return PretrainedEncoder(files.bert, tensors, files.tokenizer, bool(files.notes.get("cloned", False)), "muzero")


def _with_head(bert: Mapping[str, Any], encoder: Tensors, tokenizer: str, name: str) -> PretrainedEncoder:
    """An encoder with a new head of small random weights, always the same."""
    width = int(bert["hidden_size"])
    tensors = dict(encoder)
    kinds = dequantise({k: v for k, v in encoder.items() if k.startswith(_KINDS)})[_KINDS]
    tensors.pop(f"{_KINDS}.scale", None)
    if len(kinds) != KINDS:
        # Questions get the embedding of segment 0, everything else that of segment 1.
        tensors[_KINDS] = kinds[[0, *[min(1, len(kinds) - 1)] * (KINDS - 1)]]
    draw = np.random.default_rng(0)
    around = width + len(STATE_FEATURES)
    for layer, outer, inner in (
        ("term", HIDDEN, len(SOURCES) * width + len(TERM_FEATURES)), ("moment", HIDDEN, around),
        ("mix", HIDDEN, HIDDEN), ("slots", len(SLOTS), HIDDEN),
        ("whole", HIDDEN, around + len(OPERATORS) + HIDDEN), ("outcome", 2, HIDDEN),
    ):  # fmt: skip
        tensors[f"{layer}.weight"] = draw.normal(0, inner**-0.5, (outer, inner)).astype(np.float32)
        tensors[f"{layer}.bias"] = np.zeros(outer, np.float32)
    settings = {key: value for key, value in bert.items() if key not in ("_name_or_path", "architectures")}
    return PretrainedEncoder({**settings, "type_vocab_size": KINDS}, tensors, tokenizer, False, name)
