"""The network in training: T5's encoder or a BERT's, and T5's decoder (needs torch)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import AutoConfig, BertConfig, BertModel, T5Config, T5ForConditionalGeneration
from transformers.models.t5.modeling_t5 import T5Stack

from orienteer.agents.pointer.model import PointerModel, is_pointer
from orienteer.agents.pointer.model_files import SHIPPED as POINTER
from orienteer.agents.t5.dataset import TokenExample
from orienteer.agents.t5.decoder import NEVER
from orienteer.agents.t5.encoder import SourceEncoder
from orienteer.agents.t5.model_files import (
    SMALL,
    Codec,
    ModelFiles,
    Purpose,
    Seq2SeqConfig,
    load_folder,
    purpose_of,
)
from orienteer.errors import ModelCorruptError, ModelMissingError, TrainingError
from orienteer.models.model_folder import CONFIG, Tensors, dequantise
from orienteer.reader.model import ReaderModel, load_tokenizer, no_load_report, reader_folder

_IGNORED = -100  # padding of targets
_CACHE_BYTES = 8 << 30

Encode = Callable[[Sequence[int]], NDArray[Any]]  # the tokens of a source in, its states [L, width] out


class EncoderCache:
    """States of a frozen encoder in half precision, by the source's tokens: each source is encoded once.

    Once memory is full, new sources are encoded every time.
    """

    def __init__(self, encode: Encode, max_bytes: int = _CACHE_BYTES) -> None:
        self._encode, self._free_bytes = encode, max_bytes
        self._states: dict[tuple[int, ...], Tensor] = {}  # [L, width]

    def __call__(self, sources: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """The sources' states [B, L, width], to half precision, and their mask [B, L]."""
        rows = [self._row(source) for source in sources]
        states = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).float()
        lengths = torch.tensor([len(row) for row in rows])
        return states, (torch.arange(states.shape[1]) < lengths[:, None]).long()

    def _row(self, source: Sequence[int]) -> Tensor:
        """Each source is encoded alone, so that its states do not depend on its first batch."""
        key = tuple(source)
        if (cached := self._states.get(key)) is not None:
            return cached
        row = torch.from_numpy(self._encode(source)).half()
        size = row.numel() * row.element_size()
        if size <= self._free_bytes:
            self._free_bytes -= size
            self._states[key] = row
        return row


