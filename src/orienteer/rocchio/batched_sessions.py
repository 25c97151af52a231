"""Algorithm 1 for a batch of sessions: each round makes one call to the engine and one to the reader.

Sessions do not wait for each other's steps. A round queries the engine with the candidates of the sessions that begin
a step, and the reader with what every session wants read next; a session whose step is decided begins its next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from orienteer.data.passage import Passage, Question
from orienteer.engine.hits import distinct_hits
from orienteer.engine.protocol import Engine, Hit, refine_many
from orienteer.errors import QueryError, UnknownPassageError
from orienteer.query import Refinement
from orienteer.reader.cache import CachedReader
from orienteer.reader.protocol import Reader
from orienteer.rocchio.config import RocchioConfig, Variant
from orienteer.rocchio.judgements import Bools, Judgements, Slots
from orienteer.rocchio.sessions import Ended, RocchioSession, RocchioStep, State
from orienteer.rocchio.step_search import BestPassages, StepSearch
from orienteer.rocchio.vocabulary import Candidate, Vocabulary, Word, candidates, ideal_observation, ideal_queries
from orienteer.session import Environment, Lexicon, SeenPassage, Session
from orienteer.session.relevance import ndcem_weight
from orienteer.session.score import K


def rocchio_sessions(
    engine: Engine, reader: Reader, questions: Sequence[Question], variants: Sequence[Variant], config: RocchioConfig
) -> list[list[RocchioSession]]:
    """Algorithm 1 for every question, a session for each variant, in their orders.

    All sessions of a question share their readings. A session depends on its question and variant alone, not on the
    rest of the batch.
    """
    return BatchedSearch(engine, reader, variants, config).play(questions)


@dataclass(frozen=True, slots=True)
class Choice:
    """Algorithm 1's decision in a state: the chosen refinement and the score after it; None: stop.

    `others` are the best candidates not chosen whose score is known, with it; none where it stops.
    """

    chosen: tuple[Refinement, float] | None
    others: tuple[tuple[Refinement, float], ...] = ()


@dataclass(slots=True)
class _Search:
    """The state of one session's search."""

    place: int  # of its question
    variant: Variant
    environment: Environment
    session: Session
    judgements: Judgements
    ideal: frozenset[Word] = frozenset()
    ideal_best: tuple[str, ...] = ()
    seen: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))
    known: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))
    steps: list[RocchioStep] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
    step: StepSearch | None = None
    read: int = 0
    ended: Ended | None = None
    error: str = ""

    def grow(self) -> None:
        """Extends the flags to passages that were judged since."""
        more = np.zeros(len(self.judgements) - len(self.seen), np.bool_)
        self.seen, self.known = np.concatenate([self.seen, more]), np.concatenate([self.known, more])

    def see(self) -> None:
        """Marks what the session has seen; all of it is read."""
        slots = self.judgements.slots(each.passage.id for each in self.session.seen)
        self.seen[slots] = self.known[slots] = True

    def end(self, how: Ended, error: str = "") -> None:
        self.ended, self.error = how, error


