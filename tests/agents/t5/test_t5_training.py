"""Training: the network is transformers' own, it learns, it resumes to the same weights, its folder plays."""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs the extra [train]")
transformers = pytest.importorskip("transformers", reason="training needs the extra [train]")

from tiny_seq2seq import seq2seq_tokenizer  # noqa: E402

from orienteer.agents.t5.dataset import StreamConfig, TextExample, TokenExample, batches, hold_out, tokenize  # noqa: E402
from orienteer.agents.t5.decoder import Decoder, KVCache  # noqa: E402
from orienteer.agents.t5.encoder import SourceEncoder  # noqa: E402
from orienteer.agents.t5.generator import Generator  # noqa: E402
from orienteer.agents.t5.model import EncoderCache, Seq2Seq, from_files, load, scratch  # noqa: E402
from orienteer.agents.t5.model_files import Codec, load_folder, to_int8  # noqa: E402
from orienteer.agents.t5.train import TrainConfig, train  # noqa: E402
from orienteer.errors import TrainingError  # noqa: E402
from orienteer.training.loop import Progress, linear_decay  # noqa: E402


@pytest.fixture(params=["t5", "t5 gated", "bert", "pointer"])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A tiny T5 or BERT as `save_pretrained` writes it, or a pointer."""
    import tiny

    if request.param == "pointer":
        sys.path.insert(0, str(Path(__file__).parent.parent / "pointer"))
        from tiny_pointer import save_pointer

        return save_pointer(tmp_path)
    tokenizer = seq2seq_tokenizer()
    size = tokenizer.get_vocab_size()
    torch.manual_seed(1)
    if request.param == "bert":
        settings = {**tiny.CONFIG, "vocab_size": size, "max_position_embeddings": 512}
        transformers.BertModel(transformers.BertConfig(**settings)).save_pretrained(tmp_path)
    else:
        gated = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False} if "gated" in request.param else {}
        config = transformers.T5Config(
            vocab_size=size + 4, d_model=32, d_kv=12, d_ff=48, num_layers=2, num_decoder_layers=3, num_heads=2,
            decoder_start_token_id=0, eos_token_id=tokenizer.token_to_id("[SEP]"), **gated,
        )  # fmt: skip
        transformers.T5ForConditionalGeneration(config).save_pretrained(tmp_path)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def test_the_loss_is_that_of_transformers(base: Path) -> None:
    if "bert" in (base / "config.json").read_text():
        pytest.skip("transformers has no such pair")
    model, tokenizer = load(str(base))
    theirs = transformers.T5ForConditionalGeneration.from_pretrained(base).eval()
    codec = Codec(tokenizer, model.config)
    sources = codec.encode_sources(["who lit the first lamp on the reef", "lamp"], 32)
    targets = codec.encode_targets(["contents must contain : ' reef ' .", "stop ."], 16)
    found = model.eval()([TokenExample(s, ((t, 1.0),)) for s, t in zip(sources, targets, strict=True)]).item()
    wanted = 0.0
    for source, target in zip(sources, targets, strict=True):
        wanted += theirs(torch.tensor([source]), labels=torch.tensor([target])).loss.item() * len(target)
    assert found == pytest.approx(wanted, rel=1e-4)


@pytest.mark.parametrize("phrases", [None, ["contents must contain : ' ' ."]], ids=["any token", "copies"])
def test_playing_computes_what_training_computed(base: Path, phrases: list[str] | None) -> None:
    model, tokenizer = load(str(base), phrases=phrases)
    assert (model.config.writes is not None) == (phrases is not None and model.config.architecture == "bert")
    model.eval()
    codec = Codec(tokenizer, model.config)
    [source] = codec.encode_sources(["who lit the first lamp on the reef " * 3], 64)
    [target] = codec.encode_targets(["contents must contain : ' reef ' ."], 32)
    loss = model([TokenExample(source, ((target, 1.0),))]).item()
    encoder = SourceEncoder(model.config, model.tensors(), codec.vocabulary, "float32", 1)
    tensors = model.tensors()
    decoder = Decoder(model.config, tensors, 32)
    encoded, cache = decoder.prepare(encoder(source), source), KVCache(model.config, 32)
    total = 0.0
    for before, token in zip([model.config.start, *target], target, strict=False):
        total -= float(decoder.log_probabilities(encoded, decoder.step(encoded, cache, np.array([before])))[0, token])
    assert total == pytest.approx(loss, rel=1e-4)


def test_the_seed_alone_decides_the_weights_of_a_new_decoder() -> None:
    first, again, other = (load("pointer", seed=seed)[0].state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first if name.startswith("decoder."))


def test_a_folder_reads_back_to_the_same_model(base: Path, tmp_path: Path) -> None:
    model, tokenizer = load(str(base))
    config = TrainConfig(out=tmp_path / "out", steps=1, threads=1)
    train(
        model, tokenizer, lambda place: batches(copying(20), Codec(tokenizer, model.config), STREAM, place), [], config
    )
    again, _ = load(str(tmp_path / "out"))
    state = model.state_dict()
    assert all(torch.equal(value, state[name]) for name, value in again.state_dict().items())
    assert str(tmp_path) not in (tmp_path / "out" / "config.json").read_text()


STREAM = StreamConfig(max_source=24, max_target=8, tokens=256, pool=32)
WORDS = "lamp tower reef keeper storm ship stone oil".split()


def copying(count: int) -> list[TextExample]:
    """The word after `keeper` is to be written."""
    draw = random.Random(0)
    found = []
    for number in range(count):
        others = draw.sample([word for word in WORDS if word != "keeper"], 3)
        text = f"{others[0]} keeper {others[1]} {others[2]}"
        found.append(TextExample(number, text.encode(), ((others[1], 1.0),)))
    return found


def fresh(dropout: float = 0.0, copies: bool = False) -> tuple[Seq2Seq, Any, Codec]:
    torch.manual_seed(3)
    tokenizer = seq2seq_tokenizer()
    model = scratch(tokenizer, layers=1, width=32, heads=2, dropout=dropout)
    if copies:
        model = Seq2Seq(replace(model.config, writes=(model.config.end,)), dropout)
    return model, tokenizer, Codec(tokenizer, model.config)


def run(
    out: Path, pairs: list[TextExample], steps: int, dropout: float = 0.0, copies: bool = False, **changes: Any
) -> Seq2Seq:
    model, tokenizer, codec = fresh(dropout, copies)
    learned, held = hold_out(pairs)
    config = TrainConfig(out=out, steps=steps, learning_rate=2e-2, dropout=dropout, part_tokens=64, threads=1)
    show = changes.pop("show", lambda progress: None)
    judge = changes.pop("judge", None)
    return train(
        model, tokenizer, lambda place: batches(learned, codec, STREAM, place), tokenize(held, codec, STREAM),
        replace(config, **changes), judge, show,
    )  # fmt: skip


@pytest.mark.parametrize("copies", [False, True])
def test_it_learns_to_copy_a_word_and_its_int8_folder_writes_it(tmp_path: Path, copies: bool) -> None:
    shown: list[Progress] = []
    how = {"judge_steps": 110, "decay": 0.5, "part_tokens": 256}
    run(tmp_path / "out", copying(400), 220, copies=copies, show=shown.append, **how)
    losses = [progress.dev["loss"] for progress in shown if progress.dev]
    assert losses[-1] < 0.2 < losses[0] + 0.2
    to_int8(tmp_path / "out", tmp_path / "int8")
    generator = Generator(load_folder(tmp_path / "int8"), 24, 8, threads=1)
    found = generator.generate(["reef keeper storm oil", "lamp keeper ship stone"], [None, None])
    assert [generator.codec.decode(each[0].tokens) for each in found] == ["storm", "ship"]


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_a_killed_training_comes_to_the_same_weights(tmp_path: Path, dropout: float) -> None:
    whole = run(tmp_path / "whole", copying(60), 12, dropout)
    run(tmp_path / "killed", copying(60), 5, dropout)
    resumed = run(tmp_path / "killed", copying(60), 12, dropout)
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_a_frozen_encoder_stays_as_it_was_while_the_decoder_learns(tmp_path: Path, dropout: float) -> None:
    before = {name: value.clone() for name, value in fresh(dropout)[0].state_dict().items()}
    after = run(tmp_path, copying(60), 12, dropout, freeze_encoder=True).state_dict()
    frozen = [name for name in before if name.startswith(("encoder.", "shared."))]
    assert all(torch.equal(before[name], after[name]) for name in frozen)
    learned = [name for name in before if name.startswith("decoder.") and name.endswith("wo.weight")]
    assert learned
    assert not any(torch.equal(before[name], after[name]) for name in learned)


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_with_a_frozen_encoder_a_killed_training_comes_to_the_same_weights(tmp_path: Path, dropout: float) -> None:
    whole = run(tmp_path / "whole", copying(60), 12, dropout, freeze_encoder=True)
    run(tmp_path / "killed", copying(60), 5, dropout, freeze_encoder=True)
    resumed = run(tmp_path / "killed", copying(60), 12, dropout, freeze_encoder=True)
    assert all(torch.equal(value, resumed.state_dict()[name]) for name, value in whole.state_dict().items())


@pytest.mark.parametrize(("max_bytes", "read"), [(1 << 20, 2), (0, 6)])
def test_a_frozen_encoder_reads_a_text_once_as_long_as_there_is_room(max_bytes: int, read: int) -> None:
    model, _, codec = fresh()
    texts: list[Any] = []
    encoder = SourceEncoder(model.config, model.tensors(), codec.vocabulary, "float32", 1)

    def encode(source: Any) -> Any:
        texts.append(source)
        return encoder(source)

    sources = codec.encode_sources(["lamp keeper reef", "storm"], 24)
    cached = EncoderCache(encode, max_bytes)
    with torch.no_grad():
        wanted, mask = model.eval().encode(sources)
    for _ in range(3):
        states, own = cached(sources)
        assert torch.equal(own, mask)
        assert torch.allclose(states[mask.bool()], wanted[mask.bool()], atol=5e-3)
    assert len(texts) == read


def test_two_threads_come_to_the_weights_of_one(tmp_path: Path) -> None:
    one, two = (run(tmp_path / str(n), copying(60), 4, threads=n) for n in (1, 2))
    assert all(torch.equal(value, two.state_dict()[name]) for name, value in one.state_dict().items())


def test_training_stops_where_judgements_get_no_better(tmp_path: Path) -> None:
    rewards = iter([1.0, 3.0, 2.0, 3.0, 9.0])
    model = run(
        tmp_path, copying(60), 50, judge=lambda files: {"reward": next(rewards)}, judge_steps=2, patience=2
    )  # fmt: skip
    entry = load_folder(tmp_path).entry
    assert entry["step"] == 4  # that of the second judgement, the first of the best
    assert entry["measures"]["reward"] == 3.0
    assert next(rewards) == 9.0
    best = from_files(load_folder(tmp_path / "best"))
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in best.state_dict().items())


def test_the_last_judgement_is_shown_where_minutes_end_a_training(tmp_path: Path) -> None:
    shown: list[Progress] = []
    run(tmp_path, copying(60), 0, minutes=0.01, judge=lambda files: {"reward": 5.0}, show=shown.append)
    assert shown[-1].part_done == 1
    assert shown[-1].dev["reward"] == 5.0
    assert shown[-1].losses["token"] > 0


def test_nothing_to_say_when_to_stop_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="steps or minutes"):
        run(tmp_path, copying(4), 0)


def test_the_rate_is_constant_and_then_falls() -> None:
    assert [linear_decay(done, 0.0) for done in (0.0, 0.9)] == [1.0, 1.0]
    assert [linear_decay(done, 0.5) for done in (0.2, 0.5, 0.75, 1.0)] == [1.0, 1.0, 0.5, 0.0]


def test_a_stream_goes_on_from_any_place() -> None:
    _, _, codec = fresh()
    pairs = [replace(pair, rate=0.5) if i % 3 else pair for i, pair in enumerate(copying(100))]
    whole = list(islice(batches(pairs, codec, STREAM), 60))
    assert whole[-1][0].epoch > 1
    for at in (0, 7, 33):
        assert list(islice(batches(pairs, codec, STREAM, whole[at][0]), 5)) == whole[at + 1 : at + 6]
    for _, rows in whole:
        assert len(rows) * max(len(row.source) for row in rows) <= STREAM.tokens


def test_targets_are_weighted_by_worth_or_the_best_is_taken() -> None:
    _, _, codec = fresh()
    pair = TextExample(1, b"lamp", (("tower", 1.0), ("reef", 0.9), ("ship", 0.95)))
    [best] = tokenize([pair], codec, STREAM)
    assert best.targets == ((codec.encode_targets(["tower"], 8)[0], 1.0),)
    [soft] = tokenize([pair], codec, replace(STREAM, temperature=0.05, targets=2))
    weights = [weight for _, weight in soft.targets]
    assert [ids for ids, _ in soft.targets] == codec.encode_targets(["tower", "ship"], 8)
    assert weights == pytest.approx([np.e / (1 + np.e), 1 / (1 + np.e)])
    assert soft.size == pytest.approx(sum(weight * len(ids) for ids, weight in soft.targets))


def test_a_batch_has_one_target_of_a_source_drawn_by_its_weight() -> None:
    _, _, codec = fresh()
    pairs = [TextExample(n, b"lamp", (("tower", 1.0), ("reef", 0.95), ("ship", 0.2))) for n in range(600)]
    soft = replace(STREAM, temperature=0.05, pool=600)
    drawn = [row.targets for _, rows in islice(batches(pairs, codec, soft), 90) for row in rows]
    assert {weight for [(_, weight)] in drawn} == {1.0}
    tower, reef, ship = (sum(ids == wanted for [(ids, _)] in drawn) / len(drawn) for wanted in
                         codec.encode_targets(["tower", "reef", "ship"], 8))  # fmt: skip
    assert tower == pytest.approx(np.e / (1 + np.e), abs=0.05)
    assert reef == pytest.approx(1 / (1 + np.e), abs=0.05)
    assert ship < 0.01


def test_soft_targets_cost_the_weighted_sum_of_each() -> None:
    model, _, codec = fresh()
    sources = codec.encode_sources(["lamp tower reef", "ship"], 16)
    first, second, third = codec.encode_targets(["tower", "reef storm", "oil"], 8)
    together = model(
        [TokenExample(sources[0], ((first, 0.7), (second, 0.3))), TokenExample(sources[1], ((third, 1.0),))]
    ).item()
    apart = [
        model([TokenExample(s, ((t, 1.0),))]).item()
        for s, t in ((sources[0], first), (sources[0], second), (sources[1], third))
    ]
    assert together == pytest.approx(0.7 * apart[0] + 0.3 * apart[1] + apart[2], rel=1e-4)


def test_no_examples_is_an_error() -> None:
    _, _, codec = fresh()
    with pytest.raises(TrainingError, match="no examples"):
        next(batches([], codec, STREAM))