class Seq2Seq(nn.Module):
    """Source tokens in, the log-probability of target tokens out.

    Word vectors are shared by encoder, decoder and, unless there is a `head`, the output. A copying decoder
    (`Seq2SeqConfig.writes`) points at the source's tokens: it may write those, and a few tokens more.
    """

    def __init__(self, config: Seq2SeqConfig, dropout: float = 0.0, *, has_head: bool = False) -> None:
        super().__init__()
        self.config = config
        self._encoder_cache: EncoderCache | None = None
        t5_config = _t5_config(config, dropout)
        if config.architecture == "bert":
            dropouts = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
            self.encoder = BertModel(BertConfig(**{**dict(config.bert or {}), **dropouts}), add_pooling_layer=False)
        else:
            self.encoder = _stack(t5_config, config.encoder_layers, is_decoder=False)
            self.shared = nn.Embedding(config.vocabulary, config.width)
        self.decoder = _stack(t5_config, config.decoder_layers, is_decoder=True)
        if has_head:
            self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        if config.writes is not None:
            self.copy = nn.Linear(config.width, config.width, bias=False)
            nn.init.normal_(self.copy.weight, std=1 / config.width)

    @property
    def words(self) -> nn.Embedding:
        return self.encoder.embeddings.word_embeddings if self.config.architecture == "bert" else self.shared

    def forward(self, examples: Sequence[TokenExample]) -> Tensor:
        """The summed cross-entropy of the examples' targets, each with its weight."""
        encoded, mask = self.encode([example.source for example in examples])
        pairs = [(number, *target) for number, example in enumerate(examples) for target in example.targets]
        owners = torch.tensor([number for number, _, _ in pairs])
        targets, _ = _padded([tokens for _, tokens, _ in pairs], _IGNORED)
        weights = torch.tensor([weight for _, _, weight in pairs])
        before = torch.cat([torch.full((len(pairs), 1), self.config.start), targets[:, :-1]], 1)
        before = before.masked_fill(before == _IGNORED, self.config.pad)
        states = self.decoder(
            inputs_embeds=self.words(before) * self.config.input_scale,
            encoder_hidden_states=encoded[owners], encoder_attention_mask=mask[owners], use_cache=False,
        ).last_hidden_state  # fmt: skip
        kept = targets != _IGNORED  # only these meet the word table
        table = self.head.weight if hasattr(self, "head") else self.words.weight
        if self.config.writes is None:
            logits = (states[kept] * self.config.output_scale) @ table.T
            losses = cross_entropy(logits, targets[kept], reduction="none")
        else:
            sources, _ = _padded([example.source for example in examples], _IGNORED)
            losses = self._copy_loss(states, table, encoded[owners], sources[owners], targets)[kept]
        loss: Tensor = losses @ weights.unsqueeze(1).expand_as(targets)[kept]
        return loss

    def _copy_loss(self, states: Tensor, table: Tensor, encoded: Tensor, sources: Tensor, targets: Tensor) -> Tensor:
        """The cross-entropy [N, T] of targets [N, T] where states [N, T, width] copy from encoded [N, L, width].

        A token's probability is a sum: as a word of `writes`, and from each of its positions in the source.
        """
        writes = torch.tensor(self.config.writes)
        words = (states * self.config.output_scale) @ table[writes].T  # [N, T, writes]
        positions = (self.copy(states) @ encoded.mT).masked_fill((sources == _IGNORED)[:, None], -torch.inf)
        shares = torch.cat([words, positions], -1).log_softmax(-1)  # [N, T, writes + L]
        matches = torch.cat([writes.expand(len(sources), -1), sources], 1)[:, None] == targets[..., None]
        return -shares.masked_fill(~matches, NEVER).logsumexp(-1)

    def encode(self, sources: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """The encoder's states [B, L, width] of the sources, and their mask [B, L]."""
        if self._encoder_cache is not None:
            return self._encoder_cache(sources)
        ids, mask = _padded(sources, self.config.pad)
        inputs = {"input_ids": ids} if self.config.architecture == "bert" else {"inputs_embeds": self.shared(ids)}
        return self.encoder(**inputs, attention_mask=mask).last_hidden_state, mask

    def tensors(self) -> Tensors:
        return {name: tensor.numpy(force=True) for name, tensor in self.state_dict().items()}

    def files(self, purpose: Purpose, tokenizer: str, layout: dict[str, Any]) -> ModelFiles:
        """What a folder would hold, in memory."""
        return ModelFiles(purpose, self.config, self.tensors(), tokenizer, {"layout": layout}, "unsaved")

    def freeze_words(self) -> None:
        """Word vectors, and a BERT's position vectors, stay as they are."""
        (self.encoder.embeddings if self.config.architecture == "bert" else self.shared).requires_grad_(False)

    def freeze_encoder(self) -> None:
        """The encoder, and the word vectors that it shares with the decoder, stay as they are."""
        self.encoder.requires_grad_(False)
        self.words.requires_grad_(False)

    def cache_encoder(self, vocabulary: list[str], threads: int = 1) -> None:
        """From now on the encoder is the int8 one that plays, without torch, and encodes each source once."""
        self._encoder_cache = EncoderCache(SourceEncoder(self.config, self.tensors(), vocabulary, "int8", threads))


def load(
    base: str, dropout: float = 0.0, *, decoder_layers: int = 2, phrases: Sequence[str] | None = None, seed: int = 0
) -> tuple[Seq2Seq, Tokenizer]:
    """A model to train, and its tokenizer, from any of these:

    small             a T5 of 4 + 4 layers, 256 wide, from scratch
    a folder of ours  that `train t5` or `train answerer` wrote
    T5, mT5           a folder or hub name; any size
    an encoder        a BERT (a folder or hub name), a reader (a folder, or `shipped`), a pointer (a folder, or
                      `pointer` for the shipped one); it gets a new decoder of `decoder_layers`; with `phrases`, one
                      that copies from its source and writes the words of these

    `seed` decides the weights that are new.
    """
    torch.manual_seed(seed)
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
    """A new T5 with a BERT's vocabulary: [PAD] is the start of a target, [SEP] is the end."""
    pad, end = _bert_pad_and_end(tokenizer)
    config = Seq2SeqConfig(
        "t5", tokenizer.get_vocab_size(), width, 4 * width, heads, width // heads, layers, layers,
        output_scale=width**-0.5, pad=pad, start=pad, end=end,
    )  # fmt: skip
    model = Seq2Seq(config, dropout)
    nn.init.normal_(model.shared.weight)
    return model


def from_files(files: ModelFiles, dropout: float = 0.0) -> Seq2Seq:
    tensors = dequantise(files.tensors)
    model = Seq2Seq(files.config, dropout, has_head="head.weight" in tensors)
    try:
        model.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in tensors.items()})
    except RuntimeError as error:
        raise ModelCorruptError(f"the weights do not make this model ({error}); train it again") from None
    return model