class BatchedSearch:
    """Searches chunk after chunk of questions, with caches of readings and idf that last between chunks."""

    def __init__(self, engine: Engine, reader: Reader, variants: Sequence[Variant], config: RocchioConfig) -> None:
        self._engine, self._config, self._variants = engine, config, tuple(variants)
        # Taking a step reads its hits again, through the environment: they must come from the cache.
        self._reader = reader if isinstance(reader, CachedReader) else CachedReader(reader)
        self._lexicon, self._vocabulary = Lexicon(engine), Vocabulary(engine)
        self._environments = [self._environment(variant) for variant in self._variants]

    def _environment(self, variant: Variant) -> Environment:
        environment = Environment(self._engine, self._reader, self._config.settings_of(variant))
        environment.lexicon = self._lexicon
        return environment

    def play(self, questions: Sequence[Question]) -> list[list[RocchioSession]]:
        searches = self._open(questions)
        self._find_ideals(searches)
        while live := [search for search in searches if search.ended is None]:
            self._begin_steps([search for search in live if search.step is None])
            wanted = [(s, s.step.wanted()) for s in live if s.step is not None]
            self._read([(search, slots) for search, slots in wanted if slots.size])
            self._finish_steps([search for search, slots in wanted if not slots.size])
        finished: list[list[RocchioSession]] = [[] for _ in questions]
        for search in searches:
            finished[search.place].append(_session(search))
        return finished

    def choose(self, sessions: Sequence[Session]) -> list[Choice | None]:
        """The first variant's choice in any states, each depending on its state alone.

        None where there is no choice: no answer is known, no passage holds one, the session found none, or the read
        budget ran out before an improvement was found.
        """
        variant, environment = self._variants[0], self._environments[0]
        searches = [
            _Search(place, variant, environment, session, Judgements(session.question, self._config.settings.relevance))
            for place, session in enumerate(sessions)
        ]
        for search in searches:
            if search.session.score is None or not search.session.seen:
                search.end("no answer")
        self._find_ideals(searches)
        live = [search for search in searches if search.ended is None]
        self._begin_steps(live)
        while wanted := [(s, slots) for s in live if s.step is not None and (slots := s.step.wanted()).size]:
            self._read(wanted)
        return [_choice(search, self._config.others) for search in searches]

    def _open(self, questions: Sequence[Question]) -> list[_Search]:
        """A search for each question and variant, after step 0; ended where the question cannot be searched."""
        opened = [environment.open(questions) for environment in self._environments]
        searches = []
        for place in range(len(questions)):
            judgements = Judgements(opened[0][place].question, self._config.settings.relevance) if opened else None
            for variant, environment, sessions in zip(self._variants, self._environments, opened, strict=True):
                assert judgements is not None
                search = _Search(place, variant, environment, sessions[place], judgements)
                _end_if_unsearchable(search)
                searches.append(search)
        return searches

    def _find_ideals(self, searches: Sequence[_Search]) -> None:
        """Σ_* for every question that can be searched, from one round of queries and one of reading.

        Of a question with judgements, the ideal query finds the passages judged best.
        """
        first = {search.place: search for search in searches if search.ended is None}
        questions = [search.session.question for search in first.values()]
        queries = [[] if each.judgements else ideal_queries(each, self._lexicon) for each in questions]
        found = iter(
            self._engine.search_many([query for each in queries for query in each], self._config.settings.hits)
        )
        pooled = [dict.fromkeys(hit.id for _ in each for hit in next(found)) for each in queries]
        fetched = iter(self._engine.passages([id for ids in pooled for id in ids]))
        passages = [[next(fetched) for _ in ids] for ids in pooled]
        for own, question in zip(passages, questions, strict=True):
            own += self._judged_passages(question)
        asked = [(s.session.question.question, p) for s, p in zip(first.values(), passages, strict=True)]
        readings = self._reader.read_many(asked)
        for search, own, read, mine in zip(first.values(), passages, readings, queries, strict=True):
            same_question = [each for each in searches if each.place == search.place and each.ended is None]
            if not own:
                for each in same_question:
                    each.end("answer nowhere" if mine or each.session.question.judgements else "no answer term")
                continue
            seen = [SeenPassage(p, r, 0, rank) for rank, (p, r) in enumerate(zip(own, read, strict=True), 1)]
            settings = search.environment.settings
            observation = ideal_observation(search.session.question, seen, settings, self._lexicon)
            sigma = frozenset(self._vocabulary.sigma(observation, self._config.n).words)
            self._judge(search, [each.passage.id for each in seen])
            slots = search.judgements.slots(passage.id for passage in own)
            search.judgements.keep(slots, read)
            for each in same_question:
                each.ideal, each.ideal_best = sigma, tuple(passage.id for passage in observation.passages)
                each.grow()
                each.known[slots] = True
                each.see()
                each.read = int(each.known.sum())

    def _judged_passages(self, question: Question) -> list[Passage]:
        """The passages judged best that the index holds, as many as the best of a session."""
        grades = question.grades
        found: list[Passage] = []
        for id in sorted(grades, key=grades.__getitem__, reverse=True):
            if len(found) == K:
                break
            try:
                found += self._engine.passages([id])
            except UnknownPassageError:
                continue
        return found

    def _judge(self, search: _Search, ids: Sequence[str]) -> None:
        """Judges the passages that the session has seen, and these."""
        search.judgements.slots(each.passage.id for each in search.session.seen)
        search.judgements.slots(ids)
        search.judgements.judge(self._engine.passages(search.judgements.unjudged()))

    def _begin_steps(self, searches: Sequence[_Search]) -> None:
        going = []
        for search in searches:
            [observation] = search.environment.observe([search.session])
            sigma = self._vocabulary.sigma(observation, self._config.n)
            tried = candidates(sigma, search.ideal, search.variant.grammar, self._config.m)
            search.candidates = [each for each in tried if self._config.tries(each.refinement)]
            if search.candidates:
                going.append(search)
            else:
                search.end("best")
        tables = self._refine(going)
        waiting = {id(search.judgements): search.judgements for search in going}
        unjudged = [judgements.unjudged() for judgements in waiting.values()]
        fetched = self._engine.passages([passage for ids in unjudged for passage in ids])
        at = 0
        for judgements, ids in zip(waiting.values(), unjudged, strict=True):
            judgements.judge(fetched[at : at + len(ids)])
            at += len(ids)
        for search, table in zip(going, tables, strict=True):
            if table is not None:
                search.grow()
                search.step = self._step_search(search, table)

    def _refine(self, searches: Sequence[_Search]) -> list[NDArray[np.int32] | None]:
        """Slots of the hits of every candidate [candidates, hits]; None where the query cannot be refined."""
        queries = [search.session.query for search in searches]
        refinements = [[each.refinement for each in search.candidates] for search in searches]
        hits = self._config.settings.hits
        lists: list[Sequence[Sequence[Hit]] | None]
        try:
            lists = list(refine_many(self._engine, queries, refinements, hits))
        except QueryError:
            # A query that the engine refuses must not fail the others.
            lists = [self._refine_alone(*each, hits) for each in zip(searches, refinements, strict=True)]
        tables: list[NDArray[np.int32] | None] = []
        for search, found in zip(searches, lists, strict=True):
            if found is None:
                tables.append(None)
                continue
            ids, table = distinct_hits(found, hits)
            slots = np.array([*search.judgements.slots(ids), -1], np.int32)
            tables.append(slots[table])  # -1, no hit, is the last
        return tables

    def _refine_alone(
        self, search: _Search, refinements: Sequence[Refinement], hits: int
    ) -> Sequence[Sequence[Hit]] | None:
        try:
            return self._engine.refine(search.session.query, refinements, hits)
        except QueryError as error:
            search.end("error", f"the query cannot be refined: {error.message}")
            return None

    def _step_search(self, search: _Search, table: NDArray[np.int32]) -> StepSearch:
        new = np.where((table >= 0) & ~np.append(search.seen, True)[table], table, np.int32(-1))
        score, question = search.session.score, search.session.question
        assert score is not None
        return StepSearch(
            search.judgements, BestPassages.of(question, search.session.best, score.total), new, search.known,
            lambda1=search.variant.lambda1, lambda2=ndcem_weight(question, search.variant.lambda2),
            budget=self._config.read_budget, exhaustive=self._config.exhaustive,
        )  # fmt: skip

    def _read(self, wanted: Sequence[tuple[_Search, Slots]]) -> None:
        """One batch for all; a passage that two sessions of a question want is read once."""
        slots_of: dict[int, dict[int, None]] = {}
        of_question: dict[int, Judgements] = {}
        for search, slots in wanted:
            of_question[search.place] = search.judgements
            unread = slots_of.setdefault(search.place, {})
            unread.update((slot, None) for slot in slots.tolist() if not search.judgements.read[slot])
        fresh = {place: list(slots) for place, slots in slots_of.items() if slots}
        fetched = iter(
            self._engine.passages([of_question[place].ids[s] for place, slots in fresh.items() for s in slots])
        )
        batch = [
            (of_question[place].question.question, [next(fetched) for _ in slots]) for place, slots in fresh.items()
        ]
        if batch:
            for place, readings in zip(fresh, self._reader.read_many(batch), strict=True):
                of_question[place].keep(fresh[place], readings)
        for search, slots in wanted:
            assert search.step is not None
            search.step.learn(slots)

    def _finish_steps(self, searches: Sequence[_Search]) -> None:
        """Takes the chosen refinements; ends the sessions without one."""
        chosen: list[tuple[_Search, int]] = []
        for search in searches:
            assert search.step is not None
            winner = search.step.winner()
            search.read += search.step.read
            if winner is None:
                search.end("budget" if search.step.capped else "best")
            else:
                chosen.append((search, winner))
        for environment in self._environments:
            mine = [(search, winner) for search, winner in chosen if search.environment is environment]
            actions = [search.candidates[winner].refinement for search, winner in mine]
            taken = environment.step([search.session for search, _ in mine], actions)
            for (search, winner), session in zip(mine, taken, strict=True):
                self._take_step(search, winner, session)

    def _take_step(self, search: _Search, winner: int, session: Session) -> None:
        step = search.step
        assert step is not None
        if session.ended == "illegal":
            search.end("error", session.error)
            return
        search.session = session
        chosen = search.candidates[winner]
        search.steps.append(
            RocchioStep(
                chosen.refinement, chosen.sources, _state(session), tuple(hit.id for hit in session.steps[-1].hits),
                len(search.candidates), step.read, _scores(search, step.runners_up(self._config.others)),
            )
        )  # fmt: skip
        search.see()
        search.step = None
        if session.ended:
            search.end("steps")


