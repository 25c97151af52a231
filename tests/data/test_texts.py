"""Folders of texts, cut into passages; questions one a line."""

from __future__ import annotations

import lzma
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orienteer.data import Passage, Question, Unreadable, find_ids, read_passages, read_questions
from orienteer.data.documents.plain import joined_hyphens, markdown_blocks
from orienteer.data.split import cut, split_blocks, words

SENTENCE = "The loch lies south of the old town and holds more water than any other. "  # 15 words


def write(path, text: str):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def markdown(tmp_path, text: str) -> list[Passage]:
    return list(read_passages(write(tmp_path / "guide.md", text)))


def test_ids_are_the_path_in_the_folder_and_a_number(tmp_path):
    write(tmp_path / "b.txt", "Bee.")
    write(tmp_path / "a" / "x.md", "# Ex\n\none\n\n## Why\n\ntwo")
    write(tmp_path / "a" / ".hidden.md", "no")
    write(tmp_path / ".git" / "y.md", "no")
    write(tmp_path / "a" / "z.pdf", "no")
    (tmp_path / "c.txt.xz").write_bytes(lzma.compress(b"Sea."))
    assert list(read_passages(tmp_path)) == [
        Passage("a/x.md#1", "Ex", "one"),
        Passage("a/x.md#2", "Ex: Why", "two"),
        Passage("b.txt#1", "b", "Bee."),
        Passage("c.txt.xz#1", "c", "Sea."),
    ]


def test_a_single_text_file_is_read_like_a_folder_of_one(tmp_path):
    path = write(tmp_path / "some_notes.txt", "Hello.\r\n\r\nWorld.\r\n")
    assert list(read_passages(path)) == [Passage("some_notes.txt#1", "some notes", "Hello.\n\nWorld.")]


def test_a_text_without_headings_is_titled_by_its_file(tmp_path):
    assert markdown(tmp_path, "just words")[0].title == "guide"


def test_headings_give_the_title_its_context(tmp_path):
    found = markdown(
        tmp_path,
        "before\n\n# Guide #\nintro\n## Install\nrun it\n### On Linux\napt\n## Use\nsearch\n#not a heading\n"
        "# Annex\nmore",
    )
    assert [(passage.title, passage.text) for passage in found] == [
        ("guide", "before"),
        ("Guide", "intro"),
        ("Guide: Install", "run it"),
        ("Guide: Install: On Linux", "apt"),
        ("Guide: Use", "search\n#not a heading"),
        ("Guide: Annex", "more"),
    ]


def test_underlined_headings_count_and_list_items_over_a_rule_do_not(tmp_path):
    found = markdown(tmp_path, "Guide\n=====\ntext\n\nPart\n----\n- item\n---\nend")
    assert [(passage.title, passage.text) for passage in found] == [
        ("Guide", "text"),
        ("Guide: Part", "- item\n---\nend"),
    ]


def test_a_comment_in_a_code_block_is_no_heading(tmp_path):
    found = markdown(tmp_path, "# Guide\n\n```sh\n# install\n\n# run\n```\n~~~\n```\n# still code\n~~~\n# Next\nx")
    assert [passage.title for passage in found] == ["Guide", "Guide: Next"]
    assert "# still code" in found[0].text


def test_front_matter_is_no_text_and_may_give_the_title(tmp_path):
    assert markdown(tmp_path, '---\nlayout: page\ntitle: "The Loch"\n---\nDeep.\n\n# Size\nLong.') == [
        Passage("guide.md#1", "The Loch", "Deep."),
        Passage("guide.md#2", "The Loch: Size", "Long."),
    ]
    assert markdown(tmp_path, "---\nno end\n\nof it")[0].text == "---\nno end\n\nof it"


def test_short_paragraphs_share_a_passage_of_about_a_hundred_words(tmp_path):
    path = write(tmp_path / "a.txt", "\n\n".join([SENTENCE * 2] * 20))
    sizes = [words(passage.text) for passage in read_passages(path)]
    assert sum(sizes) == 600
    assert all(90 <= size <= 120 for size in sizes[:-1])


def test_a_long_paragraph_is_cut_after_sentences_into_even_parts(tmp_path):
    path = write(tmp_path / "a.txt", SENTENCE * 23)
    found = list(read_passages(path))
    assert [words(passage.text) for passage in found] == [120, 105, 120]
    assert all(passage.text.startswith("The loch") and passage.text.endswith("other.") for passage in found)


