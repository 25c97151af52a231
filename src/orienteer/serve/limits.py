"""What one server gives away at most, so that no client can take it from the others."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """
    body       bytes of a request; a session's file must fit
    question   characters of a question or query
    k          passages of a search, and of each query of a session
    steps      refinements of a session, an agent's and a person's together
    running    agents at work at one time; a further one is told to come back
    sessions   sessions kept in memory; the one longest untouched goes first
    saved      sessions kept on disk
    deadline   seconds an agent may work before what it has found is returned
    together   passages read in one batch, of all sessions: more would let a click wait behind too many agents
    """

    body: int = 2 << 20
    question: int = 2_000
    k: int = 100
    steps: int = 50
    running: int = 256
    sessions: int = 500
    saved: int = 10_000
    deadline: float = 120.0
    together: int = 64
