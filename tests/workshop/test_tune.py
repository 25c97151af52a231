"""Tuning: other parameters are those of a rebuilt index, the fast evaluation is the slow one, and it is honest."""

from __future__ import annotations

import json
import re
from math import log2
from pathlib import Path

import numpy as np
import pytest

from orienteer.bundled import bundled_engine, bundled_questions
from orienteer.data.passage import Passage, Question
from orienteer.engine import EmbeddedEngine, ReferenceEngine, build_index, open_index
from orienteer.engine.embedded import bm25
from orienteer.engine.protocol import Similarity
from orienteer.query import Query
from orienteer.workshop.learn import LearnError, changes_of
from orienteer.workshop.ranking_setting import (
    DEFAULT,
    Grid,
    Setting,
    default_refinements,
    opensearch_settings,
    setting_of,
    stop_words,
    without_stop_words,
)
from orienteer.workshop.tune import TuneError, as_dict, evaluate_settings, exact_values, search, tune

SMALL = Grid((0.4, 1.2, 2.5), (0.2, 0.75, 1.0), (0.0, 0.5, 2.0), (0.25, 0.75), (0.0, 0.5))


@pytest.fixture(scope="module")
def engine() -> EmbeddedEngine:
    return bundled_engine()


@pytest.fixture(scope="module")
def judged(engine: EmbeddedEngine) -> list[Question]:
    """Bundled questions, judged by where their answers are: the gold passage 2, others that hold it 1."""
    found = []
    for question in bundled_questions("train")[:60]:
        numbers = [hit.id for hit in engine.search(Query(question.question), 15)]
        texts = {passage.id: passage.text for passage in engine.passages(numbers)}
        grades = {id: 1 for id in numbers if any(answer in texts[id] for answer in question.answers)}
        if grades:
            best = next(iter(grades))
            found.append(Question(question.id, question.question, judgements=tuple({**grades, best: 2}.items())))
    return found


@pytest.mark.parametrize(("k1", "b"), [(0.5, 0.2), (2.0, 0.75), (1.2, 1.0), (0.0001, 0.0)])
def test_another_k1_and_b_score_as_an_index_rebuilt_with_them_bit_for_bit(
    engine: EmbeddedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, k1: float, b: float
) -> None:
    queries = [
        Setting(title_weight=0.7, phrase_weight=0.3).query(engine, q.question) for q in bundled_questions("test")[:25]
    ]
    tabled = [engine.scores_with(query, Similarity(k1, b, b)) for query in queries]
    monkeypatch.setattr(bm25, "K1", np.float32(k1))
    monkeypatch.setattr(bm25, "B", np.float32(b))
    build_index([engine.passage_at(number) for number in range(len(engine))], tmp_path / "index", threads=1)
    rebuilt = open_index(tmp_path / "index", threads=1)
    for query, scores in zip(queries, tabled, strict=True):
        assert scores.tobytes() == rebuilt.scores(query).tobytes()
        ids = [hit.id for hit in rebuilt.search(query, 5)]
        best = np.lexsort((np.arange(scores.size), -scores))[: len(ids)]
        assert [engine.id_at(int(number)) for number in best] == ids


def test_the_default_setting_is_the_engines_own_ranking(engine: EmbeddedEngine) -> None:
    for question in bundled_questions("test")[:10]:
        hits = engine.search(Query(question.question), 7)
        assert search(engine, DEFAULT, question.question, 7) == [(hit.id, hit.score) for hit in hits]