def test_a_passage_knows_the_line_it_starts_at(tmp_path):
    path = write(tmp_path / "a.md", "# A\n\nfirst\n\n## B\n\n\nsecond\n" + "\n".join([SENTENCE] * 30))
    found = list(read_passages(path))
    places = find_ids(path, [passage.id for passage in found])
    lines = path.read_text().split("\n")
    for passage in found:
        [place] = places[passage.id]
        line = int(place.removeprefix(f"{path}:"))
        assert lines[line - 1].strip().startswith(passage.text.split("\n")[0].strip()[:20])


def test_text_without_blanks_is_cut_too(tmp_path):
    japanese = "湖は町の南にあり、水は深い。" * 400
    sizes = [len(passage.text) for passage in read_passages(write(tmp_path / "a.txt", japanese))]
    assert sum(sizes) == len(japanese)
    assert max(sizes) <= 1500
    assert all(len(piece) <= 1500 for piece in cut("x" * 20_000))


def test_a_latin_1_letter_in_a_utf_8_text_is_read_as_it_was_meant(tmp_path):
    (tmp_path / "a.txt").write_bytes("Das Wasser f\xfcllt den Stra\xdfengraben. ".encode() * 9 + b"b\xe4d\n")
    [passage] = read_passages(tmp_path)
    assert passage.text.endswith("füllt den Straßengraben. bäd")


def test_a_file_in_utf_16_is_read(tmp_path):
    (tmp_path / "a.txt").write_text("wide", encoding="utf-16")
    (tmp_path / "b.txt").write_text("wide without a mark", encoding="utf-16-le")
    assert [passage.text for passage in read_passages(tmp_path)] == ["wide", "wide without a mark"]


def test_a_file_name_that_is_not_utf_8_is_named_and_can_be_printed(tmp_path):
    try:
        with open(os.fsencode(tmp_path) + b"/\xff.txt", "w") as file:  # noqa: PTH123
            file.write("text")
    except OSError:
        pytest.skip("this file system refuses names that are not UTF-8")
    write(tmp_path / "b.txt", "fine")
    unreadable: list[Unreadable] = []
    assert [passage.id for passage in read_passages(tmp_path, on_unreadable=unreadable.append)] == ["b.txt#1"]
    [left_out] = unreadable
    assert "file name" in str(left_out)
    str(left_out).encode()


def test_questions_in_a_text_file_are_one_a_line(tmp_path):
    path = write(tmp_path / "q.txt", "who dug it?\n\n  how deep is it? \r\n")
    assert list(read_questions(path)) == [Question("1", "who dug it?"), Question("3", "how deep is it?")]


lines = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r"), max_size=40)
sentences = st.lists(st.sampled_from(["word", "end.", "Why?", "x" * 30, "湖。", "\t", "  "]), max_size=500).map(
    " ".join
)


@pytest.mark.long
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(text=st.lists(lines | sentences, max_size=12).map("\n".join))
def test_no_word_of_a_text_is_lost_or_moved(tmp_path, text):
    path = write(tmp_path / "a.txt", text)
    found = list(read_passages(path))
    together = "".join("".join(passage.text.split()) for passage in found)
    # Line-end hyphens are joined within a passage; which lines that are depends on where the text is cut.
    assert together.replace("-", "") == "".join(joined_hyphens(text).removeprefix("\ufeff").split()).replace("-", "")
    assert [passage.id for passage in found] == [f"a.txt#{n}" for n in range(1, len(found) + 1)]
    assert all(passage.text and words(passage.text) <= 275 for passage in found)


@given(text=st.lists(lines | st.sampled_from(["# A", "## B", "===", "---", "```", "~~~", "", "- x"]), max_size=15))
def test_any_markdown_gives_passages_with_text_and_title(text):
    lines, at = [], 0
    for number, line in enumerate(text, 1):
        lines.append((number, at, line))
        at += len(line) + 1
    pieces = list(split_blocks(markdown_blocks(lines), "name"))
    whole = "\n".join(text)
    for piece in pieces:
        assert "".join(whole[piece.start : piece.end].split()).startswith("".join(piece.text.split()[:1]))
    assert all(piece.text.strip() and piece.title for piece in pieces)
    assert [piece.line for piece in pieces] == sorted({piece.line for piece in pieces})


@given(sentences)
def test_pieces_joined_are_the_text(text):
    assert "".join(cut(text)) == text
