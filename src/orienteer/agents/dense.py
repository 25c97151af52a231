"""Agents of dense retrieval: one search by vectors, one by BM25 and vectors together, and vectors for any agent.

They take the embeddings or stored runs of the folder in their name, `dense=DIR`; without one the embeddings of the
folder ORIENTEER_EMBEDDINGS, then the stored runs of the folder ORIENTEER_RUNS, then the vectors that the index has.

Every other agent takes the option `dense`: `pointer[dense=5]` starts from BM25's hits and the 5 nearest by vectors.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from orienteer.agents.baselines import NoRefinement
from orienteer.agents.spec import (
    AgentNameError,
    AgentRequest,
    AgentSpec,
    Checkpoint,
    CheckpointMissingError,
    ConfiguredAgent,
)
from orienteer.engine.protocol import Engine, StoresPassages, allowed_by
from orienteer.errors import FilterError
from orienteer.session import Settings

if TYPE_CHECKING:
    from orienteer.dense import Retriever

EMBEDDINGS_VARIABLE, RUNS_VARIABLE = "ORIENTEER_EMBEDDINGS", "ORIENTEER_RUNS"
_DENSE_AGENT = "dense+ps"  # the example of a message
FIRST_PASS = 5  # passages by vectors of `hybrid` and of `ask --dense`
_HYBRID_HITS = 100  # 50 by BM25, 50 by vectors
_MOST_HITS = 1000


def _dense(request: AgentRequest) -> ConfiguredAgent:
    return _entry(request, replace(request.settings, steps=0, order="engine"))


def _dense_ps(request: AgentRequest) -> ConfiguredAgent:
    return _entry(request, replace(request.settings, steps=0))


def _hybrid_ps(request: AgentRequest) -> ConfiguredAgent:
    depth = int(request.options["depth"] or _HYBRID_HITS)
    if not 2 <= depth <= _MOST_HITS:
        raise AgentNameError(f"the agent {request.name!r} would read {depth} passages; expected 2 to {_MOST_HITS}")
    return _entry(request, replace(request.settings, steps=0, hits=depth))


def with_first_pass(made: ConfiguredAgent, engine: Engine, nearest: int, folder: Path | None = None) -> ConfiguredAgent:
    """The agent with sessions that start from BM25's hits and the `nearest` passages by their vectors."""
    from orienteer.dense import FirstPassEngine

    if made.engine is not None:
        raise AgentNameError(f"the agent {made.name!r} searches by vectors already; leave out `dense`")
    retriever = find_retriever(engine, folder, made.name)
    return replace(made, engine=FirstPassEngine(engine, retriever, nearest))


def nearest_of(name: str, given: object) -> int:
    """The option `dense` of an agent, how many passages by vectors its first pass has; 0 for none."""
    try:
        number = int(str(given))
    except ValueError:
        number = -1
    if not 0 <= number <= _MOST_HITS:
        raise AgentNameError(f"the agent {name!r}: dense = {given!r}; expected a whole number, 0 to {_MOST_HITS}")
    return number


def _entry(request: AgentRequest, settings: Settings) -> ConfiguredAgent:
    from orienteer.dense import DenseEngine, HybridEngine

    kind = HybridEngine if request.name.startswith("hybrid") else DenseEngine
    engine = kind(request.engine, find_retriever(request.engine, request.folder, request.name))
    return ConfiguredAgent(request.name, NoRefinement(), settings, engine)


def find_retriever(engine: Engine, folder: Path | None = None, name: str = "dense") -> Retriever:
    """Embeddings or runs for this engine; an error says where it looked."""
    from orienteer.dense.embeddings import MANIFEST
    from orienteer.dense.runs import runs_in

    if folder is not None:
        if (folder / MANIFEST).exists():
            return _over_embeddings(engine, folder)
        if runs_in(folder):
            return _over_runs(engine, folder)
        raise CheckpointMissingError(
            f"the agent {name!r}: {folder} holds neither embeddings nor runs; make some with `orienteer embed` "
            "or `orienteer dense-run`"
        )
    if embeddings := os.environ.get(EMBEDDINGS_VARIABLE):
        return _over_embeddings(engine, Path(embeddings))
    if runs := os.environ.get(RUNS_VARIABLE):
        return _over_runs(engine, Path(runs))
    from orienteer.dense import EmbeddingsMissingError
    from orienteer.dense.index_vectors import open_vectors

    try:
        return open_vectors(engine)
    except EmbeddingsMissingError as error:
        raise CheckpointMissingError(
            f"the agent {name!r} has neither embeddings nor stored runs: {error}; or name a folder of vectors that "
            f"`orienteer embed` or of runs that `orienteer dense-run` wrote: {_DENSE_AGENT}=FOLDER, or set "
            f"{EMBEDDINGS_VARIABLE} or {RUNS_VARIABLE}"
        ) from None


def _over_embeddings(engine: Engine, folder: Path) -> Retriever:
    from orienteer.dense import EmbeddingRetriever, Embeddings, EmbeddingsMismatchError, open_encoder

    embeddings = Embeddings.open(folder)
    if not isinstance(engine, StoresPassages):
        raise EmbeddingsMismatchError(
            f"{folder} holds the vectors of an embedded index, this engine is a {type(engine).__name__}; "
            "open the index, or replay runs"
        )
    return EmbeddingRetriever(engine, embeddings, open_encoder(embeddings.manifest.address))


def _over_runs(engine: Engine, folder: Path) -> Retriever:
    from orienteer.dense import RunRetriever

    if allowed_by(engine).size:
        raise FilterError("stored runs know nothing of filters; make vectors with `orienteer index --dense static`")
    return RunRetriever(folder, engine.passages_fingerprint if isinstance(engine, StoresPassages) else None)


CHECKPOINT = Checkpoint("orienteer index --dense")

SPECS: tuple[AgentSpec, ...] = (
    AgentSpec("dense", "the five passages whose vectors are nearest to the question's, in that order",
           "reader; vectors or runs", re.compile("dense"), _dense, ("dense",), CHECKPOINT),
    AgentSpec("dense+ps", "the same five, ordered by the passage scorer",
           "reader; vectors or runs", re.compile(r"dense\+ps"), _dense_ps, ("dense+ps",), CHECKPOINT),
    AgentSpec("hybrid+ps, hybrid@N+ps", "the best five by the passage scorer of 50 by BM25 and 50 by their vectors, "
           "or of N/2 each", "reader; vectors or runs", re.compile(r"hybrid(@(?P<depth>[0-9]{1,9}))?\+ps"), _hybrid_ps,
           ("hybrid+ps",), CHECKPOINT),
)  # fmt: skip
