"""Against real services: `make test-opensearch` starts them in Docker and names them. Not run elsewhere."""

from __future__ import annotations

import os
import random
import uuid
from collections.abc import Iterator

import pytest

from orienteer.bundled import bundled_engine, bundled_passages, bundled_questions
from orienteer.engine.adapters.opensearch import OpenSearchEngine, ServiceSettings
from orienteer.engine.adapters.opensearch.bulk_load import load
from orienteer.engine.adapters.opensearch.doctor import examine
from orienteer.engine.adapters.opensearch.service import Service
from orienteer.engine.adapters.opensearch.settings import read_address
from orienteer.engine.check import check_engine
from orienteer.engine.embedded.analysis import analyze
from orienteer.query import FIELDS, G4, Query, Refinement

SERVICES = os.environ.get("ORIENTEER_TEST_SERVICES", "").split()

pytestmark = pytest.mark.skipif(not SERVICES, reason="needs real services: make test-opensearch (with Docker)")


@pytest.fixture(scope="module", params=SERVICES or [""])
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    service = Service(
        read_address(f"{request.param}/orienteer-test-{uuid.uuid4().hex[:8]}"), ServiceSettings(timeout=60)
    )
    load(service, bundled_passages(), shards=3, replicas=0)
    yield service
    service.ask("DELETE", "")


def test_a_real_service_keeps_the_contract(service) -> None:
    check_engine(OpenSearchEngine(service), bundled_passages()[:60])


def test_a_real_service_gives_the_embedded_engines_results_to_the_bit(service, golden_passages, golden_answers) -> None:
    engine, embedded, rng = OpenSearchEngine(service), bundled_engine(), random.Random(1)
    words = [term for passage in bundled_passages() for term in analyze(passage.contents)]

    def refinement() -> Refinement:
        at = rng.randrange(len(words) - 2)
        term = " ".join(words[at : at + rng.choice([1, 1, 2])])
        return rng.choice(list(G4.refinements(rng.choice(FIELDS), term)))

    for question in bundled_questions("train")[:200]:
        query = Query(question.question, tuple(refinement() for _ in range(rng.randint(0, 4))))
        assert engine.search(query, 10) == list(embedded.search(query, 10)), str(query)
        candidates = [refinement() for _ in range(20)]
        assert engine.refine(query, candidates, 5) == [list(hits) for hits in embedded.refine(query, candidates, 5)]


def test_the_doctor_finds_a_real_service_fit(service) -> None:
    assert [finding for finding in examine(service, bundled_engine()) if finding.level != "good"] == []
