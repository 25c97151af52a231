"""Advice to an actor: which words the ideal query would bring up (Σ↑), so that chance finds good refinements sooner."""

from __future__ import annotations

from collections.abc import Sequence

from orienteer.data.passage import Question
from orienteer.query import Refinement
from orienteer.rocchio.ideal import ideal_observation, ideal_queries
from orienteer.rocchio.vocabulary import Vocabulary, Word
from orienteer.session import Environment, Session, Term

_RAREST = 100  # words of the ideal observation, as Rocchio's N


class Adviser:
    """Knows Σ_* of questions; an environment asks and reads for it."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._vocabulary = Vocabulary(environment.engine)

    def ideals(self, sessions: Sequence[Session]) -> list[frozenset[Word] | None]:
        """Σ_* of each session just opened; None where no ideal query finds anything."""
        asked: list[tuple[int, Refinement]] = []
        for place, session in enumerate(sessions):
            queries = ideal_queries(session.question, self._environment.lexicon)
            if queries and not session.ended:
                asked.append((place, queries[0].refinements[0]))
        # A term of one answer's words is a refinement like any other: the session tells what it found.
        taken = self._environment.step([sessions[place] for place, _ in asked], [action for _, action in asked])
        found: list[frozenset[Word] | None] = [None] * len(sessions)
        for (place, _), session in zip(asked, taken, strict=True):
            found[place] = self._sigma(session.question, session)
        return found

    def _sigma(self, question: Question, session: Session) -> frozenset[Word] | None:
        hits = {hit.id for hit in session.steps[-1].hits}
        seen = [each for each in session.seen if each.passage.id in hits]
        if not seen:
            return None
        ideal = ideal_observation(question, seen, self._environment.settings, self._environment.lexicon)
        return frozenset(self._vocabulary.sigma(ideal, _RAREST).words)


def promoted(terms: Sequence[Term], ideal: frozenset[Word]) -> list[bool]:
    """Which terms are Σ↑ = Σ_t ∩ Σ_*, in whichever field; all others are Σ↓."""
    texts = {word.term for word in ideal}
    return [term.text in texts for term in terms]


def advice_probability(start: float, steps: int, update: int) -> float:
    """Falls evenly from `start` to 0 over so many updates."""
    return max(0.0, start * (1 - update / steps)) if steps > 0 else 0.0
