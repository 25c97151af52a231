"""Learning: the networks that learn are those that play, the game is learned, a killed run ends where it would have."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs the extra [train]")

from grammar_game import (  # noqa: E402
    CONFIG,
    TURNS,
    WORDS,
    MakeGame,
    MakeMortal,
    best_play,
    grammar_of,
    play,
    sight_of,
)  # fmt: skip
from little_vocabulary import SPELLING  # noqa: E402
from tiny_mind import WHOLE, WIDTH, index_trie, word_table  # noqa: E402

from orienteer.agents.muzero import checkpoint  # noqa: E402
from orienteer.agents.muzero.batch import Batcher, Start  # noqa: E402
from orienteer.agents.muzero.config import Support  # noqa: E402
from orienteer.agents.muzero.learner import losses, make_optimiser  # noqa: E402
from orienteer.agents.muzero.model import MuZeroModel, decoded, two_hot  # noqa: E402
from orienteer.agents.muzero.publishing import publish, published  # noqa: E402
from orienteer.agents.muzero.replay import Replay, path_of  # noqa: E402
from orienteer.agents.muzero.scenes import Mind  # noqa: E402
from orienteer.agents.muzero.thinking import expected, forward, hidden, rule_scores  # noqa: E402
from orienteer.agents.muzero.train import Parts, Progress, Run, Task, train  # noqa: E402
from orienteer.agents.muzero.tries import local_tries  # noqa: E402
from orienteer.reader.errors import TrainingError  # noqa: E402


def new_model(config=CONFIG, seed: int = 0):  # type: ignore[no-untyped-def]
    torch.manual_seed(seed)
    return MuZeroModel(config.sizes, len(grammar_of(config)), WHOLE, WIDTH, word_table())


def parts_of(config=CONFIG, make_actor=None, **more):  # type: ignore[no-untyped-def]
    return Parts(
        new_model(config), grammar_of(config), index_trie(), word_table(), make_actor or MakeGame(config), **more
    )


@pytest.mark.parametrize("gates", ["sigmoid", "relu"])
def test_what_plays_computes_what_learns(gates: str) -> None:
    config = replace(CONFIG, sizes=replace(CONFIG.sizes, gates=gates))  # type: ignore[arg-type]
    model = new_model(config)
    for parameter in model.parameters():  # away from the quiet beginning
        torch.nn.init.normal_(parameter, std=0.3)
    mind = Mind(model.tensors(), config.sizes, word_table(), grammar_of(config), index_trie())
    draw = np.random.default_rng(0)
    past = [2, 1, len(grammar_of(config)) + 50]
    sight = sight_of(3, draw)
    scene = mind.scene(sight, WORDS, local_tries(WORDS, SPELLING), past, 2, False)
    with torch.no_grad():
        state = model.begin(torch.from_numpy(sight.whole)[None], torch.tensor([past]), torch.tensor([len(past)]))
        np.testing.assert_allclose(scene.latent, state[0].numpy(), atol=1e-4)
        embeds = draw.normal(size=(3, config.sizes.embed)).astype(np.float32)
        before = draw.normal(size=(3, 2 * config.sizes.lstm)).astype(np.float32)
        after = np.empty_like(before)
        forward(embeds, before, mind.net, after)
        theirs = model.dynamics(torch.from_numpy(embeds), torch.from_numpy(before))
        np.testing.assert_allclose(after, theirs.numpy(), atol=1e-4)
        values = expected(after, mind.net.value, mind.net.value_support)
        np.testing.assert_allclose(values, decoded(model.value(theirs), config.sizes.value).numpy(), atol=1e-4)
        rules = rule_scores(hidden(after, mind.net.policy), mind.net.policy)[:, : model.rules]
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
        CONFIG, grammar=grammar, shape=shape, sizes=replace(CONFIG.sizes, prior=prior),  # type: ignore[arg-type]
        search=replace(CONFIG.search, simulations=0, children=200, noise_share=0.0),
        training=replace(CONFIG.training, policy_weight=1.0, unroll=9),
    )  # fmt: skip
    model = new_model(config)
    for name, parameter in model.named_parameters():
        if "key" in name or "policy" in name:
            torch.nn.init.normal_(parameter, std=0.3)
    publish(tmp_path, {f"muzero.{n}": v for n, v in model.tensors().items()}, 0)
    for episode in play(config, Task(0, 0, 5, 0, str(tmp_path))):
        path = path_of(episode, config.training, 0.9)
        batch = Batcher(grammar_of(config), index_trie(), 9, 4, prior)([Start(episode, path, TURNS - 1)])
        found = losses(model, batch, config.training, index_trie())
        turn = episode.turns[-1]
        entropies = [-(shares * np.log(shares)).sum() for _, shares in map(turn.policy, range(len(turn.actions)))]
        weighed = sum(entropy * (1.0 if place == 0 else 1 / 9) for place, entropy in enumerate(entropies))
        assert found.parts["policy"] == pytest.approx(weighed, rel=1e-3, abs=1e-4)


def test_an_unrolling_has_the_rewards_and_values_of_its_rules(tmp_path: Path) -> None:
    model = new_model()
    publish(tmp_path, {f"muzero.{n}": v for n, v in model.tensors().items()}, 0)
    [episode] = play(CONFIG, Task(0, 0, 1, 0, str(tmp_path)))
    path = path_of(episode, CONFIG.training, 0.9)
    batch = Batcher(grammar_of(), index_trie(), 8, 4, False)([Start(episode, path, 0)])
    rules = len(episode.turns[0].actions)
    assert batch.has_reward[:, 0].tolist() == [0.0] + [1.0] * len(path.reward) + [0.0] * (8 - len(path.reward))
    assert batch.reward[rules, 0] == episode.turns[0].reward
    assert batch.value[: len(path.target), 0] == pytest.approx(path.target)
    assert batch.has_value[:, 0].sum() == len(path.target)
    for place in range(9):
        own = batch.candidates.place == place
        if own.any():
            assert batch.candidates.share[own].sum() == pytest.approx(1.0)
    # Past the first query words come from the index: no rule that takes one from the observation is taken or offered.
    later = batch.candidates.place >= rules
    taken = [
        grammar_of().rules[i].source
        for k, i in zip(batch.kinds[rules:, 0], batch.ids[rules:, 0], strict=True)
        if k == 0
    ]
    offered = [grammar_of().rules[i].source for i in batch.candidates.id[later & (batch.candidates.kind == 0)]]
    assert set(taken) | set(offered) <= {-1, 4}


def test_the_game_is_learned(tmp_path: Path) -> None:
    rewards: list[float] = []

    def note(progress: Progress) -> None:
        rewards.append(progress.values["reward"] / TURNS)

    train(CONFIG, Run(tmp_path, chunks=30, checkpoint_minutes=99), parts_of(), show=note)
    assert np.mean(rewards[:2]) < 0.5
    assert best_play(CONFIG, tmp_path) > 0.9


def test_a_killed_run_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    def weights(folder: Path):  # type: ignore[no-untyped-def]
        return published(folder)[0]

    whole, broken = tmp_path / "whole", tmp_path / "broken"
    train(CONFIG, Run(whole, chunks=5, checkpoint_minutes=99), parts_of())

    class Killed(Exception):
        pass

    def kill(progress: Progress) -> None:
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
    episodes = play(CONFIG, Task(0, 0, 4, 0, str(tmp_path)))
    replay = Replay(CONFIG.training, 0.9)
    assert replay.add(episodes) == 4
    assert replay.add(episodes) == 0
    assert len(replay) == 4 * TURNS


@pytest.mark.slow
def test_actors_that_die_cost_no_episode_and_none_counts_twice(tmp_path: Path) -> None:
    said: list[Progress] = []
    options = Run(tmp_path, chunks=10, workers=2)
    place = train(CONFIG, options, parts_of(make_actor=MakeMortal(str(tmp_path))), show=said.append)
    assert len(list(tmp_path.glob("killed-*"))) == 3
    assert sorted(place.done) == list(range(10))
    assert len(said) == 10
    model, replay = new_model(), Replay(CONFIG.training, 0.9)
    checkpoint.resume(tmp_path, {"model": model}, make_optimiser(model, CONFIG.training), replay)
    assert replay.counted.tolist() == list(range(10 * CONFIG.training.episodes))


@pytest.mark.slow
def test_a_learner_killed_at_random_moments_ends_with_the_unbroken_weights(tmp_path: Path) -> None:
    """A process of its own, killed five times while it plays, learns or writes."""
    script = tmp_path / "learn.py"
    script.write_text(
        "import sys\n"
        f"sys.path[:0] = {sys.path!r}\n"
        "from pathlib import Path\n"
        "from test_muzero_learning import CONFIG, Run, parts_of, train\n"
        "train(CONFIG, Run(Path(sys.argv[1]), chunks=8, checkpoint_minutes=0), parts_of())\n"
    )

    def learn(folder: Path, seconds: float | None = None) -> bool:
        """Whether it came to its end."""
        process = subprocess.Popen([sys.executable, str(script), str(folder)])
        try:
            return process.wait(seconds) == 0
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return False

    draw = np.random.default_rng(0)
    assert learn(tmp_path / "whole")
    for _ in range(5):
        if learn(tmp_path / "broken", float(draw.uniform(4, 14))):
            break
    assert learn(tmp_path / "broken")
    ours, theirs = (published(tmp_path / name)[0] for name in ("whole", "broken"))
    assert all((ours[name] == theirs[name]).all() for name in ours)


def test_a_policy_that_loses_its_doubts_stops_the_run_and_keeps_the_best(tmp_path: Path) -> None:
    from orienteer.agents.muzero.watching import Limits

    kept: list[Path] = []
    parts = parts_of(judge=lambda weights: {"reward": 1.0}, keep=lambda folder, weights, notes: kept.append(folder))
    options = Run(tmp_path, chunks=9, judge_chunks=1, limits=Limits(entropy=99.0, patience=3))
    place = train(CONFIG, options, parts)
    assert "entropy" in place.stopped
    assert len(place.done) == 3
    assert kept == [tmp_path / "best"]
    again = train(CONFIG, options, parts)  # a run that has collapsed stays stopped
    assert again.done == place.done


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    train(CONFIG, Run(tmp_path, chunks=1), parts_of())
    other = replace(CONFIG, sizes=replace(CONFIG.sizes, lstm=16))
    with pytest.raises(TrainingError, match="another folder"):
        train(other, Run(tmp_path, chunks=2), parts_of(other))
