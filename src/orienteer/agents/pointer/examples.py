"""Encoded training examples in files, so that index and reader are needed once.

    FOLDER/00000.safetensors …   some hundred moments each, put in their place whole; a killed run goes on after them
    FOLDER/done.json             once all are there

A folder's name holds a digest of all that decides its examples: another tokenizer or snippet makes another folder.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as save_safetensors

from orienteer.agents.action_space import SLOTS, grammar_slots, slot_of
from orienteer.agents.pointer.featurize import Viewer
from orienteer.agents.pointer.imitation_targets import Label, Moment
from orienteer.data.atomic import atomic_write
from orienteer.errors import TrainingError
from orienteer.query import GRAMMARS, Grammar

VERSION = 1
DONE = "done.json"
_GRAMMARS = tuple(GRAMMARS.values())

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Target:
    """The improving refinements of a grammar as places (term · slots + slot), with gains; none: stop."""

    grammar: Grammar
    places: NDArray[np.int32]
    gains: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Example:
    """A moment as training takes it: what the model sees, and what Rocchio says."""

    question: int  # a digest of the question's id, to hold some questions out
    ids: NDArray[np.int32]
    types: NDArray[np.uint8]
    occurrences: NDArray[np.int16]
    of_terms: NDArray[np.float16]
    of_moment: NDArray[np.float32]
    open: NDArray[np.bool_]  # [terms, slots]
    targets: tuple[Target, ...]

    @property
    def only_stops(self) -> bool:
        return all(not len(target.places) for target in self.targets)


def encode(moment: Moment, viewer: Viewer) -> Example | None:
    """None where no label can be told: the refinements stand on words that the observation does not show."""
    view = viewer(moment.observation)
    numbers = {term.text: number for number, term in enumerate(view.terms)}
    targets = [target for each in moment.labels if (target := _target(each, numbers, view.open)) is not None]
    if not targets:
        return None
    rendered = view.rendered
    return Example(
        _digest(moment.question_id), rendered.ids, rendered.types, rendered.occurrences,
        view.of_terms.astype(np.float16), view.of_moment, view.open, tuple(targets),
    )  # fmt: skip


def _target(label: Label, numbers: Mapping[str, int], open: NDArray[np.bool_]) -> Target | None:
    legal = open & grammar_slots(label.grammar)
    gains: dict[int, float] = {}
    for refinement, gain in label.gains:
        number, slot = numbers.get(refinement.term), slot_of(refinement)
        if number is not None and legal[number, slot]:
            gains[number * len(SLOTS) + slot] = gain
    if label.gains and not gains:
        return None
    return Target(label.grammar, np.array([*gains], np.int32), np.array([*gains.values()], np.float32))


def _digest(question_id: str) -> int:
    return int.from_bytes(hashlib.sha256(question_id.encode("utf-8", "replace")).digest()[:4], "little")


def build(
    folder: Path,
    batches: Callable[[int], Iterable[Sequence[Moment]]],
    viewer: Callable[[], Viewer],
    show: Callable[[int], None] = lambda done: None,
) -> None:
    """Fills a folder; `batches(n)` gives the batches of moments after the first n, each becomes a file.

    Nothing is opened where the folder is full already.
    """
    if (folder / DONE).exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    number = 0
    while _part(folder, number).exists():
        number += 1
    made = viewer()
    for batch in batches(number):
        examples = [example for moment in batch if (example := encode(moment, made)) is not None]
        atomic_write(_part(folder, number), save_safetensors(_pack(examples), {"version": str(VERSION)}))
        number += 1
        show(number)
    atomic_write(folder / DONE, json.dumps({"version": VERSION, "parts": number}).encode())


def read(folder: Path) -> Iterator[Example]:
    """The examples of a finished folder, in order."""
    try:
        told = json.loads((folder / DONE).read_bytes())
        parts = int(told["parts"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TrainingError(f"{folder} holds no finished examples ({error}); delete it to encode them again") from None
    for number in range(parts):
        path = _part(folder, number)
        try:
            with safe_open(path, "numpy") as file:
                if (version := file.metadata().get("version")) != str(VERSION):
                    raise ValueError(f"version {version}, expected {VERSION}")
                arrays = {name: file.get_tensor(name) for name in list(file.keys())}
            yield from _unpack(arrays)
        except (OSError, ValueError, KeyError, SafetensorError) as error:
            raise TrainingError(f"{path}: damaged examples ({error}); delete {folder} to encode them again") from None


def key(*parts: str | bytes) -> str:
    """A name for a folder, from all that decides what is in it."""
    digest = hashlib.sha256(str(VERSION).encode())
    for part in parts:
        data = part.encode("utf-8", "replace") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:16]


def _pack(examples: Sequence[Example]) -> Arrays:
    """Examples end to end in one array a field, with the counts to cut them apart again."""
    targets = [target for example in examples for target in example.targets]
    terms, moments = (examples[0].of_terms.shape[1], len(examples[0].of_moment)) if examples else (0, 0)
    return {
        "question": np.array([e.question for e in examples], np.int64),
        "pieces": np.array([len(e.ids) for e in examples], np.int32),
        "ids": _joined([e.ids for e in examples], np.int32),
        "types": _joined([e.types for e in examples], np.uint8),
        "occurring": np.array([len(e.occurrences) for e in examples], np.int32),
        "occurrences": _joined([e.occurrences for e in examples], np.int16, 3),
        "terms": np.array([len(e.of_terms) for e in examples], np.int32),
        "of_terms": _joined([e.of_terms for e in examples], np.float16, terms),
        "open": _joined([np.packbits(e.open, axis=1) for e in examples], np.uint8, -(-len(SLOTS) // 8)),
        "of_moment": _joined([e.of_moment[None] for e in examples], np.float32, moments),
        "labels": np.array([len(e.targets) for e in examples], np.int32),
        "grammar": np.array([_GRAMMARS.index(t.grammar) for t in targets], np.uint8),
        "improving": np.array([len(t.places) for t in targets], np.int32),
        "places": _joined([t.places for t in targets], np.int32),
        "gains": _joined([t.gains for t in targets], np.float32),
    }


def _unpack(arrays: Arrays) -> Iterator[Example]:
    pieces, occurring, terms, labels, improving = (
        np.cumsum(arrays[name]) for name in ("pieces", "occurring", "terms", "labels", "improving")
    )
    places, gains = np.split(arrays["places"], improving[:-1]), np.split(arrays["gains"], improving[:-1])
    targets = [
        Target(_GRAMMARS[grammar], place, gain)
        for grammar, place, gain in zip(arrays["grammar"], places, gains, strict=False)
    ]
    open = np.unpackbits(arrays["open"], axis=1, count=len(SLOTS)).astype(np.bool_)
    rows = zip(
        arrays["question"].tolist(),
        np.split(arrays["ids"], pieces[:-1]),
        np.split(arrays["types"], pieces[:-1]),
        np.split(arrays["occurrences"], occurring[:-1]),
        np.split(arrays["of_terms"], terms[:-1]),
        arrays["of_moment"],
        np.split(open, terms[:-1]),
        labels.tolist(),
        arrays["labels"].tolist(),
        strict=False,  # np.split gives one empty part where there are no examples
    )
    for question, ids, types, occurrences, of_terms, of_moment, slots, end, count in rows:
        yield Example(question, ids, types, occurrences, of_terms, of_moment, slots, tuple(targets[end - count : end]))


def _joined(parts: Sequence[NDArray[Any]], kind: Any, width: int | None = None) -> NDArray[Any]:
    if not parts:
        return np.zeros((0,) if width is None else (0, width), kind)
    return np.concatenate(parts).astype(kind, copy=False)


def _part(folder: Path, number: int) -> Path:
    return folder / f"{number:05}.safetensors"
