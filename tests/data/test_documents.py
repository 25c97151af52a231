"""Documents of every format: what is readable is found, what is not is named, every passage knows where it stands."""

from __future__ import annotations

from itertools import pairwise

import pytest
from make_documents import FACTS, PROSE, UNREADABLE, make_documents, pdf

from orienteer.data import Split, Unreadable, read_passages
from orienteer.data.documents import read_document
from orienteer.data.documents.encodings import decode
from orienteer.data.documents.markup import html_texts
from orienteer.data.split import words
from orienteer.engine import ReferenceEngine
from orienteer.query import Query


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    folder = tmp_path_factory.mktemp("documents")
    make_documents(folder)
    unreadable: list[Unreadable] = []
    return folder, list(read_passages(folder, on_unreadable=unreadable.append)), unreadable


def test_every_readable_file_is_found_by_a_question_that_only_it_answers(documents):
    _, passages, _ = documents
    engine = ReferenceEngine(passages)
    for file, (question, answer) in FACTS.items():
        [best] = engine.passages([hit.id for hit in engine.search(Query(question), 1)])
        assert best.metadata["file"] == file
        assert answer in best.text


def test_everything_else_is_named_with_its_reason(documents):
    _, passages, unreadable = documents
    reasons = {each.file: each.reason for each in unreadable}
    assert reasons.keys() == UNREADABLE.keys()
    for file, reason in UNREADABLE.items():
        assert reason in reasons[file]
    assert {passage.metadata["file"] for passage in passages} == FACTS.keys()


def test_menus_scripts_and_directives_are_no_text(documents):
    _, passages, _ = documents
    text = " ".join(passage.contents for passage in passages)
    for word in ("menuword", "Footerword", "scriptword", "hidden-menu", "toctree", ":option:"):
        assert word not in text


def test_passages_know_title_section_page_folder_and_date(documents):
    _, passages, _ = documents
    by_file = {passage.metadata["file"]: passage for passage in passages}  # the last of each file
    assert by_file["guide.md"].title == "Turbine guide: Care: Grease"
    assert by_file["guide.md"].metadata["section"] == "Care > Grease"
    assert by_file["guide.md"].metadata["date"] == "2019-05-01"
    assert by_file["letter.docx"].title == "Lease"
    assert by_file["novel.epub"].title == "The Captain: The map"
    assert by_file["novel.epub"].metadata["language"] == "en"
    assert by_file["reports/2021/deep.md"].metadata["folder"] == "reports/2021"
    assert by_file["prices.csv"].metadata["year"] == 1911
    assert by_file["report.pdf"].source == "report.pdf, pages 1–2"


def test_a_word_divided_at_a_lines_end_is_whole_and_a_sentence_over_pages_too(documents):
    _, passages, _ = documents
    assert any("quondamite lantern on" in passage.text for passage in passages)
    assert any("failed in March was the brindlecock valve" in passage.text for passage in passages)


def test_the_span_of_a_passage_is_its_text_in_the_file(documents):
    folder, passages, _ = documents
    for file in ("notes.txt", "guide.md", "latin1.txt"):
        text = decode((folder / file).read_bytes())
        for passage in (each for each in passages if each.metadata["file"] == file):
            span = text[passage.metadata["start"] : passage.metadata["end"]]
            assert span.replace("-\n", "").split() == passage.text.split()


def test_passages_have_the_words_and_the_overlap_that_are_asked_for(tmp_path):
    sentences = [f"Sentence {number} tells of the harbour and its boats in the winter." for number in range(200)]
    (tmp_path / "a.txt").write_text(" ".join(sentences))
    for split in (Split(), Split(words=50), Split(words=100, overlap=30)):
        found = [passage.text for passage in read_passages(tmp_path, split=split)]
        assert all(0.6 * split.words <= words(text) <= 1.5 * split.words + split.overlap for text in found)
        for before, after in pairwise(found):
            shared = [sentence for sentence in sentences if sentence in before and sentence in after]
            assert len(shared) == (2 if split.overlap else 0)


def test_a_short_rest_of_a_section_joins_the_passage_before_it(tmp_path):
    (tmp_path / "a.md").write_text(f"# A\n{PROSE * 6}\n\nA short rest.\n\n# B\nOwn section.\n")
    assert [words(passage.text) for passage in read_passages(tmp_path)] == [6 * 19 + 3, 2]


def test_running_heads_of_a_pdf_are_left_out(tmp_path):
    pages = [["Station handbook", f"Chapter text number {n} stands here.", f"page {n}"] for n in range(1, 8)]
    (tmp_path / "a.pdf").write_bytes(pdf(pages))
    text = " ".join(block.text for block in read_document(tmp_path / "a.pdf").blocks)
    assert "handbook" not in text
    assert text.count("Chapter text") == 7


def test_running_heads_that_are_written_after_the_text_are_left_out(tmp_path):
    words = ["wind", "rain", "snow", "hail", "fog", "frost", "sun"]
    pages = [[f"Chapter text of {word} goes on", "Station handbook", f"file:///book {len(word)}/7"] for word in words]
    (tmp_path / "a.pdf").write_bytes(pdf(pages))
    text = " ".join(block.text for block in read_document(tmp_path / "a.pdf").blocks)
    assert "handbook" not in text
    assert "book" not in text
    assert text.count("Chapter text") == 7


def test_a_passage_over_a_pages_end_names_both_pages(tmp_path):
    (tmp_path / "a.pdf").write_bytes(pdf([["The lamp was lit by"], ["Signe Berg."], ["Another page."]]))
    [passage] = read_passages(tmp_path)
    assert (passage.metadata["page"], passage.metadata["last_page"]) == (1, 3)
    (tmp_path / "a.pdf").write_bytes(pdf([["All on one page."]]))
    [passage] = read_passages(tmp_path)
    assert "last_page" not in passage.metadata


def test_a_page_without_a_main_part_is_read_whole_but_for_its_menus():
    page = "<body><div class='sidebar'>side</div><header>head</header><h2>One</h2><p>a<br>b</p><div hidden>no</div><p>c"
    assert list(html_texts(page)) == [("One", 2), ("a", 0), ("b", 0), ("c", 0)]


GERMAN = "Die Wetterwarte über dem Fjord führt Buch über Wind, Regen und Schnee; täglich, größtenteils. "
RUSSIAN = "Метеостанция стоит над фьордом и ведёт журнал ветра и дождя. "
JAPANESE = "観測所はフィヨルドの上にあり、風と雨と雪を記録しています。"


@pytest.mark.parametrize(
    ("encoding", "text"),
    [("cp1251", RUSSIAN), ("shift_jis", JAPANESE), ("cp1252", GERMAN), ("utf-16", GERMAN), ("utf-8-sig", JAPANESE)],
)
def test_common_encodings_are_told_apart(encoding, text):
    assert decode((text * 5).encode(encoding)) == text * 5
