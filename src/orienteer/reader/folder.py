"""A reader's folder: `config.json`, `model.safetensors`, `tokenizer.json`; read and written without torch.

`config.json` is a BERT configuration with one more entry, "reader": the calibration, the measures and the checksums
of the other files. Weights are float32, or int8 by rows: `NAME` with `NAME.scale`, value = int8 / scale.
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

from orienteer.reader.calibration import Calibration
from orienteer.reader.errors import ModelCorruptError, ModelMissingError

CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"
SHIPPED = Path(__file__).parent / "weights"

Tensors = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class ReaderFiles:
    """What a reader's folder holds."""

    config: Mapping[str, Any]
    tensors: Tensors
    tokenizer: str  # the JSON of the tokenizer
    fingerprint: str

    @property
    def calibration(self) -> Calibration:
        return Calibration(*self.config["reader"]["calibration"])


def load_folder(folder: Path) -> ReaderFiles:
    """The files of a reader's folder, checked against their checksums."""
    if not (folder / CONFIG).is_file():
        raise ModelMissingError(
            f"{folder}: no reader there, {CONFIG} is missing; give a folder that `orienteer train reader` wrote, "
            "or none for the shipped one"
        )
    config_bytes = _bytes(folder / CONFIG)
    try:
        config = json.loads(config_bytes)
    except ValueError as error:
        raise _corrupt(folder / CONFIG, f"invalid JSON: {error}") from None
    if not isinstance(config, dict) or not isinstance(config.get("reader"), dict):
        raise ModelMissingError(
            f'{folder}: its {CONFIG} has no entry "reader", so this is a bare encoder; '
            "train a reader from it: orienteer train reader --base FOLDER"
        )
    content = {name: _bytes(folder / name) for name in (WEIGHTS, TOKENIZER)}
    for name, data in content.items():
        expected = config["reader"].get("sha256", {}).get(name)
        if (found := hashlib.sha256(data).hexdigest()) != expected:
            raise _corrupt(folder / name, f"its checksum is {found[:12]}…, expected {str(expected)[:12]}…")
    try:
        tensors = load_safetensors(content[WEIGHTS])
    except (SafetensorError, ValueError) as error:
        raise _corrupt(folder / WEIGHTS, str(error)) from None
    fingerprint = hashlib.sha256(b"".join([config_bytes, *content.values()])).hexdigest()[:16]
    return ReaderFiles(config, tensors, content[TOKENIZER].decode(), fingerprint)


def save_folder(
    folder: Path,
    config: Mapping[str, Any],
    tensors: Mapping[str, NDArray[Any]],
    tokenizer: str,
    calibration: Calibration | None = None,
    **notes: Any,
) -> None:
    """Writes a reader's folder; `config.json`, which has the checksums, comes last. `notes` go beside them."""
    content = {
        WEIGHTS: save_safetensors({name: np.ascontiguousarray(value) for name, value in tensors.items()}),
        TOKENIZER: tokenizer.encode(),
    }
    reader = {
        "calibration": list(calibration or Calibration()),
        "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in content.items()},
        **notes,
    }
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({**config, "reader": reader}, indent=1, sort_keys=True, default=str) + "\n"
    for name, data in {**content, CONFIG: text.encode()}.items():
        partial = folder / f".{name}.partial"
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(folder / name)


def quantise(tensors: Mapping[str, NDArray[Any]]) -> Tensors:
    """Matrices as int8 with a scale for each row; vectors, heads and places stay float32."""
    out: Tensors = {}
    for name, value in tensors.items():
        if _is_matrix(name, value) and value.dtype == np.float32:
            scale = (levels(name) / np.maximum(np.abs(value).max(1), 1e-12)).astype(np.float32)
            out[name] = np.rint(value * scale[:, None]).astype(np.int8)
            out[f"{name}.scale"] = scale
        else:
            out[name] = value
    return out


def levels(name: str) -> int:
    """The largest int8 of a matrix: 127 in tables that are only looked up, 64 in linear maps.

    Processors without VNNI add two products of an unsigned and a signed byte in 16 bits and cut off what does not fit:
    2 · 255 · 127 does not, 2 · 255 · 64 does. So the model gives the same on every processor.
    """
    return 127 if "embeddings" in name else 64


def dequantise(tensors: Mapping[str, NDArray[Any]]) -> Tensors:
    """All tensors as float32, without scales."""
    return {
        name: value.astype(np.float32) / tensors[f"{name}.scale"][:, None] if value.dtype == np.int8 else value
        for name, value in tensors.items()
        if not name.endswith(".scale")
    }


def _is_matrix(name: str, value: NDArray[Any]) -> bool:
    """The encoder's linear maps and its word and segment tables: all but 4 % of the weights."""
    return value.ndim == 2 and name.startswith("encoder.") and "position_embeddings" not in name


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ModelMissingError(f"{path} is missing; copy or train the reader again") from None
    except OSError as error:
        raise ModelCorruptError(f"{path}: cannot be read: {error.strerror}") from None


def _corrupt(path: Path, detail: str) -> ModelCorruptError:
    return ModelCorruptError(f"{path}: truncated or damaged: {detail}; copy or train the reader again")
