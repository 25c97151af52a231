"""Planning in the learned world: the reference's trees, legal refinements, the clone's own choice without a search."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from little_vocabulary import SPELLING, TERMS, choices
from test_tree_search import grown, tree_of
from tiny_mind import SIZES, random_scene, random_sight, random_tensors, tiny_mind, word_table

from orienteer.agents.action_space import SLOTS
from orienteer.agents.muzero.grammar import query_grammar
from orienteer.agents.muzero.learned_model import LearnedWorld
from orienteer.agents.muzero.legal_actions import join
from orienteer.agents.muzero.mcts import SearchSettings, search
from orienteer.agents.muzero.mcts.reference import reference_search
from orienteer.agents.muzero.planning import plan_turns
from orienteer.agents.muzero.root import Mind, lean
from orienteer.agents.muzero.tries import local_tries
from orienteer.query import G4
from orienteer.session import STOP

SETTINGS = SearchSettings(simulations=40, children=9, noise_share=0.0)


@pytest.mark.parametrize("shape", ["short", "paper"])
@pytest.mark.parametrize("gates", ["sigmoid", "relu"])
def test_a_plan_s_tree_is_the_reference_s_and_does_not_depend_on_the_company(shape: str, gates: str) -> None:
    grammar = query_grammar(G4, shape)  # type: ignore[arg-type]
    mind = tiny_mind(grammar, replace(SIZES, gates=gates, prior=shape == "short"))  # type: ignore[arg-type]
    scenes = [random_scene(mind, seed, may_stop=seed % 2 == 0) for seed in range(7)]

    def world(some: list[int]) -> LearnedWorld:
        return LearnedWorld([scenes[n] for n in some], mind.vocabulary, grammar, mind.net, 40, 9)

    together = search(world(list(range(7))), SETTINGS)
    for number in range(7):
        whole = grown(together, number)
        assert whole == tree_of(reference_search(world([number]), SETTINGS))
        if number + 2 <= 7:
            assert whole == grown(search(world([number, (number + 1) % 7]), SETTINGS), 0)


def test_every_action_of_every_node_is_legal_there() -> None:
    grammar = query_grammar(G4)
    mind = tiny_mind(grammar)
    scenes = [random_scene(mind, seed) for seed in range(5)]
    world = LearnedWorld(scenes, mind.vocabulary, grammar, mind.net, 60, 9)
    forest = search(world, replace(SETTINGS, simulations=60))
    rooms, _ = join([scene.tries for scene in scenes], [scene.may_stop for scene in scenes], mind.vocabulary.trie)
    for tree in range(5):
        for node in range(int(forest.trees.size[tree])):
            count = int(forest.trees.degree[tree, node])
            offered = [action for action, _ in choices(world.states[tree, node], tree, grammar, rooms)]
            assert set(forest.trees.action[tree, node, :count].tolist()) <= set(offered)
            assert count == min(9, len(offered))


@pytest.mark.parametrize("shape", ["short", "paper"])
def test_a_plan_ends_with_a_word_that_was_offered(shape: str) -> None:
    grammar = query_grammar(G4, shape)  # type: ignore[arg-type]
    mind = tiny_mind(grammar, replace(SIZES, prior=False))
    scenes = [mind.scene(random_sight(TERMS, n), TERMS, local_tries(TERMS, SPELLING), (), 3, False) for n in range(6)]
    draws = [np.random.default_rng(n) for n in range(6)]
    for plan in plan_turns(mind, scenes, replace(SETTINGS, noise_share=0.3), draws, temperature=1.0):
        refinement = plan.action(TERMS)
        assert refinement in set(G4.refinements(refinement.field, refinement.term))  # type: ignore[union-attr]
        assert len(plan.states) == len(plan.actions) == len(plan.values) == len(plan.policies)
        for _, shares in plan.policies:
            assert shares.sum() == pytest.approx(1.0)


def test_plans_made_alone_and_together_are_the_same() -> None:
    grammar = query_grammar(G4)
    mind = tiny_mind(grammar)
    scenes = [random_scene(mind, seed) for seed in range(6)]
    together = plan_turns(mind, scenes, SETTINGS)
    in_threads = plan_turns(mind, scenes, SETTINGS, threads=4)
    assert [(p.actions, p.values) for p in in_threads] == [(p.actions, p.values) for p in together]
    for scene, plan in zip(scenes, together, strict=True):
        [alone] = plan_turns(mind, [scene], SETTINGS)
        assert (alone.actions, alone.values, alone.word) == (plan.actions, plan.values, plan.word)


def test_without_words_a_plan_is_to_stop() -> None:
    grammar = query_grammar(G4)
    mind = tiny_mind(grammar)
    scene = mind.scene(random_sight([], 0), [], local_tries([], SPELLING), (), 3, False)
    [plan] = plan_turns(mind, [scene], SETTINGS)
    assert plan.action([]) == STOP


def test_gumbel_plans_with_sixteen_simulations() -> None:
    grammar = query_grammar(G4)
    mind = tiny_mind(grammar)
    scenes = [random_scene(mind, seed) for seed in range(4)]
    for plan in plan_turns(mind, scenes, replace(SETTINGS, simulations=16, gumbel=8)):
        assert plan.word >= 0


def test_without_search_and_training_the_likeliest_refinement_is_the_clone_s() -> None:
    grammar = query_grammar(G4)
    tensors = random_tensors(SIZES, len(grammar))
    for name in ("policy.out.weight", "policy.out.bias", "piece_key.weight", "word_key.weight"):
        tensors[name] = np.zeros_like(tensors[name])
    tensors["prior_scale"] = np.array(1.0, np.float32)
    index = tiny_mind(grammar).vocabulary.trie
    mind = Mind(tensors, SIZES, word_table(), grammar, index)
    for seed in range(20):
        sight = random_sight(TERMS, seed)
        sight = sight._replace(slots=8 * sight.slots)  # sharp, so that the sum over words is led by its best
        scene = mind.scene(sight, TERMS, local_tries(TERMS, SPELLING), (), 3, False)
        [plan] = plan_turns(mind, [scene], replace(SETTINGS, simulations=0, children=100))
        legal = {
            (t, s): sight.slots[t, s]
            for t, term in enumerate(TERMS)
            for s, (operator, field) in enumerate(SLOTS)
            if operator.op == "or" or (("title" in term.sources) if field == "title" else term.sources - {"title"})
        }
        best, slot = max(legal, key=lambda each: legal[each])
        assert plan.action(TERMS) == SLOTS[slot][0].apply(SLOTS[slot][1], TERMS[best].text)


def test_leanings_add_up_to_what_the_clone_gives_all_refinements() -> None:
    sight = random_sight(TERMS, 3)
    tries = local_tries(TERMS, SPELLING)
    leaning = lean(sight.slots, TERMS, tries)
    plain = sum(float(np.exp(leaning[0, root, 0])) for root in tries.roots[0] if root >= 0)
    assert plain == pytest.approx(float(np.exp(sight.slots[:, 0]).sum()), rel=1e-4)
