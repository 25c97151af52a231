"""Weights on their way from the learner to its actors: a file, whole or not at all. No torch: actors need none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from orienteer.data.atomic import atomic_path
from orienteer.errors import TrainingError

PUBLISHED = "published.safetensors"


def publish(folder: Path, tensors: Mapping[str, NDArray[Any]], update: int) -> None:
    """The newest weights, where actors look for them."""
    write(folder / PUBLISHED, tensors, {"update": str(update)})


def published(folder: Path) -> tuple[dict[str, NDArray[Any]], int]:
    """The newest weights and how many updates made them."""
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
        save_file({name: np.asarray(value, order="C") for name, value in arrays.items()}, partial, dict(metadata))
