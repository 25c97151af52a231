"""Question, title and text as windows of wordpieces: `[CLS] question [SEP] title [SEP] text [SEP]`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tokenizers import Tokenizer

from orienteer.data.passage import Passage
from orienteer.errors import ModelCorruptError
from orienteer.models.checks import encode_batch

MAX_PIECES = 256  # of a window, its special tokens included
OVERLAP = 64  # wordpieces that one window of a long text shares with the next
MAX_QUESTION = 64
MAX_TITLE = 32
MAX_WINDOWS = 32  # of a passage, some 4,000 words; what is behind them is not read
MAX_CHARS = 60_000  # of a text that is cut into wordpieces: more than these windows hold of any prose

_SURROGATE = re.compile("[\ud800-\udfff]")

Offset = tuple[int, int]  # characters of the text that a wordpiece stands for, the end exclusive


class Marks(NamedTuple):
    """The ids of the tokens around question, title and text."""

    cls: int
    sep: int

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Marks:
        first, between = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
        if first is None or between is None:
            raise ModelCorruptError("the tokenizer has no [CLS] or no [SEP]; expected that of a BERT")
        return cls(first, between)


@dataclass(frozen=True, slots=True)
class Pieces:
    """A text as wordpieces, each with its place in the text."""

    ids: list[int]
    offsets: list[Offset]


@dataclass(frozen=True, slots=True)
class Window:
    """One input of the model; the text's pieces start at `text_from` and are as many as `offsets`."""

    ids: list[int]
    text_from: int
    offsets: Sequence[Offset]
    question_size: int  # pieces of segment 0: [CLS], the question, [SEP]


def pieces(tokenizer: Tokenizer, texts: Sequence[str]) -> list[Pieces]:
    """The wordpieces of texts, without special tokens; offsets count the characters of the text as given."""
    # A lone surrogate has no UTF-8 form; one character stands in for it, so that offsets stay.
    whole = [text if text.isascii() else _SURROGATE.sub("\ufffd", text) for text in texts]
    return [Pieces(e.ids, e.offsets) for e in encode_batch(tokenizer, whole)]


def windows(
    question: Pieces,
    title: Pieces,
    text: Pieces,
    marks: Marks,
    max_pieces: int = MAX_PIECES,
    overlap: int = OVERLAP,
) -> list[Window]:
    """The windows of a passage, in order, `MAX_WINDOWS` at most; a text that fits, or is empty, makes one."""
    head, room = head_and_room(question, title, marks, max_pieces)
    step = max(1, room - overlap)
    starts = [0]
    while starts[-1] + room < len(text.ids) and len(starts) < MAX_WINDOWS:
        starts.append(starts[-1] + step)
    return [window_at(head, text, start, room) for start in starts]


def head_and_room(question: Pieces, title: Pieces, marks: Marks, max_pieces: int = MAX_PIECES) -> tuple[list[int], int]:
    """What stands before the text, and how many of the text's pieces fit behind it."""
    cls, sep = marks
    head = [cls, *question.ids[:MAX_QUESTION], sep, *title.ids[:MAX_TITLE], sep]
    return head, max_pieces - len(head) - 1


def window_at(head: list[int], text: Pieces, start: int, room: int) -> Window:
    """The window whose text begins at the text's piece `start`."""
    sep = head[-1]
    return Window(
        [*head, *text.ids[start : start + room], sep],
        len(head),
        text.offsets[start : start + room],
        head.index(sep) + 1,
    )


def encode(tokenizer: Tokenizer, pairs: Sequence[tuple[str, Sequence[Passage]]]) -> list[list[list[Window]]]:
    """The windows of every passage of every question."""
    marks = Marks.of(tokenizer)
    asked = pieces(tokenizer, [question[:MAX_CHARS] for question, _ in pairs])
    flat = [passage for _, passages in pairs for passage in passages]
    # Agents meet the same passage for many questions of a batch: its pieces are made once.
    distinct = list(dict.fromkeys([t[:MAX_CHARS] for p in flat for t in (p.title, p.text)]))
    cut = dict(zip(distinct, pieces(tokenizer, distinct), strict=True))
    return [
        [windows(question, cut[p.title[:MAX_CHARS]], cut[p.text[:MAX_CHARS]], marks) for p in passages]
        for question, (_, passages) in zip(asked, pairs, strict=True)
    ]
