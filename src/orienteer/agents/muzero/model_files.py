"""A MuZero folder: a model's folder whose entry "muzero" holds the whole configuration and what it was trained on.

Tensors of h are named as a pointer's, those of g and f begin with "muzero.".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.muzero.config import Config
from orienteer.agents.pointer.features import MOMENT_FEATURES, TERM_FEATURES
from orienteer.agents.pointer.model_files import check_features
from orienteer.errors import OrienteerError
from orienteer.models.model_folder import Tensors, corrupt, quantise, read_folder, write_folder

SHIPPED = Path(__file__).parent / "weights"
LARGEST = 30_000_000  # bytes of the folder that is shipped
OWN = "muzero."  # how the names of g's and f's tensors begin


@dataclass(frozen=True, slots=True)
class MuZeroFiles:
    """What a MuZero folder holds; `bert` is the encoder's configuration."""

    bert: Mapping[str, Any]
    tensors: Tensors
    tokenizer: str  # the JSON of the tokenizer
    config: Config
    fingerprint: str
    notes: Mapping[str, Any]

    @property
    def own(self) -> Tensors:
        """The tensors of g and f, without what their names begin with."""
        return {name.removeprefix(OWN): value for name, value in self.tensors.items() if name.startswith(OWN)}


def load_folder(folder: Path) -> MuZeroFiles:
    """The files of a MuZero folder, checked against their checksums."""
    found = read_folder(folder, ("muzero",))
    told = found.told
    check_features(folder, tuple(told.get("term_features", ())), tuple(told.get("moment_features", ())))
    try:
        config = Config.from_dict(told["config"])
    except (ValueError, KeyError, TypeError, OrienteerError) as error:
        raise corrupt(folder, "muzero", f"{type(error).__name__}: {error}") from None
    tensors = {name: _widened(value) for name, value in found.tensors.items()}
    return MuZeroFiles(found.config, tensors, found.tokenizer, config, found.fingerprint, told.get("notes", {}))


def save_folder(
    folder: Path, bert: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]], tokenizer: str, config: Config,
    **notes: Any,
) -> None:  # fmt: skip
    """Writes a MuZero folder; `notes` go into its entry."""
    features = {"term_features": TERM_FEATURES, "moment_features": MOMENT_FEATURES}
    told = {"config": config.as_dict(), "notes": notes, **features}
    write_folder(folder, "muzero", bert, told, tensors, tokenizer)


def for_shipping(files: MuZeroFiles) -> Tensors:
    """The encoder in int8, every other matrix in half precision: less than 30 MB with a MiniLM."""
    return {
        name: value.astype(np.float16) if value.ndim == 2 and value.dtype == np.float32 else value
        for name, value in quantise(files.tensors).items()
    }


def _widened(value: NDArray[Any]) -> NDArray[Any]:
    return value.astype(np.float32) if value.dtype == np.float16 else value
