"""Schemathesis over the whole API: no request, however strange, brings the server down."""

from __future__ import annotations

from collections import Counter
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from lexical_reader import LexicalReader
from small_world import PASSAGES, QUESTIONS

from orienteer.engine import EmbeddedEngine, ReferenceEngine
from orienteer.evaluation import evaluate
from orienteer.serve import Limits, make_app
from orienteer.session import Settings

schemathesis = pytest.importorskip("schemathesis", reason="needs schemathesis")

SHORT, LONG = 400, 10_000
AT_ONCE = 20  # examples of an operation before the next has its turn
CHECKS = [
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance",
]  # fmt: skip


@pytest.fixture
def app(engine: EmbeddedEngine, tmp_path: Path) -> Any:
    """The workbench with all that it offers; small limits, so that strange requests stay quick."""
    folder = tmp_path / "evaluated"
    evaluate(
        ReferenceEngine(PASSAGES), LexicalReader(), QUESTIONS, ["bm25", "prf-idf-t"], folder,
        settings=Settings(steps=2), figures=False,
    )  # fmt: skip
    return make_app(
        {"lighthouses": engine}, LexicalReader(), tmp_path / "saved", evaluation=folder, hosts=["testserver"],
        limits=Limits(steps=6, sessions=200, saved=300, deadline=2.0),
    )  # fmt: skip


def examine(app: Any, requests: int) -> Counter[str]:
    """So many requests, spread over the operations, fitting the schema and not; answers must be as it tells."""
    schema = schemathesis.openapi.from_asgi("/api/openapi.json", app)
    operations = [result.ok() for result in schema.get_all_operations()]
    modes = schemathesis.GenerationMode
    # A request that fits the schema may still be refused: not every text is a query.
    checks = schemathesis.checks.CHECKS.get_by_names(CHECKS)
    answered: Counter[str] = Counter()
    ids = _known_sessions(schema)
    turns = [(operation, mode) for operation in operations for mode in (modes.POSITIVE, modes.NEGATIVE)]
    for number, (operation, mode) in enumerate(cycle(turns)):
        if sum(answered.values()) >= requests:
            return answered

        def one(case: Any) -> None:
            # Ids that nobody could guess are given in half of the cases: else no session would ever be touched.
            count = sum(answered.values())
            if case.path_parameters and "id" in case.path_parameters and count % 2 and case.method != "DELETE":
                case.path_parameters["id"] = ids[count % len(ids)]
            response = case.call()
            answered[f"{response.status_code}"] += 1
            case.validate_response(response, checks=checks)

        bounded = settings(
            max_examples=AT_ONCE, deadline=None, database=None, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        try:
            seed(number)(bounded(given(case=operation.as_strategy(generation_mode=mode))(one)))()
        except Unsatisfiable:
            continue  # an operation without parameters cannot be asked wrongly
    return answered


def _known_sessions(schema: Any) -> list[str]:
    operation = schema["/api/sessions"]["POST"]
    bodies = [{"question": question.question, "steps": 1} for question in QUESTIONS]
    return [operation.Case(body=body, media_type="application/json").call().json()["id"] for body in bodies]


def test_a_few_hundred_strange_requests_are_answered_as_described(app: Any) -> None:
    answered = examine(app, SHORT)
    assert sum(answered.values()) >= SHORT
    assert not [status for status in answered if status.startswith("5")]


@pytest.mark.slow
def test_ten_thousand_strange_requests_bring_no_server_error(app: Any) -> None:
    answered = examine(app, LONG)
    assert sum(answered.values()) >= LONG
    assert not [status for status in answered if status.startswith("5")]
    assert answered["200"] > LONG // 20
