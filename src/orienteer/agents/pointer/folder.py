"""A pointer's folder: `config.json`, `model.safetensors`, `tokenizer.json`; read and written without torch.

As a reader's folder, with "pointer" in the place of "reader": how observations are rendered, how to decode, what it was
trained on, and the checksums of the other files.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_safetensors
from safetensors.numpy import save as save_safetensors

from orienteer.agents.pointer.decoding import Decoding
from orienteer.agents.pointer.features import MOMENT_FEATURES, TERM_FEATURES
from orienteer.agents.pointer.rendering import MAX_PIECES
from orienteer.errors import OrienteerError
from orienteer.query import GRAMMARS
from orienteer.reader.errors import ModelCorruptError, ModelMissingError
from orienteer.reader.folder import CONFIG, TOKENIZER, WEIGHTS, Tensors

SHIPPED = Path(__file__).parent / "weights"


@dataclass(frozen=True, slots=True)
class Layout:
    """What the weights were trained to see: a model of another layout would read noise.

    snippet   words of a passage that an observation shows
    grammar   that of the bare name `pointer`
    """

    max_pieces: int = MAX_PIECES
    snippet: int = 30
    grammar: str = "G4"
    term_features: tuple[str, ...] = TERM_FEATURES
    moment_features: tuple[str, ...] = MOMENT_FEATURES


@dataclass(frozen=True, slots=True)
class PointerFiles:
    """What a pointer's folder holds."""

    config: Mapping[str, Any]
    tensors: Tensors
    tokenizer: str  # the JSON of the tokenizer
    layout: Layout
    decoding: Decoding
    fingerprint: str


def load_folder(folder: Path) -> PointerFiles:
    """The files of a pointer's folder, checked against their checksums."""
    if not (folder / CONFIG).is_file():
        raise ModelMissingError(
            f"{folder}: no pointer there, {CONFIG} is missing; give a folder that `orienteer train pointer` wrote"
        )
    config_bytes = _bytes(folder / CONFIG)
    try:
        config = json.loads(config_bytes)
    except ValueError as error:
        raise _corrupt(folder / CONFIG, f"invalid JSON: {error}") from None
    if not isinstance(config, dict) or not isinstance(config.get("pointer"), dict):
        raise ModelMissingError(
            f'{folder}: its {CONFIG} has no entry "pointer", so this is another model; '
            "train a pointer from it: orienteer train pointer --base FOLDER"
        )
    content = {name: _bytes(folder / name) for name in (WEIGHTS, TOKENIZER)}
    told = config["pointer"]
    for name, data in content.items():
        expected = told.get("sha256", {}).get(name)
        if (found := hashlib.sha256(data).hexdigest()) != expected:
            raise _corrupt(folder / name, f"its checksum is {found[:12]}…, expected {str(expected)[:12]}…")
    try:
        tensors = load_safetensors(content[WEIGHTS])
        layout = _layout(folder, told["layout"])
        decoding = Decoding(**told["decoding"])
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise _corrupt(folder, f"{type(error).__name__}: {error}") from None
    fingerprint = hashlib.sha256(b"".join([config_bytes, *content.values()])).hexdigest()[:16]
    return PointerFiles(config, tensors, content[TOKENIZER].decode(), layout, decoding, fingerprint)


def save_folder(
    folder: Path,
    config: Mapping[str, Any],
    tensors: Mapping[str, NDArray[Any]],
    tokenizer: str,
    layout: Layout,
    decoding: Decoding,
    **notes: Any,
) -> None:
    """Writes a pointer's folder; `config.json`, which has the checksums, comes last. `notes` go beside them."""
    content = {
        WEIGHTS: save_safetensors({name: np.ascontiguousarray(value) for name, value in tensors.items()}),
        TOKENIZER: tokenizer.encode(),
    }
    told = {
        **notes,
        "layout": asdict(layout),
        "decoding": asdict(decoding),
        "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in content.items()},
    }
    # transformers notes where a model was loaded from: a path of the machine that trained it.
    kept = {key: value for key, value in config.items() if key not in ("reader", "pointer", "_name_or_path")}
    text = json.dumps({**kept, "pointer": told}, indent=1, sort_keys=True, default=str) + "\n"
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


def _layout(folder: Path, row: Mapping[str, Any]) -> Layout:
    lists = {name: tuple(row[name]) for name in ("term_features", "moment_features")}
    layout = Layout(**{**row, **lists})
    if (layout.term_features, layout.moment_features) != (TERM_FEATURES, MOMENT_FEATURES):
        raise ModelCorruptError(
            f"{folder}: trained with other features than this program computes; train it again, or use the version "
            "of Orienteer that wrote it"
        )
    if layout.grammar not in GRAMMARS:
        raise ValueError(f"a grammar {layout.grammar!r}")
    return layout


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ModelMissingError(f"{path} is missing; copy or train the pointer again") from None
    except OSError as error:
        raise ModelCorruptError(f"{path}: cannot be read: {error.strerror}") from None


def _corrupt(path: Path, detail: str) -> ModelCorruptError:
    return ModelCorruptError(f"{path}: truncated or damaged: {detail}; copy or train the pointer again")
