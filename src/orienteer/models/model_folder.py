"""The folder of a trained model: `config.json`, `model.safetensors`, `tokenizer.json`; read and written without torch.

An entry of `config.json`, named after what the model is, holds what training noted and the checksums of the other
files. Weights are float32, or int8 by rows: `NAME` with `NAME.scale`, value = int8 / scale.

A shipped model whose encoder is the shipped pointer's does not store it again: `shared` in its entry names the tensors
that it takes from there, and the checksum of the file that must hold them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_safetensors
from safetensors.numpy import save as save_safetensors

from orienteer.data.atomic import atomic_write
from orienteer.data.regular_files import read_regular
from orienteer.errors import ModelCorruptError, ModelMissingError, OrienteerError
from orienteer.models.checks import check_values

CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"
# What an encoder's configuration may bring along from the model that it was part of; the last is a path of the
# machine that trained it, which transformers notes.
_FOREIGN = ("reader", "pointer", "muzero", "t5", "answerer", "_name_or_path")

# The models of the package that others may take tensors from: by name, never by path, as a folder may be a stranger's.
_SHARED = {"pointer": Path(__file__).parents[1] / "agents" / "pointer" / "weights" / WEIGHTS}

_LARGEST = 8 << 30  # bytes of a file
Tensors = dict[str, NDArray[Any]]
Model = TypeVar("Model")


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """What a folder holds; `entry` is that of `kind` in `config.json`, `config` all the rest."""

    folder: Path
    kind: str
    config: Mapping[str, Any]
    entry: Mapping[str, Any]
    tensors: Tensors
    tokenizer: str  # the JSON of the tokenizer
    fingerprint: str


def read_folder(folder: Path, kinds: Sequence[str], hint: str = "") -> ModelFolder:
    """The files of a folder, checked against their checksums; it holds a model of one of `kinds`."""
    what = kinds[0]
    if not (folder / CONFIG).is_file():
        raise ModelMissingError(
            f"{folder}: no {what} there, {CONFIG} is missing; "
            f"give a folder that `orienteer train {what}` wrote{hint and ', ' + hint}"
        )
    config_bytes = _bytes(folder / CONFIG, what)
    try:
        config = json.loads(config_bytes)
    except (ValueError, RecursionError) as error:
        raise corrupt(folder / CONFIG, what, f"invalid JSON: {error}") from None
    kind = kind_of(config, kinds)
    if kind is None:
        raise ModelMissingError(
            f'{folder}: its {CONFIG} has no entry "{what}", so this is another model; '
            f"train one from it: orienteer train {what} --base FOLDER"
        )
    entry = config.pop(kind)
    content = {name: _bytes(folder / name, what) for name in (WEIGHTS, TOKENIZER)}
    for name, data in content.items():
        sums = entry.get("sha256")
        expected = sums.get(name) if isinstance(sums, dict) else None
        if (checksum := hashlib.sha256(data).hexdigest()) != expected:
            raise corrupt(folder / name, what, f"its checksum is {checksum[:12]}…, expected {str(expected)[:12]}…")
    try:
        tensors, tokenizer = load_safetensors(content[WEIGHTS]), content[TOKENIZER].decode()
        tensors |= _shared_tensors(entry.pop("shared", None), what)
        check_values(tensors)
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise corrupt(folder, what, f"{type(error).__name__}: {error}") from None
    fingerprint = hashlib.sha256(b"".join([config_bytes, *content.values()])).hexdigest()[:16]
    return ModelFolder(folder, kind, config, entry, tensors, tokenizer, fingerprint)


def load_model(folder: Path, kinds: Sequence[str], parse: Callable[[ModelFolder], Model], hint: str = "") -> Model:
    """What `parse` makes of a folder, half precision widened; a configuration that makes no sense is damaged."""
    stored = read_folder(folder, kinds, hint)
    tensors = {name: v.astype(np.float32) if v.dtype == np.float16 else v for name, v in stored.tensors.items()}
    try:
        return parse(replace(stored, tensors=tensors))
    except ModelCorruptError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, OrienteerError) as error:
        raise corrupt(folder, stored.kind, f"{type(error).__name__}: {error}") from None


def kind_of(config: Any, kinds: Sequence[str]) -> str | None:
    """Which of `kinds` the model of a configuration is; None where it is none of them."""
    return next((k for k in kinds if isinstance(config, dict) and isinstance(config.get(k), dict)), None)


def write_folder(
    folder: Path, kind: str, config: Mapping[str, Any], entry: Mapping[str, Any],
    tensors: Mapping[str, NDArray[Any]], tokenizer: str,
) -> None:  # fmt: skip
    """Writes a folder; `config.json`, which has the checksums, comes last."""
    content = {
        WEIGHTS: save_safetensors({name: np.ascontiguousarray(value) for name, value in tensors.items()}),
        TOKENIZER: tokenizer.encode(),
    }
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in content.items()}
    kept = {key: value for key, value in config.items() if key not in _FOREIGN}
    text = json.dumps({**kept, kind: {**entry, "sha256": sums}}, indent=1, sort_keys=True, default=str) + "\n"
    for name, data in {**content, CONFIG: text.encode()}.items():
        atomic_write(folder / name, data)


def share_tensors(folder: Path, kind: str, model: str) -> int:
    """Leaves out of a folder the tensors that a shipped model has too, bit for bit; returns the bytes saved."""
    stored = read_folder(folder, [kind])
    data = _bytes(_SHARED[model], model)
    others = load_safetensors(data)
    names = [n for n, value in stored.tensors.items() if n in others and _same(value, others[n])]
    shared = {"model": model, "sha256": hashlib.sha256(data).hexdigest(), "tensors": sorted(names)}
    own = {name: value for name, value in stored.tensors.items() if name not in names}
    write_folder(folder, kind, stored.config, {**stored.entry, "shared": shared}, own, stored.tokenizer)
    return sum(others[name].nbytes for name in names)


def _same(a: NDArray[Any], b: NDArray[Any]) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def _shared_tensors(shared: Any, what: str) -> Tensors:
    """The tensors that an entry's `shared` names, from the shipped model that has them."""
    if shared is None:
        return {}
    path, names = _SHARED.get(shared["model"]), shared["tensors"]
    if path is None or not isinstance(names, list):
        raise ValueError(f"it shares tensors of {shared['model']!r:.40}; expected one of {', '.join(_SHARED)}")
    data = _bytes(path, what)
    if hashlib.sha256(data).hexdigest() != shared["sha256"]:
        raise ValueError(f"it was made for another shipped {shared['model']} than that of this version of Orienteer")
    tensors = load_safetensors(data)
    return {name: tensors[name] for name in names}


