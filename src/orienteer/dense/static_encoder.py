"""The static encoder that ships: a vector for every wordpiece, added up with weights, without any network.

    vector(text) = Σ weight[piece] · vectors[piece], made a unit vector

Questions and passages have weights of their own. It is some hundred times as fast as a BERT and ranks worse; it finds
passages that BM25 does not find (docs/vectors.md has the figures). A folder of one is a model folder of the kind
`static_encoder`: int8 `vectors` [vocabulary, width], float32 `passage_weights` and `question_weights` [vocabulary],
which hold the scale of each int8 row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from orienteer.dense import kernels
from orienteer.dense.encoder import TextEncoder
from orienteer.errors import ModelCorruptError, ModelMissingError
from orienteer.models.bert_encoder import plain_tokenizer
from orienteer.models.checks import check_shapes, check_vocabulary
from orienteer.models.model_folder import CONFIG, TOKENIZER, WEIGHTS, Tensors, kind_of, read_folder, write_folder
from orienteer.reader.encoding import pieces

KIND = "static_encoder"
SHIPPED = Path(__file__).parent / "weights"
STATIC, READER = "static", "reader"  # addresses of what ships
_BATCH = 1024  # texts


class StaticEncoder:
    """Pooled wordpiece vectors."""

    def __init__(self, tensors: Tensors, tokenizer: str, name: str, address: str = "") -> None:
        """`name` tells these weights from others."""
        self._tokenizer = plain_tokenizer(tokenizer)
        try:
            self._vectors = np.ascontiguousarray(tensors["vectors"], np.int8)
            self._passage, self._question = (
                np.ascontiguousarray(tensors[part], np.float32) for part in ("passage_weights", "question_weights")
            )
        except KeyError as error:
            raise ModelCorruptError(f"a static encoder without {error.args[0]!r}; copy it again") from None
        size = self._tokenizer.get_vocab_size()
        if self._vectors.ndim != 2 or not len(self._vectors) == len(self._passage) == len(self._question) == size:
            raise ModelCorruptError(
                f"a static encoder of {len(self._vectors)} vectors and {size} wordpieces; expected as many of both"
            )
        try:
            check_shapes(tensors, {"passage_weights": (size,), "question_weights": (size,)})
            check_vocabulary(self._tokenizer, size)
        except ValueError as error:
            raise ModelCorruptError(f"a static encoder whose parts do not fit: {error}; copy it again") from None
        self.width = int(self._vectors.shape[1])
        self.fingerprint, self.address = f"{name}-static", address

    @classmethod
    def from_pretrained(cls, folder: str | Path | None = None) -> StaticEncoder:
        """Without a folder the shipped one."""
        model = read_folder(Path(folder) if folder else SHIPPED, (KIND,))
        address = str(Path(folder).resolve()) if folder else STATIC
        return cls(model.tensors, model.tokenizer, model.fingerprint, address)

    def encode(
        self, texts: Sequence[str], progress: Callable[[int], None] | None = None
    ) -> NDArray[np.float32]:  # [texts, width]
        """The vectors of passages; `progress` hears how many texts are done."""
        vectors = np.empty((len(texts), self.width), np.float32)
        for start in range(0, len(texts), _BATCH):
            part = texts[start : start + _BATCH]
            vectors[start : start + len(part)] = self._pooled(part, self._passage)
            if progress is not None:
                progress(start + len(part))
        return vectors

    def encode_questions(self, texts: Sequence[str]) -> NDArray[np.float32]:  # [texts, width]
        return self._pooled(texts, self._question)

    def _pooled(self, texts: Sequence[str], weights: NDArray[np.float32]) -> NDArray[np.float32]:
        rows = [each.ids for each in pieces(self._tokenizer, texts)]
        ends = np.cumsum([len(row) for row in rows], dtype=np.int64)
        flat = np.fromiter((piece for row in rows for piece in row), np.int32, int(ends[-1]) if len(ends) else 0)
        sums = np.empty((len(rows), self.width), np.float32)
        kernels.add_pieces(flat, ends, self._vectors, weights, sums)
        length = np.sqrt(np.einsum("tw,tw->t", sums, sums))[:, None]
        unit: NDArray[np.float32] = sums / np.maximum(np.float32(1e-12), length)
        return unit


def open_encoder(address: str | Path | None = None, threads: int = 0) -> TextEncoder | StaticEncoder:
    """An encoder by its address: `static` and `reader` are shipped, else a folder or a model of the Hugging Face hub.

    `reader` is the bi-encoder beside the shipped reader.

    Without an address that of `ORIENTEER_ENCODER`, or MiniLM as the extra `dense` installs it.
    """
    if address is None or str(address) == "":
        return TextEncoder.from_pretrained(None, threads)
    if str(address) == STATIC:
        return StaticEncoder.from_pretrained()
    if str(address) == READER:
        return TextEncoder.of_reader(threads, address=READER)
    folder = Path(address)
    if not folder.exists():
        folder = _from_hub(str(address))
    if _is_static(folder):
        return StaticEncoder.from_pretrained(folder)
    return TextEncoder.from_pretrained(folder, threads)


def write_static_encoder(
    folder: Path, vectors: NDArray[np.float32], passage: NDArray[np.float32], question: NDArray[np.float32],
    tokenizer: str, told: dict[str, object],
) -> None:  # fmt: skip
    """Writes a static encoder of float32 vectors [vocabulary, width] and weights [vocabulary], rounded to int8."""
    scale = (np.maximum(np.abs(vectors).max(1), 1e-12) / 127).astype(np.float32)
    tensors = {
        "vectors": np.rint(vectors / scale[:, None]).astype(np.int8),
        "passage_weights": (passage * scale).astype(np.float32),
        "question_weights": (question * scale).astype(np.float32),
    }
    write_folder(folder, KIND, {"model_type": KIND}, told, tensors, tokenizer)


def _is_static(folder: Path) -> bool:
    import json

    try:
        return kind_of(json.loads((folder / CONFIG).read_bytes()), (KIND,)) is not None
    except (OSError, ValueError):
        return False  # TextEncoder says what is wrong


def _from_hub(name: str) -> Path:
    missing = ModelMissingError(
        f"{name}: no encoder there: no such folder; give `{STATIC}`, `{READER}`, a folder with {CONFIG}, {WEIGHTS} and "
        f"{TOKENIZER}, or with huggingface_hub installed the name of a model on its hub"
    )
    if name.count("/") != 1 or name.startswith((".", "/", "~")):
        raise missing
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise missing from None
    wanted = [CONFIG, WEIGHTS, TOKENIZER, "1_Pooling/config.json", "config_sentence_transformers.json"]
    try:
        return Path(snapshot_download(name, allow_patterns=wanted))
    except Exception as error:  # its errors are many: no network, no such model, no permission
        raise ModelMissingError(f"{name}: cannot be had from the hub: {type(error).__name__}: {error}") from None
