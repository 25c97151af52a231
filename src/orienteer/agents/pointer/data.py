"""From files of Rocchio sessions to examples, encoded at most once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import cache
from itertools import islice
from pathlib import Path

from tokenizers import Tokenizer

from orienteer.agents.pointer import examples
from orienteer.agents.pointer import imitation_targets as labels
from orienteer.agents.pointer.examples import Example
from orienteer.agents.pointer.featurize import Viewer
from orienteer.agents.pointer.imitation_targets import Moment
from orienteer.agents.pointer.model_files import Layout
from orienteer.agents.pointer.weak_labels import Promises, promised
from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine
from orienteer.query import Grammar
from orienteer.reader.protocol import Reader
from orienteer.rocchio.sessions import RocchioSession, read_sessions

World = Callable[[], tuple[Engine, Reader]]


def gather(
    folder: Path,
    files: Sequence[Path],
    questions: Callable[[], Sequence[Question]],
    grammars: Sequence[Grammar],
    tokenizer: Tokenizer,
    layout: Layout,
    world: World,
    promise: bool = True,
    show: Callable[[str, int], None] = lambda file, batches: None,
) -> list[Example]:
    """The examples of files of sessions; index, reader and questions are opened only for what is not encoded yet.

    `promise` adds what recorded sessions leave open: the gains of candidates that Rocchio did not have to read.
    `show` is told how many batches of `labels.TOGETHER` sessions of a file are encoded.
    """
    seen = replace(layout, sight_features=())  # a look comes later
    opened, asked = cache(world), cache(lambda: labels.by_id(questions()))
    found: list[Example] = []
    for file in files:
        names = [grammar.name for grammar in grammars]
        name = examples.key(_digest(file), json.dumps([names, asdict(seen), promise]), tokenizer.to_str())
        target = folder / f"{file.name.split('.')[0]}-{name}"

        def batches(done: int, file: Path = file) -> Iterator[list[Moment]]:
            header, sessions = read_sessions(file)
            wanted = (session for session in sessions if session.variant.grammar in grammars)
            rest: Iterator[RocchioSession] = islice(wanted, done * labels.TOGETHER, None)
            found = labels.moments(header, rest, asked(), *opened(), snippet=layout.snippet)
            if not promise:
                return found
            promises = Promises(opened()[0])
            return (promised(moments, asked(), promises) for moments in found)

        def told(done: int, file: Path = file) -> None:
            show(file.name, done)

        examples.build(target, batches, lambda: Viewer(tokenizer, opened()[0], layout.max_pieces), told)
        found += examples.read(target)
    return found


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