def quantise(
    tensors: Mapping[str, NDArray[Any]],
    is_matrix: Callable[[str], bool] = lambda name: name.startswith("encoder.") and "position_embeddings" not in name,
) -> Tensors:
    """Matrices as int8 with a scale for each row; vectors, heads and places stay float32.

    Of a BERT's, the encoder's linear maps and its word and segment tables are matrices: all but 4 % of the weights.
    """
    out: Tensors = {}
    for name, value in tensors.items():
        if value.ndim == 2 and value.dtype == np.float32 and is_matrix(name):
            scale = (levels(name) / np.maximum(np.abs(value).max(1), 1e-12)).astype(np.float32)
            out[name] = np.rint(value * scale[:, None]).astype(np.int8)
            out[f"{name}.scale"] = scale
        else:
            out[name] = value
    return out


def levels(name: str) -> int:
    """The largest int8 of a matrix: 64 in an encoder's linear maps, 127 where no product is made in int8.

    Processors without VNNI add two products of an unsigned and a signed byte in 16 bits and cut off what does not fit:
    2 · 255 · 127 does not, 2 · 255 · 64 does. So the model gives the same on every processor.
    """
    return 64 if name.startswith("encoder.") and "embeddings" not in name else 127


def dequantise(tensors: Mapping[str, NDArray[Any]]) -> Tensors:
    """All tensors as float32, without scales."""
    if bare := [n for n, v in tensors.items() if v.dtype == np.int8 and f"{n}.scale" not in tensors]:
        raise ValueError(f"{bare[0]} is int8 without a scale")
    return {
        name: value.astype(np.float32) / tensors[f"{name}.scale"][:, None] if value.dtype == np.int8 else value
        for name, value in tensors.items()
        if not name.endswith(".scale")
    }


def corrupt(path: Path, what: str, detail: str) -> ModelCorruptError:
    return ModelCorruptError(f"{path}: truncated or damaged: {detail}; copy or train the {what} again")


def _bytes(path: Path, what: str) -> bytes:
    try:
        return read_regular(path, _LARGEST, follow_links=True)
    except FileNotFoundError:
        raise ModelMissingError(f"{path} is missing; copy or train the {what} again") from None
    except OSError as error:
        raise ModelCorruptError(f"{path}: cannot be read: {error.strerror}") from None
