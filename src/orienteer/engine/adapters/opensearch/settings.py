"""Where the service is and how to reach it: the address from the user, secrets from the environment only.

ORIENTEER_SEARCH_API_KEY                        an API key, or
ORIENTEER_SEARCH_USER, ORIENTEER_SEARCH_PASSWORD  a user of the service
ORIENTEER_SEARCH_CA                             file of certificates to trust
ORIENTEER_SEARCH_CLIENT_CERT, _CLIENT_KEY       files of a client certificate
ORIENTEER_SEARCH_VERIFY=0                       trust any certificate (for trials only)
ORIENTEER_SEARCH_FIELDS=contents=body+abstract^0.5,title=headline,text=body
ORIENTEER_SEARCH_FILTER                         JSON of a query that every search carries, as {"term": {"tenant": "a"}}
ORIENTEER_SEARCH_CLIENT                         auto, opensearch or elasticsearch
ORIENTEER_SEARCH_HOSTS=https://b:9200,https://c:9200  other nodes of the same cluster, for when the first is away
ORIENTEER_SEARCH_TIMEOUT, _ATTEMPTS, _CONCURRENCY, _BATCH
ORIENTEER_SEARCH_DEADLINE                       seconds for one call with all its attempts
ORIENTEER_SEARCH_BUDGET                         refinements that one session may ask for
ORIENTEER_SEARCH_SPLIT                          words of a piece, where documents are longer than passages
ORIENTEER_SEARCH_AWS_REGION, _AWS_SERVICE       sign requests for Amazon; keys from where its own tools have them
"""

from __future__ import annotations

import json
import os
import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal, NoReturn, TypeVar
from urllib.parse import quote, unquote, urlsplit

from orienteer.errors import ServiceAddressError

PREFIX = "ORIENTEER_SEARCH_"
ClientName = Literal["auto", "opensearch", "elasticsearch"]

_URL = re.compile(r"https?:/+", re.IGNORECASE)
_ILLEGAL = re.compile(r'[\\/*?"<>| ,#:A-Z]|^[-_+]')
Number = TypeVar("Number", int, float)


class Secret:
    """A text that shows itself to nobody who does not ask for it by name."""

    __slots__ = ("_text",)

    def __init__(self, text: str):
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not written down; let each process read its own environment")


@dataclass(frozen=True, slots=True)
class Address:
    """A service and an index of it."""

    base: str  # scheme, host, port and any path before the index
    index: str

    def __str__(self) -> str:
        return f"{self.base}/{self.index}"

    @property
    def path(self) -> str:
        return "/" + quote(self.index, safe="")


def is_address(text: str | Path) -> bool:
    return _URL.match(str(text)) is not None


