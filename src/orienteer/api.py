"""The front door: `Searcher` puts a question to an index through an agent, and returns the answer with its passages.

from orienteer import Searcher

searcher = Searcher.open("my-index")           # a folder, an OpenSearch URL; nothing: the bundled corpus
result = searcher.ask("who first isolated sodium metal")
print(result.answer, result.confidence)
for passage in result.passages:
    print(passage.title, passage.text)
"""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from io import StringIO
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from orienteer.agents import Agent, ConfiguredAgent, make_agent
from orienteer.agents.registry import sees_answers
from orienteer.bundled import bundled_engine
from orienteer.data import Passage, Question, read_passages, read_questions
from orienteer.defaults import AGENT, ORDER, STEPS
from orienteer.engine import Engine, Hit, build_index
from orienteer.engine.embedded.occupied import refuse_occupied
from orienteer.engine.open import open_engine
from orienteer.engine.protocol import filtered
from orienteer.errors import DataError, OrienteerError
from orienteer.query import Query, Refinement, parse
from orienteer.reader import CachedReader, Reader, TrainedReader
from orienteer.session import Environment, Record, Session, Settings, play, record
from orienteer.session.confidence import shipped_model
from orienteer.session.environment import Seconds
from orienteer.session.runner import BATCH_SIZE, advance
from orienteer.session.sentences import explanation_of
from orienteer.session.spelling import Correction, corrections, with_spelling
from orienteer.session.state import Ending

if TYPE_CHECKING:
    from orienteer.evaluation.experiment import Experiment
    from orienteer.evaluation.sessions import OnProgress

_NARROWED = 8  # searchers of filters that are kept; each has an agent of its own
_READINGS = 50_000  # in memory; some hundred bytes each

