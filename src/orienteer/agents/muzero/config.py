"""Configuration of MuZero: `SMALL` is the default, `PAPER` is `tab:muzero_config`, `PAPER_SMALL` for two cores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from math import log, sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.action_space import Decoding
from orienteer.agents.muzero.grammar import Fields, Shape
from orienteer.errors import OrienteerError
from orienteer.models.checks import check_fields

Gates = Literal["sigmoid", "relu"]
Targets = Literal["monte-carlo", "n-step"]
RewardAt = Literal["rules", "words"]
Unvisited = Literal["worst", "parent"]


_MOST = 10_000  # simulations of a search, and children of a node: a tree is allocated whole

# Fields whose names in config.json of a model folder differ, by their path.
_STORED = {
    "networks": "sizes",
    "networks.history": "sizes.past",
    "networks.word_context": "sizes.words",
    "networks.policy_prior": "sizes.prior",
    "networks.lookahead_scale": "sizes.look",
    "networks.reward_at": "sizes.paying",
    "training.imitation_rate": "training.clone_rate",
    "training.episode_length": "training.turns",
    "training.replay_size": "training.replay",
    "training.guided_share": "training.advice",
    "training.guided_updates": "training.advice_steps",
}


@dataclass(frozen=True, slots=True)
class Support:
    """The support of a categorical value: `bins` evenly spaced numbers from `low` to `high`."""

    low: float
    high: float
    bins: int

    def __post_init__(self) -> None:
        if self.bins < 2 or not self.low < self.high:
            raise OrienteerError(f"a support of {self.bins} numbers from {self.low} to {self.high}; expected 2 or more")


@dataclass(frozen=True, slots=True)
class NetworkConfig:
    """The networks g and f, and their inputs.

    lstm             units of g, one layer
    head             hidden units of each head of f; for the policy, also the length of an action's key
    embed            length of an action's embedding, the input of g
    gru, history     units of the GRU over the last `history` actions
    value, reward    supports of the two categorical heads
    word_context     a piece's key and embedding include the encodings of the words that it can become
    policy_prior     the policy's logits start from the scores of the cloned agent
    lookahead_scale  the policy's logits start instead from this number times the lookahead's prediction for each
                     refinement; 0: no lookahead
    reward_at        which actions of the tree have a reward. "words": only those that complete a word; with a
                     lookahead, f's reward is added to a share of the prediction. "rules": every action; with a
                     lookahead, the prediction alone is the reward of the first word
    """

    lstm: int = 512
    head: int = 32
    embed: int = 64
    gru: int = 32
    history: int = 20
    value: Support = Support(-0.5, 1.0, 31)
    reward: Support = Support(-0.5, 1.0, 31)
    gates: Gates = "sigmoid"
    word_context: bool = True
    policy_prior: bool = True
    lookahead_scale: float = 0.0
    reward_at: RewardAt = "words"

    def __post_init__(self) -> None:
        for name in ("lstm", "head", "embed", "gru"):
            if getattr(self, name) < 4 or getattr(self, name) % 4:
                raise OrienteerError(f"{name} = {getattr(self, name)}; expected a multiple of 4")


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """MuZero's constants; where the paper does not report a tuned value, the default of the authors' code.

    simulations   per search
    children      actions per node at most, the likeliest
    unvisited     an unvisited action has the lowest value of the tree (MuZero), or its parent's value
    least_range   Q is normalised by max(max Q - min Q, least_range): smaller differences are noise
    noise_share   of Dirichlet noise in the root's priors, in training
    gumbel        actions considered at the root by Gumbel's sequential halving; 0: PUCT there too
    """

    simulations: int = 100
    children: int = 100
    discount: float = 0.9
    pb_c_base: float = 19652.0
    pb_c_init: float = 1.25
    unvisited: Unvisited = "worst"
    least_range: float = 0.0
    noise_alpha: float = 0.15
    noise_share: float = 0.2
    gumbel: int = 0
    gumbel_visit: float = 50.0
    gumbel_scale: float = 0.1

    def __post_init__(self) -> None:
        for name, least in (("simulations", 0), ("children", 1), ("gumbel", 0)):
            if not least <= getattr(self, name) <= _MOST:
                raise OrienteerError(f"{name} = {getattr(self, name)}; expected {least} to {_MOST:,}")
        if not self.pb_c_base > 0:
            raise OrienteerError(f"pb_c_base = {self.pb_c_base}; expected more than 0")
        if not 0 < self.discount <= 1:
            raise OrienteerError(f"a discount of {self.discount}; expected more than 0 and at most 1")
        if not 0 <= self.noise_share < 1 or self.noise_alpha <= 0:
            raise OrienteerError("noise needs an alpha above 0 and a share from 0 to less than 1")

    def factors(self) -> NDArray[np.float64]:
        """(log((N + base + 1) / base) + init) · √N for every number N of visits to a parent.

        The reference search of the tests reads the same table, so that no two logarithms can differ.
        """
        base, init = self.pb_c_base, self.pb_c_init
        return np.array([(log((n + base + 1) / base) + init) * sqrt(n) for n in range(self.simulations + 2)])

    def halving(self, count: int) -> list[int]:
        """For each simulation, the visit count of the root's action to take next (sequential halving).

        All of the `count` considered actions share the first part of the simulations, the better half of them the
        second, and so on down to two.
        """
        if count <= 1:
            return list(range(self.simulations))
        rounds = (count - 1).bit_length()
        tried = [0] * count
        order: list[int] = []
        left = count
        while len(order) < self.simulations:
            for _ in range(max(1, self.simulations // (rounds * left))):
                order += tried[:left]
                tried[:left] = [visits + 1 for visits in tried[:left]]
            left = max(2, left // 2)
        return order[: self.simulations]


@dataclass(frozen=True, slots=True)
class TrainingConfig:
    """How episodes are played and learned from.

    imitation_rate   learning rate of imitation (`learning_rate` afterwards)
    hidden_gradient  factor of the gradient through each step of g
    episodes         of a chunk, played in one batch by an actor
    updates          of the weights after each chunk
    steps            limit of a session
    episode_length   steps of a session that are played, undone ones included; later steps seldom have a reward
    empty_penalty    subtracted from the reward of a query without hits
    td_steps         of n-step targets
    replay_size      steps that the replay buffer keeps
    priority         exponent of prioritised replay; 0: uniform
    importance       exponent of the importance weights that correct for it
    reanalyse        steps searched again with newer weights after each chunk, as a share of one batch
    guided_share     probability of guided exploration in an episode; it falls to 0 over `guided_updates` updates
    temperature      of the choice by visits, while training
    allow_stop       an episode may stop before its last step
    actors           processes that play; on Ray exactly so many, else at most one per core
    learner_cores, actor_cores   threads of each; a run in one process takes the larger
    initial_batch    observations that h encodes in one batch
    recurrent_batch  sessions searched in one batch at most
    """

    batch: int = 64
    optimiser: Literal["adam", "sgd"] = "adam"
    imitation_rate: float = 1e-3
    learning_rate: float = 3e-4
    weight_decay: float = 1e-5
    clip: float = 5.0
    unroll: int = 5
    targets: Targets = "monte-carlo"
    td_steps: int = 10
    value_weight: float = 0.5
    reward_weight: float = 1.0
    policy_weight: float = 1.0
    hidden_gradient: float = 0.5
    episodes: int = 16
    updates: int = 40
    steps: int = 20
    episode_length: int = 6
    empty_penalty: float = 0.0
    replay_size: int = 4000
    priority: float = 0.6
    importance: float = 1.0
    reanalyse: float = 0.25
    guided_share: float = 0.5
    guided_updates: int = 2_000
    temperature: float = 1.0
    allow_stop: bool = False
    actors: int = 1
    learner_cores: int = 2
    actor_cores: int = 2
    initial_batch: int = 64
    recurrent_batch: int = 64


@dataclass(frozen=True, slots=True)
class Config:
    """Everything about an agent: its input, its query grammar, its networks, its search, its training."""

    grammar: str = "G4"
    shape: Shape = "short"
    fields: Fields = "found"
    snippet: int = 30
    title_pieces: int = 16
    max_pieces: int = 320
    networks: NetworkConfig = NetworkConfig()
    # A refinement takes two rules or more: 0.95 per rule is about the paper's 0.9 per query.
    # An unvisited action counts as its parent's value: the toy games of the tests are learned reliably only so.
    search: SearchSettings = SearchSettings(discount=0.95, least_range=0.02, unvisited="parent")
    training: TrainingConfig = TrainingConfig()
    decoding: Decoding = Decoding()  # noqa: RUF009 - frozen; weights of the lookahead

    def as_dict(self) -> dict[str, Any]:
        """The form that config.json of a model folder holds, under the names of `_STORED`."""
        return _renamed({**asdict(self), "decoding": self.decoding.as_dict()}, _STORED)

    @classmethod
    def from_dict(cls, row: dict[str, Any]) -> Config:
        """Inverse of `as_dict`; a name that this version does not know is an error."""
        row = _renamed(row, {stored: name for name, stored in _STORED.items()})
        networks = {"reward_at": "rules", **row["networks"]}  # folders written before there was a choice
        for name in ("value", "reward"):
            networks[name] = Support(**networks[name])
        parts = {
            "networks": NetworkConfig(**networks),
            "search": SearchSettings(**row["search"]),
            "training": TrainingConfig(**row["training"]),
            "decoding": Decoding.from_dict(row.get("decoding", {})),
        }
        config = cls(**{**row, **parts})
        check_fields(config)
        return config

    @property
    def is_paper(self) -> bool:
        """Whether the agent is the paper's: every rule is an action, and nothing but reward told it what to do."""
        networks = self.networks
        return self.shape == "paper" and not networks.policy_prior and not networks.lookahead_scale

    def with_options(self, **options: Any) -> Config:
        """A copy with some fields changed, in whichever part they are; None leaves a field as it is."""
        parts: dict[str, dict[str, Any]] = {"": {}, "networks": {}, "search": {}, "training": {}}
        homes = {f.name: "" for f in fields(self)} | {
            f.name: part for part in ("networks", "search", "training") for f in fields(getattr(self, part))
        }
        for name, value in options.items():
            if name not in homes:
                raise OrienteerError(f"unknown setting {name!r}; expected one of {', '.join(sorted(homes))}")
            if value is not None:
                parts[homes[name]][name] = value
        changed = {part: replace(getattr(self, part), **parts[part]) for part in parts if part and parts[part]}
        return replace(self, **parts[""], **changed)


