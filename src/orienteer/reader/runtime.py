"""The reader at work, without torch: wordpieces in, CTranslate2 in int8, calibrated readings out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import ctranslate2
import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from orienteer.data.passage import Passage
from orienteer.reader.ct2_format import model_files
from orienteer.reader.decoding import best_span
from orienteer.reader.encoding import PAD, Window, encode
from orienteer.reader.errors import ModelCorruptError
from orienteer.reader.folder import SHIPPED, ReaderFiles, dequantise, load_folder, quantise
from orienteer.reader.protocol import Reading

Compute = Literal["int8", "float32"]

# Enough rows to keep the matrix products busy; more only spills out of the caches.
_PIECES_AT_ONCE = 2048
_WINDOWS_AT_ONCE = 32
# Passages are cut into wordpieces this many at a time, so that a large batch's windows do not all wait in memory.
_PASSAGES_AT_ONCE = 4096

Outputs = tuple[float, NDArray[np.float32], NDArray[np.float32]]  # selection, starts and ends of the text's pieces


class TrainedReader:
    """A `Reader` from a folder that training wrote; the shipped one unless told otherwise."""

    def __init__(self, files: ReaderFiles, compute: Compute = "int8", threads: int = 0) -> None:
        self._tokenizer = Tokenizer.from_str(files.tokenizer)
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._calibration = files.calibration
        tensors = quantise(files.tensors) if compute == "int8" else dequantise(files.tensors)
        ids = self._tokenizer.get_vocab()
        vocabulary = sorted(ids, key=ids.__getitem__)
        self._continues = np.array([piece.startswith("##") for piece in vocabulary])
        try:
            self._encoder = ctranslate2.Encoder(
                "reader",
                device="cpu",
                compute_type=compute,
                inter_threads=1,
                intra_threads=threads,
                files=model_files(files.config, tensors, vocabulary),
            )
            self._heads = np.concatenate([tensors["select.weight"], tensors["span.weight"]]).T  # [width, 3]
            self._biases = np.concatenate([tensors["select.bias"], tensors["span.bias"]])
        except (KeyError, RuntimeError, ValueError) as error:
            raise ModelCorruptError(f"these weights do not make a reader: {error!r}; train it again") from None
        self._fingerprint = f"{files.fingerprint}-{compute}"

    @classmethod
    def from_pretrained(
        cls, folder: str | Path | None = None, compute: Compute = "int8", threads: int = 0
    ) -> TrainedReader:
        """`threads` = 0 takes what CTranslate2 thinks right for the machine."""
        return cls(load_folder(Path(folder) if folder else SHIPPED), compute, threads)

    @property
    def fingerprint(self) -> str:
        return self._fingerprint

    def read(self, question: str, passages: Sequence[Passage]) -> list[Reading]:
        return self.read_many([(question, passages)])[0]

    def read_many(self, batch: Sequence[tuple[str, Sequence[Passage]]]) -> list[list[Reading]]:
        readings: list[list[Reading]] = [[] for _ in batch]
        for places in _chunks(batch):
            pairs = [(batch[q][0], batch[q][1][low:high]) for q, low, high in places]
            encoded = encode(self._tokenizer, pairs)
            outputs = iter(self.run([window for row in encoded for windows in row for window in windows]))
            for (q, _, _), (_, passages), row in zip(places, pairs, encoded, strict=True):
                for passage, windows in zip(passages, row, strict=True):
                    readings[q].append(self._reading(passage, windows, [next(outputs) for _ in windows]))
        return readings

    def _reading(self, passage: Passage, windows: Sequence[Window], outputs: Sequence[Outputs]) -> Reading:
        """A passage's score and answer are those of its best window; the first of equals."""
        best = max(range(len(windows)), key=lambda i: (outputs[i][0], -i))
        window, (logit, starts, ends) = windows[best], outputs[best]
        begin = end = 0
        if window.offsets:
            low = window.text_from
            span = best_span(starts, ends, self._continues[window.ids[low : low + len(window.offsets)]])
            begin, end = window.offsets[span.first][0], window.offsets[span.last][1]
        return Reading(float(self._calibration(logit)), logit, passage.text[begin:end], begin, end)

    def run(self, windows: Sequence[Window]) -> list[Outputs]:
        """The model's outputs for windows, in their order; read in batches of like length."""
        outputs: list[Any] = [None] * len(windows)
        for group in length_groups(windows):
            states = self._encode([windows[i] for i in group])  # [B, L, width]
            logits = states @ self._heads + self._biases  # [B, L, 3]: selection, start, end
            for row, i in enumerate(group):
                low = windows[i].text_from
                text = logits[row, low : low + len(windows[i].offsets)]
                outputs[i] = (float(logits[row, 0, 0]), text[:, 1], text[:, 2])
        return outputs

    def _encode(self, windows: Sequence[Window]) -> NDArray[np.float32]:
        size = max(len(window.ids) for window in windows)
        ids = np.full((len(windows), size), PAD, np.int32)
        types = np.zeros((len(windows), size), np.int32)
        for row, window in enumerate(windows):
            ids[row, : len(window.ids)] = window.ids
            types[row, window.question_size :] = 1
        lengths = np.array([len(window.ids) for window in windows], np.int32)
        view = ctranslate2.StorageView.from_array
        result = self._encoder.forward_batch(view(ids), view(lengths), token_type_ids=types.tolist())
        return np.array(result.last_hidden_state)


def _chunks(batch: Sequence[tuple[str, Sequence[Passage]]]) -> Iterator[list[tuple[int, int, int]]]:
    """Runs of (question, first passage, passage after the last) of some thousand passages each."""
    chunk: list[tuple[int, int, int]] = []
    room = _PASSAGES_AT_ONCE
    for number, (_, passages) in enumerate(batch):
        low = 0
        while low < len(passages):
            high = min(len(passages), low + room)
            chunk.append((number, low, high))
            room -= high - low
            low = high
            if not room:
                yield chunk
                chunk, room = [], _PASSAGES_AT_ONCE
    if chunk:
        yield chunk


def length_groups(windows: Sequence[Window]) -> Iterator[list[int]]:
    """Places of windows, shortest first, in groups that padding hardly swells."""
    group: list[int] = []
    for i in sorted(range(len(windows)), key=lambda i: len(windows[i].ids)):
        if group and (len(group) == _WINDOWS_AT_ONCE or (len(group) + 1) * len(windows[i].ids) > _PIECES_AT_ONCE):
            yield group
            group = []
        group.append(i)
    if group:
        yield group
