"""The files under docker/ name what exists: Docker itself is not needed to see that."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from orienteer.cli import app

ROOT = Path(__file__).parents[1]
COMPOSE = ROOT / "docker" / "compose.yml"


def services(file: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(file.read_text("utf-8"))["services"])


def parse(words: list[str]) -> None:
    """Raises where the command line would refuse the words; runs nothing."""
    group: Any = typer.main.get_command(app)
    command = group.get_command(typer.Context(group), words[0])
    command.make_context(words[0], words[1:])


def test_the_commands_of_the_compose_file_are_ours() -> None:
    parse(services(COMPOSE)["orienteer"]["command"])
    [shown] = re.findall(r"orienteer \\\n# +(.+)", COMPOSE.read_text("utf-8"))
    parse(shlex.split(shown))


@pytest.mark.parametrize("name", ["compose.yml", "compose.opensearch.yml"])
def test_every_port_is_published_on_loopback_only(name: str) -> None:
    ports = [port for service in services(COMPOSE.with_name(name)).values() for port in service.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_the_image_installs_extras_that_there_are_from_files_that_there_are() -> None:
    text = (ROOT / "docker" / "Dockerfile").read_text("utf-8")
    [extras] = re.findall(r"'\.\[([a-z,]+)\]'", text)
    known = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert set(extras.split(",")) <= set(known)
    copied = [name for line in re.findall(r"^COPY (.+)", text, re.M) for name in line.split()[:-1]]
    ignored = (ROOT / "docker" / "Dockerfile.dockerignore").read_text("utf-8")
    for name in copied:
        assert (ROOT / name).exists()
        assert f"!{name}\n" in ignored
