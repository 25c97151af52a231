"""Root policies: noise before a search, the policy and the chosen action after it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from orienteer.agents.muzero.mcts.settings import SearchSettings

Float64s = NDArray[np.float64]


class RootNoise(NamedTuple):
    """Random numbers for a root's children [children]: Dirichlet or Gumbel noise."""

    dirichlet: Float64s | None = None
    gumbel: Float64s | None = None


def root_noise(count: int, settings: SearchSettings, draw: np.random.Generator | None) -> RootNoise:
    """`draw` is None for no randomness, as in evaluation."""
    if settings.gumbel:
        return RootNoise(gumbel=draw.gumbel(size=count) if draw is not None else np.zeros(count))
    if draw is None or settings.noise_share == 0:
        return RootNoise()
    return RootNoise(dirichlet=draw.dirichlet(np.full(count, settings.noise_alpha)))


def noisy_priors(
    priors: NDArray[np.float32], noise: RootNoise, settings: SearchSettings
) -> tuple[NDArray[np.float32], Float64s, NDArray[np.int64]]:
    """The root's priors with noise, the scores (log priors plus Gumbel noise), and the children's new order.

    The order is by prior, or by score with Gumbel noise, highest first and stable; all three [children].
    """
    mixed = priors
    if noise.dirichlet is not None:
        share = settings.noise_share
        mixed = ((1 - share) * priors.astype(np.float64) + share * noise.dirichlet).astype(np.float32)
    scores = np.log(np.maximum(mixed.astype(np.float64), 1e-30))
    if noise.gumbel is not None:
        scores = scores + noise.gumbel
    order = np.argsort(-scores if noise.gumbel is not None else -mixed, kind="stable")
    return mixed[order], scores[order], order


def policy_of(visits: NDArray[np.int32], temperature: float = 1.0) -> Float64s:
    """visits^(1 / temperature), normalised; temperature 0: all on the most visited."""
    counts = visits.astype(np.float64)
    if temperature == 0:
        best = np.zeros(len(counts))
        best[int(np.argmax(counts))] = 1.0
        return best
    if counts.sum() == 0:
        return np.full(len(counts), 1 / len(counts))
    powered = (counts / counts.max()) ** (1 / temperature)
    shares: Float64s = powered / powered.sum()
    return shares


def sample(shares: Float64s, draw: np.random.Generator) -> int:
    """An index drawn with these probabilities."""
    return min(int(np.searchsorted(np.cumsum(shares), draw.random(), side="right")), len(shares) - 1)
