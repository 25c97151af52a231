"""Tree search as MuZero does it: a slow, obvious reference and a fast one for many trees at once."""

from orienteer.agents.muzero.mcts.batched_search import Forest, search
from orienteer.agents.muzero.mcts.model import Expansion, Model
from orienteer.agents.muzero.mcts.root_policy import RootNoise, policy_of, root_noise, sample
from orienteer.agents.muzero.mcts.settings import SearchSettings

__all__ = [
    "Expansion", "Forest", "Model", "RootNoise", "SearchSettings", "policy_of", "root_noise", "sample", "search",
]  # fmt: skip
