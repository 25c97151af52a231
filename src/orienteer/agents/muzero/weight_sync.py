"""Weights on their way from the learner to its actors: a file, whole or not at all. No torch: actors need none."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from orienteer.reader.errors import TrainingError

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
    """A file that appears whole or not at all: a kill at any moment leaves the last one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    try:
        save_file({name: np.asarray(value, order="C") for name, value in arrays.items()}, partial, dict(metadata))
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise TrainingError(f"{path}: cannot be written: {error.strerror}; free the disk or choose another") from None
