"""How likely a session's answer is right: a logistic model of what the session knows anyway.

PS tells whether a passage holds an answer, not whether the answer given is right, and it is 0.5 of something even where
the documents do not answer the question at all. Each passage that was read votes for its own answer, with the weight
PS · P(place): the reader's certainty that the answer stands where it says. The share of the votes that the answer got
tells most; PS, the certainty, the words that question and passage share and the answer's kind tell a little more. None
costs any reading, and none grows with the number of passages that say the same: in a small collection few do.

The weights are fitted on sessions of questions with known answers, part of them with every passage removed that holds
an answer (`orienteer train confidence`); they belong to the reader and lie in `confidence.json`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orienteer.errors import ModelCorruptError
from orienteer.reader.answer_matching import match_form
from orienteer.reader.folder import likeliest
from orienteer.session.observation import is_stop_word
from orienteer.session.state import Session

SHIPPED = Path(__file__).parent / "confidence.json"
FEATURES = ("answer", "odds", "ps", "span", "question covered", "kind fits", "kind does not fit")

_LEAST = 1e-4  # PS closer to 0 or 1 counts as this far from it
_LEAST_SPAN = -12.0
_LEAST_VOTE = 0.01
_NO_ANSWER = 0.2  # votes that no passage has: for the answer that none of them gives
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(
    r"\d|\b(one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|hundred|thousand|million)\b"
)

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Confidence:
    """A session's answer judged.

    probability   that the answer is right, calibrated
    words         the same in words
    answers       False: so unlikely that it is better not given
    """

    probability: float
    words: str
    answers: bool


@dataclass(frozen=True, slots=True)
class ConfidenceModel:
    """P(the answer is right) = sigmoid(weights · (features - means) / scales + bias).

    `threshold`: with less, the answer is declined.
    """

    weights: tuple[float, ...]
    means: tuple[float, ...]
    scales: tuple[float, ...]
    bias: float
    threshold: float

    def probability(self, session: Session) -> float:
        """0 where nothing was found."""
        return float(self.probabilities(features(session)[None])[0]) if session.best else 0.0

    def probabilities(self, rows: Floats) -> Floats:
        """[sessions], from their features."""
        z = (rows - np.array(self.means)) / np.array(self.scales) @ np.array(self.weights) + self.bias
        return np.asarray(0.5 * (1 + np.tanh(z / 2)))

    def __call__(self, session: Session) -> Confidence:
        return self.judged(self.probability(session))

    def judged(self, probability: float) -> Confidence:
        """The probability in words; the bounds of the words are those of a person, not of the model."""
        for least, words in ((0.8, "very likely right"), (0.6, "likely right"), (0.4, "may be right")):
            if probability >= max(least, self.threshold):
                return Confidence(probability, words, True)
        if probability >= self.threshold:
            return Confidence(probability, "doubtful", True)
        return Confidence(probability, "the documents do not seem to answer this", False)

    def as_dict(self) -> dict[str, Any]:
        rows = zip(FEATURES, self.weights, self.means, self.scales, strict=True)
        return {
            "threshold": round(self.threshold, 4),
            "bias": round(self.bias, 5),
            "features": {name: [float(f"{each:.6g}") for each in row] for name, *row in rows},
        }


@cache
def shipped_model() -> ConfidenceModel:
    return load_model(SHIPPED)


def load_model(file: Path) -> ConfidenceModel:
    try:
        row = json.loads(file.read_text())
        columns = [row["features"][name] for name in FEATURES]
        weights, means, scales = (tuple(float(each[i]) for each in columns) for i in range(3))
        return ConfidenceModel(weights, means, scales, float(row["bias"]), float(row["threshold"]))
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise ModelCorruptError(
            f"{file}: not the weights of the confidence ({error!r}); fit them: orienteer train confidence"
        ) from None


def features(session: Session) -> Floats:
    """Of a session that found something: [features]

    answer             log of the votes for the answer over those for any other
    odds               the share of the passages' odds, PS / (1 - PS), that passages with this answer have
    ps, span           of the answer's passage: logit PS, log P(place)
    question covered   share of the question's words, stop words aside, that the passage has
    kind fits, …       1 where the answer is, or is not, of the kind that the question asks for
    """
    seen, top = session.seen, session.best[0]
    ps = np.clip([each.reading.score for each in seen], _LEAST, 1 - _LEAST)
    span = np.clip([each.reading.span for each in seen], _LEAST_SPAN, 0)
    same = np.array([_same(each.reading.answer, top.reading.answer) for each in seen])
    votes, odds = ps * np.exp(span), ps / (1 - ps)
    place = next(i for i, each in enumerate(seen) if each.passage.id == top.passage.id)
    same[place] = True  # also where the reader gives no words
    question = _words(session.question.question)
    asked_for = [word for word in question if not is_stop_word(word)] or question
    text = set(_words(f"{top.passage.title} {top.passage.text}"))
    fits = _kind_fits(question, top.reading.answer)
    return np.array(
        [
            np.log((votes[same].sum() + _LEAST_VOTE) / (votes[~same].sum() + _NO_ANSWER)),
            odds[same].sum() / odds.sum(),
            np.log(ps[place] / (1 - ps[place])),
            span[place],
            sum(word in text for word in asked_for) / max(1, len(asked_for)),
            fits is True,
            fits is False,
        ],
        np.float64,
    )


def session_at(session: Session, step: int) -> Session:
    """The session as it was after this step."""
    seen = tuple(each for each in session.seen if each.step <= step)
    ids = session.steps[step].best
    by_id = {each.passage.id: each for each in seen}
    return replace(session, steps=session.steps[: step + 1], seen=seen, best=tuple(by_id[id] for id in ids))


def fit(rows: Floats, right: Sequence[bool], groups: Sequence[object], pull: float = 3.0) -> ConfidenceModel:
    """Logistic regression on standardised features, with a pull to zero; rows are [sessions, features].

    Args:
      right: whether the session's answer was right.
      groups: the question of each row; rows of one question count as one together.
      pull: strength of the pull, as so many invented sessions.
    """
    means, scales = rows.mean(0), rows.std(0)
    scales[scales < 1e-6] = 1.0  # a feature that is the same everywhere
    sizes: dict[object, int] = {}
    for group in groups:
        sizes[group] = sizes.get(group, 0) + 1
    weights = np.array([1 / sizes[group] for group in groups])
    design = np.column_stack([(rows - means) / scales, np.ones(len(rows))])
    # Invented rows pull each weight to zero: one on either side, right and wrong alike.
    invented = np.repeat(np.column_stack([np.eye(rows.shape[1]), np.zeros(rows.shape[1])]), 2, 0)
    theta = likeliest(
        np.concatenate([design, invented]),
        np.concatenate([np.asarray(right, np.float64), np.tile([0.0, 1.0], rows.shape[1])]),
        [0.0] * design.shape[1],
        np.concatenate([weights, np.full(len(invented), pull)]),
    )
    return ConfidenceModel(
        tuple(map(float, theta[:-1])), tuple(map(float, means)), tuple(map(float, scales)), float(theta[-1]), 0.0
    )


def _same(one: str, other: str) -> bool:
    """Whether one answer stands in the other."""
    first, second = match_form(one), match_form(other)
    return bool(first.strip()) and bool(second.strip()) and (first in second or second in first)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _kind_fits(question: Sequence[str], answer: str) -> bool | None:
    """Whether the answer is of the kind that the question's words ask for; None where they do not tell."""
    first, rest = (question[0] if question else ""), " ".join(question)
    if first == "when" or re.search(
        r"\bhow (many|much|long|old|tall|far|high|big|large)\b|\bwhat (year|date|day)\b", rest
    ):
        return _NUMBER.search(answer.lower()) is not None
    if first in ("who", "whose", "whom"):
        return bool(re.search(r"\b[A-Z]", answer)) and not answer[:1].isdigit()
    if first == "where":
        return bool(re.search(r"\b[A-Z]", answer))
    return None
