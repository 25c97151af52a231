"""The value model without the lookahead: it ranks given passages, whoever found them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from orienteer.agents.lookahead.candidates import Lookahead
from orienteer.agents.lookahead.value_model import ValueModel, has_value_model, passage_values
from orienteer.agents.pointer.model_files import PointerFiles
from orienteer.engine.protocol import Engine
from orienteer.errors import OrienteerError
from orienteer.models.bert_encoder import plain_tokenizer
from orienteer.models.model_folder import dequantise
from orienteer.session import Lexicon, Observation


class ValueRanking:
    """Ranks passages by the expected gain of reading each."""

    def __init__(self, files: PointerFiles, engine: Engine) -> None:
        exact = dequantise(files.tensors)
        if not has_value_model(exact):
            raise OrienteerError("this pointer has no value model for lookahead; `orienteer train lookahead` adds one")
        pieces = plain_tokenizer(files.tokenizer).get_vocab()
        table = exact["encoder.embeddings.word_embeddings.weight"]
        self._model, self._decoding = ValueModel(exact), files.decoding
        self._lookahead = Lookahead(engine, Lexicon(engine), pieces, table)
        self.fingerprint = f"{files.fingerprint}-values"

    def __call__(self, observation: Observation, ids: Sequence[str]) -> tuple[list[str], int]:
        """The passages, the most valuable first, of equals the earlier; and how many were valued."""
        candidates = self._lookahead.of_passages(observation, ids, self._model.mean)
        values = passage_values(candidates, self._model, self._decoding)
        return [ids[place] for place in np.argsort(-values, kind="stable").tolist()], len(ids)
