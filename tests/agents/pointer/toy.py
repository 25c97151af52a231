"""A rule to learn: require the rarest new word of the most confident answer; after two steps, stop."""

from __future__ import annotations

from small_world import QUESTIONS, Wanderer

from orienteer.agents.imitation import Label, LabelledState
from orienteer.data.passage import Question
from orienteer.query import G4, Refinement
from orienteer.session import Environment, Lexicon, Observation


def rule(seen: Observation, lexicon: Lexicon) -> Refinement | None:
    if seen.step >= 2:
        return None
    asked = set(lexicon.terms(seen.question))
    for passage in seen.passages:
        answer = set(lexicon.terms(passage.answer)) - asked
        words = [term.text for term in seen.terms if term.text in answer]
        if words:
            return Refinement("+", "contents", max(words, key=lexicon.idf))
    return None


def toy_questions(count: int) -> list[Question]:
    """The small world's questions under many ids, so that a wanderer walks another way in each."""
    return [
        Question(f"toy-{number}-{question.id}", question.question, question.answers)
        for number in range(-(-count // len(QUESTIONS)))
        for question in QUESTIONS
    ][:count]


def toy_states(environment: Environment, count: int = 60) -> list[LabelledState]:
    """States of random walks, labelled by the rule."""
    found: list[LabelledState] = []
    sessions = environment.open(toy_questions(count))
    for _ in range(3):
        sessions = [session for session in sessions if not session.ended]
        for session, seen in zip(sessions, environment.observe(sessions), strict=True):
            wanted = rule(seen, environment.lexicon)
            gains = ((wanted, 0.3),) if wanted else ()
            found.append(LabelledState(session.question.id, seen, (Label(G4, gains),)))
        sessions = environment.step(sessions, Wanderer().act(environment.observe(sessions)))
    return found
