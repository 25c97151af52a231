"""What a text-to-text model is made of, without torch: its configuration, its tokenizer, the folder that holds them.

The folder is that of `models.model_folder`, of the kind "t5" or "answerer". Weights have the names that transformers
gives them: `shared.weight`, `encoder.…`, `decoder.…`, and `head.weight` where the output layer is not the word table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, cast

from numpy.typing import NDArray
from tokenizers import Tokenizer

from orienteer.errors import ModelCorruptError
from orienteer.models import model_folder
from orienteer.models.bert_encoder import vocabulary
from orienteer.models.checks import encode_batch, encode_ids, number
from orienteer.models.model_folder import ModelFolder, Tensors, kind_of, load_model, write_folder

SHIPPED = Path(__file__).parent / "weights"
SMALL = "small"  # the base that is no folder: a small T5 from scratch, with the shipped reader's vocabulary

Architecture = Literal["t5", "bert"]
Purpose = Literal["t5", "answerer"]
_PURPOSES: tuple[Purpose, ...] = ("t5", "answerer")
_NEVER_INT8 = ("relative_attention_bias.weight", "position_embeddings.weight")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Seq2SeqConfig:
    """All that the weights do not say themselves; field names are those of the entry "shape" in `config.json`.

    architecture   of the encoder; the decoder is always T5's
    heads          of decoder and T5 encoder, each `head_width` wide
    activation     of the feed-forward layers, as transformers names it; `gated` where it is multiplied by a second map
    input_scale    factor of the word vectors that the decoder reads
    output_scale   factor of the decoder's states before the product with the word table
    start          the token before a target; `end` the one after it
    bert           the configuration of a BERT encoder
    writes         tokens that a copying decoder may write although its source lacks them; None: it writes any token
    """

    architecture: Architecture
    vocabulary: int
    width: int
    inner: int
    heads: int
    head_width: int
    encoder_layers: int
    decoder_layers: int
    buckets: int = 32
    max_distance: int = 128
    activation: str = "relu"
    gated: bool = False
    epsilon: float = 1e-6
    input_scale: float = 1.0
    output_scale: float = 1.0
    pad: int = 0
    start: int = 0
    end: int = 1
    bert: Mapping[str, Any] | None = None
    writes: tuple[int, ...] | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Seq2SeqConfig:
        """Raises TypeError or ValueError where the row is no configuration."""
        if unknown := set(row) - {field.name for field in fields(cls)}:
            raise ValueError(f"a shape with {', '.join(sorted(unknown))}")
        writes = row.get("writes")
        config = cls(**{**row, "writes": None if writes is None else tuple(map(int, writes))})
        if config.architecture not in ("t5", "bert"):
            raise ValueError(f"an encoder of the kind {config.architecture!r}")
        _check_numbers(config)
        return config

    @property
    def word_table(self) -> str:
        """The name of the word table among the weights."""
        return "encoder.embeddings.word_embeddings.weight" if self.architecture == "bert" else "shared.weight"

    @property
    def parameters(self) -> int:
        """The number of weights of a T5 of this configuration: word vectors, layers and norms, relative positions."""
        attention = 4 * self.width * self.heads * self.head_width + self.width
        feed_forward = (3 if self.gated else 2) * self.width * self.inner + self.width
        encoder = self.encoder_layers * (attention + feed_forward)
        decoder = self.decoder_layers * (2 * attention + feed_forward)
        return self.vocabulary * self.width + encoder + decoder + 2 * (self.width + self.buckets * self.heads)


def _check_numbers(config: Seq2SeqConfig) -> None:
    """Raises ValueError where a number is out of its range."""
    row = config.as_dict()
    for name in ("vocabulary", "width", "inner", "heads", "head_width"):
        number(row, name, high=1 << 24)
    for name in ("encoder_layers", "decoder_layers"):
        number(row, name, high=200)
    number(row, "buckets", 2, 4096)
    number(row, "max_distance", row["buckets"], 1 << 20)
    tokens = (config.pad, config.start, config.end, *(config.writes or ()))
    if not all(type(each) is int and 0 <= each < config.vocabulary for each in tokens):
        raise ValueError(f"tokens that are not among the {config.vocabulary:,} of the vocabulary")
    for name in ("epsilon", "input_scale", "output_scale"):
        if type(row[name]) not in (int, float) or not 0 < row[name] < 1e6:
            raise ValueError(f"{name} = {row[name]!r:.40}; expected a positive number")
    if type(config.gated) is not bool or config.activation not in ("relu", "gelu_new", "silu"):
        raise ValueError(f"an activation {config.activation!r:.40}")
    if config.architecture == "bert" and not isinstance(config.bert, Mapping):
        raise ValueError("a BERT encoder without its configuration")


def seq2seq_shapes(config: Seq2SeqConfig) -> dict[str, tuple[int, ...]]:
    """The shapes of the decoder, and of the encoder where it is T5's."""
    width, attended = config.width, config.heads * config.head_width
    shapes: dict[str, tuple[int, ...]] = {config.word_table: (config.vocabulary, width)}

    def block(name: str, layers: int, attentions: Sequence[str]) -> None:
        shapes[f"{name}.final_layer_norm.weight"] = (width,)
        shapes[f"{name}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"] = (config.buckets, config.heads)
        for layer in (f"{name}.block.{place}.layer" for place in range(layers)):
            for place, attention in enumerate(attentions):
                for part in "qkv":
                    shapes[f"{layer}.{place}.{attention}.{part}.weight"] = (attended, width)
                shapes[f"{layer}.{place}.{attention}.o.weight"] = (width, attended)
            for place in range(len(attentions) + 1):
                shapes[f"{layer}.{place}.layer_norm.weight"] = (width,)
            feed = f"{layer}.{len(attentions)}.DenseReluDense"
            for part in ("wi_0", "wi_1") if config.gated else ("wi",):
                shapes[f"{feed}.{part}.weight"] = (config.inner, width)
            shapes[f"{feed}.wo.weight"] = (width, config.inner)

    block("decoder", config.decoder_layers, ("SelfAttention", "EncDecAttention"))
    if config.architecture == "t5":
        block("encoder", config.encoder_layers, ("SelfAttention",))
    if config.writes is not None:
        shapes["copy.weight"] = (width, width)
    return shapes


