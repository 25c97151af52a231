"""How many requests the frequencies of terms cost: no server and no double is needed to count them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orienteer.engine.adapters.opensearch.settings import ServiceSettings
from orienteer.engine.adapters.opensearch.statistics import Statistics


class Dictionaries:
    """Two shards whose dictionaries hold every term as often as it has letters; counts what is asked of them."""

    def __init__(self) -> None:
        self.settings, self.several = ServiceSettings(), False
        self.asked: list[int] = []

    def document_frequencies(self, field: str, terms: Sequence[str], shard: int) -> dict[str, int]:
        self.asked.append(len(terms))
        return {term: len(term) for term in terms}


def statistics() -> tuple[Any, Dictionaries]:
    service = Dictionaries()
    return Statistics(service, 2), service  # type: ignore[arg-type]


def test_the_terms_of_many_long_texts_cost_a_few_requests() -> None:
    """More of them than one request holds: those left over must not be asked for one by one."""
    known, service = statistics()
    terms = [f"term{number}" for number in range(40_000)]
    known.expect(terms)
    assert [known.frequency("contents", term) for term in terms] == [2 * len(term) for term in terms]
    assert len(service.asked) == 2 * 3
    assert sum(service.asked) == 2 * len(terms)


def test_terms_that_are_learned_together_bring_no_others() -> None:
    known, service = statistics()
    known.expect(["expected"])
    known.learn("title", ["a", "b", "a"])
    assert [known.frequency("title", term) for term in "ab"] == [2, 2]
    known.learn("title", ["a", "b"])
    assert service.asked == [2, 2]


def test_whoever_has_no_dictionary_to_read_is_served_all_the_same() -> None:
    known, service = statistics()
    service.settings = ServiceSettings(filter='{"match_all": {}}')
    bodies: list[Any] = []

    def search_many(searches: Sequence[Any]) -> list[Any]:
        bodies.extend(searches)
        return [{"hits": {"total": {"value": 7}}} for _ in searches]

    service.search_many = search_many  # type: ignore[attr-defined]
    known.learn("contents", ["a", "b"])
    assert [known.frequency("contents", term) for term in "ab"] == [7, 7]
    assert len(bodies) == 2
    assert service.asked == []
