"""Real Lucene, in this process and timed in its own."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from lucene_bench import (
    lucene_analyze,
    lucene_index,
    lucene_more_like_this,
    lucene_search,
    write_records,
)
from orienteer.bundled import bundled_engine
from orienteer.commands.terminal import benchmark
from orienteer.engine.adapters.lucene import LuceneEngine, LuceneError
from orienteer.engine.embedded.analysis import analyze_terms
from orienteer.errors import DuplicateIdError, IndexMissingError, MissingExtraError
from orienteer.query import Query, Refinement


@pytest.fixture
def empty_jar(tmp_path: Path) -> str:
    with zipfile.ZipFile(tmp_path / "empty.jar", "w") as jar:
        jar.writestr("nothing.txt", "nothing")
    return str(tmp_path / "empty.jar")


@pytest.fixture
def jpype_jar(lucene_jar: str) -> str:
    pytest.importorskip("jpype")
    return lucene_jar


def test_lucene_timed_in_its_own_machine_gives_the_golden_answers(
    lucene_jar, golden_passages, golden_answers, tmp_path
) -> None:
    timing = lucene_index(lucene_jar, golden_passages, tmp_path / "index")
    assert (timing.passages, timing.threads) == (len(golden_passages), 1)
    assert timing.wall_seconds > 0
    assert timing.thread_cpu_seconds > 0
    assert timing.bytes == sum(file.stat().st_size for file in (tmp_path / "index").iterdir())
    queries = [query for query, _ in golden_answers]
    answers = lucene_search(lucene_jar, tmp_path / "index", queries, k=5, repeats=2, warmup=1)
    for answer, (query, hits) in zip(answers, golden_answers, strict=True):
        assert answer.query == str(query)
        assert [hit.id for hit in answer.hits] == [hit.id for hit in hits]
        assert [hit.score for hit in answer.hits] == pytest.approx([hit.score for hit in hits], rel=1e-7)
        assert 0 < answer.least_cpu_us <= answer.cpu_us
        assert answer.cpu_us == pytest.approx(answer.parse_us + answer.search_us + answer.fetch_us)


def test_several_threads_index_every_passage(lucene_jar, golden_passages, tmp_path) -> None:
    records = write_records(golden_passages, tmp_path / "records")
    assert lucene_index(lucene_jar, records, tmp_path / "index", threads=3).passages == len(golden_passages)
    (answer,) = lucene_search(lucene_jar, tmp_path / "index", ["zeppelin"], k=100, repeats=1, warmup=0)
    assert {hit.id for hit in answer.hits} == {p.id for p in golden_passages if "zeppelin" in p.text}


def test_more_like_this_by_lucene_and_our_statement_of_it_differ_by_ties_only(lucene_jar, tmp_path) -> None:
    module, engine = benchmark("find_query"), bundled_engine()
    lucene_index(lucene_jar, (engine.passage_at(number) for number in range(len(engine))), tmp_path / "index")
    sets = [[engine.number_of(hit.id) for hit in engine.search(Query(word), 8)] for word in ("river", "king", "metal")]
    texts = [[engine.passage_at(number).contents for number in numbers] for numbers in sets]
    try:
        found = lucene_more_like_this(lucene_jar, tmp_path / "index", [(each, 20) for each in texts])
    except LuceneError as error:
        if "ClassNotFoundException" in str(error):
            pytest.skip("these jars lack lucene-queries")
        raise
    for numbers, like in zip(sets, found, strict=True):
        weights = module.like_weights(engine, numbers)
        terms = module.more_like_this_terms(weights)
        assert module.weights_of(weights, like.terms) == pytest.approx(module.weights_of(weights, terms))
        query = Query("", tuple(Refinement("or", "contents", term) for term in like.terms))
        assert like.ids == [hit.id for hit in engine.search(query, 20)]


def test_a_query_that_lucene_cannot_read_is_reported_beside_the_others(lucene_jar, golden_passages, tmp_path) -> None:
    lucene_index(lucene_jar, golden_passages, tmp_path)
    bad, good = lucene_search(lucene_jar, tmp_path, ["(open", "river"], k=1, repeats=1, warmup=0)
    assert bad.error is not None
    assert not bad.hits
    assert good.error is None
    assert len(good.hits) == 1


def test_our_analyser_makes_lucenes_terms(lucene_jar, golden_passages) -> None:
    texts = [passage.contents for passage in golden_passages]
    texts += ["", "tab\there", "back\\slash\\n", "line\u2028end\r\n", "a\u0301 \u200dx", "the of", "1,234.5"]
    assert lucene_analyze(lucene_jar, texts) == [analyze_terms(text) for text in texts]


def test_an_index_on_disk_is_opened_again(jpype_jar, golden_passages, golden_answers, tmp_path) -> None:
    LuceneEngine(jpype_jar, golden_passages, tmp_path).close()
    engine = LuceneEngine(jpype_jar, tmp_path)
    query, hits = golden_answers[0]
    assert engine.search(query, 5) == hits
    assert engine.passages([golden_passages[3].id, "empty"]) == [golden_passages[3], golden_passages[0]]
    engine.close()


def test_a_temporary_index_goes_with_its_engine(jpype_jar, golden_passages) -> None:
    engine = LuceneEngine(jpype_jar, golden_passages)
    folder = Path(engine._temporary.name)
    assert folder.is_dir()
    engine.close()
    assert not folder.exists()


def test_a_folder_without_an_index_is_named(jpype_jar, tmp_path) -> None:
    with pytest.raises(IndexMissingError, match=str(tmp_path)):
        LuceneEngine(jpype_jar, tmp_path)


def test_two_passages_with_one_id_are_refused_by_lucene(jpype_jar, golden_passages) -> None:
    with pytest.raises(DuplicateIdError, match="'empty'"):
        LuceneEngine(jpype_jar, [*golden_passages, golden_passages[0]])


def test_a_second_jar_in_one_process_is_refused(jpype_jar, empty_jar, golden_passages) -> None:
    LuceneEngine(jpype_jar, golden_passages).close()
    with pytest.raises(LuceneError, match="already runs Lucene from"):
        LuceneEngine(empty_jar, golden_passages)


def test_a_jar_without_lucene_is_named_and_does_not_spoil_the_process(jpype_jar, empty_jar) -> None:
    program = f"""