Paths = str | os.PathLike[str]
Documents = Paths | Iterable[Paths] | Iterable[Passage] | Iterable[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class FoundPassage:
    """A passage of an answer, best first.

    ps      the reader's calibrated probability that the passage holds the answer to the question
    answer  what the reader takes for the answer: `text[start:end]`
    query   the query that found it, at step `step` with rank `rank`
    source  the document and its page or section; `metadata` has these and whatever else is known of the passage
    """

    id: str
    title: str
    text: str
    ps: float
    answer: str
    start: int
    end: int
    query: str
    step: int
    rank: int
    source: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SearchStep:
    """One query of a session; `action` is "" for the question itself, else the refinement or the undo.

    `entered` and `left` are the ids of passages that the step brought into the best five, or drove out.
    """

    action: str
    query: str
    hits: tuple[str, ...]
    entered: tuple[str, ...]
    left: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cost:
    """What an answer took; `seconds` are those of the whole batch where several questions were asked together."""

    queries: int
    passages_read: int
    seconds: Seconds


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a question. Prints as text, renders in a notebook, and goes to JSON.

    confidence  the calibrated probability that the answer is right, in numbers, and `verdict` in words
    answered    False where that is so unlikely that the documents do not seem to answer the question
    explanation the sentence or two of the first passage that answer a question which asks how or why; else empty
    corrections words of the question that no document has, with the nearest that some have
    ended       why the session ended; None while it goes on (`Searcher.stream`)
    record      the whole session, as `orienteer show` and the workbench read it
    """

    question: str
    answer: str
    confidence: float
    verdict: str
    answered: bool
    explanation: str
    corrections: tuple[Correction, ...]
    passages: tuple[FoundPassage, ...]
    steps: tuple[SearchStep, ...]
    cost: Cost
    agent: str
    ended: Ending | None
    error: str
    record: Record = field(repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, without the record."""
        return {each.name: _data(getattr(self, each.name)) for each in fields(self) if each.name != "record"}

    def to_json(self, **options: Any) -> str:
        return json.dumps(self.to_dict(), ensure_ascii=False, **options)

    def __str__(self) -> str:
        from rich.console import Console

        from orienteer.session.display import console_lines

        out = StringIO()
        console = Console(file=out, width=100, color_system=None)
        for line in console_lines(self.record):
            console.print(line, soft_wrap=True)
        return out.getvalue().rstrip("\n")

    def _repr_html_(self) -> str:
        return self.record._repr_html_()


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A passage that a query found, with its BM25 score; `source` and `metadata` as in `FoundPassage`."""

    id: str
    score: float
    title: str
    text: str
    source: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


class Searcher:
    """An index, a reader and an agent. Reader and agent are loaded at the first question; safe to share by threads."""

    def __init__(
        self,
        engine: Engine,
        *,
        agent: str | Agent | ConfiguredAgent = AGENT,
        steps: int = STEPS,
        budget: int | None = None,
        reader: Reader | Paths | None = None,
        where: str | None = None,
        **options: Any,
    ) -> None:
        """See `open`; `engine` is any implementation of the `Engine` protocol."""
        if isinstance(agent, str) and sees_answers(agent):
            raise OrienteerError(f"the agent {agent!r} searches by known answers; play it with `evaluate`")
        if budget is not None and budget < 1:
            raise OrienteerError(f"budget = {budget}; expected 1 passage or more, or None for no limit")
        self.engine, self.budget = filtered(engine, where), budget
        self._agent, self._given_reader = agent, reader
        self._settings, self._options = Settings(steps=steps, order=ORDER), options
        self._lock = threading.RLock()
        self._narrowed: OrderedDict[str, Searcher] = OrderedDict()

    @classmethod
    def open(
        cls,
        index: Paths | None = None,
        *,
        agent: str | Agent | ConfiguredAgent = AGENT,
        steps: int = STEPS,
        budget: int | None = None,
        reader: Reader | Paths | None = None,
        where: str | None = None,
        **options: Any,
    ) -> Searcher:
        """A searcher over an index.

        Args:
          index: a folder, `DIR,DIR` for shards, or `https://host:9200/index` of OpenSearch or Elasticsearch; None for
            the small corpus that comes with the package.
          agent: a name (`orienteer agents` lists them), an object with a method `act`, or what `make_agent` returns.
          steps: refinements at most.
          budget: a session ends once it has read this many passages; None for no limit.
          reader: a `Reader`, or the folder of one; None for the shipped one.
          where: a filter over metadata: `year>=2020 and folder:reports` searches these passages alone.
          options: of the agent or its sessions: `grammar="G1"`, `order="ps"`.
        """
        return cls(_open(index), agent=agent, steps=steps, budget=budget, reader=reader, where=where, **options)

    @classmethod
    def index(cls, documents: Documents, out: Paths, *, force: bool = False, **options: Any) -> Searcher:
        """Builds the index `out` and opens it; documents that cannot be read are logged and left out.

        Args:
          documents: files or folders as `read_passages` takes them, `Passage` objects, or mappings with `id`, `title`
            and `text`.
          out: folder of the new index.
          force: write it even into a folder that holds other files.
          options: as for `open`.
        """
        if not force:
            refuse_occupied(Path(out))
        build_index(_passages(documents), Path(out))
        return cls.open(out, **options)

    @cached_property
    def reader(self) -> Reader:
        """The reader, loaded once; readings are kept in memory."""
        with self._lock:
            return _load_reader(self._given_reader)

    @cached_property
    def agent(self) -> ConfiguredAgent:
        """The agent with the settings of its sessions, loaded once."""
        with self._lock:
            given = self._agent
            if isinstance(given, ConfiguredAgent):
                return given
            if isinstance(given, str):
                made = make_agent(given, self.engine, self._settings, **self._options)
                return replace(made, agent=with_spelling(made.agent, self.engine))
            return ConfiguredAgent(type(given).__name__, given, replace(self._settings, **self._options))

    def where(self, where: str | None) -> Searcher:
        """The same searcher for the passages whose metadata passes the filter; the latest few are kept."""
        if where is None or not where.strip():
            return self
        if isinstance(self._agent, ConfiguredAgent):
            raise OrienteerError("an agent that is made for one engine takes no filter; name the agent, or pass it")
        with self._lock:
            if where not in self._narrowed:
                narrowed = Searcher(
                    self.engine, agent=self._agent, steps=self._settings.steps, budget=self.budget, where=where,
                    reader=self.reader, **self._options,
                )  # fmt: skip
                self._narrowed[where] = narrowed
                while len(self._narrowed) > _NARROWED:
                    self._narrowed.popitem(last=False)
            self._narrowed.move_to_end(where)
            return self._narrowed[where]

    def ask(self, question: str, *, where: str | None = None) -> Answer:
        """Lets the agent search, and returns the answer with its passages, steps and cost; `where` as for `open`."""
        [answer] = self.where(where).ask_many([question])
        return answer

    def ask_many(self, questions: Iterable[str], *, batch_size: int = BATCH_SIZE) -> Iterator[Answer]:
        """Answers in the questions' order; `batch_size` sessions share each call of engine, reader and agent."""
        waiting = iter(questions)
        while batch := list(islice(waiting, batch_size)):
            environment = self._environment()
            for sessions in play(environment, self.agent.agent, map(_question, batch), batch_size=batch_size):
                for session in sessions:
                    yield self._answer(session, environment)

    def stream(self, question: str) -> Iterator[Answer]:
        """The answer so far after each step, and last the final one; `steps[-1]` is the newest step.

        An ensemble, whose members search each by itself, comes whole.
        """
        environment = self._environment()
        if hasattr(self.agent.agent, "play"):
            yield self.ask(question)
            return
        started = perf_counter()
        sessions = environment.open([_question(question)])
        yield self._answer(sessions[0], environment)
        while not sessions[0].ended:
            sessions = advance(environment, self.agent.agent, sessions)
            environment.seconds.total = perf_counter() - started
            yield self._answer(sessions[0], environment)

    def search(self, query: str | Query, k: int = 5, *, where: str | None = None) -> list[SearchHit]:
        """The top k passages of one query, by BM25: `search('rover +title:mars -contents:"red planet"')`."""
        engine = filtered(self.engine, where)
        hits = list(engine.search(parse(query) if isinstance(query, str) else query, k))
        passages = self.engine.passages([hit.id for hit in hits])
        return [
            SearchHit(h.id, float(h.score), p.title, p.text, p.source, p.metadata)
            for h, p in zip(hits, passages, strict=True)
        ]

    def refine(
        self, query: str | Query, refinements: Iterable[str | Refinement], k: int = 5, *, where: str | None = None
    ) -> list[Sequence[Hit]]:  # fmt: skip
        """The top k of the query with each refinement added, in one pass: `refine("rover", ["+title:mars", "-moon"])`.

        The lists are exactly those of `search`, as ids and scores; `engine.passages` has the texts.
        """
        asked = parse(query) if isinstance(query, str) else query
        return list(filtered(self.engine, where).refine(asked, [_refinement(each) for each in refinements], k))

    def _environment(self) -> Environment:
        return self.agent.environment(self.engine, self.reader, budget=self.budget)

    def _answer(self, session: Session, environment: Environment) -> Answer:
        best, confidence, explanation = session.best, shipped_model()(session), explanation_of(session)
        return Answer(
            question=session.question.question,
            answer=session.answer,
            confidence=confidence.probability,
            verdict=confidence.words,
            answered=confidence.answers,
            explanation=explanation,
            corrections=tuple(corrections(self.engine, session.question.question)),
            passages=tuple(
                FoundPassage(
                    each.passage.id, each.passage.title, each.passage.text, float(each.reading.score),
                    each.reading.answer, int(each.reading.start), int(each.reading.end),
                    str(session.steps[each.step].query), each.step, each.rank, each.passage.source,
                    each.passage.metadata,
                )
                for each in best
            ),
            steps=tuple(
                SearchStep(
                    "" if step.action is None else str(step.action), str(step.query),
                    tuple(hit.id for hit in step.hits), step.entered, step.left,
                )
                for step in session.steps
            ),
            cost=Cost(session.queries, session.passages_read, replace(environment.seconds)),
            agent=self.agent.name,
            ended=session.ended,
            error=session.error,
            record=replace(
                record(session, environment, self.agent.name),
                confidence=confidence.probability,
                explanation=explanation,
            ),
        )  # fmt: skip


def evaluate(
    agents: Sequence[str | ConfiguredAgent],
    questions: Paths | Iterable[Question],
    index: Engine | Paths | None = None,
    *,
    steps: int = 20,
    reader: Reader | Paths | None = None,
    out: Paths | None = None,
    limit: int | None = None,
    progress: OnProgress | None = None,
) -> Experiment:
    """Plays every agent on every question and measures the results.

        result = evaluate(["bm25+ps", "pointer"], "dev.jsonl", "my-index")
        print(result.table())
        print(result.compare("pointer", "bm25+ps"))

    Args:
      agents: names, or what `make_agent` returns.
      questions: a file as `read_questions` takes it, or `Question` objects with answers.
      index: as for `Searcher.open`, or an engine.
      steps: refinements at most.
      reader: a `Reader`, or the folder of one; None for the shipped one.
      out: a folder for sessions, run files and the report; an interrupted evaluation is continued there.
      limit: only the first so many questions.
      progress: called as the evaluation goes on.
    """
    from orienteer.evaluation.experiment import experiment

    engine = index if isinstance(index, Engine) else _open(index)
    asked = read_questions(questions) if isinstance(questions, str | os.PathLike) else questions
    return experiment(
        agents, islice(asked, limit), engine=engine, reader=_load_reader(reader),
        settings=Settings(steps=steps, order=ORDER), out=out, progress=progress,
    )  # fmt: skip


def _open(index: Paths | None) -> Engine:
    return bundled_engine() if index is None else open_engine(os.fspath(index))


def _load_reader(given: Reader | Paths | None) -> Reader:
    if isinstance(given, Reader):
        return given
    trained = TrainedReader.from_pretrained(None if given is None else Path(given))
    return CachedReader(trained, memory=_READINGS)


def _data(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_data(each) for each in value]
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def _question(text: str) -> Question:
    if not text.strip():
        raise OrienteerError("an empty question; ask something in plain words")
    return Question("ask", text)


def _refinement(given: str | Refinement) -> Refinement:
    if isinstance(given, Refinement):
        return given
    query = parse(given)
    if query.question or len(query.refinements) != 1:
        raise OrienteerError(f"{given!r} is not one refinement; write one like +term, -title:term or contents:term^4")
    return query.refinements[0]


def _passages(documents: Documents) -> Iterator[Passage]:
    if isinstance(documents, str | os.PathLike):
        yield from read_passages([Path(documents)])
        return
    for each in documents:
        if isinstance(each, Passage):
            yield each
        elif isinstance(each, Mapping):
            try:
                known = {name: value for name, value in each.items() if name not in ("id", "title", "text")}
                yield Passage(str(each["id"]), str(each.get("title") or ""), str(each["text"]), known)
            except KeyError as error:
                raise DataError(f"a document without {error.args[0]!r}: {dict(each)!r:.200}") from None
        else:
            yield from read_passages([Path(each)])
