"""Why a passage has its score: the share of each clause."""

from __future__ import annotations

from typing import Literal

import numpy as np

from orienteer.engine.embedded.clauses import Clause, Compiled
from orienteer.engine.embedded.index import FIELD_NUMBER
from orienteer.engine.protocol import ClauseScore, Explanation

FIELD_NAME = {number: name for name, number in FIELD_NUMBER.items()}


def explain(query: Compiled, number: int) -> Explanation:
    """The score of passage `number`, summed and rounded as `search` does."""
    arrays = query.lists.arrays()
    pairs = query.lists.pairs()

    def share(occur: Literal["must", "should", "must_not"], clause: Clause) -> ClauseScore:
        postings, text = clause.postings, clause.text
        documents, codes = (arrays[2], arrays[3]) if postings.extra else (arrays[0], arrays[1])
        at = postings.start + int(np.searchsorted(documents[postings.start : postings.end], number))
        here = at < postings.end and documents[at] == number
        frequency = int(pairs[codes[at]][1]) if here else 0
        score = np.float32(0)
        if here and occur != "must_not":
            score = clause.weight - clause.weight / arrays[4][codes[at]]
        return ClauseScore(
            occur,
            FIELD_NAME[text.field],
            " ".join(text.terms),
            clause.boost,
            float(postings.idf),
            frequency,
            float(score),
        )

    must = [share("must", clause) for clause in query.must]
    should = [share("should", clause) for clause in query.should]
    must_not = [share("must_not", clause) for clause in query.must_not]
    matches = (
        not query.impossible
        and all(part.frequency for part in must)
        and not any(part.frequency for part in must_not)
        and bool(must or any(part.frequency for part in should))
    )
    total = np.float32(sum(part.score for part in must)) + np.float32(sum(part.score for part in should))
    return Explanation(matches, float(total) if matches else 0.0, (*must, *should, *must_not))
