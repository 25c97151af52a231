"""What the passages of a session say together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from lexical_reader import LexicalReader
from small_world import QUESTIONS, Wanderer

from orienteer.data.passage import Passage
from orienteer.engine import EmbeddedEngine
from orienteer.reader.protocol import Reading
from orienteer.session import (
    Environment,
    SeenPassage,
    Settings,
    best_of,
    check_replay,
    from_line,
    record,
    run_sessions,
    to_line,
)  # fmt: skip
from orienteer.session.answer_voting import SHIPPED, VOTERS, Agreement, Weights, cross_judged, features, fit
from orienteer.session.settings import Order

ORDERS: tuple[Order, ...] = ("ps", "agreement")


def seen(id: str, text: str, answer: str, ps: float, step: int = 1, relevant: bool | None = None) -> SeenPassage:
    start = max(0, text.find(answer))
    reading = Reading(ps, float(np.log(ps / (1 - ps))), answer, start, start + len(answer))
    return SeenPassage(Passage(id, "", text), reading, step, 1, relevant)


def some() -> list[SeenPassage]:
    return [
        seen("a", "The lamp of Ardle was lit by Maren Holt.", "Maren Holt", 0.5, 0),
        seen("b", "A storm put out the lamp of Ardle.", "A storm", 0.6),
        seen("c", "In 1871 Maren Holt came to Ardle.", "1871", 0.4),
        seen("d", "Maren Holt, keeper of the lamp.", "Maren Holt", 0.3),
    ]


def test_votes_are_the_share_of_ps_whose_answers_stand_in_a_passage() -> None:
    total = 0.5 + 0.6 + 0.4 + 0.3
    found = features(some())
    assert found[:, 1] == pytest.approx([0.8 / total, 0.6 / total, 1.2 / total, 0.8 / total])
    assert found[:, 0] == pytest.approx([np.log(p / (1 - p)) for p in (0.5, 0.6, 0.4, 0.3)])
    assert found[:, 3].tolist() == [1, 0, 0, 0]


def test_support_is_the_ps_of_the_others_in_which_an_answer_stands() -> None:
    assert np.expm1(features(some())[:, 2]) == pytest.approx([0.4 + 0.3, 0, 0, 0.5 + 0.4])


def test_an_answer_is_whole_words_and_nothing_is_no_answer() -> None:
    rows = [seen("a", "The son of Holt.", "son", 0.5), seen("b", "Two persons.", "", 0.5), seen("c", "–", "–", 0.5)]
    assert features(rows)[:, 1] == pytest.approx([1 / 3, 0, 0])


def test_only_the_passages_of_the_highest_ps_vote() -> None:
    many = [seen(f"p{n}", f"word{n} holt", f"word{n}", 0.9 - n / 100) for n in range(VOTERS + 5)]
    assert (features(many)[:, 1] > 0).tolist() == [n < VOTERS for n in range(VOTERS + 5)]


def test_by_agreement_witnesses_of_one_answer_come_before_a_louder_one_that_stands_alone() -> None:
    assert [each.passage.id for each in best_of(some(), "ps", 1)] == ["b"]
    assert [each.passage.id for each in best_of(some(), "agreement", 1)] == ["a"]
    assert best_of([], "agreement") == ()
    assert len(best_of(some(), "agreement", 2)) == 2


def test_equal_passages_stay_as_first_seen() -> None:
    equal = [seen(id, "Maren Holt", "Maren Holt", 0.5) for id in "xyz"]
    assert [each.passage.id for each in best_of(equal, "agreement")] == ["x", "y", "z"]


ALONE = Weights(1.0, 0.0, 0.0, 0.0, 0.0)


def test_without_a_weight_for_the_others_it_is_the_order_by_ps() -> None:
    assert ALONE(features(some())) == pytest.approx([0.5, 0.6, 0.4, 0.3])
    assert Agreement(ALONE, ALONE).order(some()) == [1, 0, 2, 3]
    assert all(part.ps > 0 and part.votes > 0 and part.support > 0 for part in SHIPPED)


def test_what_a_passage_gives_counts_more_than_what_it_holds() -> None:
    """As in the score."""
    asked_alone = Weights(0, 0, 0, 60.0, -30.0)  # certain of what the question found, and that all else is wrong
    found_later = Weights(0, 0, 0, -60.0, 30.0)
    pair = [seen("a", "x", "x", 0.5, step=0), seen("b", "x", "x", 0.5, step=1)]
    assert Agreement(holds=found_later, gives=asked_alone).order(pair) == [0, 1]
    assert Agreement(holds=asked_alone, gives=found_later).order(pair) == [1, 0]


def witnesses(ps: float) -> list[SeenPassage]:
    """Six of one answer, then one of another that is less likely."""
    six = [seen(f"w{n}", "Maren Holt lit it.", "Maren Holt", ps) for n in range(6)]
    return [*six, seen("other", "Jon Ardle did.", "Jon Ardle", 0.3)]


def test_the_last_place_goes_to_another_answer_where_the_first_may_be_wrong() -> None:
    doubtful, sure = (Agreement(ALONE, ALONE).order(witnesses(ps)) for ps in (0.4, 0.95))
    assert doubtful == [0, 1, 2, 3, 6]
    assert sure == [0, 1, 2, 3, 4]
    assert Agreement(ALONE, ALONE).order(witnesses(0.4), 1) == [0]
    assert len(Agreement(ALONE, ALONE).order(witnesses(0.4)[:3])) == 3


def drawn(count: int, truth: Agreement, seed: int = 0) -> list[list[SeenPassage]]:
    """Sessions whose passages are relevant and exact with the probabilities that `truth` gives them."""
    draw = np.random.default_rng(seed)
    sessions = []
    for _ in range(count):
        words = [f"w{draw.integers(4)}" for _ in range(8)]
        rows = [
            seen(f"p{n}", f"{word} {words[draw.integers(8)]}", word, float(draw.uniform(0.05, 0.9)), int(n > 3))
            for n, word in enumerate(words)
        ]
        told = features(rows)
        sessions.append([
            replace(each, relevant=bool(draw.random() < p), exact=bool(draw.random() < q))
            for each, p, q in zip(rows, truth.holds(told), truth.gives(told), strict=True)
        ])  # fmt: skip
    return sessions


@pytest.mark.long
def test_fitting_finds_the_weights_that_made_the_sessions() -> None:
    truth = Agreement(Weights(0.7, 4.0, 0.3, 0.5, -1.5), Weights(0.4, 2.0, 1.0, 0.0, -2.0))
    found = fit(drawn(3000, truth))
    assert np.array(found) == pytest.approx(np.array(truth), abs=0.35)


def test_what_it_is_worth_is_told_on_sessions_that_it_was_not_fitted_on() -> None:
    sessions = drawn(300, Agreement(*[Weights(0.2, 9.0, 0.0, 0.0, -2.0)] * 2))
    by_ps, by_agreement = cross_judged(sessions)
    assert by_agreement.ndcg > by_ps.ndcg + 3
    assert by_agreement.em > by_ps.em
    noise = drawn(60, Agreement(*[Weights(0.0, 0.0, 0.0, 0.0, 0.0)] * 2))
    assert cross_judged(noise)[1].ndcg < cross_judged(noise)[0].ndcg + 8
    assert cross_judged(sessions[:1])[0].top1 in (0.0, 100.0)


def test_the_order_changes_what_a_session_gives_and_not_what_an_agent_does(engine: EmbeddedEngine) -> None:
    plain, agreed = (Environment(engine, LexicalReader(), Settings(steps=6, order=order)) for order in ORDERS)
    ones, others = (run_sessions(each, Wanderer(), QUESTIONS).sessions for each in (plain, agreed))
    assert [[step.query for step in each.steps] for each in ones] == [[s.query for s in each.steps] for each in others]
    assert [each.seen for each in ones] == [each.seen for each in others]
    assert all(each.best == best_of(each.seen, "agreement") for each in others)
    assert [each.best for each in ones] != [each.best for each in others]


def test_a_record_in_this_order_replays(engine: EmbeddedEngine) -> None:
    environment = Environment(engine, LexicalReader(), Settings(steps=6, order="agreement"))
    for session in run_sessions(environment, Wanderer(), QUESTIONS).sessions:
        check_replay(from_line(to_line(record(session, environment, "wanderer"))), engine, LexicalReader())