def _from_t5(name: str, dropout: float) -> Seq2Seq:
    with no_load_report():
        pretrained = T5ForConditionalGeneration.from_pretrained(name, dtype=torch.float32)
    t5 = pretrained.config
    config = Seq2SeqConfig(
        "t5", t5.vocab_size, t5.d_model, t5.d_ff, t5.num_heads, t5.d_kv, t5.num_layers, t5.num_decoder_layers,
        t5.relative_attention_num_buckets, t5.relative_attention_max_distance,
        t5.dense_act_fn, t5.is_gated_act, t5.layer_norm_epsilon,
        output_scale=t5.d_model**-0.5 if t5.scale_decoder_outputs else 1.0,
        pad=t5.pad_token_id, start=t5.decoder_start_token_id or 0, end=t5.eos_token_id,
    )  # fmt: skip
    has_head = not torch.equal(pretrained.lm_head.weight, pretrained.shared.weight)
    model = Seq2Seq(config, dropout, has_head=has_head)
    state = {n: t for n, t in pretrained.state_dict().items() if "embed_tokens" not in n and n != "lm_head.weight"}
    model.load_state_dict({**state, **({"head.weight": pretrained.lm_head.weight.detach()} if has_head else {})})
    return model


def _from_bert(name: str, tokenizer: Tokenizer, dropout: float, layers: int, phrases: Sequence[str] | None) -> Seq2Seq:
    encoder = (PointerModel if is_pointer(Path(name)) else ReaderModel).from_pretrained(name).encoder
    bert = encoder.config
    pad, end = _bert_pad_and_end(tokenizer)
    words = encoder.embeddings.word_embeddings.weight.detach()
    settings = {key: value for key, value in bert.to_dict().items() if isinstance(value, str | int | float | bool)}
    settings.pop("_name_or_path", None)  # a folder of this machine's
    config = Seq2SeqConfig(
        "bert", len(words), bert.hidden_size, 1024 if bert.hidden_size >= 256 else 2 * bert.hidden_size,
        bert.num_attention_heads, bert.hidden_size // bert.num_attention_heads, bert.num_hidden_layers, layers,
        # The decoder's residual stream begins at T5's own scale.
        input_scale=float(1 / words.pow(2).mean().sqrt()),
        pad=pad, start=pad, end=end, bert=settings,
    )  # fmt: skip
    if phrases is not None:
        tokens = Codec(tokenizer, config).encode_targets(phrases, config.vocabulary)
        config = replace(config, writes=tuple(sorted({end, *chain.from_iterable(tokens)})))
    model = Seq2Seq(config, dropout)
    model.encoder.load_state_dict(encoder.state_dict())
    return model


def _bert_pad_and_end(tokenizer: Tokenizer) -> tuple[int, int]:
    """The tokens before and after a target, in a BERT's vocabulary."""
    pad, end = tokenizer.token_to_id("[PAD]"), tokenizer.token_to_id("[SEP]")
    if pad is None or end is None:
        raise TrainingError("the tokenizer has no [PAD] or no [SEP]; expected that of a BERT")
    return pad, end


def _t5_config(config: Seq2SeqConfig, dropout: float) -> T5Config:
    act = {"gelu_new": "gated-gelu" if config.gated else "gelu_new"}.get(config.activation)
    return T5Config(
        vocab_size=2, d_model=config.width, d_kv=config.head_width, d_ff=config.inner, num_layers=config.encoder_layers,
        num_heads=config.heads, relative_attention_num_buckets=config.buckets, dropout_rate=dropout,
        relative_attention_max_distance=config.max_distance, layer_norm_epsilon=config.epsilon,
        feed_forward_proj=act or ("gated-" if config.gated else "") + config.activation,
    )  # fmt: skip


def _stack(config: T5Config, layers: int, *, is_decoder: bool) -> T5Stack:
    """A T5 stack without word vectors of its own."""
    changes = {"num_layers": layers, "is_decoder": is_decoder, "use_cache": False}
    stack = T5Stack(T5Config(**{**config.to_dict(), **changes}))
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
