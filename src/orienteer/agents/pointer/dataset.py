"""The pointer's training data: labelled states encoded once into files, and batches of them.

    FOLDER/00000.safetensors …   some hundred states each, written atomically; a killed run resumes after the last
    FOLDER/done.json             once all are there

A folder's name holds a digest of everything its examples depend on: another tokenizer or snippet makes another folder.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as save_safetensors
from tokenizers import Tokenizer

from orienteer.agents import imitation
from orienteer.agents.action_space import SLOTS, grammar_slots, slot_of
from orienteer.agents.encoding import Featurizer
from orienteer.agents.imitation import BackendLoader, Label, LabelledState, WeakLabeller, add_weak_labels
from orienteer.agents.pointer.model_files import Layout
from orienteer.data.atomic import atomic_write
from orienteer.data.passage import Question
from orienteer.errors import TrainingError
from orienteer.query import GRAMMARS, Grammar
from orienteer.rocchio.sessions import RocchioSession, read_sessions
from orienteer.training.example_cache import digest_of

VERSION = 1
DONE = "done.json"
_GRAMMARS = tuple(GRAMMARS.values())
_HELD_OUT = 50  # one question of so many

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Target:
    """The improving refinements of a grammar as actions (term · slots + slot), with gains; none: stop."""

    grammar: Grammar
    actions: NDArray[np.int32]
    gains: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Example:
    """A labelled state as training takes it: the model's input and the targets."""

    question: int  # a digest of the question's id, to hold some questions out
    ids: NDArray[np.int32]
    types: NDArray[np.uint8]
    occurrences: NDArray[np.int16]
    term_features: NDArray[np.float16]  # [terms, features]
    state_features: NDArray[np.float32]  # [features]
    open_slots: NDArray[np.bool_]  # [terms, slots]
    targets: tuple[Target, ...]

    @property
    def only_stops(self) -> bool:
        return all(not len(target.actions) for target in self.targets)


def encode(state: LabelledState, featurizer: Featurizer) -> Example | None:
    """None where no label applies: the refinements' words are not in the observation."""
    inputs = featurizer(state.observation)
    numbers = {term.text: number for number, term in enumerate(inputs.terms)}
    targets = [target for each in state.labels if (target := _target(each, numbers, inputs.open_slots)) is not None]
    if not targets:
        return None
    row = inputs.rendered
    return Example(
        digest_of(state.question_id), row.ids, row.types, row.occurrences,
        inputs.term_features.astype(np.float16), inputs.state_features, inputs.open_slots, tuple(targets),
    )  # fmt: skip


def _target(label: Label, numbers: Mapping[str, int], open_slots: NDArray[np.bool_]) -> Target | None:
    legal = open_slots & grammar_slots(label.grammar)
    gains: dict[int, float] = {}
    for refinement, gain in label.gains:
        number, slot = numbers.get(refinement.term), slot_of(refinement)
        if number is not None and legal[number, slot]:
            gains[number * len(SLOTS) + slot] = gain
    if label.gains and not gains:
        return None
    return Target(label.grammar, np.array([*gains], np.int32), np.array([*gains.values()], np.float32))


def build(
    folder: Path,
    batches: Callable[[int], Iterable[Sequence[LabelledState]]],
    featurizer: Callable[[], Featurizer],
    show: Callable[[int], None] = lambda done: None,
) -> None:
    """Fills a folder; `batches(n)` gives the batches of states after the first n, each becomes a file.

    Nothing is opened where the folder is finished already.
    """
    if (folder / DONE).exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    number = 0
    while _part(folder, number).exists():
        number += 1
    opened = featurizer()
    for batch in batches(number):
        examples = [example for state in batch if (example := encode(state, opened)) is not None]
        atomic_write(_part(folder, number), save_safetensors(_pack(examples), {"version": str(VERSION)}))
        number += 1
        show(number)
    atomic_write(folder / DONE, json.dumps({"version": VERSION, "parts": number}).encode())


def read(folder: Path) -> Iterator[Example]:
    """The examples of a finished folder, in order."""
    try:
        parts = int(json.loads((folder / DONE).read_bytes())["parts"])
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
    """Names a folder by a digest of everything its content depends on."""
    digest = hashlib.sha256(str(VERSION).encode())
    for part in parts:
        data = part.encode("utf-8", "replace") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:16]


