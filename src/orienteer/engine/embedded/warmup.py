"""Compile every kernel once, for every kind of call; numba keeps the result beside the source for later runs."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def is_warm() -> bool:
    """Whether compiled kernels lie where numba keeps them; wrong only about a message, never about a result."""
    if os.environ.get("NUMBA_CACHE_DIR"):
        return True
    return any((Path(__file__).parent / "kernels" / "__pycache__").glob("refine.refine_pass-*.nbi"))


def warm_up() -> None:
    """A little of everything: build, update, search with every operator, refine from every kind of state."""
    from orienteer.data.passage import Passage
    from orienteer.engine.embedded.build import build_index, update_index
    from orienteer.engine.embedded.engine import open_index
    from orienteer.query import G4, Query

    passages = [Passage(str(i), f"title {i % 7}", f"green muppet number {i} on a street") for i in range(40)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        build_index(passages, path)
        update_index(path, add=[Passage("new", "", "a new passage")], delete=["3"])
        engine = open_index(path)
        queries = [Query("who is the green muppet")]
        queries += [queries[0].refine(refinement) for refinement in G4.refinements("contents", "green muppet")]
        engine.search_many(queries, 2)
        engine.scores(queries[0])
        engine.nearest_terms("mupet", 1)
        candidates = [*G4.refinements("contents", "street"), *G4.refinements("title", "title")]
        for query in queries:
            engine.refine(query, candidates, 2)
