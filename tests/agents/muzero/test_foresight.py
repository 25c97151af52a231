"""A MuZero that looks: the engine tells what each refinement promises, as the policy's start and as its reward."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from lexical_reader import LexicalReader
from little_vocabulary import TERMS
from small_world import HARD_QUESTIONS, QUESTIONS
from test_episodes import mind_of
from tiny_mind import SIZES, random_scene, tiny_mind
from tiny_muzero import CONFIG, save_muzero, tiny_base
from tiny_pointer import save_pointer, weigher_tensors

from orienteer.agents.action_space import SLOT_OF, SLOTS, grammar_bits
from orienteer.agents.check import check_agent
from orienteer.agents.muzero.actors import World
from orienteer.agents.muzero.agent import MuZeroAgent
from orienteer.agents.muzero.batch import Batcher, Start
from orienteer.agents.muzero.config import Config
from orienteer.agents.muzero.grammar import CROSSED, FIELD, NODE, OPERATOR, query_grammar
from orienteer.agents.muzero.learned_model import SLOT_TABLE, LearnedWorld
from orienteer.agents.muzero.lookahead_prior import IDLE, Foresight
from orienteer.agents.muzero.mcts import SearchSettings, search
from orienteer.agents.muzero.planning import plan_turns
from orienteer.agents.muzero.replay import path_of
from orienteer.agents.muzero.self_play import play_episodes, rethink
from orienteer.agents.pointer.agent import PointerAgent
from orienteer.engine import EmbeddedEngine, Engine
from orienteer.query import G4, Operator, Refinement
from orienteer.session import UNDO, Environment, Settings, run_sessions


def looking(folder: Path, engine: Engine, look: float = 30.0, simulations: int = 10, back: float = 0.0) -> MuZeroAgent:
    config: Config = replace(
        CONFIG, sizes=replace(CONFIG.sizes, look=look), search=replace(CONFIG.search, simulations=simulations),
        decoding=replace(CONFIG.decoding, back=back),
    )  # fmt: skip
    return MuZeroAgent.from_pretrained(save_muzero(folder, config, more=weigher_tensors()), engine, threads=1)


def test_it_keeps_the_promises_of_an_agent(engine: Engine, tmp_path: Path) -> None:
    agent = looking(tmp_path, engine, back=0.05)
    check_agent(agent, Environment(engine, LexicalReader(), Settings(steps=5)), [*QUESTIONS, *HARD_QUESTIONS[:6]])


def test_without_planning_a_sharp_look_takes_what_the_pointer_takes(embedded: EmbeddedEngine, tmp_path: Path) -> None:
    muzero = looking(tmp_path / "muzero", embedded, look=1e4, simulations=0)
    pointer = PointerAgent.from_pretrained(
        save_pointer(tmp_path / "pointer", more=weigher_tensors()), embedded, threads=1
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
    monkeypatch.setattr(Foresight, "__call__", lambda self, *seen: None)
    blind, plain = looking(tmp_path / "blind", embedded, back=0.2), looking(tmp_path / "plain", embedded, look=0.0)
    environment = Environment(embedded, LexicalReader(), Settings(steps=3))
    for session in run_sessions(environment, blind, QUESTIONS).sessions:
        assert UNDO not in [step.action for step in session.steps]
    for seen in environment.observe(environment.open(QUESTIONS)):
        [[_, sight], [_, own]] = (each._senses.see([seen])[0] for each in (blind, plain))
        np.testing.assert_allclose(sight.slots - sight.slots.max(), own.slots - own.slots.max(), atol=1e-3)


def test_episodes_are_played_and_thought_over_with_what_was_promised(embedded: EmbeddedEngine) -> None:
    config = replace(CONFIG, sizes=replace(CONFIG.sizes, look=30.0))
    base = tiny_base()
    base = replace(base, tensors={**base.tensors, **weigher_tensors()})
    answered = [question for question in QUESTIONS if question.answers]
    world = World.of(embedded, LexicalReader(), answered, base, config)
    episodes = play_episodes(world.environment(0), world.senses, mind_of(world), list(enumerate(answered)), seed=3)
    turns = [turn for episode in episodes for turn in episode.turns]
    assert turns
    environment = world.environment(0)
    seen = environment.observe(environment.open(answered))
    for episode, (look, sight), observation in zip(episodes, world.senses.see(seen), seen, strict=True):
        plain = world.eyes.see([look], grammar_bits(G4))[0]
        assert world.senses.foresight is not None
        promised = world.senses.foresight(observation, look, plain)
        assert promised is not None
        np.testing.assert_allclose(sight.slots, 30 * promised, rtol=1e-6)
        np.testing.assert_allclose(episode.turns[0].slots, sight.slots, rtol=1e-3, atol=1e-3)
    again = rethink(turns, mind_of(world, seed=1), config, seed=0)
    assert all((old.actions == new.actions).all() for old, new in zip(turns, again, strict=True))


def test_in_training_too_it_goes_back_where_nothing_promises_enough_and_remembers_no_such_turn(
    embedded: EmbeddedEngine,
) -> None:
    config = replace(
        CONFIG, sizes=replace(CONFIG.sizes, look=30.0), decoding=replace(CONFIG.decoding, back=1e6),
        training=replace(CONFIG.training, turns=4),
    )  # fmt: skip
    base = tiny_base()
    base = replace(base, tensors={**base.tensors, **weigher_tensors()})
    answered = [question for question in QUESTIONS if question.answers]
    world = World.of(embedded, LexicalReader(), answered, base, config)
    for episode in play_episodes(world.environment(0), world.senses, mind_of(world), list(enumerate(answered)), seed=3):
        assert [len(turn.past) for turn in episode.turns] == [0, 0]
        assert episode.gain == pytest.approx(sum(turn.reward for turn in episode.turns))


def test_f_learns_what_came_besides_the_promise_of_the_refinement_that_was_taken(embedded: EmbeddedEngine) -> None:
    config = replace(CONFIG, sizes=replace(CONFIG.sizes, look=30.0))
    base = tiny_base()
    base = replace(base, tensors={**base.tensors, **weigher_tensors()})
    answered = [question for question in QUESTIONS if question.answers]
    world = World.of(embedded, LexicalReader(), answered, base, config)
    batcher = Batcher(world.grammar, world.index, 12, config.sizes, 0.9)
    checked = 0
    for episode in play_episodes(world.environment(0), world.senses, mind_of(world), list(enumerate(answered)), seed=3):
        path = path_of(episode, config.training, 0.9)
        for number, turn in enumerate(episode.turns):
            batch = batcher([Start(episode, path, number)])
            whole = len(turn.actions)
            state, node = turn.states[-1], turn.nodes[-1] if turn.nodes[-1] >= 0 else turn.states[-1][NODE]
            promise = float(turn.slots[turn.word[node], SLOT_TABLE[state[OPERATOR], state[FIELD]]]) / 30
            assert batch.has_reward[whole, 0]
            assert batch.reward[whole, 0] == pytest.approx(turn.reward - 0.1 * promise, abs=1e-6)
            later = np.flatnonzero(batch.has_reward[:, 0])[1:]
            expected = [each.reward for each in episode.turns[number + 1 :]][: len(later)]
            assert [batch.reward[place, 0] for place in later] == pytest.approx(expected)
            checked += 1
    assert checked > 3


@pytest.mark.parametrize("paying", ["rules", "words"])
@pytest.mark.parametrize("shape", ["short", "paper"])
def test_in_the_tree_the_first_refinement_is_worth_what_it_promises_and_no_other_rule_is(
    shape: str, paying: str
) -> None:
    grammar = query_grammar(G4, shape)  # type: ignore[arg-type]
    mind = tiny_mind(grammar, replace(SIZES, paying=paying))  # type: ignore[arg-type]
    plain = [random_scene(mind, seed) for seed in range(3)]
    draw = np.random.default_rng(0)
    told = [draw.normal(5, 1, (len(s.tries.trie.word), len(SLOTS))).astype(np.float32) for s in plain]
    scenes = [scene._replace(promised=promised) for scene, promised in zip(plain, told, strict=True)]
    world = LearnedWorld(scenes, mind.vocabulary, grammar, mind.net, 300, 9)
    trees = search(world, SearchSettings(simulations=300, children=9)).trees
    completed = 0
    for tree, promised in enumerate(told):
        for node in range(1, int(trees.size[tree])):
            parent = int(trees.parent[tree, node])
            before, after = world.states[tree, parent], world.states[tree, node]
            if after[CROSSED] and not before[CROSSED]:
                place = trees.place[tree, node]
                action, edge = trees.action[tree, parent, place], trees.edge[tree, parent, place]
                last = world.nodes[tree, parent, edge] if action >= len(grammar) else before[NODE]
                slot = SLOT_TABLE[before[OPERATOR], before[FIELD]]
                besides = trees.reward[tree, node] - promised[world.local(tree, int(last)), slot]
                assert besides == 0 if paying == "rules" else 0 < abs(besides) <= 1  # the support of g's own reward
                completed += 1
            elif paying == "words" and not before[CROSSED]:
                assert trees.reward[tree, node] == 0
            else:
                assert trees.reward[tree, node] < 1.1
    assert completed > 5


def test_planning_finds_the_refinement_that_promises_most() -> None:
    mind = tiny_mind(query_grammar(G4))
    scene = random_scene(mind, 1)
    words = scene.tries.trie.word
    wanted, slot = int(words[words >= 0][3]), SLOT_OF[Operator("+"), "contents"]
    promised = np.full((len(words), len(SLOTS)), IDLE, np.float32)
    promised[words == wanted, slot] = 5.0
    [plan] = plan_turns(mind, [scene._replace(promised=promised)], SearchSettings(simulations=600, children=60))
    assert plan.action(TERMS) == Refinement("+", "contents", TERMS[wanted].text)
