"""Checkpoints of training: weights and the optimizer's state as safetensors, the place in the stream beside them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from orienteer.data.atomic import atomic_path, atomic_write
from orienteer.errors import TrainingError
from orienteer.models.model_folder import CONFIG, TOKENIZER, WEIGHTS

NAME = "checkpoint.safetensors"

State = TypeVar("State")


def save(folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
    """Writes one file atomically: a kill at any time leaves the last one."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for number, values in optimizer.state_dict()["state"].items():
        tensors |= {f"optimiser.{number}.{name}": tensor for name, tensor in values.items()}
    metadata = {"place": json.dumps(dict(state))}
    with atomic_path(folder / NAME) as partial:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, partial, metadata=metadata)


def resume(folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, make: Callable[..., State]) -> State:
    """The state that was saved, model and optimizer as they were then; a new one where nothing was saved."""
    path = folder / NAME
    if not path.exists():
        return make()
    try:
        with safe_open(path, "pt") as file:
            state: dict[str, Any] = json.loads(file.metadata()["place"])
        tensors = load_file(path)
        model.load_state_dict({n.removeprefix("model."): t for n, t in tensors.items() if n.startswith("model.")})
        memory: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            if name.startswith("optimiser."):
                _, number, key = name.split(".", 2)
                memory.setdefault(int(number), {})[key] = tensor
        optimizer.load_state_dict({"state": memory, "param_groups": optimizer.state_dict()["param_groups"]})
        return make(**state)
    except (SafetensorError, RuntimeError, KeyError, TypeError, ValueError) as error:
        raise TrainingError(
            f"{path}: not a checkpoint of this model ({error}); delete it to start afresh, or give another folder"
        ) from None


def copy_model(source: Path, target: Path) -> None:
    """The model's folder again in another place; `config.json`, which has the checksums, comes last."""
    for name in (WEIGHTS, TOKENIZER, CONFIG):
        atomic_write(target / name, (source / name).read_bytes())
