"""Training: it learns a rule, it resumes to the same weights, its folder is what playing reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs the extra [train]")
pytest.importorskip("transformers", reason="training needs the extra [train]")

from lexical_reader import LexicalReader  # noqa: E402
from small_world import QUESTIONS  # noqa: E402
from tiny_pointer import CONFIG, pointer_tokenizer  # noqa: E402
from toy import rule, toy_states  # noqa: E402

from orienteer.agents.action_space import grammar_bits  # noqa: E402
from orienteer.agents.encoding import Featurizer, mark_ids  # noqa: E402
from orienteer.agents.judging import Judge  # noqa: E402
from orienteer.agents.pointer.agent import PointerAgent  # noqa: E402
from orienteer.agents.pointer.config import TrainConfig  # noqa: E402
from orienteer.agents.pointer.dataset import Example, StreamConfig, Target, batches, encode, hold_out  # noqa: E402  # noqa: E402
from orienteer.agents.pointer.model import PointerModel, batch_of, losses, soft_target  # noqa: E402  # noqa: E402
from orienteer.agents.pointer.model_files import Layout, load_folder  # noqa: E402
from orienteer.agents.pointer.train import held_out_measures, to_int8, train  # noqa: E402
from orienteer.engine import EmbeddedEngine  # noqa: E402
from orienteer.errors import TrainingError  # noqa: E402
from orienteer.query import G0, G4  # noqa: E402
from orienteer.session import Environment, Settings  # noqa: E402
from orienteer.training.loop import Progress  # noqa: E402


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT without heads and with BERT's two segments, as `save_pretrained` writes it."""
    from transformers import BertConfig, BertModel

    folder = tmp_path_factory.mktemp("base")
    torch.manual_seed(1)
    tokenizer = pointer_tokenizer()
    BertModel(BertConfig(**{**CONFIG, "type_vocab_size": 2}, vocab_size=tokenizer.get_vocab_size())).save_pretrained(
        folder
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture(scope="module")
def world(embedded: EmbeddedEngine) -> Environment:
    return Environment(embedded, LexicalReader(), Settings(steps=6))


@pytest.fixture(scope="module")
def examples(world: Environment) -> list[Example]:
    featurizer = Featurizer(pointer_tokenizer(), world.engine, 320)
    return [example for state in toy_states(world) if (example := encode(state, featurizer)) is not None]


def config(base: Path, out: Path, **settings: object) -> TrainConfig:
    stream = StreamConfig(batch=6, pool=24)
    defaults = {"steps": 6, "part": 3, "learning_rate": 1e-3, "stream": stream, "judge_minutes": 1e9}
    return TrainConfig(base=str(base), out=out, **{**defaults, **settings})  # type: ignore[arg-type]


def test_a_killed_training_resumes_to_the_weights_of_an_unbroken_one(
    base: Path, tmp_path: Path, examples: list[Example]
) -> None:
    class Killed(Exception):
        pass

    def kill(progress: Progress) -> None:
        if progress.step == 4:  # one step after the last checkpoint
            raise Killed

    whole = train(examples, config(base, tmp_path / "whole", judge_steps=2))
    broken = config(base, tmp_path / "broken", checkpoint_minutes=0.0, show_seconds=0.0, judge_steps=2)
    with pytest.raises(Killed):
        train(examples, broken, show=kill)
    resumed = train(examples, broken)
    for (name, expected), found in zip(whole.state_dict().items(), resumed.state_dict().values(), strict=True):
        assert torch.equal(expected, found), name


@pytest.fixture(scope="module")
def taught(base: Path, tmp_path_factory: pytest.TempPathFactory, examples: list[Example]) -> PointerModel:
    """A model that has seen the rule's labels, stops included."""
    stream = StreamConfig(batch=6, pool=24, stops=1.0)
    folder = tmp_path_factory.mktemp("taught")
    return train(examples, config(base, folder, steps=120, learning_rate=2e-3, stream=stream))


def test_it_learns_a_rule(base: Path, taught: PointerModel, world: Environment) -> None:
    """From a rule's labels alone, and on walks that it has not seen."""
    before, after = (
        PointerAgent(model.files(pointer_tokenizer(), Layout()), world.engine, G4, threads=1)
        for model in (PointerModel.from_pretrained(base), taught)
    )
    fresh = [m for m in toy_states(world, 90) if m.labels[0].gains and int(m.question_id.split("-")[1]) >= 12]
    wanted = [rule(state.observation, world.lexicon) for state in fresh]

    def right(agent: PointerAgent) -> float:
        actions = agent.act([state.observation for state in fresh])
        return sum(action == want for action, want in zip(actions, wanted, strict=True)) / len(fresh)

    assert right(before) < 0.2
    assert right(after) > 0.7


def test_it_learns_when_to_stop(taught: PointerModel, examples: list[Example]) -> None:
    stops: dict[bool, list[float]] = {True: [], False: []}
    with torch.no_grad():
        for example in examples:
            slots, hidden, context = taught(batch_of([example]))
            stop, _ = taught.outcomes(context[0], torch.from_numpy(grammar_bits(G4)), hidden)
            logits = torch.cat([slots[torch.from_numpy(example.open_slots)], stop[None]])
            stops[example.only_stops].append(torch.softmax(logits, 0)[-1].item())
    assert np.mean(stops[True]) > 0.8
    assert np.mean(stops[False]) < 0.2


def test_the_share_of_what_there_was_to_gain_is_near_one_where_the_rule_is_learned(
    base: Path, taught: PointerModel, examples: list[Example]
) -> None:
    run = config(base, Path())
    learned = [example for example in examples if not example.only_stops][:40]
    assert held_out_measures(taught, learned, run)["share"] > 0.7
    assert held_out_measures(taught, [], run) == {}


@pytest.mark.parametrize("grammar", [G0, G4])
def test_playing_computes_what_training_computed(
    base: Path, tmp_path: Path, examples: list[Example], world: Environment, grammar
) -> None:
    model = train(examples, config(base, tmp_path))
    agent = PointerAgent.from_pretrained(tmp_path, world.engine, grammar, compute="float32", threads=1)
    featurizer = Featurizer(pointer_tokenizer(), world.engine, 320)
    for state in toy_states(world, 5):
        inputs, example = featurizer(state.observation), encode(state, featurizer)
        if example is None:
            continue
        with torch.no_grad():
            slots, hidden, context = model(batch_of([example]))
            stop, gain = model.outcomes(context[0], torch.from_numpy(grammar_bits(grammar)), hidden)
        [scores] = agent.scores([inputs])
        # Examples keep features in half precision.
        assert scores.slots == pytest.approx(slots.numpy(), abs=5e-3)
        assert scores.stop == pytest.approx(stop.item(), abs=5e-3)
        assert scores.gain == pytest.approx(gain.item(), abs=5e-3)


def test_a_row_is_scored_alike_alone_and_beside_longer_ones(base: Path, examples: list[Example]) -> None:
    model = PointerModel.from_pretrained(base).eval()
    some = sorted(examples, key=lambda example: len(example.ids))
    some = [some[0], some[len(some) // 2], some[-1]]
    with torch.no_grad():
        together = losses(model, some, 0.05)[0]
        alone = sum(losses(model, [example], 0.05)[0] for example in some)
    assert together.item() == pytest.approx(alone.item(), rel=1e-4)  # type: ignore[union-attr]


def test_training_goes_on_from_a_pointers_folder(base: Path, tmp_path: Path, examples: list[Example]) -> None:
    first = train(examples, config(base, tmp_path / "first"))
    again = PointerModel.from_pretrained(tmp_path / "first")
    # The word table of a saved model has the marks in it, so that what was frozen differs there and nowhere else.
    table = "encoder.embeddings.word_embeddings.weight"
    for (name, expected), found in zip(first.state_dict().items(), again.state_dict().values(), strict=True):
        assert name == table or torch.equal(expected, found), name
    train(examples, config(tmp_path / "first", tmp_path / "second", steps=1))


def test_a_pointer_is_trained_from_a_readers_encoder(tmp_path: Path, examples: list[Example]) -> None:
    from transformers import BertConfig, BertModel

    from orienteer.reader.model import ReaderModel

    tokenizer = pointer_tokenizer()
    config = BertConfig(**{**CONFIG, "type_vocab_size": 2}, vocab_size=tokenizer.get_vocab_size())
    reader = ReaderModel(BertModel(config, add_pooling_layer=False))
    reader.save_pretrained(tmp_path / "reader", tokenizer)
    model = PointerModel.from_pretrained(tmp_path / "reader")
    layer = "encoder.encoder.layer.1.output.dense.weight"
    assert torch.equal(model.state_dict()[layer], reader.state_dict()[layer])
    assert len(model.encoder.embeddings.token_type_embeddings.weight) == 5


def test_words_stay_and_marks_and_kinds_learn(base: Path, tmp_path: Path, examples: list[Example]) -> None:
    before = PointerModel.from_pretrained(base)
    train(examples, config(base, tmp_path))
    after = PointerModel.from_pretrained(tmp_path)
    marks = mark_ids(pointer_tokenizer())
    words = [n for n in range(pointer_tokenizer().get_vocab_size()) if n not in marks]
    old, new = (m.encoder.embeddings for m in (before, after))
    assert torch.equal(old.word_embeddings.weight[words], new.word_embeddings.weight[words])
    assert not torch.equal(before.marks, after.marks)
    assert not torch.equal(old.token_type_embeddings.weight, new.token_type_embeddings.weight)


def test_the_int8_folder_plays_and_is_a_quarter_the_size(
    base: Path, tmp_path: Path, examples: list[Example], world: Environment
) -> None:
    train(examples, config(base, tmp_path))
    to_int8(tmp_path, tmp_path / "int8")
    exact, small = (
        PointerAgent.from_pretrained(folder, world.engine, threads=1) for folder in (tmp_path, tmp_path / "int8")
    )
    seen = [state.observation for state in toy_states(world, 10)]
    assert exact.act(seen) == small.act(seen)
    assert (tmp_path / "int8" / "model.safetensors").stat().st_size < (tmp_path / "model.safetensors").stat().st_size
    assert str(tmp_path) not in (tmp_path / "int8" / "config.json").read_text()


def test_the_best_judged_weights_are_kept_and_training_stops_early(
    base: Path, tmp_path: Path, examples: list[Example]
) -> None:
    told = iter([1.0, 3.0, 2.0, 2.5, 9.0])
    kept: list[int] = []

    def judge(files: object) -> dict[str, float]:
        return {"reward": next(told)}

    run = config(base, tmp_path, steps=50, judge_steps=2, patience=2)
    train(examples, run, judge, lambda progress: kept.append(progress.step))
    assert kept[-1] == 8  # judged at 2, 4 (the best), 6 and 8
    assert load_folder(tmp_path).notes["step"] == 4


def test_a_judge_plays_real_sessions(base: Path, world: Environment) -> None:
    judge = Judge(world, QUESTIONS, lambda files: PointerAgent(files, world.engine, G4, threads=1))
    measures = judge(PointerModel.from_pretrained(base).files(pointer_tokenizer(), Layout()))
    assert 0 <= measures["score"] <= 100
    assert measures["passages_read"] >= 5


def test_the_better_of_two_refinements_is_the_likelier_target() -> None:
    target = Target(G4, np.array([3, 8], np.int32), np.array([0.1, 0.2], np.float32))
    sharp, flat = soft_target(target, 0.01), soft_target(target, 10.0)
    assert sharp[1] > 0.99
    assert flat.tolist() == pytest.approx([0.5, 0.5], abs=0.01)


def test_batches_are_of_like_length_and_the_seed_decides_them(examples: list[Example]) -> None:
    def some(seed: int) -> list[list[int]]:
        stream = batches(examples, StreamConfig(batch=5, pool=30, seed=seed))
        return [[id(example) for example in next(stream)] for _ in range(20)]

    assert some(1) == some(1)
    assert some(1) != some(2)


def test_questions_held_out_are_not_learned_from(examples: list[Example]) -> None:
    learned, held = hold_out(examples)
    assert len(learned) + len(held) == len(examples)
    assert not {e.question for e in learned} & {e.question for e in held}


def test_training_without_an_end_or_without_examples_is_refused(
    base: Path, tmp_path: Path, examples: list[Example]
) -> None:
    with pytest.raises(TrainingError, match="steps or minutes"):
        train(examples, config(base, tmp_path, steps=0))
    with pytest.raises(TrainingError, match="no training example"):
        train([], config(base, tmp_path))
    with pytest.raises(TrainingError, match="the encoder has 2"):
        train(examples, config(base, tmp_path, freeze_layers=3))
    (tmp_path / "checkpoint.safetensors").write_bytes(b"damaged")
    with pytest.raises(TrainingError, match="delete it to start afresh"):
        train(examples, config(base, tmp_path))


def test_a_model_of_fewer_layers_keeps_those_it_was_given(
    base: Path, tmp_path: Path, examples: list[Example], world: Environment
) -> None:
    train(examples, config(base, tmp_path, layers=(1,), steps=1, learning_rate=0.0))
    layer = "output.dense.weight"
    old, new = (PointerModel.from_pretrained(name).encoder.encoder.layer for name in (base, tmp_path))
    assert len(new) == 1
    assert torch.equal(old[1].state_dict()[layer], new[0].state_dict()[layer])
    PointerAgent.from_pretrained(tmp_path, world.engine, threads=1).act([])
    with pytest.raises(TrainingError, match="the encoder has 2"):
        train(examples, config(base, tmp_path / "wrong", layers=(0, 5)))
