"""The doctor, and the command line over services."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
import typer
from typer.testing import CliRunner

from orienteer.bundled import bundled_passages
from orienteer.commands.remote import doctor, index_to
from orienteer.data.jsonl import write_jsonl
from orienteer.engine.adapters.opensearch import FieldNames, ServiceSettings, service
from orienteer.engine.adapters.opensearch import doctor as examination
from orienteer.engine.adapters.opensearch.bulk_load import load
from orienteer.engine.adapters.opensearch.doctor import Finding, examine
from orienteer.engine.adapters.opensearch.service import Service
from orienteer.engine.adapters.opensearch.settings import read_address
from orienteer.engine.embedded.build import build_index
from orienteer.engine.embedded.engine import open_index
from orienteer.errors import DuplicateIdError

PASSAGES = bundled_passages()[:150]
PATIENT = ServiceSettings(timeout=600)  # the machine may be busy: no test here is of timeouts


@pytest.fixture(scope="module")
def double(start) -> Any:
    return start("opensearch-2")


@pytest.fixture(scope="module")
def healthy(double) -> Service:
    service = Service(read_address(f"{double.base}/healthy"), PATIENT)
    load(service, PASSAGES, shards=2)
    return service


def found(findings: list[Finding], text: str) -> Finding:
    [one] = [finding for finding in findings if text in finding.what]
    return one


def test_an_index_that_we_loaded_is_fit_in_every_respect(double, healthy, tmp_path) -> None:
    build_index(PASSAGES, tmp_path, threads=1)
    findings = list(examine(healthy, open_index(tmp_path), sample=60, thorough=True))
    assert [finding for finding in findings if finding.level != "good"] == []
    for text in ("index healthy is ", "60 of 60 scores", "60 of 60 queries", "contract is kept",
                 "150 passages in 2 shards", "a search takes"):  # fmt: skip
        assert found(findings, text)
    product, version = double.flavour.split("-")
    assert found(findings, f"{'OpenSearch' if product == 'opensearch' else 'Elasticsearch'} {version}.")
    assert any("older factor 2.2" in finding.what for finding in findings) == (double.flavour != "opensearch-3")


def test_an_embedded_index_of_other_passages_is_told(healthy, tmp_path) -> None:
    build_index(PASSAGES[:100], tmp_path, threads=1)
    finding = found(list(examine(healthy, open_index(tmp_path), sample=40)), "of 40 queries")
    assert finding.level == "fair"
    assert finding.advice.startswith("the first that is not: ")


def test_a_foreign_index_is_told_what_differs(double) -> None:
    service = Service(
        read_address(f"{double.base}/foreign"), replace(PATIENT, names=FieldNames("body", "head", "body"))
    )
    text = {"type": "text"}
    similarity = {"default": {"type": "BM25", "k1": "0.9", "b": "0.4"}}
    mapping = {"properties": {"body": text, "head": text | {"analyzer": "english"}}}
    service.ask("PUT", "", {"settings": {"index": {"similarity": similarity}}, "mappings": mapping})
    service.create([(p.id, {"head": p.title, "body": p.text}) for p in PASSAGES[:30]])
    service.ask("POST", "/_refresh")
    findings = list(examine(service, sample=20))
    assert found(findings, "contents (body): StandardAnalyzer, but stop words are in the index").level == "fair"
    assert found(findings, "title (head): the analyser 'english' makes other terms").level == "fair"
    assert found(findings, "contents (body): BM25 k1=0.9 b=0.4").level == "fair"
    assert found(findings, "passages do not know their place").level == "fair"
    scores = found(findings, "scores of a word in a passage")
    assert scores.level == "fair"
    assert "here; length" in scores.advice or "is the title part of the contents" in scores.advice


def test_the_fields_that_an_agent_does_not_use_are_named_and_long_texts_are_told(double) -> None:
    names = FieldNames("body", "head", "body")
    service = Service(read_address(f"{double.base}/rich"), replace(PATIENT, names=names))
    text, whole = {"type": "text"}, {"type": "keyword"}
    comments = {"type": "nested", "properties": {"said": text}}
    properties = {"body": text, "head": text, "note": text, "tenant": whole, "comments": comments}
    service.ask("PUT", "", {"mappings": {"properties": properties}})
    long = "\n".join(passage.text for passage in PASSAGES[:20])
    service.create([("0", {"head": "a", "body": long}), ("1", {"head": "b", "body": PASSAGES[20].text})])
    service.ask("POST", "/_refresh")
    findings = list(examine(service, sample=20))
    other = found(findings, "it does not search the text fields note")
    assert other.advice.endswith("ORIENTEER_SEARCH_FIELDS=contents=body+note^0.5,…")
    assert found(findings, "it has no words for comments.said (nested), tenant (keyword)")
    assert found(findings, "words in the middle").level == "fair"
    assert "ORIENTEER_SEARCH_SPLIT=100" in found(findings, "words in the middle").advice
    split = Service(service.address, replace(PATIENT, names=names, split=100))
    assert found(list(examine(split, sample=20)), "are read in pieces of about 100").level == "good"
    for field, why in (("tenant", "it holds whole values"), ("comments.said", "it lies in nested objects")):
        wrong = Service(service.address, replace(PATIENT, names=FieldNames(field, "head", field)))
        assert why in [finding.what for finding in examine(wrong)][-1]


def test_a_missing_or_half_loaded_index_is_bad(double, healthy) -> None:
    missing = Service(read_address(f"{double.base}/nothing"), ServiceSettings())
    assert [finding.level for finding in examine(missing)] == ["good", "bad"]
    half = Service(read_address(f"{double.base}/half"), ServiceSettings())

    def broken() -> Any:
        yield from PASSAGES[:40]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load(half, broken())
    findings = list(examine(half, sample=10))
    assert found(findings, "loading was broken off").level == "bad"


def command() -> typer.Typer:
    app = typer.Typer()
    app.command("doctor")(doctor)
    app.command("other")(lambda: None)
    return app


def test_doctor_prints_findings_and_its_exit_code_says_fit_or_not(healthy, double) -> None:
    run = CliRunner().invoke(command(), ["doctor", "--engine", f"{double.base}/healthy", "--sample", "5", "--json"])
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    assert (run.exit_code, {row["level"] for row in rows}) == (0, {"good"})
    run = CliRunner().invoke(command(), ["doctor", "--engine", f"{double.base}/nothing"])
    assert run.exit_code == 1
    assert "✗ no index 'nothing'" in run.stdout


def test_index_to_loads_files_and_goes_on(double, tmp_path: Path, capsys) -> None:
    write_jsonl(tmp_path / "passages.jsonl", PASSAGES[:50])
    address = f"{double.base}/from-files"
    index_to([tmp_path / "passages.jsonl"], address, as_json=True)
    first = json.loads(capsys.readouterr().out)
    assert (first["passages"], first["already_there"], first["bad_rows"]) == (50, 0, 0)
    index_to([tmp_path / "passages.jsonl"], address)
    assert "50 passages in " in (said := capsys.readouterr().out)
    assert "50 of them were there already" in said
    write_jsonl(tmp_path / "more.jsonl", [*PASSAGES[50:53], PASSAGES[51]])
    with pytest.raises(DuplicateIdError, match=r"it stands at .*more.jsonl:2, .*more.jsonl:4"):
        index_to([tmp_path / "passages.jsonl", tmp_path / "more.jsonl"], address)


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_doctor_shows_no_control_character_and_no_markup_of_the_service(
    monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    evil = "a field \x1b]0;owned\x07 \x9b31m [red]named so[/red]"
    monkeypatch.setattr(service, "Service", MagicMock())  # what a service would say is in the finding
    monkeypatch.setattr(examination, "examine", lambda *given, **more: [Finding("fair", evil, evil)])
    run = CliRunner().invoke(command(), ["doctor", "--engine", "http://127.0.0.1:9/nothing", *options])
    assert run.output.count("[red]named so[/red]") == 2
    assert not {"\x1b", "\x07", "\x9b"} & set(run.output)
