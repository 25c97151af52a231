"""Tree search in numbers: trees alone, one session, 64 in one batch; beside mctx on the same sizes in the same run.

    orienteer bench mcts --index INDEX --peer-python /path/to/python-with-mctx --json

Processor time of one core. mctx comes with JAX, which is why it may live in a Python of its own.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
from rich.console import Console

from orienteer.agents.action_space import SLOTS
from orienteer.agents.muzero.config import SMALL, NetworkConfig, SearchSettings
from orienteer.agents.muzero.grammar import (
    STATE_SIZE,
    USES_INDEX,
    advance,
    join_tries,
    legal_actions,
    max_legal_actions,
    query_grammar,
)
from orienteer.agents.muzero.learned_model import LearnedModel
from orienteer.agents.muzero.mcts import Expansion, search
from orienteer.agents.muzero.model_files import load_pretrained
from orienteer.agents.muzero.networks import Networks
from orienteer.agents.muzero.representation import EncodedObservation
from orienteer.agents.muzero.root import RootState, root_state
from orienteer.agents.muzero.tries import TermTokenizer, Trie, build_vocabulary_trie, local_tries, vocabulary_trie
from orienteer.engine.embedded.kernels.compile import kernel
from orienteer.engine.open import open_engine
from orienteer.session import Term

out, err = Console(highlight=False), Console(stderr=True, highlight=False)
TOGETHER = 64
WHOLE, WIDTH = 659, 256  # what h sees of a moment and of a word, with a MiniLM


class Given:
    """Nodes drawn beforehand, a hundred children each; its own time is counted apart."""

    def __init__(self, trees: int, children: int = 100, sharpness: float = 5.0, pool: int = 4096) -> None:
        draw = np.random.default_rng(0)
        logits = -np.sort(-sharpness * draw.normal(size=(pool, children)), axis=1)
        shares = np.exp(logits - logits[:, :1])
        self._priors = (shares / shares.sum(1, keepdims=True)).astype(np.float32)
        self._actions = np.argsort(draw.random((pool, children)), axis=1).astype(np.int32)
        self._rewards, self._values = draw.normal(0, 0.1, pool), draw.normal(0, 0.3, pool)
        self._counts = np.full(pool, children, np.int32)
        self._trees, self.spent = trees, 0.0

    def roots(self) -> Expansion:
        return self._drawn(np.arange(self._trees))

    def step(self, trees: Any, parents: Any, edges: Any, actions: Any, nodes: Any) -> Expansion:
        return self._drawn((trees * 7919 + parents * 104729 + actions * 31) % len(self._priors))

    def _drawn(self, rows: Any) -> Expansion:
        began = process_time()
        found = Expansion(
            self._rewards[rows], self._values[rows], self._actions[rows], self._priors[rows], self._counts[rows]
        )
        self.spent += process_time() - began
        return found


def trees_alone(seconds: float) -> dict[str, float]:
    """Simulations a second of the tree's own work: masks and priors are given."""
    settings = SearchSettings(simulations=400, noise_share=0.0)
    search(Given(2), settings)  # compiled
    model = Given(TOGETHER)
    began, simulations, depth = process_time(), 0, 0.0
    while process_time() - began < seconds:
        result = search(model, settings)
        simulations += TOGETHER * settings.simulations
        depth = float(np.mean([np.mean(list(result.depths(tree))) for tree in range(TOGETHER)]))
    own = process_time() - began - model.spent
    return {"simulations_per_second": simulations / own, "mean_depth": depth, "children": 100.0}


class Masked:
    """Grammar states, tries and masks as in a real plan, but no network: priors by the place of an action."""

    def __init__(self, some: list[RootState], networks: Networks, simulations: int, children: int = 100) -> None:
        self._tables = networks.grammar.tables
        self._trie_tables, _ = join_tries([s.tries for s in some], [s.may_stop for s in some], networks.vocabulary.trie)
        self._states = np.empty((len(some), simulations + 1, STATE_SIZE), np.int32)
        self._states[:, 0] = [root.grammar_state for root in some]
        self._nodes = np.empty((len(some), simulations + 1, children), np.int32)
        most = max_legal_actions(networks.grammar, self._trie_tables)
        self._scratch = np.empty((2, most), np.int32)
        shares = 0.5 ** np.arange(children)
        self._priors = (shares / shares.sum()).astype(np.float32)

    def roots(self) -> Expansion:
        everyone = np.arange(len(self._states), dtype=np.int32)
        return self._expanded(everyone, np.zeros_like(everyone))

    def step(self, trees: Any, parents: Any, edges: Any, actions: Any, nodes: Any) -> Expansion:
        follow(trees, parents, edges, actions, nodes, self._tables, self._trie_tables, self._states, self._nodes)
        return self._expanded(trees, nodes)

    def _expanded(self, trees: Any, nodes: Any) -> Expansion:
        size, children = len(trees), self._nodes.shape[2]
        actions, counts = np.empty((size, children), np.int32), np.empty(size, np.int32)
        offer(trees, nodes, self._tables, self._trie_tables, self._states, self._nodes, *self._scratch, actions, counts)
        values = ((trees * 31 + nodes * 17) % 97) / 97.0
        return Expansion(np.zeros(size), values, actions, np.broadcast_to(self._priors, actions.shape).copy(), counts)


