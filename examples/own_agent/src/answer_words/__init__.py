"""An agent in twenty lines: each step adds the word that the most confident answers agree on."""

from collections import Counter

from orienteer import STOP, Action, Engine, Observation, Refinement


class AnswerWords:
    """Adds the term with the most PS among the answers read so far; `boost` weighs it."""

    def __init__(self, engine: Engine, boost: float = 1.0):
        self.analyze, self.boost = engine.analyze, boost

    def act(self, observations: list[Observation]) -> list[Action]:
        return [self.choose(observation) for observation in observations]

    def choose(self, seen: Observation) -> Action:
        votes: Counter[str] = Counter()
        for passage in seen.passages:
            for term in set(self.analyze(passage.answer)):
                votes[term] += passage.score
        words = [term.text for term in seen.terms if "question" not in term.sources]
        best = max(words, key=lambda word: votes[word], default=None)
        return STOP if best is None else Refinement("^", "contents", best, self.boost)
