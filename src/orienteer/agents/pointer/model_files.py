"""A pointer's folder: a model folder whose entry "pointer" says how observations are encoded and how to decode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from orienteer.agents.action_space import Decoding
from orienteer.agents.encoding import MAX_PIECES, STATE_FEATURES, TERM_FEATURES, check_features
from orienteer.agents.lookahead.passage_features import FEATURES
from orienteer.models.checks import check_fields
from orienteer.models.model_folder import ModelFolder, Tensors, load_model, write_folder
from orienteer.query import GRAMMARS

SHIPPED = Path(__file__).parent / "weights"
# The keys of `Layout` in config.json are those of the first version.
_STORED = {"state_features": "moment_features", "passage_features": "sight_features"}


@dataclass(frozen=True, slots=True)
class Layout:
    """The input that the weights were trained with; a model of another layout would read noise.

    snippet   words of a passage that an observation shows
    grammar   that of the bare name `pointer`
    """

    max_pieces: int = MAX_PIECES
    snippet: int = 30
    grammar: str = "G4"
    term_features: tuple[str, ...] = TERM_FEATURES
    state_features: tuple[str, ...] = STATE_FEATURES
    passage_features: tuple[str, ...] = FEATURES

    def as_dict(self) -> dict[str, Any]:
        """As a folder stores it."""
        return {_STORED.get(name, name): value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Layout:
        names = {stored: name for name, stored in _STORED.items()}
        values: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in row.items()}
        return cls(**{names.get(key, key): value for key, value in values.items()})


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
    return load_model(folder, ("pointer",), _parse)


def _parse(stored: ModelFolder) -> PointerFiles:
    layout, decoding = Layout.from_dict(stored.entry["layout"]), Decoding.from_dict(stored.entry["decoding"])
    check_fields(layout)
    check_fields(decoding)
    features = layout.term_features, layout.state_features, layout.passage_features
    check_features(stored.folder, features, (TERM_FEATURES, STATE_FEATURES, FEATURES))
    if layout.grammar not in GRAMMARS:
        raise ValueError(f"a grammar {layout.grammar!r}")
    notes = {key: value for key, value in stored.entry.items() if key not in ("layout", "decoding", "sha256")}
    return PointerFiles(stored.config, stored.tensors, stored.tokenizer, layout, decoding, stored.fingerprint, notes)


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
    entry = {**notes, "layout": layout.as_dict(), "decoding": decoding.as_dict()}
    write_folder(folder, "pointer", config, entry, tensors, tokenizer)
