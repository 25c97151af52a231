"""A pointer's folder: a model's folder whose entry "pointer" says how observations are rendered and how to decode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from orienteer.agents.lookahead.passage_features import FEATURES
from orienteer.agents.pointer.decoding import Decoding
from orienteer.agents.pointer.features import MOMENT_FEATURES, TERM_FEATURES
from orienteer.agents.pointer.rendering import MAX_PIECES
from orienteer.errors import ModelCorruptError
from orienteer.models.model_folder import Tensors, corrupt, read_folder, write_folder
from orienteer.query import GRAMMARS

SHIPPED = Path(__file__).parent / "weights"


@dataclass(frozen=True, slots=True)
class Layout:
    """What the weights were trained to see: a model of another layout would read noise.

    snippet   words of a passage that an observation shows
    grammar   that of the bare name `pointer`
    """

    max_pieces: int = MAX_PIECES
    snippet: int = 30
    grammar: str = "G4"
    term_features: tuple[str, ...] = TERM_FEATURES
    moment_features: tuple[str, ...] = MOMENT_FEATURES
    sight_features: tuple[str, ...] = FEATURES


@dataclass(frozen=True, slots=True)
class PointerFiles:
    """What a pointer's folder holds; `config` is the BERT's configuration."""

    config: Mapping[str, Any]
    tensors: Tensors
    tokenizer: str  # the JSON of the tokenizer
    layout: Layout
    decoding: Decoding
    fingerprint: str
    notes: Mapping[str, Any] = field(default_factory=dict)


def load_folder(folder: Path) -> PointerFiles:
    """The files of a pointer's folder, checked against their checksums."""
    found = read_folder(folder, ("pointer",))
    try:
        layout, decoding = _layout(folder, found.told["layout"]), Decoding(**found.told["decoding"])
    except (ValueError, KeyError, TypeError) as error:
        raise corrupt(folder, "pointer", f"{type(error).__name__}: {error}") from None
    notes = {key: value for key, value in found.told.items() if key not in ("layout", "decoding", "sha256")}
    return PointerFiles(found.config, found.tensors, found.tokenizer, layout, decoding, found.fingerprint, notes)


def save_folder(
    folder: Path,
    config: Mapping[str, Any],
    tensors: Mapping[str, NDArray[Any]],
    tokenizer: str,
    layout: Layout,
    decoding: Decoding,
    **notes: Any,
) -> None:
    """Writes a pointer's folder; `notes` go into its entry."""
    told = {**notes, "layout": asdict(layout), "decoding": asdict(decoding)}
    write_folder(folder, "pointer", config, told, tensors, tokenizer)


def _layout(folder: Path, row: Mapping[str, Any]) -> Layout:
    lists = {name: tuple(row[name]) for name in row if name.endswith("_features")}
    layout = Layout(**{**row, **lists})
    check_features(folder, layout.term_features, layout.moment_features, layout.sight_features)
    if layout.grammar not in GRAMMARS:
        raise ValueError(f"a grammar {layout.grammar!r}")
    return layout


def check_features(
    folder: Path, of_terms: tuple[str, ...], of_moment: tuple[str, ...], of_sight: tuple[str, ...] = FEATURES
) -> None:
    if (of_terms, of_moment, of_sight) != (TERM_FEATURES, MOMENT_FEATURES, FEATURES):
        raise ModelCorruptError(
            f"{folder}: trained with other features than this program computes; train it again, or use the version "
            "of Orienteer that wrote it"
        )
