"""Long documents in pieces: the engine's documents, order and scores, and the piece that suits the query."""

from __future__ import annotations

import pytest

from orienteer.bundled import bundled_passages, bundled_questions
from orienteer.data.passage import Passage
from orienteer.engine.embedded.build import build_index
from orienteer.engine.embedded.engine import EmbeddedEngine, open_index
from orienteer.engine.long_documents import PIECE, SplitEngine
from orienteer.errors import UnknownPassageError
from orienteer.query import FIELDS, G4, Query, Refinement

EACH = 12  # passages of a document


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> EmbeddedEngine:
    """Twelve passages make a document; the last documents are short."""
    passages = bundled_passages()[:240]
    documents = [
        Passage(f"d{at}", f"Volume {at}", "\n".join(p.text for p in passages[at : at + EACH]))
        for at in range(0, len(passages), EACH)
    ]
    folder = tmp_path_factory.mktemp("long")
    build_index([*documents, *bundled_passages()[240:300]], folder, threads=1)
    return open_index(folder, threads=1)


@pytest.fixture
def engine(whole) -> SplitEngine:
    return SplitEngine(whole, 80)


def document(id: str) -> str:
    return id.partition(PIECE)[0]


QUERIES = [Query(question.question) for question in bundled_questions("train")[:30]]


def test_documents_order_and_scores_are_the_engines(engine, whole) -> None:
    for hits, wanted in zip(engine.search_many(QUERIES, 5), whole.search_many(QUERIES, 5), strict=True):
        assert [(document(hit.id), hit.score) for hit in hits] == [(hit.id, hit.score) for hit in wanted]


def test_a_piece_is_a_part_of_its_document_and_no_longer_than_a_passage(engine, whole) -> None:
    for hits in engine.search_many(QUERIES, 5):
        for piece in engine.passages([hit.id for hit in hits]):
            [text] = whole.passages([document(piece.id)])
            assert piece.text in text.text
            assert piece.title == text.title
            assert len(piece.text.split()) <= 1.5 * 120
            assert (PIECE in piece.id) == (len(text.text) > len(piece.text))


def test_every_word_of_a_document_is_in_a_piece(engine, whole) -> None:
    with pytest.raises(UnknownPassageError, match=r"its document has \d+ pieces") as caught:
        engine.passages([f"d0{PIECE}1000"])
    count = int(str(caught.value).split()[-2])
    assert count > 6
    pieces = engine.passages([f"d0{PIECE}{number}" for number in range(1, count + 1)])
    [text] = whole.passages(["d0"])
    assert " ".join(piece.text for piece in pieces).split() == text.text.split()


def test_the_piece_is_the_one_that_holds_the_querys_words(engine, whole) -> None:
    for at in (1, 5, 10):
        wanted = bundled_passages()[at]
        sentence = wanted.text.split(". ")[1]
        [hit] = [hit for hit in engine.search(Query(sentence), 5) if document(hit.id) == "d0"]
        assert sentence in engine.passages([hit.id])[0].text


def test_another_refinement_brings_another_piece_of_the_same_document(engine) -> None:
    first, last = (set(engine.analyze(bundled_passages()[at].text)) for at in (0, EACH - 1))
    lists = engine.refine(
        Query(bundled_passages()[0].title),
        [Refinement("^", "contents", max(sorted(own), key=lambda term: engine.idf("contents", term)), 8.0)
         for own in (first - last, last - first)], 5,
    )  # fmt: skip
    pieces = [next(hit.id for hit in hits if document(hit.id) == "d0") for hits in lists]
    assert pieces[0] != pieces[1]


def test_refine_is_search_for_each_refinement(engine) -> None:
    for query in QUERIES[:6]:
        [best, *_] = engine.passages([hit.id for hit in engine.search(query, 5)])
        words = sorted(set(engine.analyze(best.contents)))[:12]
        options = [each for word in words for field in FIELDS for each in G4.refinements(field, word)]
        assert engine.refine(query, options, 5) == [engine.search(query.refine(each), 5) for each in options]


def test_short_documents_keep_their_ids(engine) -> None:
    ids = [passage.id for passage in bundled_passages()[240:250]]
    assert [passage.id for passage in engine.passages(ids)] == ids
