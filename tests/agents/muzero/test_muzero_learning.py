"""Learning: the networks that learn are those that play, the game is learned, a killed run ends where it would have."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs the extra [train]")

import grammar_game  # noqa: E402
from grammar_game import CONFIG, TURNS, WORDS, MakeGame, best_play, encoding_of, grammar_of, play  # noqa: E402  # fmt: skip
from little_vocabulary import SPELLING, choices, moved, term  # noqa: E402
from tiny_networks import WHOLE, WIDTH, index_trie, word_table  # noqa: E402

from orienteer.agents.muzero.batch import INDEX_PIECE, LOCAL_PIECE, RULE, BatchMaker, UnrollStart  # noqa: E402
from orienteer.agents.muzero.config import Support  # noqa: E402
from orienteer.agents.muzero.grammar import WORD_ENDS, join_tries  # noqa: E402
from orienteer.agents.muzero.learner import MuZeroModel, decoded, losses, make_optimiser, two_hot  # noqa: E402
from orienteer.agents.muzero.model_files import publish, published  # noqa: E402
from orienteer.agents.muzero.networks import Networks, dynamics, expected_value, head_hidden, rule_logits  # noqa: E402
from orienteer.agents.muzero.replay import ReplayBuffer, rule_sequence  # noqa: E402
from orienteer.agents.muzero.root import root_state  # noqa: E402
from orienteer.agents.muzero.self_play import ActorTask  # noqa: E402
from orienteer.agents.muzero.train import (  # noqa: E402
    ChunkReport,
    CollapseDetector,
    CollapseLimits,
    Run,
    RunComponents,
    train,
)
from orienteer.agents.muzero.tries import local_tries  # noqa: E402
from orienteer.errors import TrainingError  # noqa: E402
from orienteer.training import checkpoint  # noqa: E402

torch.set_num_threads(1)  # products of this size gain nothing from two, and wait for each other on a busy machine


def new_model(config=CONFIG, seed: int = 0):  # type: ignore[no-untyped-def]
    torch.manual_seed(seed)
    return MuZeroModel(config.networks, len(grammar_of(config)), WHOLE, WIDTH, word_table())


def parts_of(config=CONFIG, make_actor=None, **more):  # type: ignore[no-untyped-def]
    return RunComponents(
        new_model(config), grammar_of(config), index_trie(), word_table(), make_actor or MakeGame(config), **more
    )


@pytest.mark.parametrize("gates", ["sigmoid", "relu"])
def test_what_plays_computes_what_learns(gates: str) -> None:
    config = replace(CONFIG, networks=replace(CONFIG.networks, gates=gates))  # type: ignore[arg-type]
    model = new_model(config)
    for parameter in model.parameters():  # away from the quiet beginning
        torch.nn.init.normal_(parameter, std=0.3)
    networks = Networks(model.tensors(), config.networks, word_table(), grammar_of(config), index_trie())
    draw = np.random.default_rng(0)
    past = [2, 1, len(grammar_of(config)) + 50]
    encoded = encoding_of(3, draw)
    root = root_state(networks, encoded, WORDS, local_tries(WORDS, SPELLING), past, 2, False)
    with torch.no_grad():
        state = model.initial_state(
            torch.from_numpy(encoded.summary)[None], torch.tensor([past]), torch.tensor([len(past)])
        )
        np.testing.assert_allclose(root.latent, state[0].numpy(), atol=1e-4)
        embeds = draw.normal(size=(3, config.networks.embed)).astype(np.float32)
        before = draw.normal(size=(3, 2 * config.networks.lstm)).astype(np.float32)
        after = np.empty_like(before)
        dynamics(embeds, before, networks.weights, after)
        theirs = model.dynamics(torch.from_numpy(embeds), torch.from_numpy(before))
        np.testing.assert_allclose(after, theirs.numpy(), atol=1e-4)
        values = expected_value(after, networks.weights.value, networks.weights.value_support)
        np.testing.assert_allclose(values, decoded(model.value(theirs), config.networks.value).numpy(), atol=1e-4)
        rules = rule_logits(head_hidden(after, networks.weights.policy), networks.weights.policy)[:, : model.rules]
        np.testing.assert_allclose(rules, model.policy(theirs).numpy(), atol=1e-4)


def test_values_are_told_by_the_two_nearest_numbers() -> None:
    support = Support(-2.0, 2.0, 5)
    shares = two_hot(torch.tensor([-0.5, 0.9, 5.0, -2.0]), support)
    expected_shares = [[0, 0.5, 0.5, 0, 0], [0, 0, 0.1, 0.9, 0], [0, 0, 0, 0, 1], [1, 0, 0, 0, 0]]
    np.testing.assert_allclose(shares.numpy(), expected_shares, atol=1e-6)
    np.testing.assert_allclose(decoded(torch.log(shares + 1e-9), support).numpy(), [-0.5, 0.9, 2.0, -2.0], atol=1e-4)


@pytest.mark.parametrize(
    ("grammar", "shape", "prior"), [("G0", "short", False), ("G4", "short", True), ("G4", "paper", False)]
)
def test_the_policy_that_learns_is_the_policy_that_plans(tmp_path: Path, grammar: str, shape: str, prior: bool) -> None:
    """Turns whose targets are the networks' own policy: the loss is then that policy's entropy, place by place."""
    config = replace(
        CONFIG, grammar=grammar, shape=shape, networks=replace(CONFIG.networks, policy_prior=prior),  # type: ignore[arg-type]
        search=replace(CONFIG.search, simulations=0, children=200, noise_share=0.0),
        training=replace(CONFIG.training, policy_weight=1.0, unroll=9),
    )  # fmt: skip
    model = new_model(config)
    for name, parameter in model.named_parameters():
        if "key" in name or "policy" in name:
            torch.nn.init.normal_(parameter, std=0.3)
    publish(tmp_path, {f"muzero.{n}": v for n, v in model.tensors().items()}, 0)
    for trajectory in play(config, ActorTask(0, 0, 5, 0, str(tmp_path))):
        path = rule_sequence(trajectory, config.training, 0.9)
        batch = BatchMaker(grammar_of(config), index_trie(), 9, config.networks, 0.9)(
            [UnrollStart(trajectory, path, TURNS - 1)]
        )
        found = losses(model, batch, config.training, index_trie())
        step = trajectory.steps[-1]
        entropies = [-(shares * np.log(shares)).sum() for _, shares in map(step.policy, range(len(step.actions)))]
        weighed = sum(entropy * (1.0 if place == 0 else 1 / 9) for place, entropy in enumerate(entropies))
        assert found.parts["policy"] == pytest.approx(weighed, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("paying", ["rules", "words"])
def test_an_unrolling_has_the_rewards_and_values_of_its_rules(tmp_path: Path, paying: str) -> None:
    config = replace(CONFIG, networks=replace(CONFIG.networks, reward_at=paying))  # type: ignore[arg-type]
    model = new_model()
    publish(tmp_path, {f"muzero.{n}": v for n, v in model.tensors().items()}, 0)
    [trajectory] = play(config, ActorTask(0, 0, 1, 0, str(tmp_path)))
    path = rule_sequence(trajectory, config.training, 0.9)
    batch = BatchMaker(grammar_of(), index_trie(), 8, config.networks, 0.9)([UnrollStart(trajectory, path, 0)])
    rules = len(trajectory.steps[0].actions)
    whole = np.cumsum([len(step.actions) for step in trajectory.steps]).tolist()
    paid = range(1, len(path.reward) + 1) if paying == "rules" else whole
    assert np.flatnonzero(batch.has_reward[:, 0]).tolist() == list(paid)
    assert [batch.reward[place, 0] for place in whole] == [step.reward for step in trajectory.steps]
    assert batch.value[: len(path.target), 0] == pytest.approx(path.target)
    assert batch.has_value[:, 0].sum() == len(path.target)
    for place in range(9):
        own = batch.choices.position == place
        if own.any():
            assert batch.choices.share[own].sum() == pytest.approx(1.0)
    # Past the first query words come from the index: no rule that takes one from the observation is taken or offered.
    later = batch.choices.position >= rules
    taken = [
        grammar_of().rules[i].source
        for k, i in zip(batch.kinds[rules:, 0], batch.ids[rules:, 0], strict=True)
        if k == 0
    ]
    offered = [grammar_of().rules[i].source for i in batch.choices.id[later & (batch.choices.kind == 0)]]
    assert set(taken) | set(offered) <= {-1, 4}


@pytest.mark.parametrize("shape", ["short", "paper"])
def test_an_unrolling_takes_the_steps_of_a_plan_and_pays_where_words_are_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: str
) -> None:
    """Words that the index can continue are ended by a rule of their own once a plan takes words from the index."""
    monkeypatch.setattr(grammar_game, "WORDS", [term(text, "snippet") for text in ("keeper", "river", "storm")])
    config = replace(CONFIG, shape=shape)  # type: ignore[arg-type]
    grammar, index = grammar_of(config), index_trie()
    publish(tmp_path, {f"muzero.{n}": v for n, v in new_model(config).tensors().items()}, 0)
    ended = 0
    for trajectory in play(config, ActorTask(0, 0, 12, 0, str(tmp_path))):
        first = trajectory.steps[0]
        batch = BatchMaker(grammar, index, 20, config.networks, 0.9)(
            [UnrollStart(trajectory, rule_sequence(trajectory, config.training, 0.9), 0)]
        )
        trie_tables, _ = join_tries([first.tries], [False], index)
        state, whole = grammar.start(first.steps_left), []
        for place in range(int((batch.kinds[:, 0] >= 0).sum())):
            kind, number = int(batch.kinds[place, 0]), int(batch.ids[place, 0])
            action = number if kind == RULE else len(grammar) + number
            if kind == LOCAL_PIECE:
                action = len(grammar) + int(first.piece[number])
            offered = dict(choices(state, 0, grammar, trie_tables))
            assert action in offered
            ended += kind == RULE and grammar.rules[number].needs == WORD_ENDS
            state, word = moved(state, 0, action, offered[action], grammar, trie_tables)
            whole += [place + 1] if word >= 0 else []
        assert np.flatnonzero(batch.has_reward[:, 0]).tolist() == whole
        assert [batch.reward[place, 0] for place in whole] == [step.reward for step in trajectory.steps]
    assert ended > 3 or shape == "paper"  # where a rule says beforehand that a piece is the last


@pytest.mark.parametrize(("shape", "at_once"), [("short", True), ("paper", False)])
def test_first_pieces_of_the_index_are_chosen_among_all_or_among_those_that_fit(
    tmp_path: Path, shape: str, at_once: bool
) -> None:
    """In the paper's shape it is already chosen whether a piece is a word's last: not every first piece will do."""
    config = replace(CONFIG, shape=shape)  # type: ignore[arg-type]
    publish(tmp_path, {f"muzero.{n}": v for n, v in new_model(config).tensors().items()}, 0)
    trajectories = play(config, ActorTask(0, 0, 8, 0, str(tmp_path)))
    starts = [
        UnrollStart(trajectory, rule_sequence(trajectory, config.training, 0.9), 0) for trajectory in trajectories
    ]
    batch = BatchMaker(grammar_of(config), index_trie(), 12, config.networks, 0.9)(starts)
    assert bool(len(batch.first_choices)) is at_once
    assert at_once or (batch.choices.kind == INDEX_PIECE).any()
    found = losses(new_model(config), batch, config.training, index_trie())
    assert np.isfinite(found.parts["policy"])


def test_of_a_demonstration_among_one_s_own_episodes_only_the_policy_is_learned(tmp_path: Path) -> None:
    publish(tmp_path, {f"muzero.{n}": v for n, v in new_model().tensors().items()}, 0)
    own, shown = play(CONFIG, ActorTask(0, 0, 2, 0, str(tmp_path)))
    starts = [UnrollStart(e, rule_sequence(e, CONFIG.training, 0.9), 0, learn_value=e is own) for e in (own, shown)]
    batch = BatchMaker(grammar_of(), index_trie(), 5, CONFIG.networks, 0.9)(starts)
    assert (batch.has_policy.sum(0) > 0).all()
    assert (batch.has_value.sum(0) > 0).tolist() == (batch.has_reward.sum(0) > 0).tolist() == [True, False]


def test_the_game_is_learned(tmp_path: Path) -> None:
    rewards: list[float] = []

    def note(progress: ChunkReport) -> None:
        rewards.append(progress.values["reward"] / TURNS)

    train(CONFIG, Run(tmp_path, chunks=30, checkpoint_minutes=99), parts_of(), show=note)
    assert np.mean(rewards[:2]) < 0.5
    assert best_play(CONFIG, tmp_path) > 0.9


def test_the_best_arm_of_a_bandit_is_learned(tmp_path: Path) -> None:
    """Arms that pay by chance: the one known best is taken in the end, almost always."""
    arms = tuple(0.9 if number == 3 else 0.1 + 0.05 * (number % 5) for number in range(len(WORDS)))
    train(CONFIG, Run(tmp_path, chunks=25, checkpoint_minutes=99), parts_of(make_actor=MakeGame(arms=arms)))
    only_the_best = tuple(float(number == 3) for number in range(len(WORDS)))
    assert best_play(CONFIG, tmp_path, arms=only_the_best) > 0.9


def test_the_game_is_learned_with_gumbel_s_choice_at_the_root(tmp_path: Path) -> None:
    config = replace(CONFIG, search=replace(CONFIG.search, gumbel=8, simulations=16))
    train(config, Run(tmp_path, chunks=30, checkpoint_minutes=99), parts_of(config))
    assert best_play(config, tmp_path) > 0.9


def test_a_killed_run_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    def weights(folder: Path):  # type: ignore[no-untyped-def]
        return published(folder)[0]

    whole, broken = tmp_path / "whole", tmp_path / "broken"
    train(CONFIG, Run(whole, chunks=5, checkpoint_minutes=99), parts_of())

    class Killed(Exception):
        pass

    def kill(progress: ChunkReport) -> None:
        if progress.chunk == 2:
            raise Killed

    with pytest.raises(Killed):
        train(CONFIG, Run(broken, chunks=5, checkpoint_minutes=0), parts_of(), show=kill)
    place = train(CONFIG, Run(broken, chunks=5, checkpoint_minutes=99), parts_of())
    assert sorted(place.done) == list(range(5))
    ours, theirs = weights(whole), weights(broken)
    assert all((ours[name] == theirs[name]).all() for name in ours)


def test_an_episode_that_comes_twice_is_counted_once(tmp_path: Path) -> None:
    model = new_model()
    publish(tmp_path, {f"muzero.{n}": v for n, v in model.tensors().items()}, 0)
    trajectories = play(CONFIG, ActorTask(0, 0, 4, 0, str(tmp_path)))
    replay = ReplayBuffer(CONFIG.training, 0.9)
    assert replay.add(trajectories) == 4
    assert replay.add(trajectories) == 0
    assert len(replay) == 4 * TURNS


class Victim:
    """A run in a process of its own, to be killed; it says a line for every chunk."""

    def __init__(self, folder: Path, options: str) -> None:
        script = (
            f"import sys; sys.path[:0] = {sys.path!r}\n"
            "from pathlib import Path\n"
            "from grammar_game import MakeMortal\n"
            "from test_muzero_learning import CONFIG, Run, parts_of, train\n"
            "if __name__ == '__main__':\n"
            f"    folder = Path({str(folder)!r})\n"
            f"    train(CONFIG, {options}, show=lambda progress: print(progress.chunk, flush=True))\n"
        )
        self._script = folder.with_suffix(".py")
        self._script.write_text(script)
        folder.mkdir(exist_ok=True)

    def live(self, chunks: int | None = None, seconds: float = 0.0) -> bool:
        """Runs it to its end, or kills it so long after so many chunks; whether it came to its end."""
        with subprocess.Popen([sys.executable, self._script], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            if chunks is None:
                return process.communicate()[0] is not None and process.returncode == 0
            for _ in range(chunks):
                process.stdout.readline()
            time.sleep(seconds)
            ended = process.poll() == 0
            process.kill()
            return ended


@pytest.mark.slow
def test_thirty_kills_of_actors_and_learner_cost_no_episode_and_none_counts_twice(tmp_path: Path) -> None:
    """Fifteen of each, at random moments. Every actor batches its own inferences: there is no other process to kill."""
    chunks, kills = 120, 15
    options = (
        f"Run(folder, chunks={chunks}, workers=2, checkpoint_minutes=0),"
        f" parts_of(make_actor=MakeMortal(str(folder), {kills}))"
    )
    victim, draw = Victim(tmp_path / "run", options), np.random.default_rng(0)
    for _ in range(kills):
        assert not victim.live(int(draw.integers(5)), float(draw.uniform(0, 1)))
    assert victim.live()
    assert len(list((tmp_path / "run").glob("killed-*"))) == kills
    model, replay = new_model(), ReplayBuffer(CONFIG.training, 0.9)
    modules, optimiser = torch.nn.ModuleDict({"model": model}), make_optimiser(model, CONFIG.training)
    place, arrays = checkpoint.load(tmp_path / "run", modules, optimiser)
    replay.restore(arrays)
    assert sorted(place["done"]) == list(range(chunks))
    assert replay.counted.tolist() == list(range(chunks * CONFIG.training.episodes))


@pytest.mark.slow
def test_a_learner_killed_at_random_moments_ends_with_the_unbroken_weights(tmp_path: Path) -> None:
    """A process of its own, killed ten times while it plays, learns or writes."""
    options = "Run(folder, chunks=50, checkpoint_minutes=0), parts_of()"
    whole, broken = Victim(tmp_path / "whole", options), Victim(tmp_path / "broken", options)
    draw = np.random.default_rng(0)
    assert whole.live()
    for _ in range(10):
        assert not broken.live(int(draw.integers(4)), float(draw.uniform(0, 0.5)))
    assert broken.live()
    ours, theirs = (published(tmp_path / name)[0] for name in ("whole", "broken"))
    assert all((ours[name] == theirs[name]).all() for name in ours)


def test_a_policy_that_loses_its_doubts_stops_the_run_and_keeps_the_best(tmp_path: Path) -> None:
    kept: list[Path] = []
    parts = parts_of(judge=lambda weights: {"reward": 1.0}, keep=lambda folder, weights, notes: kept.append(folder))
    options = Run(tmp_path, chunks=9, judge_chunks=1, limits=CollapseLimits(entropy=99.0, patience=3))
    place = train(CONFIG, options, parts)
    assert "entropy" in place.stopped
    assert len(place.done) == 3
    assert kept == [tmp_path / "best", tmp_path / "last"]
    again = train(CONFIG, options, parts)  # a run that has collapsed stays stopped
    assert again.done == place.done


class Fading(MakeGame):
    """Whatever is played pays more and more in the first three chunks, and nothing afterwards."""

    def __call__(self):  # type: ignore[no-untyped-def]
        return lambda task: play(self.config, task, ((0.3, 0.6, 1.0, *([0.0] * 99))[task.number],) * len(WORDS))


def test_without_a_judge_a_run_that_collapses_leaves_the_weights_that_played_best(tmp_path: Path) -> None:
    kept: dict[str, int] = {}
    parts = parts_of(
        make_actor=Fading(), keep=lambda folder, weights, notes: kept.update({folder.name: notes["update"]})
    )
    limits = CollapseLimits(settled=2, reward=0.2, patience=2)
    place = train(CONFIG, Run(tmp_path, chunks=20, judge_chunks=1, limits=limits), parts)
    assert "reward has fallen" in place.stopped
    assert kept == {"best": 3 * CONFIG.training.updates, "last": place.update}
    assert kept["best"] < kept["last"]


def test_without_a_judge_a_run_that_ends_well_leaves_its_last_weights(tmp_path: Path) -> None:
    kept: dict[str, int] = {}
    parts = parts_of(
        make_actor=Fading(), keep=lambda folder, weights, notes: kept.update({folder.name: notes["update"]})
    )
    place = train(CONFIG, Run(tmp_path, chunks=5, judge_chunks=1), parts)
    assert set(kept.values()) == {place.update} == {5 * CONFIG.training.updates}


def test_what_a_run_starts_from_is_judged_first_and_kept_where_nothing_is_better(tmp_path: Path) -> None:
    kept: dict[str, int] = {}
    worth = iter([5.0, 4.0, 3.0])
    parts = parts_of(
        judge=lambda weights: {"reward": next(worth)},
        keep=lambda folder, weights, notes: kept.update({folder.name: notes["update"]}),
    )
    place = train(CONFIG, Run(tmp_path, chunks=2, judge_chunks=1), parts)
    assert (place.best, place.misses) == (5.0, 2)
    assert kept == {"best": 0, "last": 2 * CONFIG.training.updates}


class Advised(MakeGame):
    def __call__(self):  # type: ignore[no-untyped-def]
        return lambda task: [replace(trajectory, guided=True) for trajectory in play(self.config, task)]


def test_of_episodes_with_advice_only_the_policy_is_learned(tmp_path: Path) -> None:
    for make, learned in ((Advised(), False), (MakeGame(), True)):
        parts = parts_of(make_actor=make)
        before = {name: value.copy() for name, value in parts.model.tensors().items()}
        train(CONFIG, Run(tmp_path / make.__class__.__name__, chunks=1), parts)
        after = parts.model.tensors()
        for name in ("value.out.bias", "reward.out.bias"):
            assert (before[name] != after[name]).any() == learned
        assert (before["policy.out.bias"] != after["policy.out.bias"]).any()


def test_values_and_rewards_are_about_nothing_before_anything_was_learned() -> None:
    model = new_model()
    with torch.no_grad():
        state = torch.randn(50, 2 * CONFIG.networks.lstm)
        assert decoded(model.value(state), CONFIG.networks.value).abs().max() < 0.1
        assert decoded(model.reward(state[:, : CONFIG.networks.lstm]), CONFIG.networks.reward).abs().max() < 0.1


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    train(CONFIG, Run(tmp_path, chunks=1), parts_of())
    other = replace(CONFIG, networks=replace(CONFIG.networks, lstm=16))
    with pytest.raises(TrainingError, match="another folder"):
        train(other, Run(tmp_path, chunks=2), parts_of(other))


def test_a_run_is_stopped_when_rewards_go_and_not_before() -> None:
    watch = CollapseDetector(CollapseLimits(entropy=0.1, reward=0.05, patience=2))
    assert [watch.update(1.0, 0.2) for _ in range(20)] == [None] * 20
    said = [watch.update(1.0, 0.0) for _ in range(9)]
    assert said[:5] == [None] * 5
    assert "mean reward has fallen" in str(said[-1])
    assert CollapseDetector.from_dict(watch.limits, watch.as_dict()) == watch


def test_the_luck_of_a_few_episodes_does_not_stop_a_run() -> None:
    """Chunks of 16 episodes whose mean is 0.10 in truth, give or take 0.04, as real ones are."""
    for seed in range(50):
        watch, draw = CollapseDetector(CollapseLimits()), np.random.default_rng(seed)
        assert [watch.update(1.0, float(draw.normal(0.10, 0.04))) for _ in range(300)] == [None] * 300
