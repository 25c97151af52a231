"""The pointer's network and its losses: a BERT encoder, and a head that scores terms (needs torch)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.functional import smooth_l1_loss
from transformers import BertConfig, BertModel

from orienteer.agents.action_space import OPERATORS, SLOTS, Decoding, grammar_bits, grammar_slots
from orienteer.agents.encoding import KINDS, SOURCES, STATE_FEATURES, TERM_FEATURES, mark_ids
from orienteer.agents.lookahead.value_model import PREFIX
from orienteer.agents.pointer.dataset import Example, Target
from orienteer.agents.pointer.model_files import Layout, PointerFiles, load_folder, save_folder
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
    term_features: Tensor  # [T, features]
    state_features: Tensor  # [B, features]


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
        self.moment = nn.Linear(width + len(STATE_FEATURES), hidden)
        self.mix = nn.Linear(hidden, hidden)
        self.slots = nn.Linear(hidden, len(SLOTS))
        self.whole = nn.Linear(width + len(STATE_FEATURES) + len(OPERATORS) + hidden, hidden)
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
        """slots [T, slots], hidden [T, hidden], context [B, width + features]."""
        states = self.encode(batch.ids, batch.types, batch.mask)
        size, width = len(batch.term_features) * len(SOURCES), states.shape[-1]
        pooled = states.new_zeros(size, width).index_add(0, batch.groups, states.flatten(0, 1)[batch.pieces])
        counts = states.new_zeros(size).index_add(0, batch.groups, states.new_ones(len(batch.groups)))
        pooled = (pooled / counts.clamp(min=1).unsqueeze(-1)).view(len(batch.term_features), -1)
        context = torch.cat([states[:, 0], batch.state_features], 1)
        hidden = torch.relu(self.term(torch.cat([pooled, batch.term_features], 1)) + self.moment(context)[batch.row_of])
        hidden = torch.relu(self.mix(hidden))
        return self.slots(hidden), hidden, context

    def outcomes(self, context: Tensor, grammar: Tensor, hidden: Tensor) -> Tensor:
        """Stop and gain of one row [2], under a grammar; hidden: [terms, hidden] of its terms."""
        best = hidden.max(0).values if len(hidden) else hidden.new_zeros(hidden.shape[1])
        result: Tensor = self.outcome(torch.relu(self.whole(torch.cat([context, grammar, best]))))
        return result

    def keep_layers(self, layers: Sequence[int]) -> None:
        """Leaves only these layers of the encoder, in their order: a step then costs as much less."""
        every = self.encoder.encoder.layer
        if not all(0 <= number < len(every) for number in layers):
            raise TrainingError(f"layers {list(layers)}: the encoder has {len(every)}, counted from 0")
        self.encoder.encoder.layer = nn.ModuleList([every[number] for number in layers])
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
            of_pointer = {name: value for name, value in tensors.items() if not name.startswith(PREFIX)}
            state = {name: torch.from_numpy(value.copy()) for name, value in of_pointer.items()}
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
        occurrences = example.occurrences.astype(np.int64)
        groups.append((occurrences[:, 0] + first) * len(SOURCES) + occurrences[:, 1])
        pieces.append(occurrences[:, 2] + row * size)
        rows.append(np.full(len(example.term_features), row))
        first += len(example.term_features)
    return Batch(
        ids, types, mask,
        torch.from_numpy(np.concatenate(groups)), torch.from_numpy(np.concatenate(pieces)),
        torch.from_numpy(np.concatenate(rows)),
        torch.from_numpy(np.concatenate([e.term_features for e in examples]).astype(np.float32)),
        torch.from_numpy(np.stack([e.state_features for e in examples])),
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


def soft_target(target: Target, temperature: float) -> Tensor:
    """softmax(gain / temperature) over the improving refinements."""
    return torch.softmax(torch.from_numpy(target.gains) / temperature, 0)


def losses(model: PointerModel, part: Sequence[Example], temperature: float) -> tuple[Tensor, Tensor, Tensor]:
    """Sums over the examples: cross-entropy with soft targets, error of the gain, share of the best gain.

    An example with labels of several grammars counts once: their mean. The share is the gain of the refinement that
    the model would take, 0 where Rocchio did not record it as improving, divided by the best gain there is.
    """
    slots, hidden, context = model(batch_of(part))
    policy, value, share = slots.sum() * 0.0, slots.sum() * 0.0, 0.0
    first = 0
    for row, example in enumerate(part):
        last = first + len(example.term_features)
        logits, of_terms = slots[first:last].reshape(-1), hidden[first:last]
        open_slots = torch.from_numpy(example.open_slots)
        refining = max(1, sum(len(target.actions) > 0 for target in example.targets))
        for target in example.targets:
            stop, gain = model.outcomes(context[row], torch.from_numpy(grammar_bits(target.grammar)), of_terms)
            legal = (open_slots & torch.from_numpy(grammar_slots(target.grammar))).reshape(-1)
            logs = torch.log_softmax(torch.cat([logits.masked_fill(~legal, -torch.inf), stop[None]]), 0)
            if len(target.actions):
                actions = torch.from_numpy(target.actions).long()
                loss = -(soft_target(target, temperature) * logs[actions]).sum()
                chosen = int(logs[:-1].argmax())
                reached = target.gains[target.actions == chosen]
                best = float(target.gains.max())
                share += float(reached[0]) / best / refining if len(reached) else 0.0
            else:
                loss, best = -logs[-1], 0.0
            policy = policy + loss / len(example.targets)
            value = value + smooth_l1_loss(gain, gain.new_tensor(best), beta=0.1) / len(example.targets)
        first = last
    return policy, value, torch.tensor(share)
