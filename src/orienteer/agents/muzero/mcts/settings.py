"""Settings of the tree search."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from orienteer.errors import OrienteerError

Unvisited = Literal["worst", "parent"]


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
            if getattr(self, name) < least:
                raise OrienteerError(f"{name} = {getattr(self, name)}; expected {least} or more")
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