from orienteer.data.passage import Passage
from orienteer.bundled import bundled_engine
from orienteer.commands.terminal import benchmark
from orienteer.engine.adapters.lucene import LuceneEngine, LuceneError, LuceneError
from orienteer.query import Query, Refinement
try:
    LuceneEngine({empty_jar!r}, [])
except LuceneError as error:
    print(error)
print(LuceneEngine({jpype_jar!r}, [Passage("a", "", "b c")]).search(Query("c"), 1)[0].id)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert first.startswith(f"no Lucene in {empty_jar}")
    assert second == "a"


def test_a_jar_without_lucene_is_named_by_the_benchmark(lucene_jar, empty_jar) -> None:
    with pytest.raises(LuceneError, match="no Lucene in"):
        lucene_analyze(empty_jar, ["text"])


def test_a_jar_that_is_not_there_is_named(tmp_path) -> None:
    pytest.importorskip("jpype")
    with pytest.raises(LuceneError, match="no jar at"):
        LuceneEngine(tmp_path / "none.jar", [])


def test_a_machine_without_java_is_told_so(monkeypatch, empty_jar) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(LuceneError, match="install a JDK"):
        lucene_analyze(empty_jar, ["text"])


def test_a_missing_jpype_is_answered_with_the_line_that_installs_it(monkeypatch, empty_jar) -> None:
    monkeypatch.setitem(sys.modules, "jpype", None)
    with pytest.raises(MissingExtraError, match=r"orienteer\[lucene\]"):
        LuceneEngine(empty_jar, [])


def test_an_engine_searches_from_several_threads(jpype_jar, golden_passages) -> None:
    from concurrent.futures import ThreadPoolExecutor

    engine = LuceneEngine(jpype_jar, golden_passages)
    queries = [Query(word) for word in ("river", "bridge", "castle", "king")] * 10
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda query: engine.search(query, 5), queries))
    assert found == engine.search_many(queries, 5)
    engine.close()