def read_address(text: str | Path) -> Address:
    """`https://host:9200/index`; a `Path`, which makes one slash of two, is read as it was meant."""
    written = _URL.sub(lambda found: found[0].split(":")[0].lower() + "://", str(text), count=1)
    try:
        parts = urlsplit(written)
        port = parts.port
    except ValueError:
        raise ServiceAddressError(f"no address of an index: {_example()}") from None
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        raise ServiceAddressError(
            f"the address of {parts.hostname} holds a user or password, which shells and logs keep; "
            f"take it out and set {PREFIX}USER and {PREFIX}PASSWORD, or {PREFIX}API_KEY"
        )
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ServiceAddressError(f"{written!r} is no address of an index; {_example()}")
    *before, index = unquote(parts.path).rstrip("/").split("/")
    if not index:
        raise ServiceAddressError(f"{written!r} names no index; {_example()}")
    if _ILLEGAL.search(index) or index in (".", "..") or len(index.encode()) > 255:
        raise ServiceAddressError(
            f"{index!r} cannot name an index; use small letters, digits, - and _, and begin with a letter or digit"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = port or (443 if parts.scheme == "https" else 9200)
    return Address(f"{parts.scheme}://{host}:{port}{'/'.join(before)}", index)


def _example() -> str:
    return "write it as https://host:9200/index-name"


@dataclass(frozen=True, slots=True)
class FieldNames:
    """What an index calls the two searched fields, the stored text, and the place of a passage in the collection.

    Each of the first three may be several, `body+abstract^0.5`: the first decides how words become terms, and a word's
    score is the sum of its weighted scores in all of them.
    """

    contents: str = "contents"
    title: str = "title"
    text: str = "text"
    order: str = "orienteer_order"

    def of(self, name: str) -> str:
        """The first of the index's fields behind `contents` or `title`."""
        return self.weighted(name)[0][0]

    def weighted(self, name: str) -> list[tuple[str, float]]:
        """All of them, with their weights."""
        return _weighted(self.title if name == "title" else self.contents)

    @property
    def titles(self) -> list[str]:
        return [name for name, _ in _weighted(self.title)]

    @property
    def texts(self) -> list[str]:
        return [name for name, _ in _weighted(self.text)]

    @property
    def stored(self) -> list[str]:
        """Every field that a passage is made of."""
        return [*self.titles, *self.texts]


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """Everything but the address."""

    api_key: Secret | None = None
    user: str | None = None
    password: Secret | None = None
    ca: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    verify: bool = True
    client: ClientName = "auto"
    names: FieldNames = field(default_factory=FieldNames)
    timeout: float = 10.0  # seconds for one answer
    attempts: int = 6  # of one request; the waits between six add up to some eight seconds
    concurrency: int = 4  # requests under way at once
    batch: int = 64  # searches in one request
    hosts: tuple[str, ...] = ()  # other nodes of the same cluster
    deadline: float | None = None  # seconds for one request with all its attempts
    budget: int | None = None  # refinements that one session may ask for
    split: int | None = None  # words of a piece of a long document
    aws_region: str | None = None  # sign requests for Amazon's service in this region
    aws_service: str = "es"  # or aoss, the one without servers
    filter: str | None = None  # JSON of a query that a passage must match to be found, counted or read

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> ServiceSettings:
        given = {
            name.removeprefix(PREFIX): value
            for name, value in (os.environ if environment is None else environment).items()
            if name.startswith(PREFIX) and value
        }
        known = {
            "API_KEY",
            "USER",
            "PASSWORD",
            "CA",
            "CLIENT_CERT",
            "CLIENT_KEY",
            "VERIFY",
            "CLIENT",
            "FIELDS",
            "FILTER",
        }
        known |= {
            "AWS_REGION",
            "AWS_SERVICE",
            "SPLIT",
            "TIMEOUT",
            "ATTEMPTS",
            "CONCURRENCY",
            "BATCH",
            "HOSTS",
            "DEADLINE",
            "BUDGET",
        }
        if unknown := sorted(set(given) - known):
            raise ServiceAddressError(
                f"unknown setting {PREFIX}{unknown[0]} in the environment; known are {', '.join(sorted(known))}"
            )
        if ("USER" in given) != ("PASSWORD" in given):
            raise ServiceAddressError(f"{PREFIX}USER and {PREFIX}PASSWORD go together; only one of them is set")
        if "API_KEY" in given and "USER" in given:
            raise ServiceAddressError(f"set {PREFIX}API_KEY, or {PREFIX}USER and {PREFIX}PASSWORD, not both")
        if "AWS_REGION" in given and ("API_KEY" in given or "USER" in given):
            raise ServiceAddressError(f"set {PREFIX}AWS_REGION, or a user or API key, not both")
        for name in ("CA", "CLIENT_CERT", "CLIENT_KEY"):
            if name in given and not Path(given[name]).is_file():
                raise ServiceAddressError(f"{PREFIX}{name} names no file: {given[name]}")
        client = given.get("CLIENT", "auto")
        if client not in ("auto", "opensearch", "elasticsearch"):
            raise ServiceAddressError(f"{PREFIX}CLIENT is {client!r}; expected auto, opensearch or elasticsearch")
        if given.get("VERIFY", "1") not in ("0", "1"):
            raise ServiceAddressError(f"{PREFIX}VERIFY is {given['VERIFY']!r}; expected 0 or 1")
        return cls(
            api_key=Secret(given["API_KEY"]) if "API_KEY" in given else None,
            user=given.get("USER"),
            password=Secret(given["PASSWORD"]) if "PASSWORD" in given else None,
            ca=given.get("CA"),
            client_cert=given.get("CLIENT_CERT"),
            client_key=given.get("CLIENT_KEY"),
            verify=given.get("VERIFY", "1") == "1",
            client=client,  # type: ignore[arg-type]
            names=_field_names(given.get("FIELDS", "")),
            timeout=_number(given, "TIMEOUT", 10.0, 0.01),
            attempts=_number(given, "ATTEMPTS", 6, 1),
            concurrency=_number(given, "CONCURRENCY", 4, 1),
            batch=_number(given, "BATCH", 64, 1),
            hosts=tuple(_host(part) for part in given.get("HOSTS", "").split(",") if part.strip()),
            deadline=_number(given, "DEADLINE", 1.0, 0.01) if "DEADLINE" in given else None,
            budget=_number(given, "BUDGET", 1, 1) if "BUDGET" in given else None,
            split=_number(given, "SPLIT", 1, 20) if "SPLIT" in given else None,
            aws_region=given.get("AWS_REGION"),
            aws_service=given.get("AWS_SERVICE", "es"),
            filter=read_filter(given["FILTER"]) if "FILTER" in given else None,
        )

    def secrets(self) -> list[str]:
        """What must not be seen, in every form in which it travels."""
        plain = [secret.reveal() for secret in (self.api_key, self.password) if secret is not None]
        if self.user is not None and self.password is not None:
            plain.append(b64encode(f"{self.user}:{self.password.reveal()}".encode()).decode())
        return [text for text in plain if text]


def _host(text: str) -> str:
    """Another node's address, without an index: `https://host:9200`."""
    return read_address(text.strip().rstrip("/") + "/any").base


def read_filter(text: str) -> str:
    """A filter as the user writes it, checked: a JSON object with one kind of query in it."""
    try:
        query = json.loads(text)
    except ValueError as error:
        raise ServiceAddressError(f"the filter is no JSON ({error}); {_EXAMPLE_FILTER}") from None
    if not isinstance(query, dict) or len(query) != 1 or not isinstance(next(iter(query.values())), dict):
        raise ServiceAddressError(f"the filter is not one query; {_EXAMPLE_FILTER}")
    return json.dumps(query)


_EXAMPLE_FILTER = """write it as {"term": {"tenant": "a"}} or {"bool": {"filter": [ … ]}}"""


def _weighted(text: str) -> list[tuple[str, float]]:
    found = []
    for part in text.split("+"):
        name, _, weight = part.partition("^")
        found.append((name, float(weight or 1)))
    return found


def _check_weights(text: str) -> None:
    for part in text.split("+"):
        name, caret, weight = part.partition("^")
        try:
            fit = bool(name) and (not caret or 0 < float(weight) < 1e6)
        except ValueError:
            fit = False
        if not fit:
            raise ServiceAddressError(f"{PREFIX}FIELDS holds {text!r}; expected fields such as body+abstract^0.5")


def _field_names(text: str) -> FieldNames:
    known = [each.name for each in fields(FieldNames)]
    chosen: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, equals, theirs = pair.partition("=")
        if not equals or name not in known or not theirs:
            raise ServiceAddressError(
                f"{PREFIX}FIELDS holds {pair!r}; expected name=field with a name of {', '.join(known)}"
            )
        _check_weights(theirs)
        chosen[name] = theirs
    if "contents" in chosen:
        chosen.setdefault("text", chosen["contents"])
    return FieldNames(**chosen)


def _number(given: Mapping[str, str], name: str, default: Number, least: float) -> Number:
    try:
        number = type(default)(given.get(name, default))
    except ValueError:
        number = type(default)(-1)
    if not least <= number < 1e6:
        raise ServiceAddressError(f"{PREFIX}{name} is {given[name]!r}; expected a number of {least:g} or more")
    return number
