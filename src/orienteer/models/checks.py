"""Checks a model folder before it is used: numbers, shapes and tokens that belong together.

Weights may come from a stranger. A matrix of another shape than the configuration says would be read beyond its end by
a compiled kernel, or give silently wrong results; both are refused here, with one sentence that says what differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import is_dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from orienteer.errors import ModelCorruptError

Shapes = Mapping[str, tuple[int, ...]]

_DTYPES = frozenset(("float32", "float16", "int8"))
_WORDS, _POSITIONS, _TYPES = (
    f"encoder.embeddings.{name}_embeddings.weight" for name in ("word", "position", "token_type")
)


def number(config: Mapping[str, Any], name: str, low: int = 1, high: int = 1 << 20) -> int:
    """A whole number of a configuration between two bounds; raises ValueError."""
    value = config.get(name)
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{name} = {value!r:.40}; expected a whole number from {low} to {high:,}")
    return value


def check_fields(config: Any) -> None:
    """Every field of a dataclass, and of those in it, has the type that it is declared with; raises ValueError.

    Whole numbers are from 0 to 2^31; other numbers are finite.
    """
    for name, kind in get_type_hints(type(config)).items():
        value = getattr(config, name)
        if isinstance(kind, type) and is_dataclass(kind):
            fits = isinstance(value, kind)
            if fits:
                check_fields(value)
        elif get_origin(kind) is Literal:
            fits = isinstance(value, str) and value in get_args(kind)
        elif get_origin(kind) is tuple:
            fits = isinstance(value, tuple) and all(type(each) is get_args(kind)[0] for each in value)
        elif kind is int:
            fits = type(value) is int and 0 <= value <= 1 << 31
        elif kind is float:
            fits = type(value) in (int, float) and abs(value) < 1e12
        else:
            fits = type(value) is kind
        if not fits:
            expected = getattr(kind, "__name__", None) or " or ".join(map(str, get_args(kind)))
            raise ValueError(f"{name} = {value!r:.40}; expected {expected}")


def check_values(tensors: Mapping[str, NDArray[Any]]) -> None:
    """Types that we use, finite numbers, a positive scale for each row of an int8 matrix; raises ValueError."""
    for name, value in tensors.items():
        if value.dtype.name not in _DTYPES or value.ndim > 2:
            raise ValueError(
                f"{name}: {value.ndim} dimensions of {value.dtype.name}; expected at most 2 of float or int8"
            )
        if value.dtype == np.int8 and value.ndim != 2:
            raise ValueError(f"{name}: int8 in {value.ndim} dimensions; only a matrix has int8 rows")
        if value.dtype != np.int8 and not np.isfinite(value).all():
            raise ValueError(f"{name}: holds numbers that are not finite")
        if (scale := tensors.get(f"{name}.scale")) is not None and (
            value.ndim != 2 or scale.shape != (len(value),) or scale.dtype == np.int8 or not (scale > 0).all()
        ):
            raise ValueError(f"{name}.scale: expected {len(value) if value.ndim else 0} positive numbers, a row each")


def check_shapes(tensors: Mapping[str, NDArray[Any]], shapes: Shapes) -> None:
    """Every tensor of `shapes` is there with its shape; raises ValueError."""
    for name, shape in shapes.items():
        if (found := tensors.get(name)) is None:
            raise ValueError(f"{name} is missing")
        if found.shape != shape:
            raise ValueError(f"{name} is {_times(found.shape)}; expected {_times(shape)}")


def linear_shapes(name: str, outer: int, inner: int) -> Shapes:
    return {f"{name}.weight": (outer, inner), f"{name}.bias": (outer,)}


def check_bert(config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]], tokenizer: Tokenizer) -> None:
    """A BERT whose weights fit its configuration and its tokenizer; raises ValueError."""
    width, inner = number(config, "hidden_size"), number(config, "intermediate_size")
    heads, layers = number(config, "num_attention_heads", high=width), number(config, "num_hidden_layers", high=200)
    if width % heads:
        raise ValueError(f"{heads} heads of a model that is {width} wide; expected a divisor")
    if config.get("hidden_act") != "gelu":
        raise ValueError(f"hidden_act = {config.get('hidden_act')!r:.40}; expected 'gelu'")
    epsilon = config.get("layer_norm_eps")
    if not isinstance(epsilon, float) or not 0 < epsilon < 1:
        raise ValueError(f"layer_norm_eps = {epsilon!r:.40}; expected a small positive number")
    rows = {name: tensors[name].shape[:1] for name in (_WORDS, _POSITIONS, _TYPES) if name in tensors}
    shapes: dict[str, tuple[int, ...]] = {name: (*count, width) for name, count in rows.items()}
    shapes |= {name: shapes.get(name, (0, width)) for name in (_WORDS, _POSITIONS, _TYPES)}
    norms = ["encoder.embeddings"]
    for place in range(layers):
        layer = f"encoder.encoder.layer.{place}"
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            shapes |= linear_shapes(f"{layer}.attention.{part}", width, width)
        shapes |= linear_shapes(f"{layer}.intermediate.dense", inner, width)
        shapes |= linear_shapes(f"{layer}.output.dense", width, inner)
        norms += [f"{layer}.attention.output", f"{layer}.output"]
    for norm in norms:
        shapes |= {f"{norm}.LayerNorm.{part}": (width,) for part in ("weight", "bias")}
    check_shapes(tensors, shapes)
    if tensors[_POSITIONS].dtype == np.int8:
        raise ValueError(f"{_POSITIONS} is int8; expected float")
    check_vocabulary(tokenizer, len(tensors[_WORDS]))


def check_vocabulary(tokenizer: Tokenizer, rows: int) -> None:
    """The tokens are numbered from 0 without a gap, and each has a row of the word table; raises ValueError."""
    ids = tokenizer.get_vocab().values()
    if not ids or sorted(ids) != list(range(len(ids))):
        raise ValueError("the tokens of the tokenizer are not numbered from 0 on, each once")
    if len(ids) > rows:
        raise ValueError(f"the tokenizer has {len(ids):,} tokens, the word table {rows:,} rows")


def plain_tokenizer(text: str) -> Tokenizer:
    """A tokenizer from its JSON, without truncation or padding of its own."""
    with _tokenizer_errors():
        tokenizer = Tokenizer.from_str(text)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.encode("a word ☃", add_special_tokens=False)
    return tokenizer


def encode_batch(tokenizer: Tokenizer, texts: Sequence[str]) -> list[Encoding]:
    """The texts as wordpieces with their places, without special tokens."""
    with _tokenizer_errors():
        return list(tokenizer.encode_batch(texts, add_special_tokens=False))


def encode_ids(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """The texts as wordpieces; quicker, as their places are not known."""
    with _tokenizer_errors():
        return [each.ids for each in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]


@contextmanager
def _tokenizer_errors() -> Iterator[None]:
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # the library raises bare exceptions, and panics that are none
        raise ModelCorruptError(
            f"tokenizer.json is damaged: {str(error)[:200]}; copy or train the model again"
        ) from None


def _times(shape: tuple[int, ...]) -> str:
    return " × ".join(f"{size:,}" for size in shape) or "a single number"
