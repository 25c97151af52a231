"""Agents of dense retrieval: one search by vectors, and one by BM25 and vectors together.

They take the embeddings or stored runs of the folder in their name, `dense=DIR`; without one the embeddings of the
folder ORIENTEER_EMBEDDINGS, then the stored runs of the folder ORIENTEER_RUNS.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from orienteer.agents.baselines import NoRefinement
from orienteer.agents.spec import AgentRequest, AgentSpec, Checkpoint, CheckpointMissingError, ConfiguredAgent
from orienteer.engine.protocol import Engine, StoresPassages
from orienteer.session import Settings

if TYPE_CHECKING:
    from orienteer.dense import Retriever

EMBEDDINGS_VARIABLE, RUNS_VARIABLE = "ORIENTEER_EMBEDDINGS", "ORIENTEER_RUNS"
_HYBRID_HITS = 100  # 50 by BM25, 50 by vectors


def _dense(request: AgentRequest) -> ConfiguredAgent:
    return _entry(request, replace(request.settings, steps=0, order="engine"))


def _dense_ps(request: AgentRequest) -> ConfiguredAgent:
    return _entry(request, replace(request.settings, steps=0))


def _hybrid_ps(request: AgentRequest) -> ConfiguredAgent:
    return _entry(request, replace(request.settings, steps=0, hits=_HYBRID_HITS))


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
    raise CheckpointMissingError(
        f"the agent {name!r} has neither embeddings nor stored runs: no folder is named; make embeddings with "
        "`orienteer embed --index DIR --out EMBEDDINGS`, then name their folder, or one of runs that `orienteer "
        f"dense-run` wrote: {name.partition('[')[0]}=FOLDER, or set {EMBEDDINGS_VARIABLE} or {RUNS_VARIABLE}"
    )


def _over_embeddings(engine: Engine, folder: Path) -> Retriever:
    from orienteer.dense import EmbeddingRetriever, Embeddings, EmbeddingsMismatchError, TextEncoder

    embeddings = Embeddings.open(folder)
    if not isinstance(engine, StoresPassages):
        raise EmbeddingsMismatchError(
            f"{folder} holds the vectors of an embedded index, this engine is a {type(engine).__name__}; "
            "open the index, or replay runs"
        )
    return EmbeddingRetriever(engine, embeddings, TextEncoder.from_pretrained())


def _over_runs(engine: Engine, folder: Path) -> Retriever:
    from orienteer.dense import RunRetriever

    return RunRetriever(folder, engine.passages_fingerprint if isinstance(engine, StoresPassages) else None)


_CHECKPOINT = Checkpoint("orienteer embed")

SPECS: tuple[AgentSpec, ...] = (
    AgentSpec("dense", "the five passages whose vectors are nearest to the question's, in that order",
           "reader; embeddings or runs", re.compile("dense"), _dense, ("dense",), _CHECKPOINT),
    AgentSpec("dense+ps", "the same five, ordered by the passage scorer",
           "reader; embeddings or runs", re.compile(r"dense\+ps"), _dense_ps, ("dense+ps",), _CHECKPOINT),
    AgentSpec("hybrid+ps", "the best five by the passage scorer of 50 by BM25 and 50 by their vectors",
           "reader; embeddings or runs", re.compile(r"hybrid\+ps"), _hybrid_ps, ("hybrid+ps",), _CHECKPOINT),
)  # fmt: skip
