"""Between text and tokens: what the encoder gets, what the decoder writes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tokenizers import Tokenizer

from orienteer.agents.t5.config import Shape
from orienteer.errors import ModelCorruptError

_SURROGATE = re.compile("[\ud800-\udfff]")


class Codec:
    """A tokenizer with the habits of a model: BERT's begin with [CLS], all end with the end token."""

    def __init__(self, tokenizer: Tokenizer, shape: Shape) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self.tokenizer, self._end = tokenizer, shape.end
        self.first: list[int] = []  # what every source begins with
        if shape.architecture == "bert":
            first = tokenizer.token_to_id("[CLS]")
            if first is None:
                raise ModelCorruptError("the tokenizer has no [CLS]; expected that of a BERT")
            self.first = [first]
        if tokenizer.get_vocab_size() > shape.vocabulary:
            raise ModelCorruptError(
                f"the tokenizer has {tokenizer.get_vocab_size()} tokens, the model {shape.vocabulary}; "
                "expected those that belong together"
            )
        self.unknown = next((i for name in ("[UNK]", "<unk>") if (i := tokenizer.token_to_id(name)) is not None), -1)

    @classmethod
    def from_json(cls, text: str, shape: Shape) -> Codec:
        return cls(Tokenizer.from_str(text), shape)

    @property
    def vocabulary(self) -> list[str]:
        ids = self.tokenizer.get_vocab()
        return sorted(ids, key=ids.__getitem__)

    def pieces(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of texts and nothing else."""
        return [each.ids for each in self.tokenizer.encode_batch_fast(_whole(texts), add_special_tokens=False)]

    def cut(self, texts: Sequence[str]) -> list[list[tuple[int, tuple[int, int]]]]:
        """The tokens of texts, each with the characters [start, end) that it stands for."""
        encoded = self.tokenizer.encode_batch(_whole(texts), add_special_tokens=False)
        return [list(zip(each.ids, each.offsets, strict=True)) for each in encoded]

    def sources(self, texts: Sequence[str], most: int) -> list[list[int]]:
        """What the encoder gets: the tail of a text that is too long is cut off."""
        room = most - len(self.first) - 1
        return [[*self.first, *ids[:room], self._end] for ids in self.pieces(texts)]

    def targets(self, texts: Sequence[str], most: int) -> list[list[int]]:
        """What the decoder shall write, the end included."""
        return [[*ids[: most - 1], self._end] for ids in self.pieces(texts)]

    def text(self, ids: Sequence[int]) -> str:
        """The text of what was written; special tokens are left out."""
        told: str = self.tokenizer.decode(list(ids), skip_special_tokens=True)
        return told


def _whole(texts: Sequence[str]) -> list[str]:
    """A lone surrogate has no UTF-8 form; one character stands in for it, so that places stay."""
    return [text if text.isascii() else _SURROGATE.sub("\ufffd", text) for text in texts]
