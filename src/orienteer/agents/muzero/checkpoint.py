"""Checkpoints of a run: networks, optimiser, replay buffer and counters in one atomic file. Needs torch.

There is no generator state to save: all random numbers follow from the run's seed and a counter.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file

from orienteer.agents.muzero.model_files import write
from orienteer.agents.muzero.replay import ReplayBuffer
from orienteer.agents.muzero.trajectory import pack, unpack
from orienteer.errors import TrainingError

CHECKPOINT = "checkpoint.safetensors"


def save(
    folder: Path, modules: Mapping[str, torch.nn.Module], optimiser: torch.optim.Optimizer, replay: ReplayBuffer,
    counters: Mapping[str, Any],
) -> None:  # fmt: skip
    arrays: dict[str, NDArray[Any]] = {}
    for part, module in modules.items():
        arrays |= {f"{part}/{name}": value.numpy(force=True) for name, value in module.state_dict().items()}
    for number, state in optimiser.state_dict()["state"].items():
        for name, value in state.items():
            if value is not None:
                arrays[f"optimiser/{number}/{name}"] = torch.as_tensor(value).numpy(force=True)
    arrays |= {f"replay/{name}": value for name, value in pack(list(replay.trajectories)).items()}
    arrays |= {"priorities": replay.priorities, "counted": replay.counted}
    write(folder / CHECKPOINT, arrays, {"place": json.dumps(dict(counters))})


def resume(
    folder: Path, modules: Mapping[str, torch.nn.Module], optimiser: torch.optim.Optimizer, replay: ReplayBuffer
) -> dict[str, Any]:
    """Restores everything from the checkpoint and returns its counters; {} where there is none."""
    path = folder / CHECKPOINT
    if not path.exists():
        return {}
    try:
        with safe_open(path, "np") as file:
            counters: dict[str, Any] = json.loads(file.metadata()["place"])
        arrays = load_file(path)
        for part, module in modules.items():
            module.load_state_dict(
                {n.split("/", 1)[1]: torch.from_numpy(v) for n, v in arrays.items() if n.startswith(f"{part}/")}
            )
        state: dict[int, dict[str, torch.Tensor]] = {}
        for name, value in arrays.items():
            if name.startswith("optimiser/"):
                _, number, key = name.split("/")
                state.setdefault(int(number), {})[key] = torch.from_numpy(value)
        optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
        packed = {n.removeprefix("replay/"): v for n, v in arrays.items() if n.startswith("replay/")}
        replay.restore(unpack(packed), arrays["priorities"], arrays["counted"])
        return counters
    except (SafetensorError, RuntimeError, KeyError, TypeError, ValueError) as error:
        raise TrainingError(
            f"{path}: not a checkpoint of this run ({error}); delete it to start afresh, or give another folder"
        ) from None