@kernel
def follow(trees, parents, edges, actions, nodes, tables, trie_tables, states, edge_nodes):  # type: ignore[no-untyped-def]
    for row in range(trees.size):
        tree, parent = trees[row], parents[row]
        node = edge_nodes[tree, parent, edges[row]]
        advance(states[tree, parent], tree, actions[row], node, tables, trie_tables, states[tree, nodes[row]])


@kernel
def offer(trees, nodes, tables, trie_tables, states, edge_nodes, scratch, positions, actions, counts):  # type: ignore[no-untyped-def]
    for row in range(trees.size):
        tree, node = trees[row], nodes[row]
        counts[row] = min(
            actions.shape[1], legal_actions(states[tree, node], tree, tables, trie_tables, scratch, positions)
        )
        for position in range(counts[row]):
            actions[row, position], edge_nodes[tree, node, position] = scratch[position], positions[position]


def trees_with_masks(networks: Networks, some: list[RootState], seconds: float) -> dict[str, float]:
    """Simulations a second with the grammar's and the tries' masks at every node, no network."""
    settings = SearchSettings(noise_share=0.0)
    search(Masked(some, networks, 2), replace(settings, simulations=2))  # compiled
    spent, simulations, depth = 0.0, 0, 0.0
    while spent < seconds:
        model = Masked(some, networks, settings.simulations)
        began = process_time()
        result = search(model, settings)
        spent += process_time() - began
        simulations += len(some) * settings.simulations
        depth = float(np.mean([np.mean(list(result.depths(tree))) for tree in range(len(some))]))
    return {"simulations_per_second": simulations / spent, "mean_depth": depth}


def random_networks(sizes: NetworkConfig, trie: Trie, words: Any) -> Networks:
    """Networks of the real size with random weights: the cost is the same."""
    grammar = query_grammar()
    draw = np.random.default_rng(0)
    tensors: dict[str, Any] = {}

    def linear(name: str, outer: int, inner: int, bias: bool = True) -> None:
        tensors[f"{name}.weight"] = draw.normal(0, inner**-0.5, (outer, inner)).astype(np.float32)
        if bias:
            tensors[f"{name}.bias"] = np.zeros(outer, np.float32)

    def norm(name: str, size: int) -> None:
        tensors[f"{name}.weight"], tensors[f"{name}.bias"] = np.ones(size, np.float32), np.zeros(size, np.float32)

    linear("start", 2 * sizes.lstm, WHOLE + sizes.gru)
    for name, inner in (("ih", sizes.embed), ("hh", sizes.gru)):
        tensors[f"past.weight_{name}_l0"] = draw.normal(0, 0.1, (3 * sizes.gru, inner)).astype(np.float32)
        tensors[f"past.bias_{name}_l0"] = np.zeros(3 * sizes.gru, np.float32)
    tensors["basis"] = draw.normal(0, words.shape[1] ** -0.5, (64, words.shape[1])).astype(np.float32)
    for name, outer, inner in (
        ("piece_key", sizes.head, 64), ("piece_embed", sizes.embed, 64),
        ("word_key", sizes.head, WIDTH), ("word_embed", sizes.embed, WIDTH),
    ):  # fmt: skip
        linear(name, outer, inner, bias=False)
    tensors["dynamics.rules.weight"] = draw.normal(size=(len(grammar), sizes.embed)).astype(np.float32)
    linear("dynamics.input", 4 * sizes.lstm, sizes.embed)
    norm("dynamics.input_norm", 4 * sizes.lstm)
    linear("dynamics.state", 4 * sizes.lstm, sizes.lstm)
    norm("dynamics.state_norm", 4 * sizes.lstm)
    norm("dynamics.cell_norm", sizes.lstm)
    for name, inner, outer in (
        ("policy", 2 * sizes.lstm, len(grammar)), ("value", 2 * sizes.lstm, sizes.value.bins),
        ("reward", sizes.lstm, sizes.reward.bins),
    ):  # fmt: skip
        linear(f"{name}.hidden", sizes.head, inner)
        norm(f"{name}.norm", sizes.head)
        linear(f"{name}.out", outer, sizes.head)
    tensors["prior_scale"] = np.array(1.0, np.float32)
    return Networks(tensors, sizes, words, grammar, trie)


