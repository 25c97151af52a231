"""The network that training shapes: T5's encoder or a BERT's, and T5's decoder (needs torch)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import AutoConfig, BertConfig, BertModel, T5Config, T5ForConditionalGeneration
from transformers.models.t5.modeling_t5 import T5Stack

from orienteer.agents.pointer.model import PointerModel, is_pointer
from orienteer.agents.pointer.model_files import SHIPPED as POINTER
from orienteer.agents.t5.codec import Codec
from orienteer.agents.t5.config import SMALL, Shape
from orienteer.agents.t5.ct2_encoder import TextEncoder
from orienteer.agents.t5.decoder import NEVER
from orienteer.agents.t5.encoder_cache import Remembered
from orienteer.agents.t5.model_files import ModelFiles, Purpose, load_folder, purpose_of
from orienteer.agents.t5.stream import Row
from orienteer.errors import ModelCorruptError, ModelMissingError, TrainingError
from orienteer.models.model_folder import CONFIG, Tensors, dequantise
from orienteer.reader.model import ReaderModel, load_tokenizer, reader_folder


class Seq2Seq(nn.Module):
    """Source tokens in, the log-probability of target tokens out.

    Word vectors are shared by encoder, decoder and, unless there is a `head`, the output. A decoder that copies
    (`Shape.writes`) points at the source's tokens instead: what it may write is what it has read, and a few words more.
    """

    def __init__(self, shape: Shape, dropout: float = 0.0, *, has_head: bool = False) -> None:
        super().__init__()
        self.shape = shape
        self._remembered: Remembered | None = None
        config = _t5_config(shape, dropout)
        if shape.architecture == "bert":
            quiet = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
            self.encoder = BertModel(BertConfig(**{**dict(shape.bert or {}), **quiet}), add_pooling_layer=False)
        else:
            self.encoder = _stack(config, shape.encoder_layers, is_decoder=False)
            self.shared = nn.Embedding(shape.vocabulary, shape.width)
        self.decoder = _stack(config, shape.decoder_layers, is_decoder=True)
        if has_head:
            self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        if shape.writes is not None:
            self.copy = nn.Linear(shape.width, shape.width, bias=False)
            nn.init.normal_(self.copy.weight, std=1 / shape.width)

    @property
    def words(self) -> nn.Embedding:
        return self.encoder.embeddings.word_embeddings if self.shape.architecture == "bert" else self.shared

    def forward(self, rows: Sequence[Row]) -> Tensor:
        """The summed cross-entropy of the rows' targets, each with its weight."""
        read, mask = self.encode([row.source for row in rows])
        written = [(number, *target) for number, row in enumerate(rows) for target in row.targets]
        owners = torch.tensor([number for number, _, _ in written])
        targets, _ = _padded([tokens for _, tokens, _ in written], _IGNORED)
        weights = torch.tensor([weight for _, _, weight in written])
        before = torch.cat([torch.full((len(written), 1), self.shape.start), targets[:, :-1]], 1)
        before = before.masked_fill(before == _IGNORED, self.shape.pad)
        states = self.decoder(
            inputs_embeds=self.words(before) * self.shape.input_scale,
            encoder_hidden_states=read[owners], encoder_attention_mask=mask[owners], use_cache=False,
        ).last_hidden_state  # fmt: skip
        kept = targets != _IGNORED  # only what counts meets the word table
        table = self.head.weight if hasattr(self, "head") else self.words.weight
        if self.shape.writes is None:
            logits = (states[kept] * self.shape.output_scale) @ table.T
            losses = cross_entropy(logits, targets[kept], reduction="none")
        else:
            sources, _ = _padded([row.source for row in rows], _IGNORED)
            losses = self._copying(states, table, read[owners], sources[owners], targets)[kept]
        loss: Tensor = losses @ weights.unsqueeze(1).expand_as(targets)[kept]
        return loss

    def _copying(self, states: Tensor, table: Tensor, read: Tensor, sources: Tensor, targets: Tensor) -> Tensor:
        """The cross-entropy [N, T] of targets [N, T] where states [N, T, width] copy from what was read [N, L, width].

        A token's probability is the sum over the ways to it: as a word of its own, and from each of its places.
        """
        own = torch.tensor(self.shape.writes)
        words = (states * self.shape.output_scale) @ table[own].T  # [N, T, writes]
        places = (self.copy(states) @ read.mT).masked_fill((sources == _IGNORED)[:, None], -torch.inf)  # [N, T, L]
        ways = torch.cat([words, places], -1).log_softmax(-1)
        leads = torch.cat([own.expand(len(sources), -1), sources], 1)[:, None] == targets[..., None]
        return -ways.masked_fill(~leads, NEVER).logsumexp(-1)

    def encode(self, sources: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """The encoder's states [B, L, width], and the mask [B, L] of the texts that they are of."""
        if self._remembered is not None:
            return self._remembered(sources)
        ids, mask = _padded(sources, self.shape.pad)
        read = {"input_ids": ids} if self.shape.architecture == "bert" else {"inputs_embeds": self.shared(ids)}
        return self.encoder(**read, attention_mask=mask).last_hidden_state, mask

    def tensors(self) -> Tensors:
        return {name: tensor.numpy(force=True) for name, tensor in self.state_dict().items()}

    def files(self, purpose: Purpose, tokenizer: str, layout: dict[str, Any]) -> ModelFiles:
        """What a folder would hold, in memory."""
        return ModelFiles(purpose, self.shape, self.tensors(), tokenizer, {"layout": layout}, "unsaved")

    def freeze_words(self) -> None:
        """Word vectors, and a BERT's vectors of places, stay as they are."""
        (self.encoder.embeddings if self.shape.architecture == "bert" else self.shared).requires_grad_(False)

    def freeze_encoder(self) -> None:
        """The encoder, and the word vectors that it shares with the decoder, stay as they are."""
        self.encoder.requires_grad_(False)
        self.words.requires_grad_(False)

    def read_once(self, vocabulary: list[str], threads: int = 1) -> None:
        """From now on the encoder is the one that plays, without torch and in int8, and reads each text once."""
        self._remembered = Remembered(TextEncoder(self.shape, self.tensors(), vocabulary, "int8", threads))


_IGNORED = -100  # a target that is none


def load(
    base: str, dropout: float = 0.0, *, decoder_layers: int = 2, phrases: Sequence[str] | None = None
) -> tuple[Seq2Seq, Tokenizer]:
    """A model to train, and its tokenizer, from any of these:

    small             a T5 of 4 + 4 layers, 256 wide, from scratch
    a folder of ours  that `train t5` or `train answerer` wrote
    T5, mT5           a folder or hub name; any size
    an encoder        a BERT (a folder or hub name), a reader (a folder, or `shipped`), a pointer (a folder, or
                      `pointer` for the shipped one); it gets a new decoder of `decoder_layers`; with `phrases`, one
                      that writes what it has read and the words of these
    """
    base = str(POINTER) if base == "pointer" else base
    if base == SMALL:
        tokenizer = load_tokenizer("shipped")
        return scratch(tokenizer, dropout=dropout), tokenizer
    folder = Path(base)
    if (config := _json(folder / CONFIG)) is not None and purpose_of(config) is not None:
        files = load_folder(folder)
        return from_files(files, dropout), Tokenizer.from_str(files.tokenizer)
    tokenizer = load_tokenizer(base)
    if reader_folder(base) is None and not is_pointer(folder):
        try:
            kind = AutoConfig.from_pretrained(base).model_type
        except (OSError, ValueError) as error:
            raise ModelMissingError(
                f"{base}: no model can be loaded from here ({error}); expected a T5 or a BERT, a folder or hub name"
            ) from None
        if kind in ("t5", "mt5"):
            return _from_t5(base, dropout), tokenizer
        if kind != "bert":
            raise TrainingError(f"{base}: a model of the kind {kind!r}; expected a T5, an mT5 or a BERT")
    return _from_bert(base, tokenizer, dropout, decoder_layers, phrases), tokenizer


def scratch(tokenizer: Tokenizer, layers: int = 4, width: int = 256, heads: int = 4, dropout: float = 0.0) -> Seq2Seq:
    """A new T5 with this vocabulary, a BERT's: [PAD] is where a target begins, [SEP] is the end."""
    pad, end = _berts_marks(tokenizer)
    shape = Shape(
        "t5", tokenizer.get_vocab_size(), width, 4 * width, heads, width // heads, layers, layers,
        output_scale=width**-0.5, pad=pad, start=pad, end=end,
    )  # fmt: skip
    model = Seq2Seq(shape, dropout)
    nn.init.normal_(model.shared.weight)
    return model


def from_files(files: ModelFiles, dropout: float = 0.0) -> Seq2Seq:
    tensors = dequantise(files.tensors)
    model = Seq2Seq(files.shape, dropout, has_head="head.weight" in tensors)
    try:
        model.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in tensors.items()})
    except RuntimeError as error:
        raise ModelCorruptError(f"the weights do not make this model ({error}); train it again") from None
    return model


