"""Mutated model folders for `mutate.py`: small models of random weights, changes to them, and their use.

A sample is a folder of one kind: a reader, a pointer, a T5 with either encoder, a MuZero, a static encoder. What is
changed: shapes, types and values of tensors, numbers of the configuration, the tokenizer's JSON, the bytes of a file.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import random
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from lexical_reader import LexicalReader
from numpy.typing import NDArray
from safetensors.numpy import load as load_safetensors
from safetensors.numpy import save as save_safetensors
from small_world import PASSAGES, QUESTIONS
from tiny import save_tiny, tiny_tokenizer
from tiny_muzero import save_muzero
from tiny_pointer import save_pointer, value_model_tensors
from tiny_seq2seq import save_seq2seq

from mutate import attempt
from orienteer.agents.muzero.agent import MuZeroAgent
from orienteer.agents.pointer.agent import PointerAgent
from orienteer.agents.t5.agent import T5Agent
from orienteer.dense.static_encoder import StaticEncoder, write_static_encoder
from orienteer.engine import ReferenceEngine
from orienteer.models.model_folder import CONFIG, TOKENIZER, WEIGHTS
from orienteer.query import G4
from orienteer.reader.runtime import TrainedReader
from orienteer.session import Environment, Settings

ENGINE = ReferenceEngine(PASSAGES)
NUMBERS: tuple[Any, ...] = (
    0, 1, -1, 2, 3, 7, 64, 1000, 1 << 31, 1 << 40, 1 << 70, 0.5, -0.0, 1e300, None, True, False, "", "12", "gelu",
    "relu", [], [1], {}, {"x": 1}, float("inf"), float("nan"),
)  # fmt: skip
TEXTS = ("who wrote war and peace", "", "zzz \ud800 é日本 ##x [CLS] [SEP]", "paris " * 400)


@dataclass(frozen=True)
class Sample:
    """A folder as data; `tricks` are done to its files after they are written."""

    kind: str
    config: dict[str, Any]
    tensors: dict[str, NDArray[Any]]
    tokenizer: str
    tricks: tuple[tuple[str, int], ...] = field(default=())

    def write(self, folder: Path) -> None:
        """The files, with the checksums of what is written."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        contents = {
            WEIGHTS: save_safetensors({name: np.ascontiguousarray(value) for name, value in self.tensors.items()}),
            TOKENIZER: self.tokenizer.encode("utf-8", "surrogatepass"),
        }
        for trick, place in self.tricks:
            if trick == "cut":
                contents[WEIGHTS] = contents[WEIGHTS][: place % len(contents[WEIGHTS])]
            elif trick == "flip":
                data = bytearray(contents[WEIGHTS])
                data[place % min(len(data), 4096)] ^= 1 << place % 8
                contents[WEIGHTS] = bytes(data)
        config = copy.deepcopy(self.config)
        entry = config.get(self.kind)
        if isinstance(entry, dict):
            entry["sha256"] = {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()}
        for name, data in {**contents, CONFIG: json.dumps(config).encode()}.items():
            (folder / name).write_bytes(data)
        for trick, place in self.tricks:
            file = folder / (WEIGHTS, TOKENIZER, CONFIG)[place % 3]
            if trick in ("pipe", "folder"):
                file.rmdir() if file.is_dir() else file.unlink()
                os.mkfifo(file) if trick == "pipe" else file.mkdir()


