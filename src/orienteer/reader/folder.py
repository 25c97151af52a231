"""A reader's folder: a model's folder whose entry "reader" has the calibration and the measures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from orienteer.models.model_folder import Tensors, read_folder, write_folder
from orienteer.reader.calibration import Calibration

SHIPPED = Path(__file__).parent / "weights"


@dataclass(frozen=True, slots=True)
class ReaderFiles:
    """What a reader's folder holds; `config` is the BERT's configuration, `told` what training noted."""

    config: Mapping[str, Any]
    told: Mapping[str, Any]
    tensors: Tensors
    tokenizer: str  # the JSON of the tokenizer
    fingerprint: str

    @property
    def calibration(self) -> Calibration:
        return Calibration(*self.told["calibration"])

    @property
    def notes(self) -> dict[str, Any]:
        return {key: value for key, value in self.told.items() if key not in ("calibration", "sha256")}


def load_folder(folder: Path) -> ReaderFiles:
    """The files of a reader's folder, checked against their checksums."""
    found = read_folder(folder, ("reader",), "or none for the shipped one")
    return ReaderFiles(found.config, found.told, found.tensors, found.tokenizer, found.fingerprint)


def save_folder(
    folder: Path,
    config: Mapping[str, Any],
    tensors: Mapping[str, NDArray[Any]],
    tokenizer: str,
    calibration: Calibration | None = None,
    **notes: Any,
) -> None:
    """Writes a reader's folder; `notes` go into its entry."""
    told = {"calibration": list(calibration or Calibration()), **notes}
    write_folder(folder, "reader", config, told, tensors, tokenizer)