def _from_t5(name: str, dropout: float) -> Seq2Seq:
    found = T5ForConditionalGeneration.from_pretrained(name, dtype=torch.float32)
    config = found.config
    shape = Shape(
        "t5", config.vocab_size, config.d_model, config.d_ff, config.num_heads, config.d_kv, config.num_layers,
        config.num_decoder_layers, config.relative_attention_num_buckets, config.relative_attention_max_distance,
        config.dense_act_fn, config.is_gated_act, config.layer_norm_epsilon,
        output_scale=config.d_model**-0.5 if config.scale_decoder_outputs else 1.0,
        pad=config.pad_token_id, start=config.decoder_start_token_id or 0, end=config.eos_token_id,
    )  # fmt: skip
    own_head = not torch.equal(found.lm_head.weight, found.shared.weight)
    model = Seq2Seq(shape, dropout, has_head=own_head)
    state = {n: t for n, t in found.state_dict().items() if "embed_tokens" not in n and n != "lm_head.weight"}
    model.load_state_dict({**state, **({"head.weight": found.lm_head.weight.detach()} if own_head else {})})
    return model


def _from_bert(name: str, tokenizer: Tokenizer, dropout: float, layers: int, phrases: Sequence[str] | None) -> Seq2Seq:
    encoder = (PointerModel if is_pointer(Path(name)) else ReaderModel).from_pretrained(name).encoder
    config = encoder.config
    pad, end = _berts_marks(tokenizer)
    words = encoder.embeddings.word_embeddings.weight.detach()
    head = config.hidden_size // config.num_attention_heads
    kept = {key: value for key, value in config.to_dict().items() if isinstance(value, str | int | float | bool)}
    kept.pop("_name_or_path", None)  # a folder of this machine's
    shape = Shape(
        "bert", len(words), config.hidden_size, 1024 if config.hidden_size >= 256 else 2 * config.hidden_size,
        config.num_attention_heads, head, config.num_hidden_layers, layers,
        # The decoder's residual stream begins at T5's own scale.
        input_scale=float(1 / words.pow(2).mean().sqrt()),
        pad=pad, start=pad, end=end, bert=kept,
    )  # fmt: skip
    if phrases is not None:
        pieces = Codec(tokenizer, shape).targets(phrases, shape.vocabulary)
        shape = replace(shape, writes=tuple(sorted({end, *chain.from_iterable(pieces)})))
    model = Seq2Seq(shape, dropout)
    model.encoder.load_state_dict(encoder.state_dict())
    return model


