"""Episodes on a small world: what is remembered, advice, thinking old turns over, packing, Rocchio's as examples."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from lexical_reader import LexicalReader
from small_world import HARD_QUESTIONS, QUESTIONS
from tiny_mind import random_tensors
from tiny_muzero import CONFIG, tiny_base

from orienteer.agents.muzero.actors import World
from orienteer.agents.muzero.batch import Batcher, Start
from orienteer.agents.muzero.collapse_detector import Limits, Watch
from orienteer.agents.muzero.config import Config, Training
from orienteer.agents.muzero.demonstrations import demonstrations
from orienteer.agents.muzero.grammar import CROSSED, OPERATOR, OPERATORS, query_grammar
from orienteer.agents.muzero.guided_exploration import Adviser, advice_probability, promoted
from orienteer.agents.muzero.replay import Replay, path_of, targets
from orienteer.agents.muzero.root import Mind
from orienteer.agents.muzero.self_play import play_episodes, rethink
from orienteer.agents.muzero.trajectory import Episode, Turn, pack, unpack
from orienteer.agents.pointer.imitation_targets import by_id
from orienteer.engine import EmbeddedEngine
from orienteer.engine.protocol import fingerprint_of
from orienteer.errors import OrienteerError
from orienteer.query import G4
from orienteer.rocchio import Header, Plan, rocchio_sessions, variants_of
from orienteer.rocchio.output import header_line, session_line
from orienteer.session import Settings


@pytest.fixture(scope="module")
def world(embedded: EmbeddedEngine) -> World:
    return world_of(embedded, CONFIG)


def world_of(engine: EmbeddedEngine, config: Config) -> World:
    answered = [question for question in QUESTIONS if question.answers]
    return World.of(engine, LexicalReader(), answered, tiny_base(), config)


def mind_of(world: World, seed: int = 0) -> Mind:
    whole, width = world.base.sizes
    tensors = random_tensors(
        world.config.sizes, len(world.grammar), seed, whole, width, world.base.words.shape[1]
    )  # fmt: skip
    return Mind(tensors, world.config.sizes, world.eyes.words, world.grammar, world.index)


@pytest.fixture(scope="module")
def episodes(world: World) -> list[Episode]:
    asked = list(enumerate([*world.questions, *HARD_QUESTIONS[:3]]))
    return play_episodes(world.environment(0), world.senses, mind_of(world), asked, seed=3, keep_rows=True)


def same(one: Episode, other: Episode) -> bool:
    def equal(a: object, b: object) -> bool:
        if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
            return a.shape == b.shape and a.dtype == b.dtype and bool((a == b).all())
        if hasattr(a, "__dataclass_fields__"):
            return all(equal(getattr(a, name), getattr(b, name)) for name in a.__dataclass_fields__)  # type: ignore
        if isinstance(a, tuple) and isinstance(b, tuple):
            return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
        return a == b

    return equal(one, other)


def test_the_rewards_of_an_episode_add_up_to_its_gain(episodes: list[Episode]) -> None:
    played = [episode for episode in episodes if episode.turns]
    assert len(played) >= 4
    for episode in played:
        lost = episode.empty * CONFIG.training.empty_penalty
        if episode.ended == "steps":
            assert sum(turn.reward for turn in episode.turns) == pytest.approx(episode.gain - lost, abs=1e-9)


def test_an_episode_is_the_same_in_any_company(world: World, episodes: list[Episode]) -> None:
    mind = mind_of(world)
    for number in (0, 2):
        asked = [(number, world.questions[number])]
        [alone] = play_episodes(world.environment(0), world.senses, mind, asked, seed=3, keep_rows=True)
        assert same(alone, episodes[number])


def test_packed_episodes_come_back_as_they_were(episodes: list[Episode]) -> None:
    again = unpack(pack(episodes))
    assert len(again) == len(episodes)
    assert all(same(one, other) for one, other in zip(episodes, again, strict=True))
    assert unpack(pack([])) == []


def test_old_turns_thought_over_keep_their_actions_and_get_the_newer_policies(
    world: World, episodes: list[Episode]
) -> None:
    turns = [turn for episode in episodes for turn in episode.turns]
    newer = mind_of(world, seed=1)
    quiet = replace(world.config, search=replace(world.config.search, noise_share=0.0, children=200))
    again = rethink(turns, newer, quiet, seed=0)
    assert len(again) == len(turns)
    changed = 0
    for old, new in zip(turns, again, strict=True):
        assert (old.actions == new.actions).all()
        changed += not np.array_equal(old.values, new.values)
        for rule in range(len(new.actions)):
            assert new.policy(rule)[1].sum() == pytest.approx(1.0, abs=1e-5)
    assert changed > len(turns) / 2


def test_batches_of_real_turns_offer_what_was_taken(world: World, episodes: list[Episode]) -> None:
    batcher = Batcher(world.grammar, world.index, 5, world.config.sizes, 0.9)
    starts = [
        Start(episode, path_of(episode, world.config.training, 0.9), turn)
        for episode in episodes
        for turn in range(len(episode.turns))
    ]
    batch = batcher(starts)
    groups = batch.candidates.place.astype(np.int64) * len(starts) + batch.candidates.row
    for group in np.unique(groups):
        assert batch.candidates.share[groups == group].sum() == pytest.approx(1.0, abs=1e-4)
    assert batch.has_policy[0].mean() > 0.5
    assert len(batch.word_counts) == len(batch.pieces)


def test_advice_limits_the_words_of_an_episode_to_those_of_the_ideal_query(world: World) -> None:
    environment = world.environment(0)
    sessions = environment.open(world.questions)
    ideals = Adviser(environment).ideals(sessions)
    assert any(ideals)
    asked = list(enumerate(world.questions))
    advised = play_episodes(environment, world.senses, mind_of(world), asked, seed=5, advice=1.0)
    assert any(episode.advised for episode in advised)
    for episode, ideal, session in zip(advised, ideals, sessions, strict=True):
        assert episode.advised == (ideal is not None)
        if ideal is None or not episode.turns:
            continue
        [seen] = environment.observe([session])
        up = promoted(seen.terms, ideal)
        turn = episode.turns[0]
        if any(up) and not all(up):
            number = int(turn.word[_last_node(turn)])
            assert up[number] == (OPERATORS[turn.states[-1][OPERATOR]].op != "-")


def _last_node(turn: Turn) -> int:
    """Where the word of a turn ends."""
    return int(turn.nodes[-1]) if turn.nodes[-1] >= 0 else int(turn.states[-1][3])


def test_advice_falls_to_nothing() -> None:
    assert advice_probability(0.5, 100, 0) == 0.5
    assert advice_probability(0.5, 100, 50) == 0.25
    assert advice_probability(0.5, 100, 1000) == 0.0
    assert advice_probability(0.5, 0, 0) == 0.0


def test_targets_are_discounted_sums_or_some_steps_and_then_the_search_s_value() -> None:
    rewards, values = np.array([1.0, 2.0, 3.0, 4.0]), np.array([10.0, 20.0, 30.0, 40.0])
    whole = targets(rewards, values, 0.9, 99)
    assert whole[0] == pytest.approx(1 + 0.9 * 2 + 0.81 * 3 + 0.729 * 4)
    assert whole[2:].tolist() == pytest.approx([3 + 0.9 * 4, 4.0, 0.0])
    two = targets(rewards, values, 0.9, 2)
    assert two[0] == pytest.approx(1 + 0.9 * 2 + 0.81 * 30)
    assert two[3] == 4.0


def test_surprising_turns_are_drawn_more_often_and_weigh_less(episodes: list[Episode]) -> None:
    replay = Replay(Training(priority=1.0, importance=1.0, replay=1000), 0.9)
    replay.add(episodes)
    everyone = [(e, t) for e in range(len(replay.episodes)) for t in range(len(replay.episodes[e].turns))]
    replay.surprise(everyone, np.full(len(everyone), 0.01))
    replay.surprise(everyone[:1], np.array([5.0]))
    drawn = replay.draw(400, np.random.default_rng(0))
    assert drawn.places.count(everyone[0]) > 300
    weight = dict(zip(drawn.places, drawn.weights, strict=True))
    assert weight[everyone[0]] < max(drawn.weights) == 1.0


def test_the_oldest_episodes_go_first_and_stay_counted(episodes: list[Episode]) -> None:
    played = [episode for episode in episodes if episode.turns]
    replay = Replay(Training(replay=len(played[-1].turns)), 0.9)
    replay.add(played)
    assert [episode.number for episode in replay.episodes] == [played[-1].number]
    assert replay.add(played) == 0
    assert len(replay.counted) == len(played)


def test_nothing_to_draw_from_is_an_error() -> None:
    with pytest.raises(OrienteerError, match="nothing to learn from"):
        Replay(Training(), 0.9).draw(1, np.random.default_rng(0))


def test_a_run_is_stopped_when_rewards_go_and_not_before() -> None:
    watch = Watch(Limits(entropy=0.1, reward=0.05, patience=2))
    assert [watch.see(1.0, 0.2) for _ in range(20)] == [None] * 20
    said = [watch.see(1.0, 0.0) for _ in range(9)]
    assert said[:5] == [None] * 5
    assert "mean reward has fallen" in str(said[-1])
    assert Watch.from_dict(watch.limits, watch.as_dict()) == watch


def test_the_luck_of_a_few_episodes_does_not_stop_a_run() -> None:
    """Chunks of 16 episodes whose mean is 0.10 in truth, give or take 0.04, as real ones are."""
    for seed in range(50):
        watch, draw = Watch(Limits()), np.random.default_rng(seed)
        assert [watch.see(1.0, float(draw.normal(0.10, 0.04))) for _ in range(300)] == [None] * 300


@pytest.mark.parametrize("shape", ["short", "paper"])
def test_rocchio_s_sessions_become_turns_that_write_its_refinements(
    embedded: EmbeddedEngine, tmp_path: Path, shape: str
) -> None:
    sizes = replace(CONFIG.sizes, prior=shape == "short")
    world = world_of(embedded, replace(CONFIG, shape=shape, sizes=sizes))  # type: ignore[arg-type]
    plan = Plan(settings=Settings(steps=4, snippet=30))
    found = [s for own in rocchio_sessions(embedded, world.reader, QUESTIONS, variants_of("G4"), plan) for s in own]
    header = Header(plan, fingerprint_of(embedded), fingerprint_of(world.reader))
    file = tmp_path / "sessions.jsonl"
    file.write_bytes(b"".join([header_line(header), *map(session_line, found)]))
    made = list(demonstrations(
        tmp_path / "kept", file, by_id(QUESTIONS), embedded, world.reader, world.senses, world.grammar, world.index,
    ))  # fmt: skip
    wanted = [session for session in found if session.steps]
    assert len(made) == len(wanted) > 0
    grammar = query_grammar(G4, shape)  # type: ignore[arg-type]
    for episode, session in zip(made, wanted, strict=True):
        assert len(episode.turns) == len(session.steps)
        assert episode.gain == pytest.approx(session.steps[-1].state.score.total - session.start.score.total)  # type: ignore
        for turn, step in zip(episode.turns, session.steps, strict=True):
            operator = OPERATORS[turn.states[-1][OPERATOR]]
            assert (operator.op, operator.weight) == (step.refinement.op, step.refinement.weight)
            spelt = [int(a) - len(grammar) for a in turn.actions if a >= len(grammar)]
            assert world.senses.spelling.spelt(spelt) == step.refinement.term
            assert not turn.states[:, CROSSED].any()
    again = list(demonstrations(
        tmp_path / "kept", file, {}, embedded, world.reader, world.senses, world.grammar, world.index,
    ))  # fmt: skip
    assert all(same(one, other) for one, other in zip(made, again, strict=True))
