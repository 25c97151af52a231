"""The fast search grows the reference's trees, and both find what there is to find."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_search import Node, reference_search
from table_model import Bandit, Ladder, RandomModel

from orienteer.agents.muzero.config import SearchSettings
from orienteer.agents.muzero.mcts import RootNoise, SearchResult, policy_of, root_noise, sample, search
from orienteer.errors import OrienteerError

PLAIN = SearchSettings(noise_share=0.0)


def tree_of(node: Node) -> tuple[object, ...]:
    edges = tuple((e.action, e.place, e.prior, tree_of(e.node) if e.node else None) for e in node.children)
    return node.number, node.visits, node.total, node.reward, edges


def grown(result: SearchResult, tree: int, node: int = 0) -> tuple[object, ...]:
    trees = result.trees
    edges = []
    for place in range(trees.num_children[tree, node]):
        child = int(trees.child_node[tree, node, place])
        below = grown(result, tree, child) if child >= 0 else None
        edges.append(
            (int(trees.child_action[tree, node, place]), int(trees.child_edge[tree, node, place]),
             float(trees.child_prior[tree, node, place]), below)
        )  # fmt: skip
    return (
        node, int(trees.visits[tree, node]), float(trees.value_sum[tree, node]), float(trees.reward[tree, node]),
        tuple(edges),
    )  # fmt: skip


def noises(trees: int, model: RandomModel, settings: SearchSettings, seed: int) -> list[RootNoise]:
    counts = model.roots().counts
    return [root_noise(int(counts[tree]), settings, np.random.default_rng([seed, tree])) for tree in range(trees)]


@pytest.mark.long
@given(
    seed=st.integers(0, 10_000),
    children=st.integers(1, 30),
    simulations=st.integers(0, 60),
    gumbel=st.sampled_from([0, 0, 2, 5, 16]),
    unvisited=st.sampled_from(["worst", "parent"]),
    sharpness=st.sampled_from([0.0, 1.0, 4.0]),
    noisy=st.booleans(),
    least=st.sampled_from([0.0, 0.5, 100.0]),
)
def test_the_fast_search_grows_the_reference_s_trees_exactly(
    seed: int, children: int, simulations: int, gumbel: int, unvisited: str, sharpness: float, noisy: bool, least: float
) -> None:
    settings = SearchSettings(
        simulations,
        children,
        gumbel=gumbel,
        unvisited=unvisited,
        least_range=least,
        noise_share=0.25 if noisy else 0.0,  # type: ignore
    )
    model = RandomModel(3, children, seed, sharpness)
    drawn = noises(3, model, settings, seed)
    result = search(model, settings, drawn)
    for tree in range(3):
        assert grown(result, tree) == tree_of(reference_search(model, settings, drawn[tree], tree))


def test_a_small_tree_is_the_one_worked_out_by_hand() -> None:
    """Two arms that pay 0 and 1, the first a little likelier.

    With no visit yet the first is taken, then 0.4 · 1.25 > 0.6 · 1.25 / 2 for the second, which pays. The first is
    tried again once 0.6 · 1.25 · √N / 2 exceeds 1 + 0.4 · 1.25 · √N / N: at N = 10, not at N = 9.
    """

    class Likelier(Bandit):
        def roots(self):  # type: ignore[no-untyped-def]
            return super().roots()._replace(priors=np.array([[0.6, 0.4]], np.float32))

    for simulations, visits in ((1, [1, 0]), (2, [1, 1]), (9, [1, 8]), (10, [1, 9]), (11, [2, 9])):
        settings = replace(PLAIN, simulations=simulations)
        result = search(Likelier([0.0, 1.0]), settings)
        assert result.visits(0).tolist() == visits
        assert result.value(0) == pytest.approx(visits[1] / simulations)
        assert grown(result, 0) == tree_of(reference_search(Likelier([0.0, 1.0]), settings))


def test_a_tree_does_not_depend_on_the_trees_beside_it() -> None:
    settings = replace(PLAIN, simulations=80, children=10)
    together, alone = RandomModel(8, 10, 5), RandomModel(1, 10, 5)
    assert grown(search(together, settings), 0) == grown(search(alone, settings), 0)


def test_every_simulation_is_one_visit() -> None:
    result = search(RandomModel(4, 20, 1), replace(PLAIN, simulations=50, children=20))
    for tree in range(4):
        assert result.trees.visits[tree, 0] == result.visits(tree).sum() == 50


@pytest.mark.parametrize("gumbel", [0, 8])
def test_the_best_arm_of_a_bandit_is_found(gumbel: int) -> None:
    settings = replace(PLAIN, simulations=200, gumbel=gumbel, pb_c_init=2.0)
    result = search(Bandit([0.1, 0.3, 0.2, 0.9, 0.5, 0.0, 0.4, 0.35]), settings)
    assert result.actions(0)[result.best_child(0)] == 3
    assert gumbel or result.visits(0)[3] > 0.5 * 200


def test_differences_below_the_least_range_do_not_outweigh_the_priors() -> None:
    class Likely(Bandit):
        def roots(self):  # type: ignore[no-untyped-def]
            return super().roots()._replace(priors=np.array([[0.6, 0.4]], np.float32))

    for least, expected in ((0.0, 1), (1.0, 0)):
        result = search(Likely([0.001, 0.002]), replace(PLAIN, simulations=60, least_range=least))
        assert result.actions(0)[result.best_child(0)] == expected


def test_gumbel_finds_the_best_of_sixteen_arms_with_sixteen_simulations() -> None:
    rewards = list(np.random.default_rng(2).permutation(np.linspace(0, 1, 16)))
    settings = replace(PLAIN, simulations=16, gumbel=16, gumbel_scale=1.0)
    result = search(Bandit(rewards), settings)
    assert rewards[result.actions(0)[result.best_child(0)]] == 1.0


def test_a_prize_six_choices_away_is_preferred_to_a_lure_at_hand() -> None:
    result = search(Ladder(), replace(PLAIN, simulations=8000, unvisited="parent", pb_c_init=2.5))
    assert result.actions(0)[result.best_child(0)] == Ladder.way[0]
    found = [0]
    for _ in Ladder.way:  # the whole way is the most visited one
        visits = result.trees.child_visits[0, found[-1], :2]
        found.append(int(result.trees.child_node[0, found[-1], int(np.argmax(visits))]))
    actions = [
        int(result.trees.child_action[0, result.trees.parent[0, n], result.trees.child_index[0, n]]) for n in found[1:]
    ]
    assert tuple(actions) == Ladder.way


def test_the_value_of_a_solved_game_is_its_discounted_prize() -> None:
    settings = replace(PLAIN, simulations=4000, discount=0.9, pb_c_init=0.5)
    result = search(Ladder(lure=0.0), settings)
    best = result.trees.child_q[0, 0, result.best_child(0)]
    assert best == pytest.approx(0.9**5, abs=0.03)


def test_noise_changes_the_root_only_and_only_when_drawn() -> None:
    settings = SearchSettings(simulations=30, children=10)
    assert root_noise(4, settings, None) == RootNoise()
    drawn = root_noise(4, settings, np.random.default_rng(0))
    assert drawn.dirichlet is not None
    assert drawn.dirichlet.sum() == pytest.approx(1.0)


def test_halving_spends_every_simulation_and_ends_with_two() -> None:
    order = replace(PLAIN, simulations=16).halving(4)
    assert len(order) == 16
    assert order[:4] == [0, 0, 0, 0]
    assert order[-2:] == [order[-1], order[-1]]


def test_a_temperature_of_zero_takes_the_most_visited() -> None:
    visits = np.array([3, 9, 4], np.int32)
    assert policy_of(visits, 0.0).tolist() == [0, 1, 0]
    assert policy_of(visits, 1.0).tolist() == pytest.approx([3 / 16, 9 / 16, 4 / 16])
    assert policy_of(visits, 0.25)[1] > 0.9
    assert sample(policy_of(visits, 0.0), np.random.default_rng(0)) == 1


def test_a_tree_whose_root_allows_nothing_stays_a_root() -> None:
    class Nothing(Bandit):
        def roots(self):  # type: ignore[no-untyped-def]
            return super().roots()._replace(counts=np.zeros(1, np.int32))

    assert search(Nothing([1.0]), PLAIN).trees.size[0] == 1


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(OrienteerError, match="simulations = -1"):
        SearchSettings(simulations=-1)
    with pytest.raises(OrienteerError, match="discount"):
        SearchSettings(discount=1.5)