def _berts_marks(tokenizer: Tokenizer) -> tuple[int, int]:
    """Where a target begins after, and what it ends with, in a BERT's vocabulary."""
    pad, end = tokenizer.token_to_id("[PAD]"), tokenizer.token_to_id("[SEP]")
    if pad is None or end is None:
        raise TrainingError("the tokenizer has no [PAD] or no [SEP]; expected that of a BERT")
    return pad, end


def _t5_config(shape: Shape, dropout: float) -> T5Config:
    act = {"gelu_new": "gated-gelu" if shape.gated else "gelu_new"}.get(shape.activation)
    return T5Config(
        vocab_size=2, d_model=shape.width, d_kv=shape.head_width, d_ff=shape.inner, num_layers=shape.encoder_layers,
        num_heads=shape.heads, relative_attention_num_buckets=shape.buckets, dropout_rate=dropout,
        relative_attention_max_distance=shape.max_distance, layer_norm_epsilon=shape.epsilon,
        feed_forward_proj=act or ("gated-" if shape.gated else "") + shape.activation,
    )  # fmt: skip


def _stack(config: T5Config, layers: int, *, is_decoder: bool) -> T5Stack:
    """A T5 stack without word vectors of its own."""
    own = T5Config(**{**config.to_dict(), "num_layers": layers, "is_decoder": is_decoder, "use_cache": False})
    stack = T5Stack(own)
    stack.embed_tokens = None
    return stack


def _padded(rows: Sequence[Sequence[int]], filling: int) -> tuple[Tensor, Tensor]:
    """ids and mask, int64 [B, L], of rows padded to the longest."""
    size = max(map(len, rows))
    ids = torch.full((len(rows), size), filling)
    mask = torch.zeros(len(rows), size, dtype=torch.int64)
    for number, row in enumerate(rows):
        ids[number, : len(row)] = torch.tensor(row)
        mask[number, : len(row)] = 1
    return ids, mask


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None
