"""Small collections drawn from a large index, with questions that they answer and questions that they do not.

A folder of documents is small and says most things once. So each collection is a passage that answers, for each of
some questions, the first that the engine finds for it (of the same subject, they confuse), and random passages.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

from orienteer.data.passage import Passage, Question
from orienteer.engine import EmbeddedEngine, build_index, open_index
from orienteer.query import Query
from orienteer.reader.answer_matching import holds_answer

SIZES = (300, 1000, 3000)  # passages
_DEPTH = 50  # hits of a question that are looked at
_HOLDING, _SIMILAR = 1, 4  # of them go into its collection: those that hold an answer, and the first


@dataclass(frozen=True, slots=True)
class SmallCorpus:
    """`answered`: questions with a passage that holds an answer; `foreign`: questions about something else."""

    engine: EmbeddedEngine
    answered: tuple[Question, ...]
    foreign: tuple[Question, ...]


def draw_corpus(
    engine: EmbeddedEngine, questions: Sequence[Question], foreign: Sequence[Question], size: int, seed: int
) -> SmallCorpus:
    """A collection of `size` passages around the questions; a question that nothing found answers is left out."""
    draw = random.Random(seed)
    passages: dict[str, Passage] = {}
    answered: list[Question] = []
    for question in questions:
        found = engine.passages([hit.id for hit in engine.search(Query(question.question), _DEPTH)])
        right = [each for each in found if holds_answer(each.text, question.answers)][:_HOLDING]
        if right and len(passages) + len(right) + _SIMILAR <= size:
            answered.append(question)
            passages |= {each.id: each for each in (*right, *found[:_SIMILAR])}
    while len(passages) < min(size, len(engine)):
        each = engine.passage_at(draw.randrange(len(engine)))
        passages[each.id] = each
    ordered = draw.sample(list(passages.values()), len(passages))
    with tempfile.TemporaryDirectory() as folder:
        build_index(ordered, folder)
        return SmallCorpus(open_index(folder), tuple(answered), tuple(foreign))  # mapped files outlive their names