class Codec:
    """Text to tokens and back: a BERT's sources begin with [CLS], all sources and targets end with the end token."""

    def __init__(self, tokenizer: Tokenizer, config: Seq2SeqConfig) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer, self._end = tokenizer, config.end
        self._prefix: list[int] = []  # of every source
        if config.architecture == "bert":
            cls = tokenizer.token_to_id("[CLS]")
            if cls is None:
                raise ModelCorruptError("the tokenizer has no [CLS]; expected that of a BERT")
            self._prefix = [cls]
        if tokenizer.get_vocab_size() > config.vocabulary:
            raise ModelCorruptError(
                f"the tokenizer has {tokenizer.get_vocab_size()} tokens, the model {config.vocabulary}; "
                "expected those that belong together"
            )
        self.unknown = next((i for name in ("[UNK]", "<unk>") if (i := tokenizer.token_to_id(name)) is not None), -1)

    @property
    def vocabulary(self) -> list[str]:
        return vocabulary(self._tokenizer)

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of texts without special tokens."""
        return encode_ids(self._tokenizer, _encodable(texts))

    def tokenize_with_offsets(self, texts: Sequence[str]) -> list[list[tuple[int, tuple[int, int]]]]:
        """The tokens of texts, each with its characters [start, end)."""
        encoded = encode_batch(self._tokenizer, _encodable(texts))
        return [list(zip(each.ids, each.offsets, strict=True)) for each in encoded]

    def encode_sources(self, texts: Sequence[str], max_length: int) -> list[list[int]]:
        """What the encoder gets: the tail of a text that is too long is cut off."""
        room = max_length - len(self._prefix) - 1
        return [[*self._prefix, *ids[:room], self._end] for ids in self.tokenize(texts)]

    def encode_targets(self, texts: Sequence[str], max_length: int) -> list[list[int]]:
        """What the decoder shall write, the end included."""
        return [[*ids[: max_length - 1], self._end] for ids in self.tokenize(texts)]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens; special tokens are left out."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=True)
        return text


def _encodable(texts: Sequence[str]) -> list[str]:
    """Replaces lone surrogates, which have no UTF-8 form, by one character each, so that offsets stay."""
    return [text if text.isascii() else _SURROGATE.sub("\ufffd", text) for text in texts]


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """What a folder holds; `entry` is what `config.json` says under the model's purpose."""

    purpose: Purpose
    config: Seq2SeqConfig
    tensors: Tensors
    tokenizer: str  # the JSON of the tokenizer
    entry: Mapping[str, Any]
    fingerprint: str

    @property
    def notes(self) -> dict[str, Any]:
        return {key: value for key, value in self.entry.items() if key not in ("layout", "sha256")}


def load_folder(folder: Path, purpose: Purpose | None = None) -> ModelFiles:
    """The files of a folder, checked against their checksums; `purpose` None accepts any."""

    def parse(stored: ModelFolder) -> ModelFiles:
        kind, config = cast("Purpose", stored.kind), Seq2SeqConfig.from_dict(stored.config["shape"])
        return ModelFiles(kind, config, stored.tensors, stored.tokenizer, stored.entry, stored.fingerprint)

    return load_model(folder, (purpose,) if purpose else _PURPOSES, parse)


def purpose_of(config: Any) -> Purpose | None:
    """The purpose of a folder with this `config.json`; None where the model is not a text-to-text model of ours."""
    return cast("Purpose | None", kind_of(config, _PURPOSES))


def save_folder(
    folder: Path,
    purpose: Purpose,
    config: Seq2SeqConfig,
    tensors: Tensors,
    tokenizer: str,
    layout: Mapping[str, Any],
    **notes: Any,
) -> None:
    """Writes a folder; `notes` go into its entry."""
    entry = {**notes, "layout": dict(layout)}
    write_folder(folder, purpose, {"shape": config.as_dict()}, entry, tensors, tokenizer)


def kind_of_writer(config: Seq2SeqConfig) -> str:
    """The agent that a model plays as: `t5`, or `copynet` on a BERT's encoder."""
    return "t5" if config.architecture == "t5" else "copynet"


def quantise(tensors: Mapping[str, NDArray[Any]]) -> Tensors:
    """All matrices as int8, the word table and the decoder's too; vectors and positions stay float32."""
    return model_folder.quantise(tensors, lambda name: not name.endswith(_NEVER_INT8))


def to_int8(trained: Path, out: Path) -> None:
    """The same model with int8 weights, for playing and shipping."""
    files = load_folder(trained)
    save_folder(
        out, files.purpose, files.config, quantise(files.tensors), files.tokenizer, files.entry["layout"], **files.notes
    )
