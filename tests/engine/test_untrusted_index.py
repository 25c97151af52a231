"""Indexes from strangers, with checksums that fit: refused with one clear error, or harmless."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orienteer.data.passage import Passage
from orienteer.engine import build_index, open_index, update_index
from orienteer.engine.embedded import clauses
from orienteer.engine.embedded.index import Index, verify_index
from orienteer.engine.embedded.store import (
    ARRAYS,
    HEADER_BYTES,
    LOCK,
    MANIFEST,
    _canonical,
    _digest,
    _header,
    _rendered,
    read_manifest,
)
from orienteer.errors import IndexCorruptError, OrienteerError
from orienteer.query import G4, Query, parse

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PASSAGES = [
    Passage(f"p{number}", f"green title {number % 7}", f"green muppet {number} on a street", {"page": number})
    for number in range(1500)
]
QUERY = Query("green muppet street")
# Arrays whose length nothing else tells; the last two are of an index with a delta, or in step with a folder.
NO_LENGTH = {"ids", "text", "text_dictionary", "terms", "stream", "long_lists", "id_slots", "deleted", "sources"}


@pytest.fixture
def index(tmp_path: Path) -> Path:
    build_index(PASSAGES, tmp_path / "index")
    return tmp_path / "index"


def forge(path: Path, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> None:
    """Changes arrays and manifest as `change` says, and computes every checksum anew."""
    raw = json.loads((path / MANIFEST).read_bytes())
    folder = path / f"generation-{raw['generation']:06d}"
    arrays = {name.removesuffix(".npy"): np.load(folder / name) for name in raw["files"]}
    change(arrays, raw)
    for name, array in arrays.items():
        data = _header(array.dtype, array.size) + array.tobytes()
        (folder / f"{name}.npy").write_bytes(data)
        entry = {"dtype": array.dtype.str, "shape": [array.size], "bytes": len(data), "blake2b": _digest(data)}
        raw["files"][f"{name}.npy"] = {**entry, **raw["files"].get(f"{name}.npy", {}).get("claims", {})}
    raw.pop("checksum")
    raw["checksum"] = _digest(_canonical(raw))
    (path / MANIFEST).write_bytes(_rendered(raw))


def set_value(name: str, place: int, value: int) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def change(arrays: dict[str, Any], raw: dict[str, Any]) -> None:
        arrays[name][place] = value

    return change


def use(path: Path) -> None:
    """All that one can ask of an index."""
    engine = open_index(path, threads=1)
    for text in ("green muppet street", "+green street", 'green +"muppet 7"', "title:green -contents:street"):
        hits = engine.search(parse(text), 2000)
        engine.passages([hit.id for hit in hits])
        for hit in hits[:3]:
            engine.explain(parse(text), hit.id)
            [engine.term(int(number)) for number in engine.passage_terms(hit.id)]
    engine.refine(QUERY, [r for term in ("green", "street", "green muppet") for r in G4.refinements("contents", term)])
    engine.passage_terms("no such id")
    update_index(path, add=[Passage("new", "", "one more")])


@pytest.mark.parametrize("claimed", ["|O", "<f8", ">i8", "<U8", "|V16"])
def test_an_array_of_a_type_that_is_not_in_the_table_is_refused(index: Path, claimed: str) -> None:
    def change(arrays: dict[str, Any], raw: dict[str, Any]) -> None:
        raw["files"]["id_ends.npy"]["claims"] = {"dtype": claimed}

    forge(index, change)
    folder = index / "generation-000001"
    data = (folder / "id_ends.npy").read_bytes()
    head = _header(np.dtype("<i8"), 1501).replace(b"<i8", claimed.encode().ljust(3)[:3])
    (folder / "id_ends.npy").write_bytes(head + data[HEADER_BYTES:])
    with pytest.raises(IndexCorruptError, match="which no index has"):
        verify_index(index)
    with pytest.raises(IndexCorruptError, match="which no index has"):
        open_index(index)


@pytest.mark.parametrize("name", ["extra.npy", "../../escape.npy", "/etc/passwd", "ids"])
def test_a_file_that_is_not_in_the_table_is_refused(index: Path, name: str) -> None:
    raw = json.loads((index / MANIFEST).read_bytes())
    raw["files"][name] = raw["files"]["ids.npy"]
    raw.pop("checksum")
    raw["checksum"] = _digest(_canonical(raw))
    (index / MANIFEST).write_bytes(_rendered(raw))
    with pytest.raises(IndexCorruptError, match="which no index has"):
        read_manifest(index)


@pytest.mark.parametrize("value", [-1, "7", 0.5, None, True, 1 << 62, 10**300, []])
@pytest.mark.parametrize("name", ["passages", "postings", "generation"])
def test_a_count_that_is_no_count_is_refused(index: Path, name: str, value: object) -> None:
    raw = json.loads((index / MANIFEST).read_bytes())
    (raw if name == "generation" else raw["counts"])[name] = value
    raw.pop("checksum")
    raw["checksum"] = _digest(_canonical(raw))
    (index / MANIFEST).write_bytes(_rendered(raw))
    with pytest.raises(IndexCorruptError):
        Index.open(index)


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("stream_ends", 3, 1 << 40), ("stream_ends", -1, 1 << 40), ("stream_ends", 0, -5),
        ("title_positions", 4, 1 << 30), ("title_positions", 4, -1), ("title_positions", 0, 10_000),
        ("offsets", 2, 1 << 50), ("offsets", 0, 7), ("term_ends", 5, -9), ("term_ends", -1, 1 << 33),
        ("id_ends", 9, 1 << 44), ("text_ends", 100, -1), ("text_ends", -1, 3), ("ranked", 1, -1),
        ("id_slots", 0, 2_000_000), ("id_slots", 7, -4), ("best_codes", 3, 60_000), ("window_best", 0, 65_000),
        ("long_lists", 0, -1), ("long_lists", 0, 1 << 40), ("pairs", 0, 77), ("pairs", 1, 0), ("pairs", 2, 300),
    ],
)  # fmt: skip
def test_a_value_out_of_range_is_refused_at_opening(index: Path, name: str, place: int, value: int) -> None:
    forge(index, set_value(name, place, value))
    with pytest.raises(IndexCorruptError, match=name):
        Index.open(index)


@pytest.mark.parametrize("name", sorted(set(ARRAYS) - NO_LENGTH))
def test_an_array_that_is_too_short_is_refused_at_opening(index: Path, name: str) -> None:
    def change(arrays: dict[str, Any], raw: dict[str, Any]) -> None:
        arrays[name] = arrays[name][:-1]

    forge(index, change)
    with pytest.raises(IndexCorruptError, match=name):
        Index.open(index)


def test_a_table_of_ids_without_a_free_slot_is_refused_instead_of_searched_for_ever(index: Path) -> None:
    def change(arrays: dict[str, Any], raw: dict[str, Any]) -> None:
        arrays["id_slots"][:] = 1

    forge(index, change)
    with pytest.raises(IndexCorruptError, match="id_slots"):
        Index.open(index)


@pytest.mark.parametrize(
    ("name", "value"),
    [("documents", 1500), ("documents", 4_000_000_000), ("codes", 60_000), ("window_starts", 1 << 31)],
)
def test_a_list_with_a_value_out_of_range_is_refused_when_a_query_names_its_term(
    index: Path, name: str, value: int
) -> None:
    def change(arrays: dict[str, Any], raw: dict[str, Any]) -> None:
        arrays[name][1] = value
        if name != "window_starts":
            arrays[name][:] = value

    forge(index, change)
    with pytest.raises(IndexCorruptError, match=name):
        verify_index(index)
    engine = open_index(index, threads=1)
    for ask in (
        lambda: engine.search(QUERY), lambda: engine.search(parse("+green street")),
        lambda: engine.search(parse('"green muppet"')), lambda: engine.explain(QUERY, "p1"),
        lambda: engine.refine(Query("street"), list(G4.refinements("contents", "green"))),
    ):  # fmt: skip
        engine.index._checked[:] = False
        if name == "window_starts":
            with pytest.raises(IndexCorruptError, match=name):
                engine.index.check_lists(np.arange(2 * engine.index.terms))
        else:
            with pytest.raises(IndexCorruptError, match=name):
                ask()


@pytest.mark.parametrize("value", [0xFFFFFFFF, 0xFFFFFFFD])  # places in the last class that no term has
@pytest.mark.parametrize("cost", [0, 40_000])
def test_a_stream_of_terms_that_do_not_exist_is_refused_where_it_is_used(
    index: Path, value: int, cost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(arrays: dict[str, Any], raw: dict[str, Any]) -> None:
        arrays["stream"][1:50] = value

    forge(index, change)
    monkeypatch.setattr(clauses, "PHRASE_COST", cost)
    engine = open_index(index, threads=1)
    phrases = parse('"green muppet"')
    if cost:  # one pass over the whole stream
        with pytest.raises(IndexCorruptError, match="stream"):
            engine.search(phrases)
    else:  # only compared with the phrase's terms
        engine.search(phrases)
    for attempt in (
        lambda: engine.passage_terms("p0"), lambda: verify_index(index),
        lambda: update_index(index, add=[Passage("new", "", "text")]),
    ):  # fmt: skip
        with pytest.raises(IndexCorruptError, match="stream"):
            attempt()


def test_an_addition_to_an_index_with_a_title_longer_than_its_passage_is_refused(index: Path) -> None:
    positions = Index.open(index).stream(1499).size
    forge(index, set_value("title_positions", -1, positions + 1))  # fewer than the passage has bits
    use_before = open_index(index, threads=1)
    use_before.search(parse('title:"green title"'), 2000)
    with pytest.raises(IndexCorruptError, match="title_positions"):
        update_index(index, add=[Passage("new", "", "one more")])


def test_an_addition_to_an_index_with_a_term_twice_is_refused(index: Path) -> None:
    def change(arrays: dict[str, Any], raw: dict[str, Any]) -> None:
        arrays["terms"][:2] = ord("0")  # the terms 0 and 1

    forge(index, change)
    with pytest.raises(IndexCorruptError, match="twice"):
        update_index(index, add=[Passage("new", "", "text")])


@pytest.mark.parametrize("name", ["ids", "text", "terms"])
def test_bytes_that_are_no_text_are_one_clear_error(index: Path, name: str) -> None:
    def change(arrays: dict[str, Any], raw: dict[str, Any]) -> None:
        arrays[name][:] = 0xFF

    forge(index, change)
    index_ = Index.open(index)
    with pytest.raises(IndexCorruptError, match=name):
        index_.term(0) if name == "terms" else index_.passage(0)


def test_a_term_in_more_passages_than_there_are_is_refused(index: Path) -> None:
    forge(index, lambda arrays, raw: raw["counts"].update(contents_passages=3))
    with pytest.raises(IndexCorruptError, match="offsets"):
        open_index(index).search(QUERY)


# Links and pipes


def test_links_and_pipes_in_the_place_of_files_are_refused_at_once(index: Path, tmp_path: Path) -> None:
    folder = index / "generation-000001"
    for file in (folder / "text.npy", index / MANIFEST):
        kept = file.rename(tmp_path / "kept")
        file.symlink_to(kept)
        with pytest.raises(IndexCorruptError, match="symbolic link"):
            open_index(index)
        file.unlink()
        os.mkfifo(file)
        with pytest.raises(IndexCorruptError, match="pipe"):
            open_index(index)
        file.unlink()
        file.mkdir()
        with pytest.raises(IndexCorruptError, match="folder"):
            open_index(index)
        file.rmdir()
        kept.rename(file)
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(IndexCorruptError, match="symbolic link"):
        open_index(index)


def test_a_link_to_the_folder_of_an_index_still_opens_it(index: Path, tmp_path: Path) -> None:
    (tmp_path / "current").symlink_to(index)
    assert len(open_index(tmp_path / "current")) == len(PASSAGES)


@pytest.mark.parametrize("name", ["manifest.json.new", ".manifest.json.0.new", LOCK])
def test_a_planted_link_is_never_written_through(index: Path, tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (index / name).unlink(missing_ok=True)
    (index / name).symlink_to(victim)
    if name == LOCK:
        with pytest.raises(OrienteerError, match="symbolic link"):
            update_index(index, add=[Passage("new", "", "text")])
    else:
        update_index(index, add=[Passage("new", "", "text")])
    assert victim.read_text() == "precious"


def test_a_manifest_of_a_gigabyte_is_refused_unread(index: Path) -> None:
    os.truncate(index / MANIFEST, 1 << 30)
    with pytest.raises(IndexCorruptError, match="at most"):
        open_index(index)


@pytest.mark.long
def test_300_mutated_indexes_end_in_results_or_in_one_clear_error() -> None:
    command = [sys.executable, str(BENCHMARKS / "mutate.py"), "index", "--count", "300", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    assert done.stdout, done.stderr[-3000:]
    result = json.loads(done.stdout)
    assert result["failures"] == []
    assert result["tried"] == 300
    assert result["steps"]["open: went well"] > 50 < result["steps"]["open: refused"]
