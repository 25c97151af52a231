"""From files of Rocchio sessions to training examples: plain strings, rendered once, for any tokenizer.

A row is a moment: {"question": …, "state": "Query: '…'. …", "targets": {"G1": [["Contents …", 0.31], …], "G4": []}};
the targets of a grammar are its improving refinements with their gains, best first, and none where Rocchio stops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

from orienteer.agents.pointer import imitation_targets as labels
from orienteer.agents.pointer.data import World
from orienteer.agents.pointer.imitation_targets import Label, Moment
from orienteer.agents.t5.layout import Layout
from orienteer.agents.t5.rendering import STOP_SENTENCE, prefix, render_state, sentence
from orienteer.agents.t5.stream import Pair
from orienteer.data.passage import Question
from orienteer.errors import TrainingError
from orienteer.query import Grammar
from orienteer.rocchio.output import read_sessions
from orienteer.training import example_cache as rows
from orienteer.training.example_cache import Row

VERSION = 1
MOST_TARGETS = 8  # improving refinements kept of a moment under a grammar


def gather(
    folder: Path,
    files: Sequence[Path],
    questions: Callable[[], Sequence[Question]],
    grammars: Sequence[Grammar],
    layout: Layout,
    world: World,
    stops: float,
    show: Callable[[str, int], None] = lambda file, batches: None,
) -> list[Pair]:
    """The examples of files of sessions; index, reader and questions are opened only for what is not rendered yet.

    `show` is told how many batches of `labels.TOGETHER` sessions of a file are rendered.
    """
    opened, asked = cache(world), cache(lambda: labels.by_id(questions()))
    found: list[Pair] = []
    for file in files:
        target = folder / rows.key(file, VERSION, layout.title_words, layout.snippet)

        def batches(done: int, file: Path = file) -> Iterator[Iterator[Row]]:
            header, sessions = read_sessions(file)
            rest = islice(sessions, done * labels.TOGETHER, None)
            for batch in labels.moments(header, rest, asked(), *opened(), snippet=layout.snippet):
                yield (row_of(moment, layout) for moment in batch)

        rows.build(target, batches, partial(show, file.name))
        try:
            found += [pair for row in rows.read(target) for pair in pairs_of(row, grammars, stops)]
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise TrainingError(f"{target}: damaged examples ({error!r}); delete it to make them again") from None
    return found


def row_of(moment: Moment, layout: Layout) -> dict[str, Any]:
    return {
        "question": rows.digest_of(moment.question_id),
        "state": render_state(moment.observation, layout.title_words, layout.snippet),
        "targets": {label.grammar.name: _targets(label) for label in moment.labels},
    }


def _targets(label: Label) -> list[tuple[str, float]]:
    """The chosen refinement first: it is the best, and the first of equals."""
    chosen, others = label.gains[:1], sorted(label.gains[1:], key=lambda each: -each[1])
    return [(sentence(refinement), round(gain, 6)) for refinement, gain in [*chosen, *others][:MOST_TARGETS]]


def pairs_of(row: Row, grammars: Sequence[Grammar], stops: float) -> Iterator[Pair]:
    """One example for each grammar; `stops` is how much of the epochs see one that stops."""
    state = str(row["state"]).encode()
    for grammar in grammars:
        found = row["targets"].get(grammar.name)
        if found is not None:
            targets = tuple((str(text), float(gain)) for text, gain in found) or ((STOP_SENTENCE, 0.0),)
            yield Pair(int(row["question"]), state, targets, prefix(grammar), 1.0 if found else stops)
