"""Who may ask, and how much: token, host, origin, body."""

from __future__ import annotations

import logging

import pytest
from fastapi.testclient import TestClient
from serving_world import MakeClient
from typer.testing import CliRunner

from orienteer.cli import app
from orienteer.commands.serving import _EscapingFormatter, check_address
from orienteer.serve import Limits
from orienteer.serve.errors import TokenNeededError
from orienteer.serve.security import HEADERS

TOKEN = "correct-horse-battery"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "example.org"])
def test_an_address_that_others_can_reach_needs_a_token(host: str) -> None:
    with pytest.raises(TokenNeededError, match="a token is needed"):
        check_address(host, "")
    check_address(host, TOKEN)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.0.0.9"])
def test_loopback_needs_none(host: str) -> None:
    check_address(host, "")


def test_serve_on_all_addresses_without_a_token_does_not_start() -> None:
    result = CliRunner().invoke(app, ["serve", "--host", "0.0.0.0"], env={"ORIENTEER_TOKEN": ""})
    assert result.exit_code != 0
    assert isinstance(result.exception, TokenNeededError)


def test_with_a_token_nothing_but_the_page_and_the_probes_is_open(make_client: MakeClient) -> None:
    client = make_client(token=TOKEN)
    for path in ("/api/about", "/api/sessions", "/metrics", "/api/openapi.json"):
        refused = client.get(path)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"] == "Bearer"
        assert client.get(path, headers={"authorization": "Bearer wrong"}).status_code == 401
        assert client.get(path, headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    for path in ("/", "/page/app.js", "/health", "/ready"):
        assert client.get(path).status_code == 200


def test_a_page_of_another_site_may_not_ask(client: TestClient) -> None:
    refused = client.post("/api/search", json={"query": "lamp"}, headers={"origin": "http://evil.example"})
    assert refused.status_code == 403
    same_origin = client.post("/api/search", json={"query": "lamp"}, headers={"origin": "http://127.0.0.1"})
    assert same_origin.status_code == 200


def test_a_malformed_origin_is_refused_not_a_failure(client: TestClient) -> None:
    for origin in (b"http://[::1", b"http://[", b"null", b"//", b"http://a]b/", b"", b"\xff", b"http://127.0.0.1@evil"):
        answer = client.get("/health", headers={"origin": origin})
        assert answer.status_code == 403
        assert answer.json()["kind"] == "OriginError"


def test_refusals_and_failures_carry_the_security_headers(make_client: MakeClient) -> None:
    client = make_client(token=TOKEN, limits=Limits(body=100))
    token = {"authorization": f"Bearer {TOKEN}"}
    client.app.add_api_route("/fails", _fail)  # type: ignore[attr-defined]
    answers = {
        401: client.get("/api/about"),
        403: client.get("/api/about", headers={"origin": "http://evil.example"}),
        413: client.post("/api/search", content=b"x" * 200, headers=token),
        404: client.get("/nowhere", headers=token),
        405: client.request("BREW", "/api/about", headers=token),
        422: client.post("/api/search", json={}, headers=token),
        500: client.get("/fails", headers=token),
    }
    assert {status: answer.status_code for status, answer in answers.items()} == {each: each for each in answers}
    for answer in answers.values():
        assert HEADERS.items() <= dict(answer.headers).items()
    assert "secret detail" not in answers[500].text


def _fail() -> None:
    raise RuntimeError("secret detail")


def test_a_length_of_thousands_of_digits_is_refused(client: TestClient) -> None:
    headers = {"content-length": "1" * 5000, "content-type": "application/json"}
    assert client.post("/api/search", content=b"{}", headers=headers).status_code == 413


def test_metrics_of_invented_methods_are_one_series(client: TestClient) -> None:
    for number in range(20):
        client.request(f"BREW{number}", f"/nowhere/{number}")
    metrics = client.get("/metrics").text
    assert "BREW" not in metrics
    assert 'orienteer_requests_total{method="other",route="other",status="404"} 20.0' in metrics


def test_the_access_log_has_one_line_a_request_and_no_control_character(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "orienteer.access"):
        client.get("/x%0a127.0.0.1%20%22GET%20/admin%22%20200%1b]0;title%07%c2%9b31m%e2%80%ae")
    [line] = [record.getMessage() for record in caplog.records if record.name == "orienteer.access"]
    assert line.isprintable()
    assert line.isascii()


def test_a_log_line_with_control_characters_is_escaped_whoever_wrote_it() -> None:
    record = logging.LogRecord("x", logging.WARNING, "", 0, "a %s", ("\x1b]0;title\x07\nb\x9b31m",), None)
    assert _EscapingFormatter("%(message)s").format(record).isprintable()


def test_a_form_of_another_site_is_no_json(client: TestClient) -> None:
    refused = client.post("/api/search", content=b'{"query": "lamp"}', headers={"content-type": "text/plain"})
    assert refused.status_code == 422


def test_another_host_name_on_loopback_is_refused(client: TestClient) -> None:
    assert client.get("/api/about", headers={"host": "rebound.example"}).status_code == 400
    for host in ("localhost:8080", "127.0.0.1:1", "[::1]:8080"):
        assert client.get("/api/about", headers={"host": host}).status_code == 200


def test_a_body_that_is_too_large_is_refused_also_where_its_size_is_not_declared(make_client: MakeClient) -> None:
    client = make_client(limits=Limits(body=1000))
    large = b'{"query": "' + b"a" * 2000 + b'"}'
    headers = {"content-type": "application/json"}
    assert client.post("/api/search", content=large, headers=headers).status_code == 413
    assert client.post("/api/search", content=iter([large[:600], large[600:]]), headers=headers).status_code == 413


def test_a_question_that_is_too_long_is_refused(make_client: MakeClient) -> None:
    client = make_client(limits=Limits(question=50))
    refused = client.post("/api/sessions", json={"question": "lamp " * 20})
    assert refused.status_code == 422
    assert "50" in refused.json()["message"]
