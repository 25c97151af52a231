"""A MuZero that looks: the engine tells what each refinement promises, as the policy's start and as its reward."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from lexical_reader import LexicalReader
from little_vocabulary import TERMS
from small_world import HARD_QUESTIONS, QUESTIONS
from test_episodes import networks_of
from tiny_muzero import CONFIG, save_muzero, tiny_base
from tiny_networks import SIZES, random_root, tiny_networks
from tiny_pointer import save_pointer, value_model_tensors

from orienteer.agents.action_space import SLOT_OF, SLOTS, grammar_bits
from orienteer.agents.check import check_agent
from orienteer.agents.muzero.agent import MuZeroAgent
from orienteer.agents.muzero.batch import BatchMaker, UnrollStart
from orienteer.agents.muzero.config import Config, SearchSettings
from orienteer.agents.muzero.grammar import FIELD, NODE, OPERATOR, USES_INDEX, query_grammar
from orienteer.agents.muzero.learned_model import LearnedModel
from orienteer.agents.muzero.mcts import search
from orienteer.agents.muzero.planning import plan_steps
from orienteer.agents.muzero.replay import rule_sequence
from orienteer.agents.muzero.representation import IDLE_VALUE, LookaheadPrior
from orienteer.agents.muzero.root import SLOT_TABLE
from orienteer.agents.muzero.self_play import SelfPlayContext, play_episodes, reanalyse
from orienteer.agents.pointer.agent import PointerAgent
from orienteer.engine import EmbeddedEngine, Engine
from orienteer.query import G4, Operator, Refinement
from orienteer.session import NO_COST, UNDO, AgentCost, Environment, Settings, run_sessions


def looking(folder: Path, engine: Engine, look: float = 30.0, simulations: int = 10, back: float = 0.0) -> MuZeroAgent:
    config: Config = replace(
        CONFIG, networks=replace(CONFIG.networks, lookahead_scale=look),
        search=replace(CONFIG.search, simulations=simulations),
        decoding=replace(CONFIG.decoding, undo_threshold=back),
    )  # fmt: skip
    return MuZeroAgent.from_pretrained(save_muzero(folder, config, more=value_model_tensors()), engine, threads=1)


@pytest.mark.long
def test_it_keeps_the_promises_of_an_agent(engine: Engine, tmp_path: Path) -> None:
    agent = looking(tmp_path, engine, back=0.05)
    check_agent(agent, Environment(engine, LexicalReader(), Settings(steps=5)), [*QUESTIONS, *HARD_QUESTIONS[:6]])


def test_without_planning_a_sharp_look_takes_what_the_pointer_takes(embedded: EmbeddedEngine, tmp_path: Path) -> None:
    muzero = looking(tmp_path / "muzero", embedded, look=1e4, simulations=0)
    pointer = PointerAgent.from_pretrained(
        save_pointer(tmp_path / "pointer", more=value_model_tensors()), embedded, threads=1
    )
    environment = Environment(embedded, LexicalReader(), Settings())
    seen = environment.observe(environment.open(QUESTIONS))
    notes = [told["promising"] for _, told in pointer.act_with_explanations(seen)]
    assert any(notes)
    for action, promising in zip(muzero.act(seen), notes, strict=True):
        best = [refinement for refinement, promise in promising if promise == promising[0][1]]
        assert not best or str(action) in best


def test_it_goes_back_where_nothing_promises_enough(embedded: EmbeddedEngine, tmp_path: Path) -> None:
    agent = looking(tmp_path, embedded, back=1e6)
    environment = Environment(embedded, LexicalReader(), Settings(steps=4))
    for session in run_sessions(environment, agent, QUESTIONS).sessions:
        assert [step.action == UNDO for step in session.steps[1:]] == [False, True, False, True]


def test_where_the_engine_cannot_tell_the_clone_s_opinion_stands_and_nothing_is_taken_back(
    embedded: EmbeddedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LookaheadPrior, "__call__", lambda self, *seen: (None, AgentCost(fallbacks={"blind": 1})))
    blind, plain = looking(tmp_path / "blind", embedded, back=0.2), looking(tmp_path / "plain", embedded, look=0.0)
    environment = Environment(embedded, LexicalReader(), Settings(steps=3))
    for session in run_sessions(environment, blind, QUESTIONS).sessions:
        assert UNDO not in [step.action for step in session.steps]
        assert session.cost == AgentCost(fallbacks={"blind": session.refinements_made})
    for seen in environment.observe(environment.open(QUESTIONS)):
        [[_, encoded], [_, own]] = (each._pipeline.encode([seen])[0] for each in (blind, plain))
        np.testing.assert_allclose(
            encoded.slot_scores - encoded.slot_scores.max(), own.slot_scores - own.slot_scores.max(), atol=1e-3
        )


def test_episodes_are_played_and_thought_over_with_what_was_promised(embedded: EmbeddedEngine) -> None:
    config = replace(CONFIG, networks=replace(CONFIG.networks, lookahead_scale=30.0))
    base = tiny_base()
    base = replace(base, tensors={**base.tensors, **value_model_tensors()})
    answered = [question for question in QUESTIONS if question.answers]
    context = SelfPlayContext.of(embedded, LexicalReader(), answered, base, config)
    trajectories = play_episodes(
        context.environment(0), context.pipeline, networks_of(context), list(enumerate(answered)), seed=3
    )
    steps = [step for trajectory in trajectories for step in trajectory.steps]
    assert steps
    environment = context.environment(0)
    seen = environment.observe(environment.open(answered))
    for trajectory, (look, encoded), observation in zip(trajectories, context.pipeline.encode(seen), seen, strict=True):
        plain = context.encoder.encode([look], grammar_bits(G4))[0]
        assert context.pipeline.lookahead_prior is not None
        promised, cost = context.pipeline.lookahead_prior(observation, look, plain)
        assert promised is not None
        assert encoded.cost == cost != NO_COST
        np.testing.assert_allclose(encoded.slot_scores, 30 * promised, rtol=1e-6)
        np.testing.assert_allclose(trajectory.steps[0].slot_scores, encoded.slot_scores, rtol=1e-3, atol=1e-3)
    again = reanalyse(steps, networks_of(context, seed=1), config, seed=0)
    assert all((old.actions == new.actions).all() for old, new in zip(steps, again, strict=True))


def test_in_training_too_it_goes_back_where_nothing_promises_enough_and_remembers_no_such_turn(
    embedded: EmbeddedEngine,
) -> None:
    config = replace(
        CONFIG, networks=replace(CONFIG.networks, lookahead_scale=30.0),
        decoding=replace(CONFIG.decoding, undo_threshold=1e6),
        training=replace(CONFIG.training, episode_length=4),
    )  # fmt: skip
    base = tiny_base()
    base = replace(base, tensors={**base.tensors, **value_model_tensors()})
    answered = [question for question in QUESTIONS if question.answers]
    context = SelfPlayContext.of(embedded, LexicalReader(), answered, base, config)
    for trajectory in play_episodes(
        context.environment(0), context.pipeline, networks_of(context), list(enumerate(answered)), seed=3
    ):
        assert [len(step.history) for step in trajectory.steps] == [0, 0]
        assert trajectory.gain == pytest.approx(sum(step.reward for step in trajectory.steps))


def test_f_learns_what_came_besides_the_promise_of_the_refinement_that_was_taken(embedded: EmbeddedEngine) -> None:
    config = replace(CONFIG, networks=replace(CONFIG.networks, lookahead_scale=30.0))
    base = tiny_base()
    base = replace(base, tensors={**base.tensors, **value_model_tensors()})
    answered = [question for question in QUESTIONS if question.answers]
    context = SelfPlayContext.of(embedded, LexicalReader(), answered, base, config)
    batcher = BatchMaker(context.grammar, context.index, 12, config.networks, 0.9)
    checked = 0
    for trajectory in play_episodes(
        context.environment(0), context.pipeline, networks_of(context), list(enumerate(answered)), seed=3
    ):
        path = rule_sequence(trajectory, config.training, 0.9)
        for number, step in enumerate(trajectory.steps):
            batch = batcher([UnrollStart(trajectory, path, number)])
            whole = len(step.actions)
            state, node = step.states[-1], step.nodes[-1] if step.nodes[-1] >= 0 else step.states[-1][NODE]
            promise = float(step.slot_scores[step.word[node], SLOT_TABLE[state[OPERATOR], state[FIELD]]]) / 30
            assert batch.has_reward[whole, 0]
            assert batch.reward[whole, 0] == pytest.approx(step.reward - 0.1 * promise, abs=1e-6)
            later = np.flatnonzero(batch.has_reward[:, 0])[1:]
            expected = [each.reward for each in trajectory.steps[number + 1 :]][: len(later)]
            assert [batch.reward[place, 0] for place in later] == pytest.approx(expected)
            checked += 1
    assert checked > 3


@pytest.mark.parametrize("paying", ["rules", "words"])
@pytest.mark.parametrize("shape", ["short", "paper"])
def test_in_the_tree_the_first_refinement_is_worth_what_it_promises_and_no_other_rule_is(
    shape: str, paying: str
) -> None:
    grammar = query_grammar(G4, shape)  # type: ignore[arg-type]
    networks = tiny_networks(grammar, replace(SIZES, reward_at=paying))  # type: ignore[arg-type]
    plain = [random_root(networks, seed) for seed in range(3)]
    draw = np.random.default_rng(0)
    told = [draw.normal(5, 1, (len(s.tries.trie.word), len(SLOTS))).astype(np.float32) for s in plain]
    roots = [root._replace(lookahead_rewards=promised) for root, promised in zip(plain, told, strict=True)]
    context = LearnedModel(roots, networks.vocabulary, grammar, networks.weights, 300, 9)
    trees = search(context, SearchSettings(simulations=300, children=9)).trees
    completed = 0
    for tree, promised in enumerate(told):
        for node in range(1, int(trees.size[tree])):
            parent = int(trees.parent[tree, node])
            before, after = context.states[tree, parent], context.states[tree, node]
            if after[USES_INDEX] and not before[USES_INDEX]:
                place = trees.child_index[tree, node]
                action, edge = trees.child_action[tree, parent, place], trees.child_edge[tree, parent, place]
                last = context.nodes[tree, parent, edge] if action >= len(grammar) else before[NODE]
                slot = SLOT_TABLE[before[OPERATOR], before[FIELD]]
                besides = trees.reward[tree, node] - promised[context.local(tree, int(last)), slot]
                assert besides == 0 if paying == "rules" else 0 < abs(besides) <= 1  # the support of g's own reward
                completed += 1
            elif paying == "words" and not before[USES_INDEX]:
                assert trees.reward[tree, node] == 0
            else:
                assert trees.reward[tree, node] < 1.1
    assert completed > 5


def test_planning_finds_the_refinement_that_promises_most() -> None:
    networks = tiny_networks(query_grammar(G4))
    root = random_root(networks, 1)
    words = root.tries.trie.word
    wanted, slot = int(words[words >= 0][3]), SLOT_OF[Operator("+"), "contents"]
    promised = np.full((len(words), len(SLOTS)), IDLE_VALUE, np.float32)
    promised[words == wanted, slot] = 5.0
    [plan] = plan_steps(
        networks, [root._replace(lookahead_rewards=promised)], SearchSettings(simulations=600, children=60)
    )
    assert plan.action(TERMS) == Refinement("+", "contents", TERMS[wanted].text)
