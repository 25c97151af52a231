"""The answer generator (the paper's EM-T5), without torch: questions with their passages in, answers out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orienteer.agents.t5.constraints import PassageSpans
from orienteer.agents.t5.generator import Generator
from orienteer.agents.t5.model_files import ModelFiles, load_folder
from orienteer.agents.t5.rendering import TextLayout, check_layout, render_question
from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine
from orienteer.errors import ModelCorruptError
from orienteer.models.bert_encoder import Compute
from orienteer.query.refinement import clean
from orienteer.reader.answer_matching import exact_match
from orienteer.reader.decoding import snippet
from orienteer.reader.protocol import Reader
from orienteer.session import ObservedPassage, Session, Settings, run_sessions

BEAM = 4
ANSWERER_LAYOUT = TextLayout(snippet=70)

QuestionPassages = tuple[str, Sequence[ObservedPassage]]  # a question and its passages, best first


class Answerer:
    """From a folder that `orienteer train answerer` wrote.

    Answers are spans of the passages, unless it is `free` to write any text. An answer depends on its question and
    passages alone.
    """

    def __init__(
        self, files: ModelFiles, *, free: bool = False, beam: int = BEAM, compute: Compute = "int8", threads: int = 0
    ) -> None:
        self.layout = _layout_of(files)
        self._free, self._beam = free, beam
        limits = self.layout.max_source, self.layout.max_target
        self._generator = Generator(files, *limits, compute=compute, threads=threads)
        self.fingerprint = f"{files.fingerprint}-{compute}{'-free' if free else ''}"

    @classmethod
    def from_pretrained(cls, folder: str | Path, **options: Any) -> Answerer:
        """Options are those of the constructor; `threads` = 0 takes one for each core this process may use."""
        return cls(load_folder(Path(folder), "answerer"), **options)

    @property
    def words(self) -> int:
        """How many of a passage's words it sees."""
        return self.layout.snippet

    def answer(self, batch: Sequence[QuestionPassages]) -> list[str]:
        """One answer for each question; empty where there is no passage to answer from."""
        texts = [render_question(question, passages, self.layout) for question, passages in batch]
        shown = [[clean(part) for each in passages for part in (each.snippet, each.title)] for _, passages in batch]
        codec, max_length = self._generator.codec, self.layout.max_target - 1
        constraints = [None if self._free else PassageSpans(codec, parts, max_length) for parts in shown]
        answers = []
        generated = self._generator.generate(texts, constraints, self._beam)
        for hypotheses, (_, passages) in zip(generated, batch, strict=True):
            best = hypotheses[0] if hypotheses and passages else None
            answers.append("" if best is None else codec.decode(best.tokens) if self._free else str(best.value))
        return answers

    def of_sessions(self, sessions: Sequence[Session]) -> list[str]:
        """Answers from the sessions' best passages."""
        return self.answer([(each.question.question, best_passages(each, self.layout.snippet)) for each in sessions])


def _layout_of(files: ModelFiles) -> TextLayout:
    row: Mapping[str, Any] = files.entry.get("layout", {})
    try:
        layout = TextLayout(**{**ANSWERER_LAYOUT.as_dict(), **row})
        check_layout(layout)
    except (TypeError, ValueError) as error:
        raise ModelCorruptError(f"the layout of an answerer cannot be read: {error}; train it again") from None
    return layout


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


@dataclass(frozen=True, slots=True)
class ExactMatch:
    """The exact match of an answerer in training on sessions that were played once; `EM-MR` is the reader's."""

    sessions: Sequence[Session]
    threads: int = 1

    def __call__(self, files: ModelFiles) -> Mapping[str, float]:
        """Means in percent, as the evaluation names them; early stopping goes by `EM-T5`."""
        answers = Answerer(files, threads=self.threads).of_sessions(self.sessions)
        pairs = list(zip(answers, self.sessions, strict=True))
        count = max(1, len(pairs))
        return {
            "EM-T5": 100 * sum(exact_match(answer, each.question.answers) for answer, each in pairs) / count,
            "EM-MR": 100 * sum(exact_match(each.answer, each.question.answers) for _, each in pairs) / count,
        }


def play_sessions(engine: Engine, reader: Reader, agent: str, questions: Sequence[Question]) -> list[Session]:
    """The sessions of a named agent on questions with known answers."""
    from orienteer.agents.registry import make_agent

    entry = make_agent(agent, engine, Settings())
    sessions = run_sessions(entry.environment(engine, reader), entry.agent, questions).sessions
    return [session for session in sessions if session.question.answers]
