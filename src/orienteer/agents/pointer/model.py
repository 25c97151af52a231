"""The network that training shapes: one BERT encoder, and a head that scores terms (needs torch)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import BertConfig, BertModel

from orienteer.agents.action_space import OPERATORS, SLOTS
from orienteer.agents.pointer.decoding import Decoding
from orienteer.agents.pointer.examples import Example
from orienteer.agents.pointer.features import MOMENT_FEATURES, TERM_FEATURES
from orienteer.agents.pointer.model_files import Layout, PointerFiles, load_folder, save_folder
from orienteer.agents.pointer.rendering import KINDS, SOURCES, mark_ids
from orienteer.errors import ModelCorruptError, TrainingError
from orienteer.models.model_folder import CONFIG, dequantise
from orienteer.reader.model import ReaderModel, load_tokenizer

HIDDEN = 256


class Batch(NamedTuple):
    """Rows padded to the longest; terms of all rows end to end."""

    ids: Tensor  # int64 [B, L]
    types: Tensor  # int64 [B, L]
    mask: Tensor  # int64 [B, L]
    groups: Tensor  # int64 [N]: term · sources + source, of each occurring piece
    pieces: Tensor  # int64 [N]: row · L + place
    row_of: Tensor  # int64 [T]: the row of each term
    of_terms: Tensor  # [T, features]
    of_moment: Tensor  # [B, features]


class PointerModel(nn.Module):
    """Scores of every slot of every term from the mean states of the term's pieces in each source.

    The marks, tokens that no pretraining has touched, have vectors of their own, so that they can learn while the
    word vectors are left alone; a saved model has them in its word table.
    """

    def __init__(self, encoder: BertModel, marks: Sequence[int], hidden: int = HIDDEN) -> None:
        super().__init__()
        self.encoder = encoder
        width = encoder.config.hidden_size
        words = encoder.embeddings.word_embeddings.weight
        self.marks = nn.Parameter(words.detach()[list(marks)].clone())
        number = torch.full((len(words),), -1)
        number[list(marks)] = torch.arange(len(marks))
        self.register_buffer("mark_of", number, persistent=False)
        self.term = nn.Linear(len(SOURCES) * width + len(TERM_FEATURES), hidden)
        self.moment = nn.Linear(width + len(MOMENT_FEATURES), hidden)
        self.mix = nn.Linear(hidden, hidden)
        self.slots = nn.Linear(hidden, len(SLOTS))
        self.whole = nn.Linear(width + len(MOMENT_FEATURES) + len(OPERATORS) + hidden, hidden)
        self.outcome = nn.Linear(hidden, 2)

    def encode(self, ids: Tensor, types: Tensor, mask: Tensor) -> Tensor:
        """[B, L, width]"""
        number = self.mark_of[ids]
        words = self.encoder.embeddings.word_embeddings(ids)
        words = torch.where((number >= 0).unsqueeze(-1), self.marks[number.clamp(min=0)], words)
        states: Tensor = self.encoder(
            inputs_embeds=words, token_type_ids=types, attention_mask=mask
        ).last_hidden_state  # fmt: skip
        return states

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """slots [T, slots], hidden [T, hidden], around [B, width + features]."""
        states = self.encode(batch.ids, batch.types, batch.mask)
        size, width = len(batch.of_terms) * len(SOURCES), states.shape[-1]
        pooled = states.new_zeros(size, width).index_add(0, batch.groups, states.flatten(0, 1)[batch.pieces])
        counts = states.new_zeros(size).index_add(0, batch.groups, states.new_ones(len(batch.groups)))
        pooled = (pooled / counts.clamp(min=1).unsqueeze(-1)).view(len(batch.of_terms), -1)
        around = torch.cat([states[:, 0], batch.of_moment], 1)
        hidden = torch.relu(self.term(torch.cat([pooled, batch.of_terms], 1)) + self.moment(around)[batch.row_of])
        hidden = torch.relu(self.mix(hidden))
        return self.slots(hidden), hidden, around

    def outcomes(self, around: Tensor, grammar: Tensor, hidden: Tensor) -> Tensor:
        """Stop and gain of one row [2], under a grammar; hidden: [terms, hidden] of its terms."""
        best = hidden.max(0).values if len(hidden) else hidden.new_zeros(hidden.shape[1])
        result: Tensor = self.outcome(torch.relu(self.whole(torch.cat([around, grammar, best]))))
        return result

    def keep_layers(self, layers: Sequence[int]) -> None:
        """Leaves only these layers of the encoder, in their order: a step then costs as much less."""
        found = self.encoder.encoder.layer
        if not all(0 <= number < len(found) for number in layers):
            raise TrainingError(f"layers {list(layers)}: the encoder has {len(found)}, counted from 0")
        self.encoder.encoder.layer = nn.ModuleList([found[number] for number in layers])
        self.encoder.config.num_hidden_layers = len(layers)

    def tensors(self) -> dict[str, np.ndarray[Any, Any]]:
        """The weights as a folder holds them: the marks are rows of the word table."""
        state = self.state_dict()
        marks = state.pop("marks")
        table = "encoder.embeddings.word_embeddings.weight"
        state[table] = state[table].clone()
        state[table][self.mark_of >= 0] = marks[self.mark_of[self.mark_of >= 0]]
        return {name: tensor.numpy(force=True) for name, tensor in state.items()}

    def files(self, tokenizer: Tokenizer, layout: Layout, decoding: Decoding | None = None) -> PointerFiles:
        """What a folder would hold, in memory."""
        config = self.encoder.config.to_dict()
        return PointerFiles(config, self.tensors(), tokenizer.to_str(), layout, decoding or Decoding(), "unsaved")

    def save_pretrained(
        self, folder: Path, tokenizer: Tokenizer, layout: Layout, decoding: Decoding | None = None, **notes: Any
    ) -> None:
        """A pointer's folder with float32 weights."""
        files = self.files(tokenizer, layout, decoding)
        save_folder(folder, files.config, files.tensors, files.tokenizer, layout, files.decoding, **notes)

    @classmethod
    def from_pretrained(cls, name: str | Path) -> PointerModel:
        """A pointer's folder; or a reader's or any BERT's, whose encoder gets a new head."""
        marks = mark_ids(load_tokenizer(name))
        if not is_pointer(Path(name)):
            encoder = ReaderModel.from_pretrained(name).encoder
            _widen_types(encoder)
            return cls(encoder, marks)
        files = load_folder(Path(name))
        tensors = dequantise(files.tensors)
        quiet = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        encoder = BertModel(BertConfig(**{**files.config, **quiet}), add_pooling_layer=False)
        model = cls(encoder, marks, len(tensors["mix.bias"]))
        try:
            table = tensors["encoder.embeddings.word_embeddings.weight"]
            own = {name: value for name, value in tensors.items() if not name.startswith("weigher.")}
            state = {name: torch.from_numpy(value.copy()) for name, value in own.items()}
            model.load_state_dict({**state, "marks": torch.from_numpy(table[marks].copy())})
        except (RuntimeError, KeyError) as error:
            raise ModelCorruptError(f"{name}: not a pointer's weights ({error}); train it again") from None
        return model


