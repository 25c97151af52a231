"""Checkpoints of training: weights and the optimiser's memory as safetensors, the place in the stream beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from orienteer.data.atomic import atomic_path
from orienteer.errors import TrainingError

NAME = "checkpoint.safetensors"


def save(folder: Path, model: torch.nn.Module, optimiser: torch.optim.Optimizer, place: Mapping[str, Any]) -> None:
    """One file appears whole or not at all: a kill at any moment leaves the last one."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for number, state in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{number}.{name}": tensor for name, tensor in state.items()}
    metadata = {"place": json.dumps(dict(place), default=str)}
    with atomic_path(folder / NAME) as partial:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, partial, metadata=metadata)


def resume(folder: Path, model: torch.nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Any]:
    """The place that was saved, model and optimiser as they were then; empty where nothing was saved."""
    path = folder / NAME
    if not path.exists():
        return {}
    try:
        with safe_open(path, "pt") as file:
            place: dict[str, Any] = json.loads(file.metadata()["place"])
        tensors = load_file(path)
        model.load_state_dict({n.removeprefix("model."): t for n, t in tensors.items() if n.startswith("model.")})
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            if name.startswith("optimiser."):
                _, number, key = name.split(".", 2)
                state.setdefault(int(number), {})[key] = tensor
        optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
        return place
    except (SafetensorError, RuntimeError, KeyError, TypeError, ValueError) as error:
        raise TrainingError(
            f"{path}: not a checkpoint of this model ({error}); delete it to start afresh, or give another folder"
        ) from None