def test_the_evaluation_in_pools_is_that_over_all_passages(engine: EmbeddedEngine, judged: list[Question]) -> None:
    last = [(question, question.question.split()[-1]) for question in judged[:10]]
    twice = [Question(f"{q.id}-2", f"{q.question} {word}", judgements=q.judgements) for q, word in last]
    asked = [*judged, *twice]  # a word that stands twice counts twice
    # The pools hold the best passages of these settings, so nothing that ranks is missing.
    made_of = [DEFAULT, Setting(0.4, 0.3), Setting(3.0, 1.0), Setting(1.2, 0.75, 1.0, 0.5), Setting(phrase_weight=1.0)]
    fast = evaluate_settings(engine, asked, made_of)
    for row, setting in enumerate(made_of):
        assert fast[row] == pytest.approx(exact_values(engine, asked, setting), abs=1e-6)
    refined = Grid((0.4, 1.2), (0.75,), (0.0, 0.5), (0.25,), (0.0, 0.5), (0.05, 0.3, 1.0),
                   ("", '(title:"king"^0.5)', *default_refinements(engine, judged)[:6:2]))  # fmt: skip
    settings = [*SMALL.settings()[::7], *refined.settings()[::3]]
    assert {setting.stop_share for setting in settings} == {0.05, 0.3, 1.0}
    fast = evaluate_settings(engine, asked, settings)
    for row, setting in enumerate(settings):
        slow = exact_values(engine, asked, setting)
        # Elsewhere a pool may lack a passage, and scores within rounding may change places.
        assert np.mean(np.abs(fast[row] - slow) > 1e-6) < 0.02
    for place, question in enumerate(judged[:10]):
        ids = [hit.id for hit in engine.search(Query(question.question), 10)]
        grades = question.grades
        dcg = sum(grades.get(id, 0) / log2(rank + 1) for rank, id in enumerate(ids, 1))
        ideal = sum(g / log2(r + 1) for r, g in enumerate(sorted(grades.values(), reverse=True)[:10], 1))
        assert exact_values(engine, judged, DEFAULT)[place] == pytest.approx(dcg / ideal)


def test_a_setting_that_matters_is_found_and_shown_to_be_better(tmp_path: Path) -> None:
    # The relevant passages are the long ones, which b = 0.75 puts behind the short ones.
    passages, questions = [], []
    for n in range(40):
        passages.append(Passage(f"long{n}", "", f"word{n} word{n} " + "filler text about nothing at all " * 12))
        passages += [Passage(f"short{n}-{i}", "", f"word{n} here {i}") for i in range(3)]
        questions.append(Question(f"q{n}", f"word{n}", judgements=((f"long{n}", 1),)))
    build_index(passages, tmp_path / "index", threads=1)
    result = tune(open_index(tmp_path / "index", threads=1), questions, SMALL)
    assert result.shown_better
    assert result.recommended.b < 0.75
    assert result.estimate > result.default_value
    assert as_dict(result)["recommended"] == result.recommended._asdict()
    assert dict(result.curves["b"])[0.2] > dict(result.curves["b"])[1.0]


def test_stop_words_are_terms_of_more_than_a_share_of_the_passages(engine: EmbeddedEngine) -> None:
    texts = [set(engine.analyze(engine.passage_at(number).contents)) for number in range(len(engine))]
    share = {term: sum(term in text for text in texts) / len(texts) for text in texts for term in text}
    for question in bundled_questions("test")[:20]:
        words = [word for word in question.question.split() if engine.analyze(word)]
        for most in (0.01, 0.05, 0.2):
            kept = [w for w in words if any(share.get(term, 0.0) <= most for term in engine.analyze(w))]
            assert without_stop_words(engine, question.question, most) == (" ".join(kept) or question.question)
        assert without_stop_words(engine, question.question, 1.0) == question.question
    assert stop_words(engine, 0.1, read=len(engine)) == sorted(term for term in share if share[term] > 0.1)


def test_stop_words_that_mislead_are_found(tmp_path: Path) -> None:
    # Short passages repeat what every question says; the one that answers says it once.
    passages, questions = [], []
    for n in range(40):
        passages.append(Passage(f"right{n}", "", f"word{n} " + " ".join(f"filler{i} here{i}" for i in range(40))))
        passages += [Passage(f"wrong{n}-{i}", "", "please explain please explain") for i in range(2)]
        passages += [Passage(f"other{n}-{i}", "", f"word{n} please") for i in range(2)]
        questions.append(Question(f"q{n}", f"please explain word{n}", judgements=((f"right{n}", 1),)))
    build_index(passages, tmp_path / "index", threads=1)
    engine = open_index(tmp_path / "index", threads=1)
    grid = Grid((1.2,), (0.0, 0.75), (0.0,), (0.75,), (0.0,), (1.0, 0.1))
    result = tune(engine, questions, grid)
    assert result.shown_better
    assert result.recommended.stop_share == 0.1
    assert str(result.recommended.query(engine, questions[0].question)) == "word0"