def batch_of(examples: Sequence[Example]) -> Batch:
    """Examples as tensors."""
    size = max(len(example.ids) for example in examples)
    ids, types, mask = (torch.zeros(len(examples), size, dtype=torch.int64) for _ in range(3))
    groups, pieces, rows = [], [], []
    first = 0
    for row, example in enumerate(examples):
        length = len(example.ids)
        ids[row, :length] = torch.from_numpy(example.ids)
        types[row, :length] = torch.from_numpy(example.types)
        mask[row, :length] = 1
        found = example.occurrences.astype(np.int64)
        groups.append((found[:, 0] + first) * len(SOURCES) + found[:, 1])
        pieces.append(found[:, 2] + row * size)
        rows.append(np.full(len(example.of_terms), row))
        first += len(example.of_terms)
    return Batch(
        ids, types, mask,
        torch.from_numpy(np.concatenate(groups)), torch.from_numpy(np.concatenate(pieces)),
        torch.from_numpy(np.concatenate(rows)),
        torch.from_numpy(np.concatenate([e.of_terms for e in examples]).astype(np.float32)),
        torch.from_numpy(np.stack([e.of_moment for e in examples])),
    )  # fmt: skip


def _widen_types(encoder: BertModel) -> None:
    """A row of the segment table for each kind of text: questions as segment 0 was, all else as segment 1."""
    old = encoder.embeddings.token_type_embeddings.weight.detach()
    rows = [old[0], *[old[min(1, len(old) - 1)]] * (KINDS - 1)]
    table = nn.Embedding(KINDS, old.shape[1])
    table.weight = nn.Parameter(torch.stack(rows))
    encoder.embeddings.token_type_embeddings = table
    encoder.config.type_vocab_size = KINDS


def is_pointer(folder: Path) -> bool:
    try:
        return "pointer" in json.loads((folder / CONFIG).read_text())
    except (OSError, ValueError, TypeError):
        return False
