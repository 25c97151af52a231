"""Faults: every one ends in success after another attempt, or in one clear error; and no secret is ever written."""

from __future__ import annotations

import base64
import logging
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from orienteer.bundled import bundled_passages
from orienteer.engine.adapters.opensearch import OpenSearchEngine, ServiceSettings
from orienteer.engine.adapters.opensearch.bulk_load import load
from orienteer.engine.adapters.opensearch.retry import CircuitBreaker, Retry
from orienteer.engine.adapters.opensearch.service import Service
from orienteer.engine.adapters.opensearch.settings import Secret, read_address
from orienteer.errors import (
    CircuitOpenError,
    ServiceError,
    ServiceRefusedError,
    ServiceUnavailableError,
)
from orienteer.query import Query, Refinement

SHORT, MANY = 1.5, 20  # seconds until a request is given up; attempts
TRANSIENT = ["slow", "429", "503", "drop", "partial", "timed_out", "html", "json", "some"]
QUERIES = [Query("which rover landed on mars"), Query("the comet of 1986"), Query("who built the bridge")]
SECRET, USER = "s3cret-passphrase", "somebody"
BASIC = "Basic " + base64.b64encode(f"{USER}:{SECRET}".encode()).decode()


def retry(attempts: int = 4, failures: int = 100) -> Retry:
    return Retry(attempts, CircuitBreaker(failures), lambda seconds: None, seed=1)


def opened(double: Any, attempts: int = 4, failures: int = 100, kind: str = "", **settings: Any) -> OpenSearchEngine:
    """Only for a slow service the timeout is short; then a busy machine may cost some attempts too."""
    timeout = SHORT if kind == "slow" else 600
    made = ServiceSettings(timeout=timeout, attempts=attempts, **settings)
    return OpenSearchEngine(Service(read_address(f"{double.base}/passages"), made, None, retry(attempts, failures)))


@pytest.fixture(scope="module", params=["opensearch-3", "elasticsearch-9"])
def double(request, start) -> Any:
    if request.param.startswith("elasticsearch"):
        pytest.importorskip("elasticsearch")
    double = start(request.param)
    service = Service(read_address(f"{double.base}/passages"), ServiceSettings(timeout=600))
    load(service, bundled_passages()[:300], shards=2)
    return double


@pytest.fixture(autouse=True)
def no_faults_left(request) -> Any:
    yield
    if "double" in request.fixturenames:
        request.getfixturevalue("double").faults.clear()


@pytest.mark.parametrize("kind", TRANSIENT)
def test_a_fault_that_passes_changes_no_result(double, kind) -> None:
    from double import Fault

    engine = opened(double, MANY, kind=kind)
    refinements = [Refinement("+", "contents", term) for term in ("mars", "comet", "river", "the")]
    wanted = engine.search_many(QUERIES, 5), engine.refine(QUERIES[0], refinements, 5)
    assert any(wanted[0])
    double.faults = [Fault(kind, times=2)]
    assert (engine.search_many(QUERIES, 5), engine.refine(QUERIES[0], refinements, 5)) == wanted
    assert double.faults[0].times == 0


@pytest.mark.parametrize("path", ["_mget", "/passages"])
@pytest.mark.parametrize("kind", ["slow", "429", "503", "drop", "html", "json"])
def test_a_fault_that_passes_changes_no_passage_and_no_opening(double, path, kind) -> None:
    from double import Fault

    passages = bundled_passages()[:3]
    double.faults = [Fault(kind, times=2, path=path)]
    engine = opened(double, MANY, kind=kind)
    assert engine.passages([passage.id for passage in passages]) == passages
    assert double.faults[0].times == 0


@pytest.mark.parametrize("kind", TRANSIENT)
def test_a_fault_that_stays_is_one_clear_error(double, kind) -> None:
    from double import Fault

    attempts = 4 if kind == "slow" else 2
    engine = opened(double, attempts, kind=kind)
    double.faults = [Fault(kind, times=50)]
    with pytest.raises(ServiceUnavailableError, match=f"in {attempts} attempts; the last gave: ") as caught:
        engine.search_many(QUERIES, 5)
    assert "\n" not in str(caught.value)
    double.faults = []
    assert (opened(double) if kind == "slow" else engine).search_many(QUERIES, 5)


def test_a_service_that_is_gone_is_not_asked_for_a_while(double) -> None:
    from double import Fault

    engine = opened(double, attempts=2, failures=4)
    double.faults = [Fault("drop", times=50)]
    errors = []
    for _ in range(4):
        with pytest.raises(ServiceUnavailableError) as caught:
            engine.search(QUERIES[0], 5)
        errors.append(type(caught.value))
    assert errors == [ServiceUnavailableError, ServiceUnavailableError, CircuitOpenError, CircuitOpenError]
    assert double.faults[0].times == 46


def test_a_port_where_nobody_listens_is_named() -> None:
    pytest.importorskip("opensearchpy", reason="needs opensearch-py: pip install 'orienteer[opensearch]'")
    service = Service(read_address("http://127.0.0.1:9/passages"), ServiceSettings(attempts=2), None, retry(2))
    with pytest.raises(ServiceUnavailableError, match=r"127\.0\.0\.1:9/passages in 2 attempts.*no connection"):
        OpenSearchEngine(service)


