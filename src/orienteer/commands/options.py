"""Command-line options made from the fields of frozen dataclasses: what is written there is not written again here."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer

from orienteer.commands.terminal import err
from orienteer.errors import OrienteerError

_NUMBERS, _FILES = tuple[int, ...], tuple[Path, ...]


def with_options(*configs: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes a command of a function that takes one instance of each of these dataclasses.

    Every field with a help text (`orienteer.training.config.option`) becomes an option of the same name, type and
    default. `tuple[int, ...]` is written as 0,2,5; `tuple[Path, ...]` is an option that may be repeated.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        parameters = [each for config in configs for each in _parameters(config)]

        def command(**values: Any) -> None:
            function(*(_made(config, values) for config in configs))

        command.__name__, command.__doc__ = function.__name__, function.__doc__
        command.__annotations__ = {each.name: each.annotation for each in parameters}
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return command

    return decorate


def _options(config: type) -> list[Field[Any]]:
    return [each for each in fields(config) if "help" in each.metadata]


def _parameters(config: type) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(config)
    for each in _options(config):
        more = dict(each.metadata)
        names, former = more.pop("names", ()), more.pop("former", ())
        kind: Any = hints[each.name]
        default: Any = inspect.Parameter.empty if each.default is MISSING else each.default
        if kind == _FILES:
            kind, default = (list[Path], default) if default is inspect.Parameter.empty else (list[Path] | None, None)
        elif kind == _NUMBERS:
            kind, default = str, ",".join(map(str, default))
        yield _parameter(each.name, kind, default, typer.Option(*names, **more))
        for name in former:
            plain = kind if type(None) in get_args(kind) else kind | None
            yield _parameter(_former(name), plain, None, typer.Option(name, hidden=True))


def _parameter(name: str, kind: Any, default: Any, option: Any) -> inspect.Parameter:
    annotation = Annotated[kind, option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _former(name: str) -> str:
    return "former" + name.replace("-", "_")


def _made(config: type, values: dict[str, Any]) -> Any:
    hints = get_type_hints(config)
    given = {each.name: values[each.name] for each in _options(config)}
    for each in _options(config):
        for name in each.metadata.get("former", ()):
            if values[_former(name)] is not None:
                err.print(f"{name} is now called --{each.name.replace('_', '-')}", style="dim")
                given[each.name] = values[_former(name)]
        if hints[each.name] == _NUMBERS:
            given[each.name] = _numbers(each.name, given[each.name])
        elif hints[each.name] == _FILES:
            given[each.name] = tuple(given[each.name] or ())
    return config(**given)


def _numbers(name: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(number) for number in text.split(",")) if text else ()
    except ValueError:
        raise OrienteerError(f"--{name} {text!r}: expected numbers with commas between, such as 0,2,5") from None
