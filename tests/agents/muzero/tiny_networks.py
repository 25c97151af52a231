"""Networks of a few thousand random weights, and scenes to think about."""

from __future__ import annotations

from typing import Any

import numpy as np
from little_vocabulary import SPELLING, TERMS, little_tokenizer
from numpy.typing import NDArray

from orienteer.agents.action_space import SLOTS
from orienteer.agents.muzero.config import Config, NetworkConfig, SearchSettings, Support, TrainingConfig
from orienteer.agents.muzero.grammar import QueryGrammar
from orienteer.agents.muzero.networks import Networks
from orienteer.agents.muzero.representation import EncodedObservation
from orienteer.agents.muzero.root import RootState, root_state
from orienteer.agents.muzero.tries import Trie, as_table, build_trie, local_tries
from orienteer.session import Term

PIECES, WORD_WIDTH, WHOLE, WIDTH = little_tokenizer().get_vocab_size(), 16, 20, 12
SIZES = NetworkConfig(
    lstm=16, head=8, embed=8, gru=4, history=4, value=Support(-1.0, 1.0, 5), reward=Support(-1.0, 1.0, 5)
)  # fmt: skip
CONFIG = Config(
    networks=SIZES,
    search=SearchSettings(simulations=12, children=20),
    training=TrainingConfig(batch=8, episodes=4, updates=2, replay_size=60, steps=4),
)
INDEX_WORDS = "river rivers storm tower lights keeper keepers".split()


def index_trie() -> Trie:
    words = [SPELLING.pieces(word) for word in INDEX_WORDS]
    return build_trie(as_table(words), np.arange(len(words), dtype=np.int32))


def word_table(seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(PIECES, WORD_WIDTH)).astype(np.float32)


def random_tensors(
    sizes: NetworkConfig,
    rules: int,
    seed: int = 0,
    whole: int = WHOLE,
    width: int = WIDTH,
    word_width: int = WORD_WIDTH,
) -> dict[str, NDArray[Any]]:
    draw = np.random.default_rng(seed)
    made: dict[str, NDArray[Any]] = {}

    def matrix(name: str, outer: int, inner: int) -> None:
        made[name] = draw.normal(0, inner**-0.5, (outer, inner)).astype(np.float32)

    def linear(name: str, outer: int, inner: int) -> None:
        matrix(f"{name}.weight", outer, inner)
        made[f"{name}.bias"] = draw.normal(0, 0.1, outer).astype(np.float32)

    def norm(name: str, size: int) -> None:
        made[f"{name}.weight"] = (1 + draw.normal(0, 0.1, size)).astype(np.float32)
        made[f"{name}.bias"] = draw.normal(0, 0.1, size).astype(np.float32)

    basis = min(64, word_width)
    linear("start", 2 * sizes.lstm, whole + sizes.gru)
    for name, inner in (("ih", sizes.embed), ("hh", sizes.gru)):
        matrix(f"past.weight_{name}_l0", 3 * sizes.gru, inner)
        made[f"past.bias_{name}_l0"] = draw.normal(0, 0.1, 3 * sizes.gru).astype(np.float32)
    matrix("basis", basis, word_width)
    for name, outer, inner in (
        ("piece_key", sizes.head, basis), ("piece_embed", sizes.embed, basis),
        ("word_key", sizes.head, width), ("word_embed", sizes.embed, width),
    ):  # fmt: skip
        matrix(f"{name}.weight", outer, inner)
    matrix("dynamics.rules.weight", rules, sizes.embed)
    linear("dynamics.input", 4 * sizes.lstm, sizes.embed)
    norm("dynamics.input_norm", 4 * sizes.lstm)
    linear("dynamics.state", 4 * sizes.lstm, sizes.lstm)
    norm("dynamics.state_norm", 4 * sizes.lstm)
    norm("dynamics.cell_norm", sizes.lstm)
    for name, inner, outer in (
        ("policy", 2 * sizes.lstm, rules), ("value", 2 * sizes.lstm, sizes.value.bins),
        ("reward", sizes.lstm, sizes.reward.bins),
    ):  # fmt: skip
        linear(f"{name}.hidden", sizes.head, inner)
        norm(f"{name}.norm", sizes.head)
        linear(f"{name}.out", outer, sizes.head)
    made["prior_scale"] = np.array(0.7, np.float32)
    return made


def tiny_networks(grammar: QueryGrammar, sizes: NetworkConfig = SIZES, seed: int = 0) -> Networks:
    return Networks(random_tensors(sizes, len(grammar), seed), sizes, word_table(seed), grammar, index_trie())


def random_encoding(terms: list[Term], seed: int) -> EncodedObservation:
    draw = np.random.default_rng(seed)
    return EncodedObservation(
        draw.normal(size=WHOLE).astype(np.float32), draw.normal(size=(len(terms), WIDTH)).astype(np.float32),
        draw.normal(size=(len(terms), len(SLOTS))).astype(np.float32), float(draw.normal()),
    )  # fmt: skip


def random_root(networks: Networks, seed: int, may_stop: bool = False, past: tuple[int, ...] = (1, 2)) -> RootState:
    draw = np.random.default_rng(seed)
    kept = [
        TERMS[n] for n in sorted(draw.choice(len(TERMS), size=int(draw.integers(1, len(TERMS) + 1)), replace=False))
    ]
    return root_state(networks, random_encoding(kept, seed), kept, local_tries(kept, SPELLING), past, 3, may_stop)
