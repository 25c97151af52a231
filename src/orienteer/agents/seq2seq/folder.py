"""The folder of a model of text to text: `config.json`, `model.safetensors`, `tokenizer.json`; no torch is needed.

`config.json` holds the shape, and under the model's purpose, "t5" or "answerer", what it was trained to see and the
checksums of the other files. Weights have the names that transformers gives them: `shared.weight`, `encoder.…`,
`decoder.…`, and `head.weight` where it is not the word table.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_safetensors
from safetensors.numpy import save as save_safetensors

from orienteer.agents.seq2seq.shape import Shape
from orienteer.errors import OrienteerError
from orienteer.reader.errors import ModelCorruptError, ModelMissingError
from orienteer.reader.folder import CONFIG, TOKENIZER, WEIGHTS, Tensors

Purpose = Literal["t5", "answerer"]
_PURPOSES: tuple[Purpose, ...] = ("t5", "answerer")


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """What a folder holds; `told` is the entry of its purpose."""

    purpose: Purpose
    shape: Shape
    tensors: Tensors
    tokenizer: str  # the JSON of the tokenizer
    told: Mapping[str, Any]
    fingerprint: str

    @property
    def notes(self) -> dict[str, Any]:
        return {key: value for key, value in self.told.items() if key not in ("layout", "sha256")}


def load_folder(folder: Path, purpose: Purpose | None = None) -> ModelFiles:
    """The files of a folder, checked against their checksums; `purpose` is the one wanted, any where it is None."""
    made_by = f"orienteer train {purpose or 't5'}"
    if not (folder / CONFIG).is_file():
        raise ModelMissingError(f"{folder}: no model there, {CONFIG} is missing; give a folder that `{made_by}` wrote")
    config_bytes = _bytes(folder / CONFIG)
    try:
        config = json.loads(config_bytes)
    except ValueError as error:
        raise _corrupt(folder / CONFIG, f"invalid JSON: {error}") from None
    found = purpose_of(config)
    if found is None or (purpose and found != purpose):
        raise ModelMissingError(
            f"{folder}: its {CONFIG} has no entry {json.dumps(purpose or 't5')}, so this is another model; "
            f"train one from it: {made_by} --base FOLDER"
        )
    told = config[found]
    content = {name: _bytes(folder / name) for name in (WEIGHTS, TOKENIZER)}
    for name, data in content.items():
        expected = told.get("sha256", {}).get(name)
        if (digest := hashlib.sha256(data).hexdigest()) != expected:
            raise _corrupt(folder / name, f"its checksum is {digest[:12]}…, expected {str(expected)[:12]}…")
    try:
        tensors, shape = load_safetensors(content[WEIGHTS]), Shape.from_dict(config["shape"])
        tokenizer = content[TOKENIZER].decode()
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise _corrupt(folder, f"{type(error).__name__}: {error}") from None
    fingerprint = hashlib.sha256(b"".join([config_bytes, *content.values()])).hexdigest()[:16]
    return ModelFiles(found, shape, tensors, tokenizer, told, fingerprint)


def purpose_of(config: Any) -> Purpose | None:
    """What a folder with this configuration is for; None where it is none of ours."""
    if not isinstance(config, dict):
        return None
    return next((name for name in _PURPOSES if isinstance(config.get(name), dict)), None)


def save_folder(
    folder: Path,
    purpose: Purpose,
    shape: Shape,
    tensors: Tensors,
    tokenizer: str,
    layout: Mapping[str, Any],
    **notes: Any,
) -> None:
    """Writes a folder; `config.json`, which has the checksums, comes last. `notes` go beside them."""
    content = {
        WEIGHTS: save_safetensors({name: np.ascontiguousarray(value) for name, value in tensors.items()}),
        TOKENIZER: tokenizer.encode(),
    }
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in content.items()}
    told = {**notes, "layout": dict(layout), "sha256": sums}
    text = json.dumps({"shape": shape.as_dict(), purpose: told}, indent=1, sort_keys=True, default=str) + "\n"
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


def quantise(tensors: Mapping[str, NDArray[Any]]) -> Tensors:
    """Matrices as int8 with a scale for each row, as a reader's folder holds them; vectors and places stay float32."""
    out: Tensors = {}
    for name, value in tensors.items():
        if value.ndim == 2 and value.dtype == np.float32 and not name.endswith(_SMALL):
            scale = (127 / np.maximum(np.abs(value).max(1), 1e-12)).astype(np.float32)
            out[name] = np.rint(value * scale[:, None]).astype(np.int8)
            out[f"{name}.scale"] = scale
        else:
            out[name] = value
    return out


_SMALL = ("relative_attention_bias.weight", "position_embeddings.weight")


def to_int8(trained: Path, out: Path) -> None:
    """The same model with int8 weights, for playing and shipping."""
    files = load_folder(trained)
    save_folder(
        out, files.purpose, files.shape, quantise(files.tensors), files.tokenizer, files.told["layout"], **files.notes
    )


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ModelMissingError(f"{path} is missing; copy or train the model again") from None
    except OSError as error:
        raise ModelCorruptError(f"{path}: cannot be read: {error.strerror}") from None


def _corrupt(path: Path, detail: str) -> ModelCorruptError:
    return ModelCorruptError(f"{path}: truncated or damaged: {detail}; copy or train the model again")
