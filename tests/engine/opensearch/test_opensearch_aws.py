"""Requests signed for Amazon (SigV4) by opensearch-py's own signer; the signature is checked by hand."""

from __future__ import annotations

import hashlib
import hmac
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, quote, urlsplit

import pytest

from orienteer.engine.adapters.opensearch import ServiceSettings
from orienteer.engine.adapters.opensearch.service import Service
from orienteer.engine.adapters.opensearch.settings import read_address
from orienteer.errors import ServiceAddressError, ServiceRefusedError

KEY, SECRET, REGION = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "eu-central-1"


def digest(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def signature(method: str, path: str, headers: dict[str, str], body: bytes, signed: str, scope: str) -> str:
    """As Amazon's documentation of Signature Version 4 has it."""
    parts = urlsplit(path)
    query = "&".join(f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in sorted(parse_qsl(parts.query)))
    lines = "".join(f"{name}:{headers[name].strip()}\n" for name in signed.split(";"))
    payload = hashlib.sha256(body).hexdigest()
    assert headers["x-amz-content-sha256"] == payload
    request = "\n".join([method, quote(parts.path), query, lines, signed, payload])
    text = "\n".join(["AWS4-HMAC-SHA256", headers["x-amz-date"], scope, hashlib.sha256(request.encode()).hexdigest()])
    key = f"AWS4{SECRET}".encode()
    for part in scope.split("/"):
        key = digest(key, part)
    return digest(key, text).hex()


class Amazon(BaseHTTPRequestHandler):
    """Answers requests whose signature is right."""

    protocol_version = "HTTP/1.1"
    services: set[str]

    def log_message(self, *arguments: object) -> None:
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        kind, _, rest = headers.get("authorization", "").partition(" ")
        given = dict(part.strip().split("=", 1) for part in rest.split(",")) if rest else {}
        key, _, scope = given.get("Credential", "").partition("/")
        right = (
            kind == "AWS4-HMAC-SHA256" and key == KEY and scope.split("/")[1:2] == [REGION]
            and given["Signature"]
            == signature(self.command, self.path, headers, body, given["SignedHeaders"], scope)
        )  # fmt: skip
        self.services.add(scope.split("/")[2] if right else "none")
        answer = b'{"docs": [{"_id": "a", "found": true, "_source": {"text": "signed"}}]}' if right else b"{}"
        self.send_response(200 if right else 403)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


@pytest.fixture
def amazon() -> Iterator[tuple[str, set[str]]]:
    services: set[str] = set()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Here", (Amazon,), {"services": services}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://localhost:{server.server_port}/passages", services
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def no_keys_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("botocore", reason="needs botocore: pip install 'orienteer[aws]'")
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "PROFILE"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")


@pytest.mark.parametrize("service", ["es", "aoss"])
def test_requests_carry_a_signature_that_amazon_would_accept(amazon, monkeypatch, service) -> None:
    address, services = amazon
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    settings = ServiceSettings.from_environment(
        {"ORIENTEER_SEARCH_AWS_REGION": REGION, "ORIENTEER_SEARCH_AWS_SERVICE": service}
    )
    made = Service(read_address(address), settings)
    assert made.fetch(["a"], ["title", "text"]) == {"a": {"text": "signed"}}
    assert services == {service}


def test_a_wrong_key_is_one_clear_error_without_the_key(amazon, monkeypatch) -> None:
    address, _ = amazon
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another" + SECRET)
    made = Service(read_address(address), ServiceSettings(aws_region=REGION))
    with pytest.raises(ServiceRefusedError, match="refuses \\(403\\)") as caught:
        made.fetch(["a"], ["text"])
    assert SECRET not in str(caught.value)


def test_without_keys_it_says_where_they_are_looked_for(amazon) -> None:
    with pytest.raises(ServiceRefusedError, match="no AWS credentials; set AWS_ACCESS_KEY_ID"):
        Service(read_address(amazon[0]), ServiceSettings(aws_region=REGION))


def test_a_region_beside_a_user_or_another_client_is_refused(amazon) -> None:
    given = {"ORIENTEER_SEARCH_AWS_REGION": REGION, "ORIENTEER_SEARCH_API_KEY": "a"}
    with pytest.raises(ServiceAddressError, match="not both"):
        ServiceSettings.from_environment(given)
    with pytest.raises(ServiceAddressError, match="needs opensearch-py"):
        Service(read_address(amazon[0]), ServiceSettings(aws_region=REGION, client="elasticsearch"))
