"""Options of commands, made from the fields of dataclasses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from orienteer.commands.options import with_options
from orienteer.errors import OrienteerError
from orienteer.training.config import described, option


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    files: tuple[Path, ...] = option("files to read")
    index: Path | None = option("where to search", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    base: str = option("where to start", "shipped", names=("--base", "--from"))
    read_cost: float = option("of a passage", 0.5, min=0.0, former=("--price",))
    layers: tuple[int, ...] = option("layers to keep", ())
    fast: bool = option("or slow", True)
    hidden: int = 7


def run(*arguments: str) -> tuple[list[object], str]:
    made: list[object] = []

    @with_options(Data, Config)
    def train(data: Data, config: Config) -> None:
        """Train it."""
        made.extend([data, config])

    app = typer.Typer()
    app.command()(train)
    result = CliRunner().invoke(app, list(arguments))
    if isinstance(result.exception, OrienteerError):
        raise result.exception
    return made, result.output


def test_what_is_not_given_has_the_default_of_its_field() -> None:
    assert run("--files", "a", "--files", "b")[0] == [Data(files=(Path("a"), Path("b"))), Config()]


def test_every_kind_of_field_is_read() -> None:
    given = ("--files", "a", "--index", "i", "--from", "b", "--read-cost", "2", "--layers", "0,2", "--no-fast")
    data, config = run(*given)[0]
    assert data == Data(files=(Path("a"),), index=Path("i"))
    assert config == Config(base="b", read_cost=2.0, layers=(0, 2), fast=False)


def test_a_former_name_still_works_and_prints_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    made, output = run("--files", "a", "--price", "3")
    assert made[1] == Config(read_cost=3.0)
    assert "--price is now called --read-cost" in output + capsys.readouterr().err


def test_help_shows_every_option_but_former_and_hidden_ones() -> None:
    _, shown = run("--help")
    for text in ("Train it.", "--files", "files to read", "--from", "--read-cost", "of a passage", "--no-fast"):
        assert text in shown
    assert "--price" not in shown
    assert "--hidden" not in shown


def test_numbers_that_are_none_and_numbers_out_of_range_are_refused() -> None:
    with pytest.raises(OrienteerError, match="--layers '0,x': expected numbers"):
        run("--files", "a", "--layers", "0,x")
    assert run("--files", "a", "--read-cost", "-1")[0] == []
    assert run()[0] == []


def test_a_configuration_is_described_without_paths() -> None:
    assert described(Config(base="/some/where/base"))["base"] == "base"
    assert described(Data(files=(Path("/a"),), index=Path("/b"))) == {}
