"""Small random corpora and queries over one vocabulary, for comparison with exhaustive search."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import strategies as st

from orienteer.data.passage import Passage
from orienteer.engine import EmbeddedEngine, build_index, open_index
from orienteer.query import Query, Refinement

WORDS = "ant bee cow dog elk fox".split()

texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
titles = st.lists(st.sampled_from(WORDS), max_size=1).map(" ".join)
corpora = st.lists(st.tuples(titles, texts), min_size=4, max_size=9).map(
    lambda rows: [Passage(f"p{number}", title, text) for number, (title, text) in enumerate(rows)]
)
refinements = st.one_of(
    st.builds(Refinement, st.sampled_from("+-"), st.sampled_from(["contents", "title"]), st.sampled_from(WORDS)),
    st.builds(Refinement, st.just("^"), st.just("contents"), st.sampled_from(WORDS), st.just(4.0)),
)
queries = st.builds(
    lambda words, more: Query(" ".join(words), tuple(more)),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=3),
    st.lists(refinements, max_size=2),
)


def opened(passages: list[Passage]) -> EmbeddedEngine:
    with TemporaryDirectory() as folder:
        build_index(passages, Path(folder), threads=1)
        return open_index(folder, threads=1)  # the mapped files outlive their names
