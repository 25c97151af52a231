"""A MuZero folder: `config.json`, `model.safetensors`, `tokenizer.json`; read and written without torch.

As a pointer's folder, with "muzero" in the place of "pointer": the whole configuration, what it was trained on, and the
checksums of the other files. Tensors of h are named as a pointer's, those of g and f begin with "muzero.".
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_safetensors
from safetensors.numpy import save as save_safetensors

from orienteer.agents.muzero.config import Config
from orienteer.agents.pointer.features import MOMENT_FEATURES, TERM_FEATURES
from orienteer.errors import OrienteerError
from orienteer.reader.errors import ModelCorruptError, ModelMissingError
from orienteer.reader.folder import CONFIG, TOKENIZER, WEIGHTS, Tensors, quantise

SHIPPED = Path(__file__).parent / "weights"
LARGEST = 30_000_000  # bytes of the folder that is shipped
OWN = "muzero."  # how the names of g's and f's tensors begin


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
    def own(self) -> Tensors:
        """The tensors of g and f, without what their names begin with."""
        return {name.removeprefix(OWN): value for name, value in self.tensors.items() if name.startswith(OWN)}


def load_folder(folder: Path) -> MuZeroFiles:
    """The files of a MuZero folder, checked against their checksums."""
    if not (folder / CONFIG).is_file():
        raise ModelMissingError(
            f"{folder}: no MuZero there, {CONFIG} is missing; give a folder that `orienteer train muzero` wrote"
        )
    config_bytes = _bytes(folder / CONFIG)
    try:
        bert = json.loads(config_bytes)
        told = bert.pop("muzero")
        expected = told["sha256"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelMissingError(f"{folder}: its {CONFIG} is not a MuZero's: {error!r}; train one first") from None
    content = {name: _bytes(folder / name) for name in (WEIGHTS, TOKENIZER)}
    for name, data in content.items():
        if (found := hashlib.sha256(data).hexdigest()) != expected.get(name):
            raise _corrupt(folder / name, f"its checksum is {found[:12]}…, expected {str(expected.get(name))[:12]}…")
    if (told.get("term_features"), told.get("moment_features")) != (list(TERM_FEATURES), list(MOMENT_FEATURES)):
        raise ModelCorruptError(
            f"{folder}: trained with other features than this program computes; train it again, or use the version "
            "of Orienteer that wrote it"
        )
    try:
        tensors, config = load_safetensors(content[WEIGHTS]), Config.from_dict(told["config"])
    except (SafetensorError, ValueError, KeyError, TypeError, OrienteerError) as error:
        raise _corrupt(folder, f"{type(error).__name__}: {error}") from None
    fingerprint = hashlib.sha256(b"".join([config_bytes, *content.values()])).hexdigest()[:16]
    tensors = {name: _widened(value) for name, value in tensors.items()}
    return MuZeroFiles(bert, tensors, content[TOKENIZER].decode(), config, fingerprint, told.get("notes", {}))


def save_folder(
    folder: Path, bert: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]], tokenizer: str, config: Config,
    **notes: Any,
) -> None:  # fmt: skip
    """Writes a MuZero folder; `config.json`, which has the checksums, comes last."""
    content = {
        WEIGHTS: save_safetensors({name: np.ascontiguousarray(value) for name, value in tensors.items()}),
        TOKENIZER: tokenizer.encode(),
    }
    told = {
        "config": config.as_dict(),
        "notes": notes,
        "term_features": TERM_FEATURES,
        "moment_features": MOMENT_FEATURES,
        "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in content.items()},
    }
    # transformers notes where a model was loaded from: a path of the machine that trained it.
    kept = {key: value for key, value in bert.items() if key not in ("reader", "pointer", "muzero", "_name_or_path")}
    text = json.dumps({**kept, "muzero": told}, indent=1, sort_keys=True, default=str) + "\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in {**content, CONFIG: text.encode()}.items():
            partial = folder / f".{name}.partial"
            with partial.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(folder / name)
    except OSError as error:
        raise OrienteerError(f"{folder}: cannot be written: {error.strerror}; choose another folder") from None


def for_shipping(files: MuZeroFiles) -> Tensors:
    """The encoder in int8, every other matrix in half precision: less than 30 MB with a MiniLM."""
    return {
        name: value.astype(np.float16) if value.ndim == 2 and value.dtype == np.float32 else value
        for name, value in quantise(files.tensors).items()
    }


def _widened(value: NDArray[Any]) -> NDArray[Any]:
    return value.astype(np.float32) if value.dtype == np.float16 else value


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ModelMissingError(f"{path} is missing; copy or train the agent again") from None
    except OSError as error:
        raise ModelCorruptError(f"{path}: cannot be read: {error.strerror}") from None


def _corrupt(path: Path, detail: str) -> ModelCorruptError:
    return ModelCorruptError(f"{path}: truncated or damaged: {detail}; copy or train the agent again")
