"""Tree search as MuZero does it: a slow, obvious reference and a fast one for many trees at once."""

from orienteer.agents.muzero.search.choosing import RootNoise, policy_of, root_noise, sample
from orienteer.agents.muzero.search.forest import Forest, search
from orienteer.agents.muzero.search.model import Expansion, Model
from orienteer.agents.muzero.search.settings import SearchSettings

__all__ = [
    "Expansion", "Forest", "Model", "RootNoise", "SearchSettings", "policy_of", "root_noise", "sample", "search",
]  # fmt: skip
