"""Rankings learned from thumbs that a person has switched on, by the fingerprint of their index, in one local file.

A search by a learned ranking shows what it adds: synonyms, boosts and title terms are refinements of the query.
Agents and sessions do not use it.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np

from orienteer.data.atomic import atomic_write
from orienteer.engine.protocol import Engine, HasPostings, Hit, allowed_by, filtered, fingerprint_of
from orienteer.query import Query
from orienteer.serve.errors import ServeError
from orienteer.workshop.learn import LearnError, Proposal, changes_as_dict, changes_of, expanded


class NotLearnedError(ServeError):
    """A learned ranking that is not switched on, or of which nothing is known."""

    status = 409


class LearnedRankings:
    """What is switched on; `proposals` are those that were shown since the server started."""

    def __init__(self, file: Path) -> None:
        self._file, self._lock = file, threading.Lock()
        self.proposals: dict[str, Proposal] = {}

    def is_on(self, engine: Engine) -> bool:
        return fingerprint_of(engine) in self._read()

    def switch(self, engine: Engine, on: bool) -> None:
        """Uses the last proposal that was shown, or goes back to the engine's own ranking."""
        fingerprint = fingerprint_of(engine)
        with self._lock:
            rows = self._read()
            if on:
                if (proposal := self.proposals.get(fingerprint)) is None:
                    raise NotLearnedError("look at a proposal first, then switch it on")
                # Who switches on what is not shown to be better gets to see all of it.
                kind = "all" if proposal.recommended == "nothing" else proposal.recommended
                rows[fingerprint] = changes_as_dict(proposal.changes.only(kind))
            else:
                rows.pop(fingerprint, None)
            atomic_write(self._file, json.dumps(rows, indent=1))

    def search(self, engine: Engine, where: str, query: Query, k: int) -> tuple[Query, list[Hit]]:
        """The query as the learned ranking asks it, and its first k passages."""
        row = self._read().get(fingerprint_of(engine))
        if row is None or not isinstance(engine, HasPostings):
            raise NotLearnedError("no learned ranking is switched on for this index")
        try:
            learned = changes_of(row)
        except LearnError:
            raise NotLearnedError(f"{self._file}: damaged; switch the learned ranking off and on again") from None
        asked = expanded(engine, learned, query.question).refine(*query.refinements)
        scores = engine.scores_with(asked, learned.setting.similarity)
        allowed = allowed_by(filtered(engine, where))
        if allowed.size:
            scores = np.where(allowed, scores, np.float32(-np.inf))
        best = np.argsort(-scores, kind="stable")[:k]
        return asked, [Hit(engine.id_at(n), float(scores[n])) for n in best.tolist() if scores[n] > -np.inf]

    def _read(self) -> dict[str, Any]:
        try:
            rows = json.loads(self._file.read_text())
        except (OSError, ValueError):
            return {}
        return rows if isinstance(rows, dict) else {}
