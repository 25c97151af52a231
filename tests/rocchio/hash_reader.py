"""A stand-in reader for tests only: what it says of a passage is drawn from a hash, kinder to those with the answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from math import exp, log

from orienteer.data.passage import Passage, Question
from orienteer.reader.protocol import Reading


class HashReader:
    """Depends on question, title and text alone. `levels` > 0: PS takes so many values only, 0 and 1 among them."""

    def __init__(self, questions: Iterable[Question], seed: int = 0, levels: int = 0) -> None:
        self._answers = {question.question: question.answers for question in questions}
        self._levels = levels
        self.fingerprint = f"hash stand-in {seed} {levels}"
        self.batches: list[int] = []

    @property
    def passages(self) -> int:
        return sum(self.batches)

    def read(self, question: str, passages: Sequence[Passage]) -> list[Reading]:
        return self.read_many([(question, passages)])[0]

    def read_many(self, batch: Sequence[tuple[str, Sequence[Passage]]]) -> list[list[Reading]]:
        self.batches.append(sum(len(passages) for _, passages in batch))
        return [[self._reading(question, passage) for passage in passages] for question, passages in batch]

    def _reading(self, question: str, passage: Passage) -> Reading:
        text = f"{self.fingerprint}\n{question}\n{passage.title}\n{passage.text}"
        digest = blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()
        draw, other = (int.from_bytes(half, "little") / 2**64 for half in (digest[:8], digest[8:]))
        place, answer = self._place(question, passage)
        logit = 1.5 * log((draw + 1e-9) / (1 - draw + 1e-9)) + (1.5 if answer else -1.5)
        score = 1 / (1 + exp(-logit))
        if self._levels:
            score = round(score * (self._levels - 1)) / (self._levels - 1)
        if not answer or other > 0.6:
            words = passage.text.split()
            answer = words[int(other * len(words))] if words else ""
            place = passage.text.find(answer)
        return Reading(score, logit, passage.text[place : place + len(answer)], place, place + len(answer))

    def _place(self, question: str, passage: Passage) -> tuple[int, str]:
        for answer in self._answers.get(question, ()):
            if answer and (place := passage.text.find(answer)) >= 0:
                return place, answer
        return 0, ""