def test_no_session_is_lost_to_faults(double) -> None:
    """Sessions played through a service that fails at every third request are those played without a fault."""
    from double import Fault
    from test_opensearch_engine import Reader

    from orienteer.agents import make_agent
    from orienteer.bundled import bundled_questions
    from orienteer.session import Environment, Settings, record, run_sessions

    def played(engine: OpenSearchEngine) -> list[Any]:
        entry = make_agent("prf-idf-t", engine, Settings(steps=4))
        environment = Environment(engine, Reader(), entry.settings)
        run = run_sessions(environment, entry.agent, bundled_questions("train")[:3])
        return [record(session, environment, entry.name).steps for session in run.sessions]

    wanted = played(opened(double))
    double.faults = [Fault(kind, skip=2, path="_m") for kind in [*TRANSIENT, "503", "drop"]]
    assert played(opened(double, MANY, kind="slow")) == wanted
    assert sum(fault.times == 0 for fault in double.faults) > 4


# Secrets


def every_log(caplog: pytest.LogCaptureFixture) -> Sequence[str]:
    return [record.getMessage() + str(record.args) + str(record.exc_info) for record in caplog.records]


@pytest.fixture
def loud(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Every logger of the process at its loudest, those that keep to themselves included."""
    caplog.set_level(logging.DEBUG)
    names = [name for name in logging.root.manager.loggerDict if "elastic" in name or "search" in name]
    for name in [*names, "opensearch", "opensearchpy.trace", "elastic_transport.node", "urllib3"]:
        logger = logging.getLogger(name)
        logger.setLevel(logging.DEBUG)
        logger.propagate = True
    return caplog


@pytest.mark.parametrize("flavour", ["opensearch-3", "elasticsearch-9"])
@pytest.mark.parametrize("way", ["basic", "key"])
def test_no_credential_is_in_any_log_or_error(start, loud, capfd, flavour, way) -> None:
    if flavour.startswith("elasticsearch"):
        pytest.importorskip("elasticsearch")
    from double import Fault

    double = start(flavour, credentials=BASIC if way == "basic" else f"ApiKey {SECRET}")
    given: dict[str, Any] = (
        {"user": USER, "password": Secret(SECRET)} if way == "basic" else {"api_key": Secret(SECRET)}
    )
    service = Service(read_address(f"{double.base}/passages"), ServiceSettings(**given))
    load(service, bundled_passages()[:20])
    engine = opened(double, **given)
    assert engine.search(Query("the river of a lake"), 3)
    said = []
    for kind in [*TRANSIENT, "echo"]:
        double.faults = []
        engine = opened(double, kind=kind, **given)
        double.faults = [Fault(kind, times=9)]
        with pytest.raises(ServiceError) as caught:
            engine.search(Query("river"), 3)
        said += [str(caught.value), repr(caught.value), repr(engine), repr(caught.getrepr(showlocals=True))]
    double.faults = []
    wrong = {name: "wrong" if name == "user" else Secret("wr0ng-" + SECRET) for name in given}
    with pytest.raises(ServiceRefusedError, match="refuses") as caught:
        opened(double, **wrong)
    said += [str(caught.value), *every_log(loud), *capfd.readouterr()]
    assert len(every_log(loud)) > 20
    for text in said:
        assert SECRET not in text
        assert BASIC.split()[1] not in text


def test_wrong_credentials_are_one_clear_error_without_a_second_try(start) -> None:
    double = start(credentials=BASIC)
    with pytest.raises(ServiceRefusedError, match=r"refuses \(401\).*sent: none; set ORIENTEER_SEARCH_API_KEY"):
        opened(double)
    assert len(double.requests("/passages")) == 1


# TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(folder / "key"), "-out", str(folder / "cert")]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs the program openssl to make a certificate")
    return folder / "cert", folder / "key"


@pytest.mark.parametrize("flavour", ["opensearch-3", "elasticsearch-9"])
def test_a_certificate_is_trusted_only_when_it_is_named(start, certificate, flavour) -> None:
    if flavour.startswith("elasticsearch"):
        pytest.importorskip("elasticsearch")
    double = start(flavour, certificate=certificate, credentials=BASIC)
    given = {"ORIENTEER_SEARCH_USER": USER, "ORIENTEER_SEARCH_PASSWORD": SECRET}
    address = read_address(f"{double.base}/passages")
    trusting = ServiceSettings.from_environment({**given, "ORIENTEER_SEARCH_CA": str(certificate[0])})
    load(Service(address, trusting), bundled_passages()[:20])
    assert OpenSearchEngine(Service(address, trusting)).search(Query("river lake"), 3) is not None
    with pytest.raises(ServiceRefusedError, match=r"no trusted connection .* ORIENTEER_SEARCH_CA"):
        OpenSearchEngine(Service(address, ServiceSettings.from_environment(given)))
