"""h as training shapes it, the paper's way: encoder, extra layers and head, from the rows that turns keep (torch)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import BertConfig, BertModel

from orienteer.agents.action_space import grammar_bits
from orienteer.agents.lookahead.value_model import WEIGHER
from orienteer.agents.muzero.observation_tokens import idf_values, ps_values
from orienteer.agents.muzero.pretrained import Base
from orienteer.agents.muzero.trajectory import Row, Turn
from orienteer.agents.pointer.model import PointerModel
from orienteer.agents.pointer.rendering import SOURCES, mark_ids
from orienteer.errors import ModelCorruptError, TrainingError
from orienteer.models.model_folder import dequantise
from orienteer.query import Grammar


class Seeing(nn.Module):
    """The cloned agent's network with one vector more for a token's idf and one for its passage's PS.

    Both start at 0: h begins as the clone's.
    """

    def __init__(self, base: Base, grammar: Grammar) -> None:
        super().__init__()
        quiet = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        tensors = {name: value for name, value in dequantise(base.tensors).items() if not name.startswith(WEIGHER)}
        encoder = BertModel(BertConfig(**{**base.bert, **quiet}), add_pooling_layer=False)
        marks = mark_ids(base.plain_tokenizer())
        self.clone = PointerModel(encoder, marks, len(tensors["mix.bias"]))
        layers = [
            torch.from_numpy(tensors.pop(name)) if name in tensors else None for name in ("layers.idf", "layers.ps")
        ]
        table = tensors["encoder.embeddings.word_embeddings.weight"]
        state = {name: torch.from_numpy(value.copy()) for name, value in tensors.items()}
        try:
            self.clone.load_state_dict({**state, "marks": torch.from_numpy(table[marks].copy())})
        except RuntimeError as error:
            raise ModelCorruptError(f"not the weights of an h: {error}") from None
        # Words stay as they are: pieces are told apart by them wherever they are chosen.
        encoder.embeddings.word_embeddings.requires_grad_(False)
        encoder.embeddings.position_embeddings.requires_grad_(False)
        width = encoder.config.hidden_size
        self.idf, self.ps = (nn.Parameter(torch.zeros(width) if each is None else each.clone()) for each in layers)
        self.register_buffer("idf_values", torch.from_numpy(idf_values()), persistent=False)
        self.register_buffer("ps_values", torch.from_numpy(ps_values()), persistent=False)
        self.register_buffer("bits", torch.from_numpy(grammar_bits(grammar)), persistent=False)

    def forward(self, turns: Sequence[Turn]) -> tuple[Tensor, Tensor]:
        """What h sees of turns: whole [n, size], terms [all terms, width]."""
        rows = [turn.row for turn in turns if turn.row is not None]
        if len(rows) != len(turns):
            raise TrainingError("turns without their tokens cannot train h; play them with --train-h from the start")
        states = self._states(rows)
        length, width = states.shape[1], states.shape[2]
        groups, pieces, owners, first = [], [], [], 0
        for number, row in enumerate(rows):
            found = row.occurrences.astype(np.int64)
            groups.append((found[:, 0] + first) * len(SOURCES) + found[:, 1])
            pieces.append(found[:, 2] + number * length)
            owners.append(np.full(len(row.of_terms), number))
            first += len(row.of_terms)
        group, piece = torch.from_numpy(np.concatenate(groups)), torch.from_numpy(np.concatenate(pieces))
        owner = torch.from_numpy(np.concatenate(owners))
        size = first * len(SOURCES)
        pooled = states.new_zeros(size, width).index_add(0, group, states.flatten(0, 1)[piece])
        counts = states.new_zeros(size).index_add(0, group, torch.ones(len(group)))
        pooled = (pooled / counts.clamp(min=1).unsqueeze(-1)).view(first, -1)
        clone = self.clone
        of_terms = torch.from_numpy(np.concatenate([row.of_terms for row in rows]))
        around = torch.cat([states[:, 0], torch.from_numpy(np.stack([row.of_moment for row in rows]))], 1)
        terms = torch.relu(clone.term(torch.cat([pooled, of_terms], 1)) + clone.moment(around)[owner])
        terms = torch.relu(clone.mix(terms))
        best = torch.zeros(len(rows), terms.shape[1]).scatter_reduce(
            0, owner.unsqueeze(1).expand(-1, terms.shape[1]), terms, "amax"
        )  # fmt: skip
        bits = self.bits.expand(len(rows), -1)
        outcome = clone.outcome(torch.relu(clone.whole(torch.cat([around, bits, best], 1))))
        return torch.cat([around, best, outcome], 1), terms

    def _states(self, rows: Sequence[Row]) -> Tensor:
        size = max(len(row.ids) for row in rows)
        ids, types, idf, ps, mask = (torch.zeros(len(rows), size, dtype=torch.int64) for _ in range(5))
        for number, row in enumerate(rows):
            length = len(row.ids)
            for target, source in ((ids, row.ids), (types, row.types), (idf, row.idf), (ps, row.ps)):
                target[number, :length] = torch.from_numpy(source.astype(np.int64))
            mask[number, :length] = 1
        number = self.clone.mark_of[ids]
        words = self.clone.encoder.embeddings.word_embeddings(ids)
        words = torch.where((number >= 0).unsqueeze(-1), self.clone.marks[number.clamp(min=0)], words)
        words = words + self.idf_values[idf].unsqueeze(-1) * self.idf + self.ps_values[ps].unsqueeze(-1) * self.ps
        states: Tensor = self.clone.encoder(
            inputs_embeds=words, token_type_ids=types, attention_mask=mask
        ).last_hidden_state  # fmt: skip
        return states

    def tensors(self) -> dict[str, NDArray[Any]]:
        """As a folder holds them."""
        layers = {"layers.idf": self.idf.numpy(force=True).copy(), "layers.ps": self.ps.numpy(force=True).copy()}
        return {**self.clone.tensors(), **layers}