def roots(networks: Networks, term_tokenizer: TermTokenizer, words: list[str], count: int) -> list[RootState]:
    """Moments with 120 words of the vocabulary, each in one or two places."""
    made = []
    for number in range(count):
        draw = np.random.default_rng(number)
        positions = [
            draw.choice(["question", "title", "snippet", "answer"], size=draw.integers(1, 3)) for _ in range(120)
        ]
        terms = [
            Term(str(word), 1.0, frozenset(map(str, position)))  # type: ignore[arg-type]
            for word, position in zip(draw.choice(words, 120, replace=False), positions, strict=True)
        ]
        encoded = EncodedObservation(
            draw.normal(size=WHOLE).astype(np.float32), draw.normal(size=(120, WIDTH)).astype(np.float32),
            2 * draw.normal(size=(120, len(SLOTS))).astype(np.float32), 0.0,
        )  # fmt: skip
        made.append(root_state(networks, encoded, terms, local_tries(terms, term_tokenizer), (), 20, False))
    return made


def planning(networks: Networks, some: list[RootState], seconds: float) -> dict[str, float]:
    """Searches of 100 simulations with g, f, tries and masks, from h's output on; the best of several."""
    settings = SearchSettings(noise_share=0.0)
    best, uses_index, depth = np.inf, 0.0, 0.0
    small = replace(settings, simulations=2)  # compiled
    search(LearnedModel(some, networks.vocabulary, networks.grammar, networks.weights, 2, settings.children), small)
    began = perf_counter()
    while best == np.inf or perf_counter() - began < seconds:
        started = process_time()
        model = LearnedModel(
            some, networks.vocabulary, networks.grammar, networks.weights, settings.simulations, settings.children
        )
        result = search(model, settings)
        best = min(best, process_time() - started)
        uses_index = float(model.states[:, : settings.simulations + 1, USES_INDEX].mean())
        depth = float(np.mean([np.mean(list(result.depths(tree))) for tree in range(len(some))]))
    simulations = len(some) * settings.simulations
    return {
        "milliseconds": 1000 * best, "simulations_per_second": simulations / best, "mean_depth": depth,
        "in_the_index_trie": uses_index,
    }  # fmt: skip


def alone(networks: Networks, some: list[RootState], seconds: float) -> dict[str, float]:
    """The same sessions, each by itself: means, since some think longer of the index than others."""
    each = [planning(networks, [root], seconds / len(some)) for root in some]
    found = {name: float(np.mean([one[name] for one in each])) for name in each[0]}
    return {**found, "simulations_per_second": 1000 * SearchSettings().simulations / found["milliseconds"]}


def mctx_beside(python: str | None, seconds: float) -> dict[str, Any] | None:
    """What `mcts_peer.py` measures; None, with a message, where mctx is not to be had."""
    if python is None and importlib.util.find_spec("mctx") is None:
        err.print("mctx is not installed: left out (pip install mctx, in any Python; then --peer-python PYTHON)")
        return None
    script = Path(__file__).with_name("mcts_peer.py")
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
    done = subprocess.run(
        [python or sys.executable, str(script), str(seconds)], capture_output=True, text=True, env=env, check=False
    )
    if done.returncode:
        err.print(f"mctx could not be measured: {done.stderr.strip().splitlines()[-1:]}")
        return None
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def run(index: Path | None, base: str, peer_python: str | None, seconds: float, as_json: bool) -> None:
    loaded = load_pretrained(base)
    term_tokenizer = TermTokenizer(loaded.plain_tokenizer())
    if index is None:
        words = term_tokenizer.whole_words()
        trie = build_vocabulary_trie(words, term_tokenizer)
    else:
        engine = open_engine(index)
        trie = vocabulary_trie(engine, term_tokenizer)
        draw = np.random.default_rng(0)
        numbers = draw.choice(engine.index.terms, 20_000, replace=False)  # type: ignore[attr-defined]
        words = [engine.index.term(int(number)) for number in numbers]  # type: ignore[attr-defined]
    networks = random_networks(SMALL.networks, trie, loaded.word_embeddings)
    many = roots(networks, term_tokenizer, words, TOGETHER)
    result: dict[str, Any] = {
        "machine": platform.processor() or platform.machine(), "index_nodes": len(trie),
        "tree_alone": trees_alone(seconds), "tree_with_trie_masks": trees_with_masks(networks, many, seconds),
        "one_session": alone(networks, many[:16], 4 * seconds),
        f"lock_step_{TOGETHER}": planning(networks, many, seconds),
    }  # fmt: skip
    one, together = result["one_session"], result[f"lock_step_{TOGETHER}"]
    result["lock_step_gain"] = together["simulations_per_second"] / one["simulations_per_second"]
    if (peer := mctx_beside(peer_python, seconds)) is not None:
        result["mctx"] = peer
    if as_json:
        sys.stdout.write(json.dumps(result) + "\n")
        return
    for name, values in result.items():
        shown = (
            "  ".join(f"{k} {v:,.1f}" for k, v in values.items())
            if isinstance(values, dict) and name != "mctx"
            else values
        )
        out.print(f"{name:21} {shown}")