def test_a_default_refinement_that_helps_every_question_is_found(tmp_path: Path) -> None:
    passages, questions = [], []
    for n in range(40):
        kinds = {"guide": "manual", **{f"post{i}": "forum" for i in range(3)}}
        passages += [Passage(f"{kind}{n}", title, f"word{n} is used so") for kind, title in reversed(kinds.items())]
        questions.append(Question(f"q{n}", f"word{n}", judgements=((f"guide{n}", 1),)))
    passages += [Passage(f"rest{n}", f"note{n}", f"nothing{n}") for n in range(2000)]
    build_index(passages, tmp_path / "index", threads=1)
    engine = open_index(tmp_path / "index", threads=1)
    assert {'(title:"manual"^0.5)', '-(title:"forum")'} <= set(default_refinements(engine, questions))
    grid = Grid((1.2,), (0.75,), (0.0,), (0.75,), (0.0,), (1.0,), ("", *default_refinements(engine, questions)))
    result = tune(engine, questions, grid)
    assert result.shown_better
    assert result.recommended.refinement in {'-(title:"forum")', '-(contents:"forum")', '(title:"manual"^0.5)'}
    assert result.best_value == 1.0
    assert search(engine, result.recommended, "word7", 1)[0][0] == "guide7"


def test_where_nothing_is_shown_to_be_better_the_default_stays(engine: EmbeddedEngine) -> None:
    draw = np.random.default_rng(0)
    noise = [
        Question(q.id, q.question, judgements=((engine.id_at(int(draw.integers(len(engine)))), 1),))
        for q in bundled_questions("train")[:30]
    ]
    result = tune(engine, noise, SMALL)
    assert not result.shown_better
    assert result.recommended == DEFAULT
    assert result.low <= 0


def test_opensearch_gets_a_similarity_for_each_field_and_a_template() -> None:
    written = opensearch_settings(Setting(0.9, 0.4, 0.5, 0.2), contents="body")
    similarity = written["index"]["settings"]["index"]["similarity"]
    assert similarity["orienteer_contents"] == {"type": "BM25", "k1": 0.9, "b": 0.4}
    assert written["index"]["mappings"]["properties"]["title"]["similarity"] == "orienteer_title"
    query = written["search_template"]["script"]["source"]["query"]["bool"]
    assert query["should"][1] == {"match": {"title": {"query": "{{question}}", "boost": 0.5}}}


def test_the_template_repeats_a_clause_for_each_pair_and_has_stop_words_and_refinement() -> None:
    setting = Setting(0.9, 0.4, 0.5, 0.2, 0.25, 0.1, '-(title:"forum")')
    written = opensearch_settings(setting, ["please"])
    analysis = written["index"]["settings"]["index"]["analysis"]
    assert analysis["filter"]["orienteer_stop"] == {"type": "stop", "stopwords": ["please"]}
    text = written["search_template"]["script"]["source"]
    before, repeated, after = re.fullmatch(r"(.*)\{\{#pairs\}\}(.*)\{\{/pairs\}\}(.*)", text).groups()  # type: ignore[union-attr]
    for pairs in ([], ["alpine railway", "railway tunnel"]):
        clauses = "".join(repeated.replace("{{.}}", pair) for pair in pairs)
        query = json.loads(before + clauses + after)["query"]["bool"]
        phrases = [each["match_phrase"]["contents"] for each in query["should"][2:]]
        assert phrases == [{"query": pair, "boost": 0.25} for pair in pairs]
        assert query["should"][0] == {
            "match": {"contents": {"query": "{{question}}", "analyzer": "orienteer_question"}}
        }
        assert query["must_not"] == [{"match_phrase": {"title": "forum"}}]
        assert query["minimum_should_match"] == 1


def test_a_setting_is_read_again_as_it_was_written() -> None:
    setting = Setting(0.9, 0.4, 0.5, 0.2, 0.25, 0.1, '(title:"manual"^2)')
    assert setting_of(json.loads(json.dumps(setting._asdict()))) == setting
    assert setting_of({"k1": 2}) == Setting(2.0)  # files of before have no stop words
    for row in ({"k1": "much"}, {"k2": 1.0}, {"refinement": '"'}):
        with pytest.raises(LearnError, match="not a ranking"):
            changes_of({"setting": row})


def test_too_few_judged_questions_are_an_error(engine: EmbeddedEngine, judged: list[Question]) -> None:
    with pytest.raises(TuneError, match="2 questions with judged passages"):
        tune(engine, judged[:2], SMALL)
    with pytest.raises(TuneError, match="postings"):
        tune(ReferenceEngine([Passage("a", "", "b")]), judged, SMALL)
