"""Checkpoints of training: weights and the optimizer's state as safetensors, the place in the stream beside them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from orienteer.data.atomic import atomic_path, atomic_write
from orienteer.errors import TrainingError, WriteError
from orienteer.models.model_folder import CONFIG, TOKENIZER, WEIGHTS

NAME = "checkpoint.safetensors"

State = TypeVar("State")


def save(
    folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, state: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]] | None = None,
) -> None:  # fmt: skip
    """Writes one file atomically: a kill at any time leaves the last one. `arrays`: whatever else the run must keep."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for number, values in optimizer.state_dict()["state"].items():
        tensors |= {f"optimiser.{number}.{name}": tensor for name, tensor in values.items() if tensor is not None}
    tensors |= {f"array.{name}": torch.tensor(array) for name, array in (arrays or {}).items()}
    metadata = {"place": json.dumps(dict(state))}
    with atomic_path(folder / NAME) as partial:
        try:
            save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, partial, metadata=metadata)
        except SafetensorError as error:  # safetensors' own, also for a full disk
            raise WriteError(f"{folder / NAME}: cannot be written: {error}; free the disk or choose another") from None


def resume(folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, make: Callable[..., State]) -> State:
    """The state that was saved, model and optimizer as they were then; a new one where nothing was saved."""
    state, _ = load(folder, model, optimizer)
    try:
        return make(**state)
    except TypeError as error:
        raise _not_ours(folder / NAME, error) from None


def load(
    folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """State and arrays of the checkpoint, both {} where there is none; model and optimizer are set to it."""
    path = folder / NAME
    if not path.exists():
        return {}, {}
    try:
        with safe_open(path, "pt") as file:
            state: dict[str, Any] = json.loads(file.metadata()["place"])
        tensors = load_file(path)
        model.load_state_dict(_part(tensors, "model."))
        memory: dict[int, dict[str, Tensor]] = {}
        for name, tensor in _part(tensors, "optimiser.").items():
            number, key = name.split(".", 1)
            memory.setdefault(int(number), {})[key] = tensor
        optimizer.load_state_dict({"state": memory, "param_groups": optimizer.state_dict()["param_groups"]})
        return state, {name: tensor.numpy() for name, tensor in _part(tensors, "array.").items()}
    except (SafetensorError, RuntimeError, KeyError, TypeError, ValueError) as error:
        raise _not_ours(path, error) from None


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _not_ours(path: Path, error: Exception) -> TrainingError:
    return TrainingError(
        f"{path}: not a checkpoint of this model ({error}); delete it to start afresh, or give another folder"
    )


def copy_model(source: Path, target: Path) -> None:
    """The model's folder again in another place; `config.json`, which has the checksums, comes last."""
    for name in (WEIGHTS, TOKENIZER, CONFIG):
        atomic_write(target / name, (source / name).read_bytes())
