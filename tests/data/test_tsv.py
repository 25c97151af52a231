"""DPR's table of passages."""

from __future__ import annotations

import csv
import gzip

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orienteer.data import BadRows, Passage, find_ids, read_passages
from orienteer.errors import DataError

HEADER = "id\ttext\ttitle\n"


def table(tmp_path, text: str):
    path = tmp_path / "psgs_w100.tsv"
    path.write_bytes(text.encode())
    return path


def test_a_quoted_text_loses_its_quotes_and_doubled_ones_become_one(tmp_path):
    path = table(tmp_path, HEADER + '1\t"Aaron ( or ; ""Ahärôn"") is a prophet."\tAaron\n2\tplain\t"""Weird"" Al"\n')
    assert list(read_passages(path)) == [
        Passage("1", "Aaron", 'Aaron ( or ; "Ahärôn") is a prophet.'),
        Passage("2", '"Weird" Al', "plain"),
    ]


def test_a_compressed_table_is_read_alike(tmp_path):
    path = tmp_path / "psgs_w100.tsv.gz"
    path.write_bytes(gzip.compress(f"{HEADER}1\ta\tb\r\n\r\n2\tc\td".encode()))
    assert list(read_passages(path)) == [Passage("1", "b", "a"), Passage("2", "d", "c")]


def test_columns_are_known_by_name_and_the_title_may_be_missing(tmp_path):
    assert list(read_passages(table(tmp_path, "title\tid\ttext\nT\t1\tx\n"))) == [Passage("1", "T", "x")]
    assert list(read_passages(table(tmp_path, "id\ttext\n1\tx\n"))) == [Passage("1", "", "x")]


def test_a_quoted_text_may_run_over_lines_even_blank_ones(tmp_path):
    path = table(tmp_path, HEADER + '1\t"one\n\n""two""\nthree"\tT\n2\tx\tU\n')
    assert list(read_passages(path)) == [Passage("1", "T", 'one\n\n"two"\nthree'), Passage("2", "U", "x")]
    assert find_ids(path, ["2"]) == {"2": [f"{path}:6"]}


def test_a_title_with_loose_quotes_is_taken_as_dpr_takes_it(tmp_path):
    line = '1\t"A text."\t"Weird Al" Yankovic'
    assert list(read_passages(table(tmp_path, HEADER + line + "\n"))) == [
        Passage("1", next(csv.reader([line], delimiter="\t"))[2], "A text.")
    ]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("5\tno title", "2 columns; expected 3"),
        ("5", "1 column; expected 3"),
        ("5\ta\tb\tc", "4 columns; expected 3"),
        ("\ttext\ttitle", 'the "id" is empty'),
        ('5\t"open\ttitle', "quotes out of order"),
        ('5\t"loose" text\t"open', "quotes out of order"),
        ("5\ta\rb\ttitle", "new-line character"),
        ("5\t" + "x" * 140_000 + "\ttitle", "field larger than field limit"),
    ],
)
def test_a_bad_row_is_named_by_its_line_and_the_next_row_is_read(tmp_path, row, message):
    path = table(tmp_path, f'{HEADER}4\ta\tb\n{row}\n6\t"six"\tSix\n7\tseven\tSeven\n')
    with pytest.raises(DataError) as error:
        list(read_passages(path))
    assert str(error.value).startswith(f"{path}:3: ")
    assert message in str(error.value)
    bad = BadRows()
    assert [passage.id for passage in read_passages(path, skip_bad=True, on_bad=bad)] == ["4", "6", "7"]
    assert bad.count == 1


def test_a_quote_open_to_the_end_loses_only_its_own_row(tmp_path):
    lines = "".join(f"{n}\ttext\ttitle\n" for n in range(10, 20))
    path = table(tmp_path, f'{HEADER}5\t"open\ttitle\n{lines}')
    bad = BadRows()
    assert len(list(read_passages(path, skip_bad=True, on_bad=bad))) == 10
    assert bad.first == [f"{path}:2: a quote that opens a field and is not closed; close it, or double it"]


def test_invalid_utf_8_is_named_by_its_line(tmp_path):
    path = tmp_path / "p.tsv"
    path.write_bytes(HEADER.encode() + b"1\ta\xffb\tc\n")
    with pytest.raises(DataError, match=r"p\.tsv:2: invalid UTF-8: byte 0xff at byte 4"):
        list(read_passages(path))


def test_a_table_without_the_header_says_what_it_should_be(tmp_path):
    path = table(tmp_path, "0\tThe presence of communication\n")
    with pytest.raises(DataError, match=r"the header has the columns '0', .* expected 'id', 'text', 'title'"):
        list(read_passages(path))


cells = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=30)


@pytest.mark.long
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(
    rows=st.lists(st.tuples(cells, cells), max_size=8),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_what_pythons_csv_writes_is_read_back(tmp_path, rows, quoting):
    path = tmp_path / "p.tsv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter="\t", quoting=quoting, lineterminator="\n")
        writer.writerow(["id", "text", "title"])
        writer.writerows([str(n), text, title] for n, (text, title) in enumerate(rows))
    assert list(read_passages(path)) == [Passage(str(n), title, text) for n, (text, title) in enumerate(rows)]
