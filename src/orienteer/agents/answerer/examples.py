"""From files of Rocchio sessions to training examples: the five passages of a state in, a gold answer out.

A row is a state: {"question": …, "state": "Query: '…'. Answer: …", "answers": ["…"], "last": true}; `answers` are the
gold answers that a passage shows. A state that shows none teaches nothing but guessing, and is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

from orienteer.agents.answerer.rendering import Layout, render
from orienteer.agents.pointer import imitation_targets as labels
from orienteer.agents.pointer.data import World
from orienteer.agents.pointer.imitation_targets import Moment
from orienteer.agents.t5.stream import Pair
from orienteer.data.passage import Question
from orienteer.errors import TrainingError
from orienteer.query import Grammar
from orienteer.reader.answer_matching import holds_answer
from orienteer.rocchio.output import read_sessions
from orienteer.training import example_cache as rows
from orienteer.training.example_cache import Row

VERSION = 1


def gather(
    folder: Path,
    files: Sequence[Path],
    questions: Callable[[], Sequence[Question]],
    grammar: Grammar,
    layout: Layout,
    world: World,
    earlier: float,
    show: Callable[[str, int], None] = lambda file, batches: None,
) -> list[Pair]:
    """The examples of a grammar's sessions; `earlier` is how much of the epochs see a state before the last.

    The paper takes last states alone. Those before them look more like what other agents find. `show` is told how
    many batches of `labels.TOGETHER` sessions of a file are rendered.
    """
    opened, asked = cache(world), cache(lambda: labels.by_id(questions()))
    found: list[Pair] = []
    for file in files:
        target = folder / rows.key(file, VERSION, grammar.name, layout.title_words, layout.snippet)

        def batches(done: int, file: Path = file) -> Iterator[Iterator[Row]]:
            header, sessions = read_sessions(file)
            own = (session for session in sessions if session.variant.grammar == grammar)
            rest = islice(own, done * labels.TOGETHER, None)
            for batch in labels.moments(header, rest, asked(), *opened(), snippet=layout.snippet):
                made = (row_of(moment, asked()[moment.question_id], layout) for moment in batch)
                yield (row for row in made if row["answers"])

        rows.build(target, batches, partial(show, file.name))
        try:
            found += [pair for row in rows.read(target) if (pair := pair_of(row, earlier)).rate > 0]
        except (KeyError, ValueError, TypeError) as error:
            raise TrainingError(f"{target}: damaged examples ({error!r}); delete it to make them again") from None
    return found


def row_of(moment: Moment, question: Question, layout: Layout) -> dict[str, Any]:
    seen = moment.observation
    return {
        "question": rows.digest_of(moment.question_id),
        "state": render(seen.question, seen.passages, layout),
        "answers": [a for a in question.answers if any(holds_answer(p.snippet, (a,)) for p in seen.passages)],
        "last": any(not label.gains for label in moment.labels),
    }


def pair_of(row: Row, earlier: float) -> Pair:
    targets = tuple((str(answer), 0.0) for answer in row["answers"])
    return Pair(int(row["question"]), str(row["state"]).encode(), targets, "", 1.0 if row["last"] else earlier)