# `tab:muzero_config`; what it leaves open is as in the authors' code. BERT's word table is too large to be learned as
# an input of g, so actions are embedded where theirs are one-hot.
PAPER = Config(
    shape="paper",
    fields="any",
    snippet=70,
    title_pieces=10,
    max_pieces=512,
    networks=NetworkConfig(
        lstm=512, head=32, embed=64, gru=32, history=20,
        value=Support(-2.0, 2.0, 8), reward=Support(-1.0, 1.0, 8), gates="relu", word_context=False, policy_prior=False,
        reward_at="rules",
    ),
    search=SearchSettings(simulations=100, children=100, discount=0.9, noise_alpha=0.15, noise_share=0.2),
    training=TrainingConfig(
        batch=16, optimiser="sgd", imitation_rate=1e-4, learning_rate=1e-4, weight_decay=1e-5, clip=0.0, unroll=5,
        targets="monte-carlo", value_weight=1.0, steps=20, episode_length=20, empty_penalty=1.0, replay_size=1000,
        priority=0.0,
        importance=0.0, reanalyse=0.0, guided_share=0.5, guided_updates=1_000_000, allow_stop=True, actors=500,
        learner_cores=1, actor_cores=7, initial_batch=4, recurrent_batch=32,
    ),
)  # fmt: skip

# The paper's agent, learned in thousands of updates instead of 1.6 million: what it sees, does and searches is
# `PAPER`'s, and it learns from reward alone. Optimiser, clipping and the length of the advice are those that so few
# updates need.
PAPER_SMALL = replace(
    PAPER,
    training=replace(
        PAPER.training, optimiser="adam", learning_rate=3e-4, clip=5.0, guided_updates=2_000, actors=1,
        learner_cores=2, actor_cores=2, initial_batch=64, recurrent_batch=64,
    ),
)  # fmt: skip

SMALL = Config()

PRESETS = {"small": SMALL, "paper": PAPER, "paper-small": PAPER_SMALL}


def preset(name: str) -> Config:
    if name not in PRESETS:
        raise OrienteerError(f"no preset is called {name!r}; expected one of {', '.join(PRESETS)}")
    return PRESETS[name]


def _renamed(row: dict[str, Any], names: Mapping[str, str], path: str = "") -> dict[str, Any]:
    """A nested dict with every key replaced as `names` says, which maps path to path."""
    return {
        names.get(here := f"{path}{key}", here).rpartition(".")[2]: (
            _renamed(value, names, f"{here}.") if isinstance(value, dict) else value
        )
        for key, value in row.items()
    }  # fmt: skip