class ModelTarget:
    """Small models of every kind; `folder` is for the samples."""

    def __init__(self, folder: Path) -> None:
        makers: dict[str, tuple[str, Callable[[Path], object]]] = {
            "reader": ("reader", save_tiny),
            "pointer": ("pointer", save_pointer),
            "t5": ("t5", lambda path: save_seq2seq(path, "t5")),
            "t5 on a bert": ("t5", lambda path: save_seq2seq(path, "bert")),
            "muzero": ("muzero", lambda path: save_muzero(path, more=value_model_tensors())),
            "static": ("static_encoder", _save_static),
        }
        self._samples = {}
        for name, (kind, make) in makers.items():
            path = folder / name.replace(" ", "-")
            make(path)
            config = json.loads((path / CONFIG).read_text())
            tensors = load_safetensors((path / WEIGHTS).read_bytes())
            self._samples[name] = Sample(kind, config, tensors, (path / TOKENIZER).read_text())
        environment = Environment(ENGINE, LexicalReader(), Settings(steps=3))
        self._observations = environment.observe(environment.open(QUESTIONS[:2]))
        for sample in self._samples.values():  # kernels are compiled here, not again in every fork
            if steps := [step for step in self.use(sample, folder / "mutant", random.Random(0)).values() if step]:
                raise RuntimeError(f"a sound sample is refused: {steps}")

    def samples(self) -> dict[str, Any]:
        return dict(self._samples)

    def mutate(self, sample: Sample, rng: random.Random) -> Sample:
        for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
            sample = rng.choice(_CHANGES)(sample, rng)
        return sample

    def use(self, sample: Sample, folder: Path, rng: random.Random) -> dict[str, str]:
        sample.write(folder)
        model: Any = None

        def open_model() -> None:
            nonlocal model
            model = OPENERS[sample.kind](folder)

        with np.errstate(all="ignore"):  # huge weights overflow: nonsense, not a failure
            steps = {"open": attempt(open_model)}
            if not steps["open"]:
                steps["use"] = attempt(lambda: self._work(sample.kind, model))
        return steps

    def _work(self, kind: str, model: Any) -> None:
        match kind:
            case "reader":
                model.read_many([(text, PASSAGES[:2]) for text in TEXTS])
            case "static_encoder":
                model.encode(TEXTS)
                model.encode_questions(TEXTS)
            case _:
                model.act(self._observations)


OPENERS: Mapping[str, Callable[[Path], Any]] = {
    "reader": lambda folder: TrainedReader.from_pretrained(folder, threads=1),
    "pointer": lambda folder: PointerAgent.from_pretrained(folder, ENGINE, threads=1),
    "t5": lambda folder: T5Agent.from_pretrained(folder, ENGINE, G4, threads=1),
    "muzero": lambda folder: MuZeroAgent.from_pretrained(folder, ENGINE, threads=1),
    "static_encoder": lambda folder: StaticEncoder.from_pretrained(folder),
}


def _save_static(folder: Path) -> None:
    tokenizer, draw = tiny_tokenizer(), np.random.default_rng(0)
    size = tokenizer.get_vocab_size()
    weights = draw.random((2, size)).astype(np.float32)
    write_static_encoder(folder, draw.normal(size=(size, 8)).astype(np.float32), *weights, tokenizer.to_str(), {})


# Changes


def _reshape(sample: Sample, rng: random.Random) -> Sample:
    """One tensor of another shape: a row or column more or less, transposed, flat, deeper, empty."""
    name = rng.choice(sorted(sample.tensors))
    value = sample.tensors[name]
    changes: list[Callable[[], NDArray[Any]]] = [
        lambda: value[:-1] if value.ndim else value,
        lambda: value[: rng.randrange(len(value) + 1)] if value.ndim else value,
        lambda: np.concatenate([value, value]) if value.ndim else value,
        lambda: value[..., :-1] if value.ndim else value,
        lambda: np.concatenate([value, value], -1) if value.ndim else value,
        lambda: value.T, lambda: value.reshape(-1), lambda: value[None], lambda: value[:0] if value.ndim else value,
        lambda: value.reshape(-1)[:1].reshape(()) if value.size else value,
    ]  # fmt: skip
    return replace(sample, tensors={**sample.tensors, name: rng.choice(changes)()})


def _retype(sample: Sample, rng: random.Random) -> Sample:
    name = rng.choice(sorted(sample.tensors))
    types = ("float64", "float16", "int8", "int32", "int64", "uint8", "bool")
    with np.errstate(all="ignore"):
        return replace(sample, tensors={**sample.tensors, name: sample.tensors[name].astype(rng.choice(types))})


