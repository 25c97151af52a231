"""The environment: an engine and a reader behind sessions. All its methods work on batches of sessions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter

from orienteer.data.passage import Passage, Question
from orienteer.engine.protocol import Engine, Hit
from orienteer.errors import QueryError, UnknownPassageError
from orienteer.query import Query, Refinement
from orienteer.query.refinement import clean
from orienteer.reader.answer_matching import answer_forms, exact_match
from orienteer.reader.protocol import Reader, Reading
from orienteer.session.observation import Lexicon, Observation, observe, used_terms
from orienteer.session.relevance import is_relevant, score_of
from orienteer.session.settings import Settings
from orienteer.session.state import Action, Ending, Read, SeenPassage, Session, Step, Stop, Undo, best_of, changes


@dataclass(slots=True)
class Seconds:
    """Time by part, in seconds."""

    engine: float = 0.0
    reader: float = 0.0
    agent: float = 0.0
    total: float = 0.0

    @contextmanager
    def counting(self, part: str) -> Iterator[None]:
        started = perf_counter()
        try:
            yield
        finally:
            setattr(self, part, getattr(self, part) + perf_counter() - started)


class Environment:
    """Searches, reads and judges for sessions. It has no state: `open` and `step` return new sessions."""

    def __init__(
        self, engine: Engine, reader: Reader, settings: Settings | None = None, *, budget: int | None = None
    ) -> None:
        """`budget` ends a session once it has read so many passages."""
        self.engine, self.reader, self.budget = engine, reader, budget
        self.settings = settings or Settings()
        self.seconds = Seconds()
        self.lexicon = Lexicon(engine)

    def open(self, questions: Sequence[Question]) -> list[Session]:
        """A session for each question, after step 0: the question itself is searched and its hits are read."""
        sessions = [Session(_cleaned(question)) for question in questions]
        pending: list[Session | _PendingQuery | _QueryHits] = []
        for session in sessions:
            try:
                pending.append(_PendingQuery(session, None, Query(session.question.question)))
            except QueryError as error:
                pending.append(ended(session, "error", f"the question cannot be asked: {error.message}"))
        return self._within_budget(self._execute(pending))

    def step(self, sessions: Sequence[Session], actions: Sequence[Action]) -> list[Session]:
        """Each session after its action; one that has ended is returned unchanged."""
        pending = [self._pending(session, action) for session, action in zip(sessions, actions, strict=True)]
        return self._within_budget(self._execute(pending))

    def observe(self, sessions: Sequence[Session]) -> list[Observation]:
        return [observe(session, self.settings, self.lexicon) for session in sessions]

    def objection(self, session: Session, action: object) -> str | None:
        """Why the action is illegal in this session; None where it is legal."""
        match action:
            case Stop():
                return None
            case Undo():
                return None if session.query.refinements else "undo, but the query has no refinement to take back"
            case Refinement():
                term = self.lexicon.as_term(action.term)
                if not term:
                    return f"{action}: {action.term!r} holds no index term, only stop words or signs"
                if not self.settings.reuse_terms and term in used_terms(session, self.lexicon):
                    return f"{action}: the term {term!r} was used before; a term is used once in a session"
                return None
            case Read():
                return self._objection_to_reading(session, action)
        return f"{action!r} is not an action; expected a Refinement, Read, STOP or UNDO"

    def _objection_to_reading(self, session: Session, action: Read) -> str | None:
        most, ids = self.settings.hits, action.passages
        if not 1 <= len(ids) <= most or len(set(ids)) < len(ids):
            return f"{action}: names {len(ids)} passages; expected 1 to {most} distinct ones, as many as a query finds"
        if known := sorted({each.passage.id for each in session.seen}.intersection(ids)):
            return f"{action}: the passage {known[0]!r} was read before"
        try:
            self.engine.passages(ids)
        except UnknownPassageError as error:
            return f"{action}: {error}"
        return None

    def _pending(self, session: Session, action: Action) -> Session | _PendingQuery | _QueryHits:
        if session.ended:
            return session
        if (why := self.objection(session, action)) is not None:
            return ended(session, "illegal", why)
        match action:
            case Refinement():
                try:
                    return _PendingQuery(session, action, session.query.refine(action))
                except QueryError as error:
                    return ended(session, "illegal", f"{action}: {error.message}")
            case Read():
                hits = tuple(Hit(id, 0.0) for id in action.passages)
                return _QueryHits(_PendingQuery(session, action, session.query), hits)
            case Undo():
                return self._undone(session)
        return ended(session, "stop")

    def _undone(self, session: Session) -> Session:
        """The query before its last refinement, with its hits of that time: nothing is searched or read."""
        query = Query(session.query.question, session.query.refinements[:-1])
        # Every current query extends an earlier one by one refinement, so the shorter one was searched.
        queried = (step for step in reversed(session.steps) if step.hits and not isinstance(step.action, Read))
        hits = next(step.hits for step in queried if step.query == query)
        return self._extended(session, Undo(), query, hits, {})

    def _within_budget(self, sessions: list[Session]) -> list[Session]:
        if self.budget is None:
            return sessions
        return [s if s.ended or s.passages_read < self.budget else ended(s, "steps") for s in sessions]

    def _execute(self, pending: Sequence[Session | _PendingQuery | _QueryHits]) -> list[Session]:
        """Searches, fetches and reads for all pending queries at once; those with hits already are not searched."""
        searched = iter(self._search([each for each in pending if isinstance(each, _PendingQuery)]))
        results = [next(searched) if isinstance(each, _PendingQuery) else each for each in pending]
        reads = [(each.pending.session, each.hits) for each in results if isinstance(each, _QueryHits)]
        fresh = iter(self._read(reads))
        return [
            self._extended(each.pending.session, each.pending.action, each.pending.query, each.hits, next(fresh))
            if isinstance(each, _QueryHits)
            else each
            for each in results
        ]

    def _search(self, pending: Sequence[_PendingQuery]) -> list[_QueryHits | Session]:
        if not pending:
            return []
        k = self.settings.hits
        with self.seconds.counting("engine"):
            try:
                lists = self.engine.search_many([each.query for each in pending], k)
                return [_QueryHits(each, tuple(hits)) for each, hits in zip(pending, lists, strict=True)]
            except QueryError:
                # A query that the engine refuses must not fail the others.
                return [self._search_alone(each, k) for each in pending]

    def _search_alone(self, pending: _PendingQuery, k: int) -> _QueryHits | Session:
        try:
            return _QueryHits(pending, tuple(self.engine.search(pending.query, k)))
        except QueryError as error:
            if pending.action is None:
                return ended(pending.session, "error", f"the question cannot be asked: {error.message}")
            return ended(pending.session, "illegal", f"{pending.action}: {error.message}")

    def _read(self, results: Sequence[tuple[Session, Sequence[Hit]]]) -> list[dict[str, tuple[Passage, Reading]]]:
        """Reads what each session has not seen yet, for its question."""
        new: list[list[str]] = []
        for session, hits in results:
            known = {each.passage.id for each in session.seen}
            new.append([hit.id for hit in hits if hit.id not in known])
        with self.seconds.counting("engine"):
            fetched = iter(self.engine.passages([id for ids in new for id in ids]))
        passages = [[next(fetched) for _ in ids] for ids in new]
        batch = [(s.question.question, p) for (s, _), p in zip(results, passages, strict=True) if p]
        with self.seconds.counting("reader"):
            readings = iter(self.reader.read_many(batch) if batch else [])
        return [
            {p.id: (p, r) for p, r in zip(each, next(readings), strict=True)} if each else {}
            for each in passages
        ]  # fmt: skip

    def _extended(
        self,
        session: Session,
        action: Refinement | Read | Undo | None,
        query: Query,
        hits: tuple[Hit, ...],
        fresh: dict[str, tuple[Passage, Reading]],
    ) -> Session:
        """The session with one more step."""
        number = len(session.steps)
        judged = tuple(
            self._judged(session.question, *fresh[hit.id], number, rank)
            for rank, hit in enumerate(hits, 1)
            if hit.id in fresh
        )
        seen = session.seen + judged
        best = best_of(seen, self.settings.order) if judged else session.best
        ids = tuple(each.passage.id for each in best)
        entered, left = changes([each.passage.id for each in session.best], ids)
        step = Step(number, action, query, hits, ids, entered, left, score_of(session.question, best, self.settings))
        return self._closed(replace(session, steps=(*session.steps, step), seen=seen, best=best), step)

    def _closed(self, session: Session, step: Step) -> Session:
        """Ends the session where its last step is its end."""
        if step.dead_end and step.number == 0:
            return ended(session, "no hits")
        if step.dead_end and self.settings.dead_ends == "stop":
            return ended(session, "dead end")
        return ended(session, "steps") if session.refinements_made >= self.settings.steps else session

    def _judged(self, question: Question, passage: Passage, reading: Reading, step: int, rank: int) -> SeenPassage:
        relevant = is_relevant(question, passage, self.settings.relevance)
        exact = exact_match(reading.answer, question.answers) if question.answers else None
        return SeenPassage(passage, reading, step, rank, relevant, exact)


def ended(session: Session, how: Ending, error: str = "") -> Session:
    return replace(session, ended=how, error=error)


@dataclass(frozen=True, slots=True)
class _PendingQuery:
    """A query that a session is about to search."""

    session: Session
    action: Refinement | Read | None
    query: Query


@dataclass(frozen=True, slots=True)
class _QueryHits:
    """A query with its hits."""

    pending: _PendingQuery
    hits: tuple[Hit, ...]


def _cleaned(question: Question) -> Question:
    """The question as a record can hold it; an answer that normalises to nothing is dropped."""
    answers = tuple(dict.fromkeys(clean(answer) for answer in question.answers if answer_forms((answer,))))
    return replace(question, id=clean(question.id), question=clean(question.question), answers=answers)
