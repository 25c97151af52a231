"""A trained model at work, without torch: texts in, CTranslate2 in int8, the likeliest targets out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from orienteer.agents.t5.beam import Constraint, Written, write
from orienteer.agents.t5.codec import Codec
from orienteer.agents.t5.ct2_encoder import TextEncoder
from orienteer.agents.t5.decoder import Decoder
from orienteer.agents.t5.model_files import ModelFiles
from orienteer.errors import ModelCorruptError
from orienteer.models.model_folder import dequantise
from orienteer.reader.runtime import Compute


class Writer:
    """Each text is encoded and decoded alone, on one core: what is written does not depend on what else is."""

    def __init__(
        self, files: ModelFiles, max_source: int, max_target: int, *, compute: Compute = "int8", threads: int = 0
    ) -> None:
        """`threads` = 0 takes one for each core this process may use."""
        threads = threads or len(os.sched_getaffinity(0))
        self.max_source, self.max_target = max_source, max_target
        try:
            self.codec = Codec.from_json(files.tokenizer, files.shape)
            self._encoder = TextEncoder(files.shape, files.tensors, self.codec.vocabulary, compute, threads)
            tensors = dequantise(files.tensors)
            self._decoder = Decoder(files.shape, tensors, max_target)
        except (KeyError, RuntimeError, ValueError) as error:
            raise ModelCorruptError(f"these weights do not make the model: {error!r}; train it again") from None
        self._workers = ThreadPoolExecutor(threads, "writer") if threads > 1 else None

    def write(
        self, texts: Sequence[str], constraints: Sequence[Constraint | None], beam: int = 4
    ) -> list[list[Written]]:
        """The likeliest targets of each text that its constraint allows, likeliest first; None allows all."""
        sources = self.codec.sources(texts, self.max_source)
        alone = len(sources) == 1

        def one(source: list[int], constraint: Constraint | None) -> list[Written]:
            states = self._encoder(source, alone=alone)
            return write(self._decoder, self._decoder.remember(states, source), constraint, beam)

        mapped = self._workers.map if self._workers and not alone else map
        return list(mapped(one, sources, constraints))
