"""The folder of a model of text to text, "t5" or "answerer": a model's folder with its shape and layout.

Weights have the names that transformers gives them: `shared.weight`, `encoder.…`, `decoder.…`, and `head.weight` where
it is not the word table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from numpy.typing import NDArray

from orienteer.agents.t5.config import Shape
from orienteer.models import model_folder
from orienteer.models.model_folder import Tensors, corrupt, kind_of, read_folder, write_folder

Purpose = Literal["t5", "answerer"]
_PURPOSES: tuple[Purpose, ...] = ("t5", "answerer")
_SMALL = ("relative_attention_bias.weight", "position_embeddings.weight")


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """What a folder holds; `told` is the entry of its purpose."""

    purpose: Purpose
    shape: Shape
    tensors: Tensors
    tokenizer: str  # the JSON of the tokenizer
    told: Mapping[str, Any]
    fingerprint: str

    @property
    def notes(self) -> dict[str, Any]:
        return {key: value for key, value in self.told.items() if key not in ("layout", "sha256")}


def load_folder(folder: Path, purpose: Purpose | None = None) -> ModelFiles:
    """The files of a folder, checked against their checksums; `purpose` is the one wanted, any where it is None."""
    found = read_folder(folder, (purpose,) if purpose else _PURPOSES)
    try:
        shape = Shape.from_dict(found.config["shape"])
    except (ValueError, KeyError, TypeError) as error:
        raise corrupt(folder, found.kind, f"{type(error).__name__}: {error}") from None
    kind = cast("Purpose", found.kind)
    return ModelFiles(kind, shape, found.tensors, found.tokenizer, found.told, found.fingerprint)


def purpose_of(config: Any) -> Purpose | None:
    """What a folder with this configuration is for; None where it is none of ours."""
    return cast("Purpose | None", kind_of(config, _PURPOSES))


def save_folder(
    folder: Path,
    purpose: Purpose,
    shape: Shape,
    tensors: Tensors,
    tokenizer: str,
    layout: Mapping[str, Any],
    **notes: Any,
) -> None:
    """Writes a folder; `notes` go into its entry."""
    told = {**notes, "layout": dict(layout)}
    write_folder(folder, purpose, {"shape": shape.as_dict()}, told, tensors, tokenizer)


def quantise(tensors: Mapping[str, NDArray[Any]]) -> Tensors:
    """All matrices as int8, the word table and the decoder's too; vectors and places stay float32."""
    return model_folder.quantise(tensors, lambda name: not name.endswith(_SMALL))


def to_int8(trained: Path, out: Path) -> None:
    """The same model with int8 weights, for playing and shipping."""
    files = load_folder(trained)
    save_folder(
        out, files.purpose, files.shape, quantise(files.tensors), files.tokenizer, files.told["layout"], **files.notes
    )