def _choice(search: _Search, others: int) -> Choice | None:
    if search.step is None:
        return Choice(None) if search.ended == "best" else None
    winner = search.step.winner()
    if winner is None:
        return None if search.step.capped else Choice(None)
    [chosen] = _scores(search, [winner])
    return Choice(chosen, _scores(search, search.step.runners_up(others)))


def _scores(search: _Search, rows: Sequence[int]) -> tuple[tuple[Refinement, float], ...]:
    """Candidates whose score is known, with it."""
    assert search.step is not None
    bound = search.step.bound
    return tuple((search.candidates[row].refinement, float(bound[row])) for row in rows)


def _end_if_unsearchable(search: _Search) -> None:
    session = search.session
    if session.ended == "error":
        search.end("error", session.error)
    elif session.ended == "no hits":
        search.end("no hits")
    elif not session.question.is_judged:
        search.end("no answer")
    elif session.ended:
        search.end("steps")


def _state(session: Session) -> State:
    score = session.score
    assert score is not None
    return State(
        score, tuple(bool(each.relevant) for each in session.best), tuple(bool(each.exact) for each in session.best),
        tuple(each.passage.id for each in session.best),
    )  # fmt: skip


def _session(search: _Search) -> RocchioSession:
    assert search.ended is not None
    session = search.session
    judged = bool(session.steps) and session.steps[0].score is not None
    start = _start(search) if judged else None
    read = search.read or len(session.seen)
    return RocchioSession(
        session.question.id, search.variant, search.ended, start, tuple(search.steps), search.ideal_best, read,
        search.error,
    )  # fmt: skip


def _start(search: _Search) -> State | None:
    """The state after the question itself, from the session's end: what was seen at step 0."""
    first = search.session.steps[0]
    if first.score is None:
        return None
    seen = {each.passage.id: each for each in search.session.seen}
    best = [seen[id] for id in first.best]
    return State(
        first.score, tuple(bool(each.relevant) for each in best), tuple(bool(each.exact) for each in best), first.best
    )
