"""Addresses, settings and secrets: what is read, what is refused, and what is never shown."""

from __future__ import annotations

import copy
import pickle

import pytest

from orienteer.engine.adapters.opensearch.settings import FieldNames, Secret, ServiceSettings, is_address, read_address
from orienteer.errors import ServiceAddressError

SECRET = "correct horse battery staple"


@pytest.mark.parametrize(
    ("written", "base", "index"),
    [
        ("https://search.example.org:9200/passages", "https://search.example.org:9200", "passages"),
        ("https:/search.example.org/passages", "https://search.example.org:443", "passages"),
        ("HTTP://localhost/my-index/", "http://localhost:9200", "my-index"),
        ("https://example.org/behind/a/proxy/passages", "https://example.org:443/behind/a/proxy", "passages"),
        ("http://[::1]:9201/p.2", "http://[::1]:9201", "p.2"),
    ],
)
def test_an_address_is_a_service_and_an_index(written, base, index) -> None:
    address = read_address(written)
    assert (address.base, address.index) == (base, index)
    assert read_address(str(address)) == address


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ("http://localhost:9200", "names no index"),
        ("http://localhost:9200/", "names no index"),
        ("http://localhost:9200/a,b", "cannot name an index"),
        ("http://localhost:9200/_all", "cannot name an index"),
        ("http://localhost:9200/Passages", "small letters"),
        ("http://localhost:port/a", "write it as https://host:9200/index-name"),
        ("http://?a", "is no address"),
        ("http://localhost/a?pretty=1", "is no address"),
        ("ftp://localhost/a", "is no address"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused(written, complaint) -> None:
    with pytest.raises(ServiceAddressError, match=complaint):
        read_address(written)


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(ServiceAddressError, match="ORIENTEER_SEARCH_PASSWORD") as caught:
        read_address("https://somebody:hunter2@search.example.org/passages")
    assert "hunter2" not in str(caught.value)
    assert "somebody" not in str(caught.value)


def test_only_an_http_address_is_one() -> None:
    assert is_address("https://a/b")
    assert is_address("http:/a/b")
    assert not is_address("indexes/https/b")
    assert not is_address("/tmp/index")


def test_settings_come_from_the_environment() -> None:
    settings = ServiceSettings.from_environment(
        {
            "ORIENTEER_SEARCH_USER": "reader", "ORIENTEER_SEARCH_PASSWORD": SECRET, "ORIENTEER_SEARCH_TIMEOUT": "2.5",
            "ORIENTEER_SEARCH_BATCH": "8", "ORIENTEER_SEARCH_FIELDS": "contents=body, title=head", "HOME": "/",
        }
    )  # fmt: skip
    assert settings.user == "reader"
    assert settings.password == Secret(SECRET)
    assert (settings.timeout, settings.batch, settings.attempts, settings.verify) == (2.5, 8, 6, True)
    assert settings.names == FieldNames("body", "head", "body")


def test_a_field_may_be_several_with_weights() -> None:
    names = ServiceSettings.from_environment({"ORIENTEER_SEARCH_FIELDS": "contents=body+abstract^0.5,title=head"}).names
    assert names.weighted("contents") == [("body", 1.0), ("abstract", 0.5)]
    assert names.of("contents") == "body"
    assert names.stored == ["head", "body", "abstract"]


def test_other_nodes_a_deadline_a_budget_and_a_filter_come_from_the_environment() -> None:
    given = {"HOSTS": "http://b, https://c:9201/", "DEADLINE": "1.5", "BUDGET": "100", "FILTER": '{"term":{"a":1}}'}
    settings = ServiceSettings.from_environment({f"ORIENTEER_SEARCH_{name}": value for name, value in given.items()})
    assert settings.hosts == ("http://b:9200", "https://c:9201")
    assert (settings.deadline, settings.budget, settings.filter) == (1.5, 100, '{"term": {"a": 1}}')


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"USER": "a"}, "go together"),
        ({"API_KEY": "a", "USER": "b", "PASSWORD": "c"}, "not both"),
        ({"PASSWRD": "a"}, "unknown setting ORIENTEER_SEARCH_PASSWRD"),
        ({"CA": "/no/such/file"}, "names no file"),
        ({"CLIENT": "solr"}, "expected auto, opensearch or elasticsearch"),
        ({"VERIFY": "no"}, "expected 0 or 1"),
        ({"TIMEOUT": "soon"}, "expected a number of 0.01 or more"),
        ({"BATCH": "0"}, "expected a number of 1 or more"),
        ({"FIELDS": "body"}, "expected name=field"),
        ({"FIELDS": "abstract=body"}, "a name of contents, title, text, order"),
        ({"FIELDS": "contents=body^much"}, r"expected fields such as body\+abstract"),
        ({"FILTER": "tenant=a"}, "the filter is no JSON"),
        ({"FILTER": '["a"]'}, "the filter is not one query"),
        ({"HOSTS": "b:9200"}, "is no address"),
        ({"DEADLINE": "0"}, "expected a number of 0.01 or more"),
        ({"BUDGET": "none"}, "expected a number of 1 or more"),
    ],
)
def test_a_setting_that_cannot_be_used_is_refused(given, complaint) -> None:
    with pytest.raises(ServiceAddressError, match=complaint):
        ServiceSettings.from_environment({f"ORIENTEER_SEARCH_{name}": value for name, value in given.items()})


def test_a_secret_shows_itself_nowhere() -> None:
    settings = ServiceSettings(api_key=Secret(SECRET), user="reader", password=Secret(SECRET))
    for shown in (repr(settings), str(settings), f"{settings.api_key}", repr([settings])):
        assert SECRET not in shown
    with pytest.raises(TypeError, match="not written down"):
        pickle.dumps(settings)
    with pytest.raises(TypeError, match="not written down"):
        copy.deepcopy(settings.api_key)
    assert SECRET in settings.secrets()