def _revalue(sample: Sample, rng: random.Random) -> Sample:
    name = rng.choice(sorted(sample.tensors))
    value = sample.tensors[name].copy()
    number = rng.choice((np.nan, np.inf, -np.inf, 0.0, -1.0, 1e38, 1e-38))
    if value.size and value.dtype.kind == "f":
        flat = value.reshape(-1)
        with np.errstate(all="ignore"):
            flat[rng.randrange(flat.size) if rng.random() < 0.5 else slice(None)] = number
    return replace(sample, tensors={**sample.tensors, name: value})


def _remove(sample: Sample, rng: random.Random) -> Sample:
    name = rng.choice(sorted(sample.tensors))
    return replace(sample, tensors={key: value for key, value in sample.tensors.items() if key != name})


def _swap(sample: Sample, rng: random.Random) -> Sample:
    one, two = (rng.choice(sorted(sample.tensors)) for _ in range(2))
    return replace(sample, tensors={**sample.tensors, one: sample.tensors[two], two: sample.tensors[one]})


def _quantised(sample: Sample, rng: random.Random) -> Sample:
    """A matrix as int8, with a scale that fits, does not fit, or is missing."""
    matrices = sorted(name for name, value in sample.tensors.items() if value.ndim == 2)
    if not matrices:
        return sample
    name = rng.choice(matrices)
    rows = len(sample.tensors[name])
    scales: list[Any] = [np.ones(rows), np.ones(rows + 1), np.zeros(rows), -np.ones(rows), np.ones((rows, 1)), None]
    scale = rng.choice(scales)
    tensors = {**sample.tensors, name: np.ones(sample.tensors[name].shape, np.int8)}
    if scale is not None:
        tensors[f"{name}.scale"] = scale.astype(np.float32)
    return replace(sample, tensors=tensors)


def _reconfigure(sample: Sample, rng: random.Random) -> Sample:
    config = copy.deepcopy(sample.config)
    _change_somewhere(config, rng)
    return replace(sample, config=config)


def _retokenize(sample: Sample, rng: random.Random) -> Sample:
    """The tokenizer's JSON with a changed value, another number for a token, a byte less, or something else."""
    kind = rng.randrange(4)
    if kind == 0:
        place = rng.randrange(max(1, len(sample.tokenizer)))
        return replace(sample, tokenizer=sample.tokenizer[:place] + sample.tokenizer[place + 1 :])
    if kind == 1:
        return replace(sample, tokenizer=rng.choice(("", "{}", "null", "[" * 5000, '{"model": {}}', "\x00")))
    try:
        row = json.loads(sample.tokenizer)
        vocabulary = row["model"]["vocab"]
        if kind == 2 and vocabulary:
            token = rng.choice(sorted(vocabulary))
            vocabulary[token] = rng.choice((0, 1, len(vocabulary), 10**6, 2**31, 2**32 - 1, 2**40, -1, "x"))
        else:
            _change_somewhere(row, rng)
        return replace(sample, tokenizer=json.dumps(row))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return sample


def _trick(sample: Sample, rng: random.Random) -> Sample:
    trick = rng.choice(("cut", "flip", "flip", "pipe", "folder"))
    return replace(sample, tricks=(*sample.tricks, (trick, rng.randrange(1 << 30))))


def _change_somewhere(row: Any, rng: random.Random) -> None:
    """Another value, or none, at some place of a tree of JSON."""
    while True:
        keys = list(row) if isinstance(row, dict) else list(range(len(row)))
        if not keys:
            return
        key = rng.choice(keys)
        below = row[key]
        if isinstance(below, dict | list) and below and rng.random() < 0.8:
            row = below
            continue
        if rng.random() < 0.15:
            del row[key]
        else:
            row[key] = rng.choice(NUMBERS)
        return


_CHANGES: list[Callable[[Sample, random.Random], Sample]] = [
    _reshape, _reshape, _reshape, _retype, _revalue, _remove, _swap, _quantised, _reconfigure, _reconfigure,
    _reconfigure, _retokenize, _retokenize, _trick,
]  # fmt: skip
