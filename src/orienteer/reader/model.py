"""The network that training shapes: one BERT encoder, a selection head, an answer head (needs torch)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.functional import normalize
from transformers import AutoConfig, BertConfig, BertForSequenceClassification, BertModel

from orienteer.errors import ModelCorruptError, ModelMissingError, TrainingError
from orienteer.models.model_folder import CONFIG, TOKENIZER, dequantise
from orienteer.reader.folder import SHIPPED, load_folder, save_folder

# The likeness of question and passage before training, as a logit: what a cosine of 1 is worth, and none.
_LIKENESS, _NO_LIKENESS = 20.0, -17.0
# A cross-encoder's relevance as a logit of holding the answer: its scores spread over some twenty units.
_RELEVANCE, _NO_RELEVANCE = 0.5, -2.0


class ReaderModel(nn.Module):
    """DPR's reader: does this passage hold the answer, and where does the answer start and end.

    Selection looks at [CLS] and at the likeness of question and passage, coordinate by coordinate: a sentence encoder
    begins with a good idea of likeness, which [CLS] alone would have to learn anew. A cross-encoder has learned
    relevance from [CLS] through a pooler; a reader that starts from one keeps it.
    """

    def __init__(self, encoder: BertModel, *, has_pooler: bool = False) -> None:
        super().__init__()
        self.encoder = encoder
        width = encoder.config.hidden_size
        self.select = nn.Linear(2 * width, 1)
        self.span = nn.Linear(width, 2)
        self.pooler = nn.Linear(width, width) if has_pooler else None
        nn.init.normal_(self.span.weight, std=0.02)
        nn.init.zeros_(self.span.bias)
        nn.init.zeros_(self.select.weight[:, :width])
        nn.init.constant_(self.select.weight[:, width:], _LIKENESS)
        nn.init.constant_(self.select.bias, _NO_LIKENESS)

    def forward(self, ids: Tensor, types: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """ids, types, mask: int64 [B, L]. Gives select [B], start [B, L], end [B, L], all logits."""
        states = self.encoder(input_ids=ids, token_type_ids=types, attention_mask=mask).last_hidden_state
        start, end = self.span(states).unbind(-1)  # [B, L] each
        question, passage = (_direction(states, part) for part in (mask - types, types))
        first = states[:, 0] if self.pooler is None else self.pooler(states[:, 0]).tanh()
        features = torch.cat([first, question * passage], 1)  # [B, 2 · width]
        return self.select(features).squeeze(-1), start, end

    def keep_layers(self, layers: Sequence[int]) -> None:
        """Leaves only these layers of the encoder, in their order: where a student starts."""
        keep_layers(self.encoder, layers)

    def save_pretrained(self, folder: Path, tokenizer: Tokenizer, **notes: Any) -> None:
        """A reader's folder with float32 weights."""
        tensors = {name: tensor.numpy(force=True) for name, tensor in self.state_dict().items()}
        config = self.encoder.config.to_dict()
        config.pop("_name_or_path", None)  # a folder of this machine's
        save_folder(folder, config, tensors, tokenizer.to_str(), **notes)

    @classmethod
    def from_pretrained(cls, name: str | Path) -> ReaderModel:
        """A reader's folder, `shipped`, or any BERT (folder or hub name), which gets new heads.

        A cross-encoder's relevance head becomes the selection head.
        """
        # Training sees most passages once: dropout only slows it, by a tenth on a CPU.
        quiet = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        folder = reader_folder(name)
        if folder is None:
            try:
                with no_load_report():
                    if _is_cross_encoder(str(name)):
                        return cls._from_cross_encoder(str(name), quiet)
                    return cls(BertModel.from_pretrained(str(name), add_pooling_layer=False, **quiet))
            except (OSError, ValueError) as error:
                raise ModelMissingError(
                    f"{name}: no BERT can be loaded from here ({error}); expected a folder with config.json and "
                    "model.safetensors, or a hub name"
                ) from None
        files = load_folder(folder)
        tensors = files.own_tensors  # a bi-encoder beside it is not part of the network
        has_pooler = "pooler.weight" in tensors
        model = cls(BertModel(BertConfig(**{**files.config, **quiet}), add_pooling_layer=False), has_pooler=has_pooler)
        try:
            model.load_state_dict({n: torch.from_numpy(v) for n, v in dequantise(tensors).items()})
        except RuntimeError as error:
            raise ModelCorruptError(f"{folder}: not a reader's weights ({error}); train it again") from None
        return model

    @classmethod
    def _from_cross_encoder(cls, name: str, quiet: Mapping[str, float]) -> ReaderModel:
        ranker = BertForSequenceClassification.from_pretrained(name, **quiet)
        plain = BertModel(ranker.config, add_pooling_layer=False)
        plain.load_state_dict({n: t for n, t in ranker.bert.state_dict().items() if not n.startswith("pooler.")})
        model, width = cls(plain, has_pooler=True), ranker.config.hidden_size
        assert model.pooler is not None
        model.pooler.load_state_dict(ranker.bert.pooler.dense.state_dict())
        with torch.no_grad():
            model.select.weight[0, :width] = _RELEVANCE * ranker.classifier.weight[0]
            model.select.weight[0, width:] = 0.0
            model.select.bias.copy_(_RELEVANCE * ranker.classifier.bias + _NO_RELEVANCE)
        return model


