"""Tree search as in MuZero and Gumbel MuZero, for a batch of trees. Tests compare it with a plain reference."""

from orienteer.agents.muzero.mcts.search import Expansion, Model, RootNoise, policy_of, root_noise, sample, search
from orienteer.agents.muzero.mcts.tree import SearchResult, SearchSettings

__all__ = [
    "Expansion", "Model", "RootNoise", "SearchResult", "SearchSettings", "policy_of", "root_noise", "sample", "search",
]  # fmt: skip
