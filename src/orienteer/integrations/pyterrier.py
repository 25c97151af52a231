"""A PyTerrier transformer: queries in, the passages that a search agent finds out (extra: pyterrier).

agent = OrienteerRetriever(Searcher.open("my-index"))
pt.Experiment([agent], topics, qrels, ["recip_rank"])
"""

from __future__ import annotations

import numpy as np

from orienteer.api import Searcher
from orienteer.errors import MissingExtraError
from orienteer.integrations import find_passages

try:
    import pandas as pd
    import pyterrier as pt
except ImportError:
    raise MissingExtraError("python-terrier", "pyterrier") from None

_OUTPUTS = ("docno", "score", "rank", "title", "text")


class OrienteerRetriever(pt.Transformer):
    """From `qid`, `query` (and further columns) to a row a passage; the score is PS, ranks begin at 0."""

    def __init__(self, searcher: Searcher, k: int = 5) -> None:
        self._searcher, self._k = searcher, k

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        pt.validate.query_frame(inp, ["query"])
        inputs = [column for column in inp.columns if column not in _OUTPUTS]
        topics = inp[inputs].drop_duplicates("qid")
        rows = []
        results = find_passages(self._searcher, [str(query) for query in topics["query"]], self._k)
        for topic, passages in zip(topics.to_dict("records"), results, strict=True):
            score = np.float32(np.inf)
            for rank, each in enumerate(passages):
                # Measures sort a run by score again, in single precision: equal scores must not change places.
                score = min(np.float32(each.ps), np.nextafter(score, np.float32(0)))
                outputs = (each.id, float(score), rank, each.title, each.text)
                rows.append({**topic, **dict(zip(_OUTPUTS, outputs, strict=True))})
        return pd.DataFrame(rows, columns=[*inputs, *_OUTPUTS])
