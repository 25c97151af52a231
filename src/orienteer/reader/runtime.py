"""The reader at work, without torch: wordpieces in, CTranslate2 in int8, calibrated readings out."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orienteer.data.passage import Passage
from orienteer.errors import ModelCorruptError
from orienteer.models.bert_encoder import BertEncoder, Compute, plain_tokenizer
from orienteer.models.checks import check_shapes, linear_shapes
from orienteer.reader.decoding import best_span, span_log_probability
from orienteer.reader.encoding import MAX_PIECES, Window, encode
from orienteer.reader.fair_threads import FairThreads
from orienteer.reader.folder import SHIPPED, ReaderFiles, load_folder
from orienteer.reader.likeness import Likeness
from orienteer.reader.protocol import Reading

# Passages are cut into wordpieces this many at a time, so that a large batch's windows do not all wait in memory.
_PASSAGES_AT_ONCE = 4096

Outputs = tuple[float, NDArray[np.float32], NDArray[np.float32]]  # selection, starts and ends of the text's pieces


class TrainedReader:
    """A `Reader` from a folder that training wrote; the shipped one unless told otherwise."""

    def __init__(self, files: ReaderFiles, compute: Compute = "int8", threads: int = 0) -> None:
        self._tokenizer = plain_tokenizer(files.tokenizer)
        threads = threads or len(os.sched_getaffinity(0))
        self._workers = FairThreads(threads, "reader") if threads > 1 else None
        tensors = files.tensors
        try:
            self._calibration = files.calibration
            self._encoder = BertEncoder(files.config, files.own_tensors, self._tokenizer, compute, threads)
            likeness = files.likeness
            self._likeness = Likeness(likeness, self._tokenizer, threads, self._workers) if likeness else None
            _check_heads(tensors, int(files.config["hidden_size"]))
            self._select, self._select_bias = tensors["select.weight"][0], tensors["select.bias"][0]  # [2 · width]
            self._span, self._span_bias = tensors["span.weight"].T, tensors["span.bias"]  # [width, 2]
            has_pooler = "pooler.weight" in tensors
            self._pooler = (tensors["pooler.weight"].T, tensors["pooler.bias"]) if has_pooler else None
        except (KeyError, RuntimeError, ValueError) as error:
            raise ModelCorruptError(f"these weights do not make a reader: {error!r}; train it again") from None
        self._continues = np.array([piece.startswith("##") for piece in self._encoder.vocabulary])
        self._fingerprint = f"{files.fingerprint}-{compute}"

    @classmethod
    def from_pretrained(
        cls, folder: str | Path | None = None, compute: Compute = "int8", threads: int = 0
    ) -> TrainedReader:
        """`threads` = 0 takes one for each core this process may use."""
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
            for (q, _, _), (question, passages), row in zip(places, pairs, encoded, strict=True):
                more = self._likeness(question, passages) if self._likeness else [0.0] * len(passages)
                for passage, windows, each in zip(passages, row, more, strict=True):
                    readings[q].append(self._reading(passage, windows, [next(outputs) for _ in windows], each))
        return readings

    def _reading(self, passage: Passage, windows: Sequence[Window], outputs: Sequence[Outputs], more: float) -> Reading:
        """A passage's score and answer are those of its best window, the first of equals; `more` goes to its logit."""
        best = max(range(len(windows)), key=lambda i: (outputs[i][0], -i))
        window, (logit, starts, ends) = windows[best], outputs[best]
        begin = end = 0
        certainty = 0.0
        if window.offsets:
            low = window.text_from
            span = best_span(starts, ends, self._continues[window.ids[low : low + len(window.offsets)]])
            begin, end = window.offsets[span.first][0], window.offsets[span.last][1]
            certainty = span_log_probability(starts, ends, span)
        logit += more
        return Reading(float(self._calibration(logit)), logit, passage.text[begin:end], begin, end, certainty)

    def run(self, windows: Sequence[Window]) -> list[Outputs]:
        """The model's outputs for windows, in their order.

        Each window goes through the encoder alone, one core each: nothing is padded, and a reading does not depend on
        what is read beside it, where a batch's shape would change the order of its sums.
        """
        # Longest first, so that no core ends up alone with a long one.
        order = sorted(range(len(windows)), key=lambda i: -len(windows[i].ids))
        outputs: list[Any] = [None] * len(windows)
        mapped = self._workers.map if self._workers else map
        for i, found in zip(order, mapped(self._outputs, [windows[i] for i in order]), strict=True):
            outputs[i] = found
        return outputs

    def _outputs(self, window: Window) -> Outputs:
        types = [0] * window.question_size + [1] * (len(window.ids) - window.question_size)
        states = self._encoder(window.ids, types)  # [L, width]
        spans = states[window.text_from : window.text_from + len(window.offsets)] @ self._span + self._span_bias
        return self._selection(states, window), spans[:, 0], spans[:, 1]

    def _selection(self, states: NDArray[np.float32], window: Window) -> float:
        """The selection head on the states [L, width] of one window, as `ReaderModel.forward` has it."""
        question = states[: window.question_size].sum(0)
        passage = states[window.question_size : len(window.ids)].sum(0)
        likeness = question * passage / (np.linalg.norm(question) * np.linalg.norm(passage))
        first = states[0] if self._pooler is None else np.tanh(states[0] @ self._pooler[0] + self._pooler[1])
        return float(np.concatenate([first, likeness]) @ self._select + self._select_bias)


def _check_heads(tensors: Mapping[str, NDArray[Any]], width: int) -> None:
    """Raises ValueError where a head or a table does not fit an encoder of this width."""
    shapes = {**linear_shapes("select", 1, 2 * width), **linear_shapes("span", 2, width)}
    if "pooler.weight" in tensors:
        shapes |= linear_shapes("pooler", width, width)
    check_shapes(tensors, shapes)
    for name, rows in (("position", MAX_PIECES), ("token_type", 2)):
        if (found := len(tensors[f"encoder.embeddings.{name}_embeddings.weight"])) < rows:
            raise ValueError(f"{found} rows of {name} embeddings; a reader needs {rows}")


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
