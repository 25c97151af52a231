"""Episodes on a small world: what is remembered, advice, thinking old turns over, packing, Rocchio's as examples."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from lexical_reader import LexicalReader
from small_world import HARD_QUESTIONS, QUESTIONS
from tiny_muzero import CONFIG, tiny_base
from tiny_networks import random_tensors

from orienteer.agents.imitation import by_id
from orienteer.agents.muzero.batch import BatchMaker, UnrollStart
from orienteer.agents.muzero.config import Config, TrainingConfig
from orienteer.agents.muzero.demonstrations import demonstrations
from orienteer.agents.muzero.grammar import OPERATOR, OPERATORS, USES_INDEX, query_grammar
from orienteer.agents.muzero.networks import Networks
from orienteer.agents.muzero.replay import (
    ReplayBuffer,
    Trajectory,
    TrajectoryStep,
    pack,
    rule_sequence,
    targets,
    unpack,
)
from orienteer.agents.muzero.self_play import (
    IdealTerms,
    SelfPlayContext,
    guided_probability,
    play_episodes,
    promoted_terms,
    reanalyse,
)
from orienteer.engine import EmbeddedEngine
from orienteer.engine.protocol import fingerprint_of
from orienteer.errors import OrienteerError
from orienteer.query import G4
from orienteer.rocchio import Header, RocchioConfig, rocchio_sessions, variants_of
from orienteer.rocchio.sessions import header_line, session_line
from orienteer.session import Settings


@pytest.fixture(scope="module")
def context(embedded: EmbeddedEngine) -> SelfPlayContext:
    return context_of(embedded, CONFIG)


def context_of(engine: EmbeddedEngine, config: Config) -> SelfPlayContext:
    answered = [question for question in QUESTIONS if question.answers]
    return SelfPlayContext.of(engine, LexicalReader(), answered, tiny_base(), config)


def networks_of(context: SelfPlayContext, seed: int = 0) -> Networks:
    whole, width = context.base.encoding_sizes
    tensors = random_tensors(
        context.config.networks, len(context.grammar), seed, whole, width, context.base.word_embeddings.shape[1]
    )  # fmt: skip
    return Networks(tensors, context.config.networks, context.encoder.word_embeddings, context.grammar, context.index)


@pytest.fixture(scope="module")
def trajectories(context: SelfPlayContext) -> list[Trajectory]:
    asked = list(enumerate([*context.questions, *HARD_QUESTIONS[:3]]))
    return play_episodes(context.environment(0), context.pipeline, networks_of(context), asked, seed=3, keep_rows=True)


def same(one: Trajectory, other: Trajectory) -> bool:
    def equal(a: object, b: object) -> bool:
        if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
            return a.shape == b.shape and a.dtype == b.dtype and bool((a == b).all())
        if hasattr(a, "__dataclass_fields__"):
            return all(equal(getattr(a, name), getattr(b, name)) for name in a.__dataclass_fields__)  # type: ignore
        if isinstance(a, tuple) and isinstance(b, tuple):
            return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
        return a == b

    return equal(one, other)


def test_the_rewards_of_an_episode_add_up_to_its_gain(trajectories: list[Trajectory]) -> None:
    played = [trajectory for trajectory in trajectories if trajectory.steps]
    assert len(played) >= 4
    for trajectory in played:
        lost = trajectory.empty * CONFIG.training.empty_penalty
        if trajectory.ended == "steps":
            assert sum(step.reward for step in trajectory.steps) == pytest.approx(trajectory.gain - lost, abs=1e-9)


def test_an_episode_is_the_same_in_any_company(context: SelfPlayContext, trajectories: list[Trajectory]) -> None:
    networks = networks_of(context)
    for number in (0, 2):
        asked = [(number, context.questions[number])]
        [alone] = play_episodes(context.environment(0), context.pipeline, networks, asked, seed=3, keep_rows=True)
        assert same(alone, trajectories[number])


def test_packed_episodes_come_back_as_they_were(trajectories: list[Trajectory]) -> None:
    again = unpack(pack(trajectories))
    assert len(again) == len(trajectories)
    assert all(same(one, other) for one, other in zip(trajectories, again, strict=True))
    assert unpack(pack([])) == []


def test_old_turns_thought_over_keep_their_actions_and_get_the_newer_policies(
    context: SelfPlayContext, trajectories: list[Trajectory]
) -> None:
    steps = [step for trajectory in trajectories for step in trajectory.steps]
    newer = networks_of(context, seed=1)
    quiet = replace(context.config, search=replace(context.config.search, noise_share=0.0, children=200))
    again = reanalyse(steps, newer, quiet, seed=0)
    assert len(again) == len(steps)
    changed = 0
    for old, new in zip(steps, again, strict=True):
        assert (old.actions == new.actions).all()
        changed += not np.array_equal(old.values, new.values)
        for rule in range(len(new.actions)):
            assert new.policy(rule)[1].sum() == pytest.approx(1.0, abs=1e-5)
    assert changed > len(steps) / 2


def test_batches_of_real_turns_offer_what_was_taken(context: SelfPlayContext, trajectories: list[Trajectory]) -> None:
    batcher = BatchMaker(context.grammar, context.index, 5, context.config.networks, 0.9)
    starts = [
        UnrollStart(trajectory, rule_sequence(trajectory, context.config.training, 0.9), step)
        for trajectory in trajectories
        for step in range(len(trajectory.steps))
    ]
    batch = batcher(starts)
    groups = batch.choices.position.astype(np.int64) * len(starts) + batch.choices.row
    for group in np.unique(groups):
        assert batch.choices.share[groups == group].sum() == pytest.approx(1.0, abs=1e-4)
    assert batch.has_policy[0].mean() > 0.5
    assert len(batch.word_counts) == len(batch.pieces)


def test_advice_limits_the_words_of_an_episode_to_those_of_the_ideal_query(context: SelfPlayContext) -> None:
    environment = context.environment(0)
    sessions = environment.open(context.questions)
    ideals = IdealTerms(environment).ideals(sessions)
    assert any(ideals)
    asked = list(enumerate(context.questions))
    advised = play_episodes(environment, context.pipeline, networks_of(context), asked, seed=5, guided_share=1.0)
    assert any(trajectory.guided for trajectory in advised)
    for trajectory, ideal, session in zip(advised, ideals, sessions, strict=True):
        assert trajectory.guided == (ideal is not None)
        if ideal is None or not trajectory.steps:
            continue
        [seen] = environment.observe([session])
        up = promoted_terms(seen.terms, ideal)
        step = trajectory.steps[0]
        if any(up) and not all(up):
            number = int(step.word[_last_node(step)])
            assert up[number] == (OPERATORS[step.states[-1][OPERATOR]].op != "-")


def _last_node(step: TrajectoryStep) -> int:
    """Where the word of a turn ends."""
    return int(step.nodes[-1]) if step.nodes[-1] >= 0 else int(step.states[-1][3])


def test_advice_falls_to_nothing() -> None:
    assert guided_probability(0.5, 100, 0) == 0.5
    assert guided_probability(0.5, 100, 50) == 0.25
    assert guided_probability(0.5, 100, 1000) == 0.0
    assert guided_probability(0.5, 0, 0) == 0.0


def test_targets_are_discounted_sums_or_some_steps_and_then_the_search_s_value() -> None:
    rewards, values = np.array([1.0, 2.0, 3.0, 4.0]), np.array([10.0, 20.0, 30.0, 40.0])
    whole = targets(rewards, values, 0.9, 99)
    assert whole[0] == pytest.approx(1 + 0.9 * 2 + 0.81 * 3 + 0.729 * 4)
    assert whole[2:].tolist() == pytest.approx([3 + 0.9 * 4, 4.0, 0.0])
    two = targets(rewards, values, 0.9, 2)
    assert two[0] == pytest.approx(1 + 0.9 * 2 + 0.81 * 30)
    assert two[3] == 4.0


def test_surprising_turns_are_drawn_more_often_and_weigh_less(trajectories: list[Trajectory]) -> None:
    replay = ReplayBuffer(TrainingConfig(priority=1.0, importance=1.0, replay_size=1000), 0.9)
    replay.add(trajectories)
    everyone = [(e, t) for e in range(len(replay.trajectories)) for t in range(len(replay.trajectories[e].steps))]
    replay.update_priorities(everyone, np.full(len(everyone), 0.01))
    replay.update_priorities(everyone[:1], np.array([5.0]))
    drawn = replay.sample(400, np.random.default_rng(0))
    assert drawn.positions.count(everyone[0]) > 300
    weight = dict(zip(drawn.positions, drawn.weights, strict=True))
    assert weight[everyone[0]] < max(drawn.weights) == 1.0


def test_the_oldest_episodes_go_first_and_stay_counted(trajectories: list[Trajectory]) -> None:
    played = [trajectory for trajectory in trajectories if trajectory.steps]
    replay = ReplayBuffer(TrainingConfig(replay_size=len(played[-1].steps)), 0.9)
    replay.add(played)
    assert [trajectory.number for trajectory in replay.trajectories] == [played[-1].number]
    assert replay.add(played) == 0
    assert len(replay.counted) == len(played)


def test_nothing_to_draw_from_is_an_error() -> None:
    with pytest.raises(OrienteerError, match="nothing to learn from"):
        ReplayBuffer(TrainingConfig(), 0.9).sample(1, np.random.default_rng(0))


@pytest.mark.parametrize("shape", ["short", "paper"])
def test_rocchio_s_sessions_become_turns_that_write_its_refinements(
    embedded: EmbeddedEngine, tmp_path: Path, shape: str
) -> None:
    sizes = replace(CONFIG.networks, policy_prior=shape == "short")
    context = context_of(embedded, replace(CONFIG, shape=shape, networks=sizes))  # type: ignore[arg-type]
    plan = RocchioConfig(settings=Settings(steps=4, snippet=30))
    found = [s for own in rocchio_sessions(embedded, context.reader, QUESTIONS, variants_of("G4"), plan) for s in own]
    header = Header(plan, fingerprint_of(embedded), fingerprint_of(context.reader))
    file = tmp_path / "sessions.jsonl"
    file.write_bytes(b"".join([header_line(header), *map(session_line, found)]))
    made = list(demonstrations(
        tmp_path / "kept", file, by_id(QUESTIONS), embedded, context.reader, context.pipeline, context.grammar,
        context.index,
    ))  # fmt: skip
    wanted = [session for session in found if session.steps]
    assert len(made) == len(wanted) > 0
    grammar = query_grammar(G4, shape)  # type: ignore[arg-type]
    for trajectory, session in zip(made, wanted, strict=True):
        assert len(trajectory.steps) == len(session.steps)
        assert trajectory.gain == pytest.approx(session.steps[-1].state.score.total - session.start.score.total)  # type: ignore
        for step, shown in zip(trajectory.steps, session.steps, strict=True):
            operator = OPERATORS[step.states[-1][OPERATOR]]
            assert (operator.op, operator.weight) == (shown.refinement.op, shown.refinement.weight)
            spelt = [int(a) - len(grammar) for a in step.actions if a >= len(grammar)]
            assert context.pipeline.term_tokenizer.text(spelt) == shown.refinement.term
            assert not step.states[:, USES_INDEX].any()
    again = list(demonstrations(
        tmp_path / "kept", file, {}, embedded, context.reader, context.pipeline, context.grammar, context.index,
    ))  # fmt: skip
    assert all(same(one, other) for one, other in zip(made, again, strict=True))