def _pack(examples: Sequence[Example]) -> Arrays:
    """Examples end to end in one array per field, with the counts to split them again."""
    targets = [target for example in examples for target in example.targets]
    of_terms, of_state = (examples[0].term_features.shape[1], len(examples[0].state_features)) if examples else (0, 0)
    return {
        "question": np.array([e.question for e in examples], np.int64),
        "pieces": np.array([len(e.ids) for e in examples], np.int32),
        "ids": _joined([e.ids for e in examples], np.int32),
        "types": _joined([e.types for e in examples], np.uint8),
        "occurring": np.array([len(e.occurrences) for e in examples], np.int32),
        "occurrences": _joined([e.occurrences for e in examples], np.int16, 3),
        "terms": np.array([len(e.term_features) for e in examples], np.int32),
        "of_terms": _joined([e.term_features for e in examples], np.float16, of_terms),
        "open": _joined([np.packbits(e.open_slots, axis=1) for e in examples], np.uint8, -(-len(SLOTS) // 8)),
        "of_moment": _joined([e.state_features[None] for e in examples], np.float32, of_state),
        "labels": np.array([len(e.targets) for e in examples], np.int32),
        "grammar": np.array([_GRAMMARS.index(t.grammar) for t in targets], np.uint8),
        "improving": np.array([len(t.actions) for t in targets], np.int32),
        "places": _joined([t.actions for t in targets], np.int32),
        "gains": _joined([t.gains for t in targets], np.float32),
    }


def _unpack(arrays: Arrays) -> Iterator[Example]:
    pieces, occurring, terms, labels, targeted = (
        np.cumsum(arrays[name]) for name in ("pieces", "occurring", "terms", "labels", "improving")
    )
    actions, gains = np.split(arrays["places"], targeted[:-1]), np.split(arrays["gains"], targeted[:-1])
    targets = [
        Target(_GRAMMARS[grammar], improving, gain)
        for grammar, improving, gain in zip(arrays["grammar"], actions, gains, strict=False)
    ]
    slots = np.unpackbits(arrays["open"], axis=1, count=len(SLOTS)).astype(np.bool_)
    rows = zip(
        arrays["question"].tolist(),
        np.split(arrays["ids"], pieces[:-1]),
        np.split(arrays["types"], pieces[:-1]),
        np.split(arrays["occurrences"], occurring[:-1]),
        np.split(arrays["of_terms"], terms[:-1]),
        arrays["of_moment"],
        np.split(slots, terms[:-1]),
        labels.tolist(),
        arrays["labels"].tolist(),
        strict=False,  # np.split gives one empty part where there are no examples
    )
    for question, ids, types, occurrences, term_features, state_features, open_slots, end, count in rows:
        labels_of_row = tuple(targets[end - count : end])
        yield Example(question, ids, types, occurrences, term_features, state_features, open_slots, labels_of_row)


def _joined(parts: Sequence[NDArray[Any]], kind: Any, width: int | None = None) -> NDArray[Any]:
    if not parts:
        return np.zeros((0,) if width is None else (0, width), kind)
    return np.concatenate(parts).astype(kind, copy=False)


def _part(folder: Path, number: int) -> Path:
    return folder / f"{number:05}.safetensors"


def gather(
    folder: Path,
    files: Sequence[Path],
    questions: Callable[[], Sequence[Question]],
    grammars: Sequence[Grammar],
    tokenizer: Tokenizer,
    layout: Layout,
    load: BackendLoader,
    weak_labels: bool = True,
    show: Callable[[str, int], None] = lambda file, batches: None,
) -> list[Example]:
    """The examples of session files; index, reader and questions are opened only for what is not encoded yet.

    `weak_labels` adds the gains of candidates that Rocchio did not have to read. `show` gets the number of batches of
    `imitation.SESSIONS_PER_BATCH` sessions encoded of a file.
    """
    stored = replace(layout, passage_features=()).as_dict()  # the value model is trained later
    backend, known = cache(load), cache(lambda: imitation.by_id(questions()))
    examples: list[Example] = []
    for file in files:
        names = [grammar.name for grammar in grammars]
        name = key(_file_digest(file), json.dumps([names, stored, weak_labels]), tokenizer.to_str())
        target = folder / f"{file.name.split('.')[0]}-{name}"

        def batches(done: int, file: Path = file) -> Iterator[list[LabelledState]]:
            header, sessions = read_sessions(file)
            wanted = (session for session in sessions if session.variant.grammar in grammars)
            rest: Iterator[RocchioSession] = islice(wanted, done * imitation.SESSIONS_PER_BATCH, None)
            recorded = imitation.labelled_states(header, rest, known(), *backend(), snippet=layout.snippet)
            if not weak_labels:
                return recorded
            labeller = WeakLabeller(backend()[0])
            return (add_weak_labels(states, known(), labeller) for states in recorded)

        def encoded(done: int, file: Path = file) -> None:
            show(file.name, done)

        build(target, batches, lambda: Featurizer(tokenizer, backend()[0], layout.max_pieces), encoded)
        examples += read(target)
    return examples


def _file_digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """stops: the share of states in which every grammar stops that an epoch draws; they teach no refinement."""

    batch: int = 16
    pool: int = 512  # examples sorted by length together
    stops: float = 0.3
    seed: int = 0


def batches(examples: Sequence[Example], config: StreamConfig) -> Iterator[list[Example]]:
    """Endless batches of similar length; the same seed and examples give the same stream."""
    if all(example.only_stops for example in examples):
        raise TrainingError("no training example has a refinement to learn; give sessions that improve on something")
    generator = random.Random(config.seed)
    while True:
        drawn = [e for e in examples if not e.only_stops or generator.random() < config.stops]
        generator.shuffle(drawn)
        for start in range(0, len(drawn), config.pool):
            pool = sorted(drawn[start : start + config.pool], key=lambda example: len(example.ids))
            cut = [pool[at : at + config.batch] for at in range(0, len(pool), config.batch)]
            generator.shuffle(cut)
            yield from cut


def hold_out(examples: Sequence[Example]) -> tuple[list[Example], list[Example]]:
    """Examples to learn from, and those of one question in fifty, to watch the loss on."""
    held = [example for example in examples if example.question % _HELD_OUT == 0]
    return [example for example in examples if example.question % _HELD_OUT], held
