"""A reader's folder: a model's folder whose entry "reader" has the calibration and the measures.

PS = sigmoid(a·logit + b): the calibration makes the logit a probability. The logit is that of the selection head; where
the folder holds a bi-encoder too, the likeness of question and passage is added to it (`likeness.py`). Tensors of the
bi-encoder are named `likeness.…`; a table of embeddings that it has in common with the reader is stored once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from orienteer.models.model_folder import Tensors, read_folder, write_folder
from orienteer.reader.bi_encoder import Pooling


class Calibration(NamedTuple):
    a: float = 1.0
    b: float = 0.0

    def __call__(self, logits: ArrayLike) -> NDArray[np.float64]:
        z = self.a * np.asarray(logits, np.float64) + self.b
        return np.asarray(0.5 * (1 + np.tanh(z / 2)))  # sigmoid, without overflow


def fit(logits: ArrayLike, truths: Sequence[bool] | ArrayLike, weights: ArrayLike | None = None) -> Calibration:
    """Platt's fit: the a and b under which the truths are likeliest, by Newton's method.

    `weights` count passages more or less, as when a set was sampled.
    """
    x = np.asarray(logits, np.float64)
    a, b = likeliest(np.stack([x, np.ones_like(x)], 1), truths, (1.0, 0.0), weights)
    return Calibration(float(a), float(b))


def likeliest(
    design: NDArray[np.float64], truths: ArrayLike, prior: Sequence[float], weights: ArrayLike | None = None
) -> NDArray[np.float64]:
    """The theta [columns] under which sigmoid(design · theta) makes the truths likeliest; design is [rows, columns].

    A tiny pull to `prior` keeps separable data finite.
    """
    y, start = np.asarray(truths, np.float64), np.asarray(prior, np.float64)
    w = np.ones_like(y) if weights is None else np.asarray(weights, np.float64)
    theta, pull = start, 1e-3
    for _ in range(100):
        p = 0.5 * (1 + np.tanh(design @ theta / 2))
        gradient = design.T @ (w * (p - y)) + pull * (theta - start)
        curvature = (design.T * (w * p * (1 - p))) @ design + pull * np.eye(len(theta))
        step = np.linalg.solve(curvature, gradient)
        # A full Newton step can overshoot where the fit starts far off: at most two units at a time.
        step *= min(1.0, 2.0 / max(1e-12, float(np.abs(step).max())))
        theta = theta - step
        if np.abs(step).max() < 1e-9:
            break
    return theta


SHIPPED = Path(__file__).parent / "weights"


LIKENESS = "likeness"
_PREFIX = f"{LIKENESS}."
_EMBEDDINGS = "encoder.embeddings."


@dataclass(frozen=True, slots=True)
class LikenessFiles:
    """The bi-encoder of a reader, and what it counts: weight · (cosine − at) is added to the logit."""

    config: Mapping[str, Any]
    tensors: Tensors
    pooling: Pooling
    weight: float
    at: float


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
        """Raises ValueError where there is none."""
        stored = self.told.get("calibration")
        if not isinstance(stored, list) or len(stored) != 2 or not all(type(each) in (int, float) for each in stored):
            raise ValueError(f"calibration = {stored!r:.60}; expected two numbers")
        return Calibration(*map(float, stored))

    @property
    def own_tensors(self) -> Tensors:
        """All but the bi-encoder's."""
        return {name: tensor for name, tensor in self.tensors.items() if not name.startswith(_PREFIX)}

    @property
    def likeness(self) -> LikenessFiles | None:
        """Raises ValueError where it is not told how to use a bi-encoder."""
        told = self.told.get(LIKENESS)
        if told is None:
            return None
        try:
            pooling = Pooling(told["pooling"], told["question"], told["passage"])
            weight, at, config = float(told["weight"]), float(told["at"]), told["config"]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"likeness = {told!r:.60}: {error!r}") from None
        texts = all(isinstance(each, str) for each in (pooling.question, pooling.passage))
        if pooling.states not in ("mean", "cls") or not texts or not isfinite(weight) or not isfinite(at):
            raise ValueError(f"likeness = {told!r:.60}; expected a pooling, two prompts and two numbers")
        own = {name.removeprefix(_PREFIX): t for name, t in self.tensors.items() if name.startswith(_PREFIX)}
        common = {name: tensor for name, tensor in self.tensors.items() if name.startswith(_EMBEDDINGS)}
        return LikenessFiles(config, {**common, **own}, pooling, weight, at)

    @property
    def notes(self) -> dict[str, Any]:
        return {key: value for key, value in self.told.items() if key not in ("calibration", "sha256")}


def with_likeness(reader: ReaderFiles, likeness: LikenessFiles) -> ReaderFiles:
    """The reader with this bi-encoder, both with int8 weights. Embeddings that are the reader's are not kept twice."""
    bare = reader.own_tensors
    own = {
        _PREFIX + name: tensor
        for name, tensor in likeness.tensors.items()
        if name not in bare or not name.startswith(_EMBEDDINGS) or not np.array_equal(tensor, bare[name])
    }
    told = {
        "config": dict(likeness.config), "pooling": likeness.pooling.states, "question": likeness.pooling.question,
        "passage": likeness.pooling.passage, "weight": likeness.weight, "at": likeness.at,
    }  # fmt: skip
    return replace(reader, tensors={**bare, **own}, told={**reader.told, LIKENESS: told})


def load_folder(folder: Path) -> ReaderFiles:
    """The files of a reader's folder, checked against their checksums."""
    found = read_folder(folder, ("reader",), "or none for the shipped one")
    return ReaderFiles(found.config, found.entry, found.tensors, found.tokenizer, found.fingerprint)


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
