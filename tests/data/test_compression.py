"""Compressed files: every way in which they can be cut, damaged or misnamed."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from orienteer.data import Passage, compression, read_passages
from orienteer.errors import DataError

COMPRESS = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}
NAMES = {".gz": "gzip", ".xz": "xz", ".zst": "zstd"}
ROWS = b"".join(b'{"id": %d, "text": "%x"}\n' % (n, n**40) for n in range(2000))
WHOLE = {suffix: compress(ROWS) for suffix, compress in COMPRESS.items()}
suffixes = pytest.mark.parametrize("suffix", COMPRESS)


def read(path: Path) -> list[Passage]:
    return list(read_passages(path))


@suffixes
def test_a_file_of_several_streams_is_read_to_the_end(tmp_path, suffix):
    path = tmp_path / f"p.jsonl{suffix}"
    half = len(ROWS) // 2
    path.write_bytes(COMPRESS[suffix](ROWS[:half]) + COMPRESS[suffix](b"") + COMPRESS[suffix](ROWS[half:]))
    assert [passage.id for passage in read(path)] == [str(n) for n in range(2000)]


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_zeros_after_a_stream_are_padding(tmp_path, suffix):
    path = tmp_path / f"p.jsonl{suffix}"
    path.write_bytes(WHOLE[suffix] + bytes(8) + COMPRESS[suffix](b'{"id": "z", "text": ""}') + bytes(4))
    assert len(read(path)) == 2001


def test_zstd_frames_to_be_skipped_are_skipped(tmp_path):
    path = tmp_path / "p.jsonl.zst"
    skippable = b"\x53\x2a\x4d\x18\x04\x00\x00\x00note"
    path.write_bytes(skippable + WHOLE[".zst"] + skippable)
    assert len(read(path)) == 2000


@suffixes
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_file_cut_anywhere_is_one_data_error(tmp_path_factory, suffix, data):
    whole = WHOLE[suffix]
    cut = data.draw(st.integers(0, len(whole) - 1))
    path = tmp_path_factory.getbasetemp() / f"cut.jsonl{suffix}"
    path.write_bytes(whole[:cut])
    with pytest.raises(DataError, match=f"cut.jsonl{suffix}: the {NAMES[suffix]} file is cut short or damaged"):
        read(path)


@suffixes
def test_a_second_stream_that_is_cut_is_an_error_too(tmp_path, suffix):
    path = tmp_path / f"p.jsonl{suffix}"
    stream = WHOLE[suffix]
    path.write_bytes(stream + stream[: len(stream) // 2])
    with pytest.raises(DataError, match="cut short or damaged"):
        read(path)


@suffixes
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_flipped_bit_never_changes_a_passage_in_silence(tmp_path_factory, suffix, data):
    whole = bytearray(WHOLE[suffix])
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] ^= 1 << data.draw(st.integers(0, 7))
    path = tmp_path_factory.getbasetemp() / f"flipped.jsonl{suffix}"
    path.write_bytes(whole)
    try:
        found = read(path)
    except DataError:
        return
    # Bits that mean nothing, such as the time in gzip's header, may differ.
    assert [passage.id for passage in found] == [str(n) for n in range(2000)]


@suffixes
def test_rows_before_the_cut_are_read_first(tmp_path, suffix, monkeypatch):
    monkeypatch.setattr(compression, "BLOCK", 1 << 12)
    monkeypatch.setattr(compression, "_READ", 1 << 12)
    whole = WHOLE[suffix]
    path = tmp_path / f"p.jsonl{suffix}"
    path.write_bytes(whole[: len(whole) * 3 // 4])
    reading = read_passages(path)
    assert [next(reading).id for _ in range(100)] == [str(n) for n in range(100)]
    with pytest.raises(DataError, match="cut short or damaged"):
        list(reading)


@suffixes
def test_blocks_are_bounded_whatever_the_ratio(tmp_path, suffix, monkeypatch):
    monkeypatch.setattr(compression, "BLOCK", 1 << 16)
    path = tmp_path / f"zeros.jsonl{suffix}"
    path.write_bytes(COMPRESS[suffix](bytes(10 << 20)))
    sizes = [len(block) for block in compression.read_blocks(path)]
    assert sum(sizes) == 10 << 20
    assert max(sizes) <= 1 << 17


@suffixes
def test_a_name_that_promises_compression_is_held_to_it(tmp_path, suffix):
    path = tmp_path / f"p.jsonl{suffix}"
    path.write_bytes(ROWS)
    with pytest.raises(DataError, match=f"the name says {NAMES[suffix]}, the content is not compressed"):
        read(path)


@suffixes
def test_a_compressed_file_under_a_plain_name_is_still_read(tmp_path, suffix):
    path = tmp_path / "p.jsonl"
    path.write_bytes(WHOLE[suffix])
    assert len(read(path)) == 2000


def test_a_line_without_end_is_an_error_and_not_all_of_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("orienteer.data.rows.MAX_LINE", 1 << 20)
    path = tmp_path / "p.jsonl"
    path.write_bytes(b'{"id": 1, "text": ""}\n' + b"x" * (3 << 20))
    with pytest.raises(DataError, match=r"p\.jsonl: line 2 is longer than 1 MiB"):
        read(path)


def test_a_file_in_utf_16_is_named_as_such(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_bytes('{"id": 1, "text": ""}'.encode("utf-16"))
    with pytest.raises(DataError, match=r"p\.jsonl: the file is UTF-16; expected UTF-8"):
        read(path)


@settings(max_examples=100, deadline=None)
@given(
    lines=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=9)),
    block=st.integers(1, 30),
)
def test_lines_do_not_depend_on_where_blocks_end(lines, block):
    from orienteer.data.rows import numbered_lines

    data = "\n".join(["first", *lines]).encode()
    blocks = [data[start : start + block] for start in range(0, len(data), block)]
    expected = ["first", *lines]
    if not expected[-1]:
        expected.pop()
    assert [(n, line.decode()) for n, line in numbered_lines(blocks)] == list(enumerate(expected, 1))
