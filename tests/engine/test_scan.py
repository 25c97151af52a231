"""The search without kernels, for the first searches of a process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from orienteer.data.passage import Passage
from orienteer.engine import open_index
from orienteer.engine.embedded import scan
from orienteer.engine.embedded.build import build_index
from orienteer.engine.embedded.clauses import find_terms
from orienteer.engine.embedded.index import Index
from orienteer.engine.embedded.kernels.checks import GOOD, WRONG_CODES, WRONG_PASSAGES, WRONG_WINDOWS
from orienteer.query import parse

WORDS = "green muppet street trash lives on a where big bird sings".split()
QUERIES = (
    "green muppet", "green green", "+green street", "+green +muppet -trash", "-green", "nowhere", "+nowhere green",
    "title:green street^4", '"green muppet" street', 'street -"big bird"', "where big bird sings",
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(7)
    texts = [" ".join(rng.choice(WORDS, rng.integers(1, 30))) for _ in range(3000)]
    path = tmp_path_factory.mktemp("scan") / "index"
    build_index([Passage(str(at), text[:20], text) for at, text in enumerate(texts)], path)
    return path


@pytest.mark.parametrize("filtered", [False, True])
def test_a_scan_finds_what_search_finds_to_the_bit(folder: Path, filtered: bool) -> None:
    engine = open_index(folder, threads=1)
    if filtered:
        engine.allowed = np.arange(3000) % 3 == 0
        engine.allowed.flags.writeable = False
    for text in QUERIES:
        query = parse(text)
        for k in (1, 5, 3000):
            expected = engine.search(query, k)
            compiled = engine._compile(query)
            if compiled.impossible or not (compiled.must or compiled.should):
                assert len(expected) == 0
                continue
            numbers, scores = scan.scan(compiled, k, engine.allowed)
            assert numbers.tolist() == expected.numbers.tolist(), (text, k)
            assert scores.tolist() == expected.scores.tolist(), (text, k)


def test_terms_are_found_without_kernels(folder: Path) -> None:
    index = Index.open(folder)
    words = [*WORDS, "", "zzz", "aaa", "gree", "greens"]
    assert scan.find_terms(index, [word.encode() for word in words]).tolist() == find_terms(index, words).tolist()


def test_a_damaged_list_is_noticed_without_kernels(folder: Path) -> None:
    index = Index.open(folder)
    number = int(index.array("long_lists")[0])
    start = int(index.array("offsets")[number])
    assert scan.check_list(index, number) == GOOD
    for name, place, value, wrong in (
        ("documents", start + 1, 2_999, WRONG_PASSAGES), ("documents", start + 1, 1 << 31, WRONG_PASSAGES),
        ("codes", start, 60_000, WRONG_CODES), ("window_starts", 1, 1 << 31, WRONG_WINDOWS),
    ):  # fmt: skip
        sound = index.arrays[name]
        index.arrays[name] = np.array(sound)
        index.arrays[name][place] = value
        assert scan.check_list(index, number) == wrong, name
        index.arrays[name] = sound


PROGRAM = """
import json, sys
from orienteer.engine import open_index
from orienteer.query import parse
engine = open_index(sys.argv[1], threads=1)
told = []
for turn in range(6):
    hits = engine.search(parse("+green street muppet"), 5)
    told.append([[hit.id for hit in hits], [hit.score for hit in hits], "numba" in sys.modules])
print(json.dumps(told))
"""


def test_the_first_searches_of_a_process_load_no_kernels_and_the_others_agree_with_them(folder: Path) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(folder)], capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)
    assert [loaded for _, _, loaded in told] == [False, False, False, False, True, True]
    assert all(each[:2] == told[0][:2] for each in told)
    assert len(told[0][0]) == 5
