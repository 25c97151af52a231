"""TLS and basic authentication by a real nginx before a real server: one clear error each, and no secret in it."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orienteer.bundled import bundled_passages
from orienteer.engine.adapters.opensearch import OpenSearchEngine, ServiceSettings
from orienteer.engine.adapters.opensearch.bulk_load import load
from orienteer.engine.adapters.opensearch.service import Service
from orienteer.engine.adapters.opensearch.settings import Secret, read_address
from orienteer.errors import ServiceRefusedError
from orienteer.query import Query

USER, PASSWORD = "reader", "a-very-s3cret-password"
UNPACKED = Path(__file__).resolve().parents[3] / ".cache" / "nginx" / "usr" / "sbin" / "nginx"

_AUTHORITY = """
[ca]
default_ca = own
[own]
new_certs_dir = {folder}
database = {folder}/issued
serial = {folder}/serial
default_md = sha256
policy = any
copy_extensions = copy
x509_extensions = own_extensions
[own_extensions]
basicConstraints = CA:TRUE
[any]
commonName = supplied
"""

_NGINX = """
{user}
daemon off;
worker_processes 1;
pid {folder}/pid;
error_log {folder}/error.log info;
events {{}}
http {{
  access_log {folder}/access.log;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  client_max_body_size 100m;
  server {{
    listen 127.0.0.1:{port} ssl;
    ssl_certificate {folder}/cert; ssl_certificate_key {folder}/key;
    location / {{
      auth_basic "search"; auth_basic_user_file {folder}/users;
      proxy_pass {upstream};
      proxy_set_header Authorization "";
    }}
  }}
}}
"""


@pytest.fixture
def before(url: str, tmp_path: Path) -> Iterator[Callable[..., tuple[str, Path]]]:
    """Starts nginx before the server with a certificate for a host, good from one day to another."""
    program = shutil.which("nginx") or (str(UNPACKED) if UNPACKED.is_file() else None)
    if program is None or shutil.which("openssl") is None:
        pytest.skip("needs nginx and openssl: apt install nginx openssl")
    running: list[subprocess.Popen[bytes]] = []

    def start(host: str = "localhost", last_day: str = "20991231") -> tuple[str, Path]:
        folder = tmp_path / f"nginx-{len(running)}"
        folder.mkdir()
        certify(folder, host, last_day)
        hashed = subprocess.run(
            ["openssl", "passwd", "-apr1", PASSWORD], capture_output=True, text=True, check=True
        ).stdout.strip()
        (folder / "users").write_text(f"{USER}:{hashed}\n")
        user = "user root;" if os.geteuid() == 0 else ""  # else its workers may not read the folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        (folder / "nginx.conf").write_text(_NGINX.format(folder=folder, port=port, upstream=url, user=user))
        errors = (folder / "stderr").open("wb")
        running.append(subprocess.Popen([program, "-p", str(folder), "-c", str(folder / "nginx.conf")], stderr=errors))
        wait_for(port, folder)
        return f"https://localhost:{port}", folder

    yield start
    for process in running:
        process.terminate()
        process.wait()


def certify(folder: Path, host: str, last_day: str) -> None:
    (folder / "authority").write_text(_AUTHORITY.format(folder=folder))
    (folder / "issued").write_text("")
    (folder / "serial").write_text("01\n")
    request = ["req", "-new", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={host}", "-keyout", "key", "-out", "csr"]
    sign = ["ca", "-batch", "-selfsign", "-notext", "-config", "authority", "-in", "csr", "-keyfile", "key"]
    sign += ["-startdate", "20200101000000Z", "-enddate", f"{last_day}000000Z", "-out", "cert"]
    for command in ([*request, "-addext", f"subjectAltName=DNS:{host}"], sign):
        subprocess.run(["openssl", *command], cwd=folder, check=True, capture_output=True)


def wait_for(port: int, folder: Path) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError((folder / "stderr").read_text())


def service(address: str, folder: Path, password: Secret) -> Service:
    settings = ServiceSettings(user=USER, password=password, ca=str(folder / "cert"), timeout=120)
    return Service(read_address(f"{address}/behind-nginx"), settings)


def refusal(address: str, folder: Path, password: Secret) -> str:
    with pytest.raises(ServiceRefusedError) as caught:
        OpenSearchEngine(service(address, folder, password))
    assert PASSWORD not in repr(caught.getrepr(showlocals=True))
    return str(caught.value)


def test_tls_and_a_password_through_nginx(before, caplog) -> None:
    caplog.set_level(logging.DEBUG)
    address, folder = before()
    made = service(address, folder, Secret(PASSWORD))
    load(made, bundled_passages()[:40], replicas=0)
    assert OpenSearchEngine(made).search(Query("the river"), 3)
    said = refusal(address, folder, Secret("wr0ng-" + PASSWORD))
    assert "refuses (401)" in said
    assert "credentials sent: the user 'reader'" in said
    logs = [caplog.text, said, *(each.read_text() for each in folder.glob("*.log"))]
    assert not any(PASSWORD in each for each in logs)
    made.ask("DELETE", "")


def test_an_expired_certificate_is_one_clear_error(before) -> None:
    address, folder = before(last_day="20200102")
    assert refusal(address, folder, Secret(PASSWORD)).endswith("its certificate has expired; renew it there")


def test_a_certificate_for_another_host_is_one_clear_error(before) -> None:
    address, folder = before(host="other.example")
    assert "its certificate is for another host" in refusal(address, folder, Secret(PASSWORD))


def test_a_certificate_of_nobody_we_know_is_one_clear_error(before, tmp_path) -> None:
    address, _ = before()
    _, other = before()
    assert "name the file of its certificate authority in ORIENTEER_SEARCH_CA" in refusal(
        address, other, Secret(PASSWORD)
    )
