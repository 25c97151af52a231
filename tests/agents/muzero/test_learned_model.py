"""Planning in the learned world: the reference's trees, legal refinements, the clone's own choice without a search."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from little_vocabulary import SPELLING, TERMS, choices
from reference_search import reference_search
from test_tree_search import grown, tree_of
from tiny_networks import SIZES, random_encoding, random_root, random_tensors, tiny_networks, word_table

from orienteer.agents.action_space import SLOTS
from orienteer.agents.muzero.config import SearchSettings
from orienteer.agents.muzero.grammar import join_tries, query_grammar
from orienteer.agents.muzero.learned_model import LearnedModel
from orienteer.agents.muzero.mcts import search
from orienteer.agents.muzero.networks import Networks
from orienteer.agents.muzero.planning import plan_steps
from orienteer.agents.muzero.root import node_prior_logits, root_state
from orienteer.agents.muzero.tries import local_tries
from orienteer.query import G4
from orienteer.session import STOP

SETTINGS = SearchSettings(simulations=40, children=9, noise_share=0.0)


@pytest.mark.parametrize("shape", ["short", "paper"])
@pytest.mark.parametrize("gates", ["sigmoid", "relu"])
def test_a_plan_s_tree_is_the_reference_s_and_does_not_depend_on_the_company(shape: str, gates: str) -> None:
    grammar = query_grammar(G4, shape)  # type: ignore[arg-type]
    networks = tiny_networks(grammar, replace(SIZES, gates=gates, policy_prior=shape == "short"))  # type: ignore[arg-type]
    roots = [random_root(networks, seed, may_stop=seed % 2 == 0) for seed in range(7)]

    def model(some: list[int]) -> LearnedModel:
        return LearnedModel([roots[n] for n in some], networks.vocabulary, grammar, networks.weights, 40, 9)

    together = search(model(list(range(7))), SETTINGS)
    for number in range(7):
        whole = grown(together, number)
        assert whole == tree_of(reference_search(model([number]), SETTINGS))
        if number + 2 <= 7:
            assert whole == grown(search(model([number, (number + 1) % 7]), SETTINGS), 0)


def test_every_action_of_every_node_is_legal_there() -> None:
    grammar = query_grammar(G4)
    networks = tiny_networks(grammar)
    roots = [random_root(networks, seed) for seed in range(5)]
    model = LearnedModel(roots, networks.vocabulary, grammar, networks.weights, 60, 9)
    result = search(model, replace(SETTINGS, simulations=60))
    trie_tables, _ = join_tries(
        [root.tries for root in roots], [root.may_stop for root in roots], networks.vocabulary.trie
    )
    for tree in range(5):
        for node in range(int(result.trees.size[tree])):
            count = int(result.trees.num_children[tree, node])
            offered = [action for action, _ in choices(model.states[tree, node], tree, grammar, trie_tables)]
            assert set(result.trees.child_action[tree, node, :count].tolist()) <= set(offered)
            assert count == min(9, len(offered))


@pytest.mark.parametrize("shape", ["short", "paper"])
def test_a_plan_ends_with_a_word_that_was_offered(shape: str) -> None:
    grammar = query_grammar(G4, shape)  # type: ignore[arg-type]
    networks = tiny_networks(grammar, replace(SIZES, policy_prior=False))
    roots = [
        root_state(networks, random_encoding(TERMS, n), TERMS, local_tries(TERMS, SPELLING), (), 3, False)
        for n in range(6)
    ]
    draws = [np.random.default_rng(n) for n in range(6)]
    for plan in plan_steps(networks, roots, replace(SETTINGS, noise_share=0.3), draws, temperature=1.0):
        refinement = plan.action(TERMS)
        assert refinement in set(G4.refinements(refinement.field, refinement.term))  # type: ignore[union-attr]
        assert len(plan.states) == len(plan.actions) == len(plan.values) == len(plan.policies)
        for _, shares in plan.policies:
            assert shares.sum() == pytest.approx(1.0)


def test_plans_made_alone_and_together_are_the_same() -> None:
    grammar = query_grammar(G4)
    networks = tiny_networks(grammar)
    roots = [random_root(networks, seed) for seed in range(6)]
    together = plan_steps(networks, roots, SETTINGS)
    in_threads = plan_steps(networks, roots, SETTINGS, threads=4)
    assert [(p.actions, p.values) for p in in_threads] == [(p.actions, p.values) for p in together]
    for root, plan in zip(roots, together, strict=True):
        [alone] = plan_steps(networks, [root], SETTINGS)
        assert (alone.actions, alone.values, alone.word) == (plan.actions, plan.values, plan.word)


def test_without_words_a_plan_is_to_stop() -> None:
    grammar = query_grammar(G4)
    networks = tiny_networks(grammar)
    root = root_state(networks, random_encoding([], 0), [], local_tries([], SPELLING), (), 3, False)
    [plan] = plan_steps(networks, [root], SETTINGS)
    assert plan.action([]) == STOP


def test_gumbel_plans_with_sixteen_simulations() -> None:
    grammar = query_grammar(G4)
    networks = tiny_networks(grammar)
    roots = [random_root(networks, seed) for seed in range(4)]
    for plan in plan_steps(networks, roots, replace(SETTINGS, simulations=16, gumbel=8)):
        assert plan.word >= 0


def test_without_search_and_training_the_likeliest_refinement_is_the_clone_s() -> None:
    grammar = query_grammar(G4)
    tensors = random_tensors(SIZES, len(grammar))
    for name in ("policy.out.weight", "policy.out.bias", "piece_key.weight", "word_key.weight"):
        tensors[name] = np.zeros_like(tensors[name])
    tensors["prior_scale"] = np.array(1.0, np.float32)
    index = tiny_networks(grammar).vocabulary.trie
    networks = Networks(tensors, SIZES, word_table(), grammar, index)
    for seed in range(20):
        encoded = random_encoding(TERMS, seed)
        encoded = encoded._replace(
            slot_scores=8 * encoded.slot_scores
        )  # sharp, so that the sum over words is led by its best
        root = root_state(networks, encoded, TERMS, local_tries(TERMS, SPELLING), (), 3, False)
        [plan] = plan_steps(networks, [root], replace(SETTINGS, simulations=0, children=100))
        legal = {
            (t, s): encoded.slot_scores[t, s]
            for t, term in enumerate(TERMS)
            for s, (operator, field) in enumerate(SLOTS)
            if operator.op == "or" or (("title" in term.sources) if field == "title" else term.sources - {"title"})
        }
        best, slot = max(legal, key=lambda each: legal[each])
        assert plan.action(TERMS) == SLOTS[slot][0].apply(SLOTS[slot][1], TERMS[best].text)


def test_leanings_add_up_to_what_the_clone_gives_all_refinements() -> None:
    encoded = random_encoding(TERMS, 3)
    tries = local_tries(TERMS, SPELLING)
    leaning = node_prior_logits(encoded.slot_scores, TERMS, tries)
    plain = sum(float(np.exp(leaning[0, root, 0])) for root in tries.roots[0] if root >= 0)
    assert plain == pytest.approx(float(np.exp(encoded.slot_scores[:, 0]).sum()), rel=1e-4)
