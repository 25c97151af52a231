"""Algorithm 1 as it is written: one query a candidate, every hit read again; for the fast search to be tested by."""

from __future__ import annotations

from dataclasses import replace

from orienteer.data.passage import Question
from orienteer.engine.protocol import Engine
from orienteer.query import Query, Refinement
from orienteer.reader.answer_matching import exact_match, holds_answer, holds_answer_loosely
from orienteer.reader.protocol import Reader
from orienteer.rocchio.config import RocchioConfig, Variant
from orienteer.rocchio.step_search import LEAST_GAIN
from orienteer.rocchio.vocabulary import Vocabulary, candidates, ideal_observation, ideal_queries
from orienteer.session import Lexicon, Score, SeenPassage, Session, Step, best_of, score
from orienteer.session.observation import observe


def naive_session(
    engine: Engine, reader: Reader, question: Question, variant: Variant, config: RocchioConfig
) -> list[tuple[Refinement, Score]]:
    """The refinements of one session and the score after each; the question must have answers and find something."""
    world = _World(engine, reader, question, variant, config)
    vocabulary, settings = Vocabulary(engine), config.settings_of(variant)
    pooled: dict[str, SeenPassage] = {}
    for ideal in ideal_queries(question, world.lexicon):
        for each in world.found(ideal):
            pooled.setdefault(each.passage.id, each)
    observation = ideal_observation(question, list(pooled.values()), settings, world.lexicon)
    sigma_star = frozenset(vocabulary.sigma(observation, config.n).words)
    query = Query(question.question)
    seen = {each.passage.id: each for each in world.found(query)}
    session = world.session((), query, seen)
    chosen: list[tuple[Refinement, Score]] = []
    while len(chosen) < settings.steps:
        sigma = vocabulary.sigma(observe(session, settings, world.lexicon), config.n)
        best, best_score = None, replace(world.score(seen), total=world.score(seen).total + LEAST_GAIN)
        for candidate in candidates(sigma, sigma_star, variant.grammar, config.m):
            if f"{candidate.refinement.op}{candidate.refinement.field[0]}" in config.without:
                continue
            after = world.score(world.together(seen, query.refine(candidate.refinement)))
            if after.total > best_score.total:
                best, best_score = candidate.refinement, after
        if best is None:
            break
        query = query.refine(best)
        seen = world.together(seen, query)
        chosen.append((best, best_score))
        session = world.session(tuple(refinement for refinement, _ in chosen), query, seen)
    return chosen


class _World:
    """The engine, the reader and how one question is judged."""

    def __init__(
        self, engine: Engine, reader: Reader, question: Question, variant: Variant, config: RocchioConfig
    ) -> None:
        self.engine, self.reader, self.question, self.variant, self.config = engine, reader, question, variant, config
        self.lexicon = Lexicon(engine)
        self.holds = holds_answer if config.settings.relevance == "tokens" else holds_answer_loosely

    def found(self, query: Query) -> list[SeenPassage]:
        hits = self.engine.search(query, self.config.settings.hits)
        passages = self.engine.passages([hit.id for hit in hits])
        readings = self.reader.read(self.question.question, passages)
        answers = self.question.answers
        return [
            SeenPassage(p, r, 0, rank, self.holds(p.text, answers), exact_match(r.answer, answers))
            for rank, (p, r) in enumerate(zip(passages, readings, strict=True), 1)
        ]

    def together(self, seen: dict[str, SeenPassage], query: Query) -> dict[str, SeenPassage]:
        """Everything seen, and what the query finds after it."""
        both = dict(seen)
        for each in self.found(query):
            both.setdefault(each.passage.id, each)
        return both

    def score(self, seen: dict[str, SeenPassage]) -> Score:
        best = best_of(seen.values())
        return score(
            [each.reading.score for each in best],
            [bool(each.relevant) for each in best],
            [bool(each.exact) for each in best],
            lambda1=self.variant.lambda1,
            lambda2=self.variant.lambda2,
        )

    def session(self, refinements: tuple[Refinement, ...], query: Query, seen: dict[str, SeenPassage]) -> Session:
        """As much of a session as an observation looks at: what was used, and the best passages."""
        steps = [Step(0, None, Query(query.question), (), (), (), (), None)]
        steps += [Step(n, r, query, (), (), (), (), None) for n, r in enumerate(refinements, 1)]
        return Session(self.question, tuple(steps), tuple(seen.values()), best_of(seen.values()))
