"""The answer generator at work, without torch: questions with their passages in, answers out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orienteer.agents.answerer.rendering import SHIPPED, layout_of, render
from orienteer.agents.answerer.spans import Spans
from orienteer.agents.t5.generator import Writer
from orienteer.agents.t5.model_files import ModelFiles, load_folder
from orienteer.query.refinement import clean
from orienteer.reader.runtime import Compute
from orienteer.reader.snippets import snippet
from orienteer.session import ObservedPassage, Session

BEAM = 4

Asked = tuple[str, Sequence[ObservedPassage]]  # a question and its passages, best first


class Answerer:
    """From a folder that training wrote; the shipped one unless told otherwise.

    Answers are words of the passages, unless it is `free` to write any. An answer depends on its question and
    passages alone.
    """

    def __init__(
        self, files: ModelFiles, *, free: bool = False, beam: int = BEAM, compute: Compute = "int8", threads: int = 0
    ) -> None:
        self.layout = layout_of(files)
        self._free, self._beam = free, beam
        self._writer = Writer(files, self.layout.max_source, self.layout.max_target, compute=compute, threads=threads)
        self.fingerprint = f"{files.fingerprint}-{compute}{'-free' if free else ''}"

    @classmethod
    def from_pretrained(cls, folder: str | Path | None = None, **options: Any) -> Answerer:
        """Options are those of the constructor; `threads` = 0 takes one for each core this process may use."""
        return cls(load_folder(Path(folder) if folder else SHIPPED, "answerer"), **options)

    @property
    def words(self) -> int:
        """How many of a passage's words it sees."""
        return self.layout.snippet

    def answer(self, batch: Sequence[Asked]) -> list[str]:
        """One answer for each question; empty where there is no passage to answer from."""
        texts = [render(question, passages, self.layout) for question, passages in batch]
        shown = [[clean(part) for each in passages for part in (each.snippet, each.title)] for _, passages in batch]
        codec, most = self._writer.codec, self.layout.max_target - 1
        constraints = [None if self._free else Spans(codec, parts, most) for parts in shown]
        written = self._writer.write(texts, constraints, self._beam)
        answers = []
        for found, (_, passages) in zip(written, batch, strict=True):
            best = found[0] if found and passages else None
            answers.append("" if best is None else codec.text(best.tokens) if self._free else str(best.name))
        return answers

    def of_sessions(self, sessions: Sequence[Session]) -> list[str]:
        """Answers from the sessions' best passages."""
        return self.answer([(each.question.question, best_passages(each, self.layout.snippet)) for each in sessions])


def best_passages(session: Session, words: int) -> list[ObservedPassage]:
    """A session's best passages as the answerer sees them."""
    return [
        ObservedPassage(
            seen.passage.id, seen.passage.title,
            snippet(seen.passage.text, seen.reading.start, seen.reading.end, words),
            seen.reading.answer, seen.reading.score,
        )
        for seen in session.best
    ]  # fmt: skip
