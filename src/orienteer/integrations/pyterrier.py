"""A PyTerrier transformer: queries in, the passages that a search agent finds out (extra: pyterrier).

agent = OrienteerRetriever(Researcher.open("my-index"))
pt.Experiment([agent], topics, qrels, ["recip_rank"])
"""

from __future__ import annotations

import numpy as np

from orienteer.errors import MissingExtraError
from orienteer.integrations.researcher import Researcher

try:
    import pandas as pd
    import pyterrier as pt
except ImportError:
    raise MissingExtraError("python-terrier", "pyterrier") from None

_FOUND = ("docno", "score", "rank", "title", "text")


class OrienteerRetriever(pt.Transformer):
    """From `qid`, `query` (and whatever else) to a row a passage; the score is PS, ranks begin at 0."""

    def __init__(self, researcher: Researcher, k: int = 5) -> None:
        self._researcher, self._k = researcher, k

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        pt.validate.query_frame(inp, ["query"])
        kept = [column for column in inp.columns if column not in _FOUND]
        topics = inp[kept].drop_duplicates("qid")
        rows = []
        sessions = self._researcher.sessions([str(query) for query in topics["query"]])
        for topic, session in zip(topics.to_dict("records"), sessions, strict=True):
            score = np.float32(np.inf)
            for rank, each in enumerate(session.best[: self._k]):
                passage = each.passage
                # Who judges a run sorts it by score again, in single precision: equal ones must not change places.
                score = min(np.float32(each.reading.score), np.nextafter(score, np.float32(0)))
                found = (passage.id, float(score), rank, passage.title, passage.text)
                rows.append({**topic, **dict(zip(_FOUND, found, strict=True))})
        return pd.DataFrame(rows, columns=[*kept, *_FOUND])