def keep_layers(bert: BertModel, layers: Sequence[int]) -> None:
    """Leaves only these layers of a BERT, in their order."""
    all_layers = bert.encoder.layer
    if not layers or not all(0 <= number < len(all_layers) for number in layers):
        raise TrainingError(f"layers {list(layers)}: the encoder has {len(all_layers)}, counted from 0")
    bert.encoder.layer = nn.ModuleList([all_layers[number] for number in layers])
    bert.config.num_hidden_layers = len(layers)


def _is_cross_encoder(name: str) -> bool:
    """Whether this is a BERT with a trained head of one output."""
    config = AutoConfig.from_pretrained(name)
    return "BertForSequenceClassification" in (config.architectures or ()) and config.num_labels == 1


@contextmanager
def no_load_report() -> Iterator[None]:
    """transformers prints a progress bar and a table of absent heads: a user who trains new heads needs neither."""
    level = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers.logging.set_verbosity(level)
        transformers.logging.enable_progress_bar()


def _direction(states: Tensor, part: Tensor) -> Tensor:
    """The unit vector of the mean state of a part of each row: states [B, L, width], part [B, L] of 0 and 1."""
    return normalize((states * part.unsqueeze(-1)).sum(1), dim=1)


def reader_folder(name: str | Path) -> Path | None:
    """The folder of a reader, not of a bare BERT; `shipped` is the one that comes with the package."""
    folder = SHIPPED if str(name) == "shipped" else Path(name)
    try:
        return folder if "reader" in json.loads((folder / CONFIG).read_text()) else None
    except (OSError, ValueError):
        return None


def load_tokenizer(name: str | Path) -> Tokenizer:
    """The `tokenizer.json` of a folder or hub name, without truncation or padding of its own."""
    path = (reader_folder(name) or Path(name)) / TOKENIZER
    if path.exists():
        tokenizer = Tokenizer.from_file(str(path))
    else:
        try:
            tokenizer = Tokenizer.from_pretrained(str(name))
        except Exception as error:  # the hub client raises many kinds
            raise ModelMissingError(f"{path}: no tokenizer there ({error})") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def tensors_of(windows: list[list[int]], question_sizes: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    """ids, types, mask [B, L] of windows padded to the longest."""
    size = max(map(len, windows))
    ids = torch.zeros(len(windows), size, dtype=torch.int64)
    types = torch.zeros_like(ids)
    mask = torch.zeros_like(ids)
    for row, (window, question) in enumerate(zip(windows, question_sizes, strict=True)):
        ids[row, : len(window)] = torch.tensor(window)
        types[row, question : len(window)] = 1
        mask[row, : len(window)] = 1
    return ids, types, mask
