"""Training: it learns, it resumes to the same weights, its folder is what the runtime reads."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="training needs the extra [train]")
pytest.importorskip("transformers", reason="training needs the extra [train]")

from tiny import CONFIG, tiny_tokenizer  # noqa: E402

from orienteer.data import Passage  # noqa: E402
from orienteer.errors import ModelMissingError, TrainingError  # noqa: E402
from orienteer.models.bfloat16 import compute_in_bfloat16  # noqa: E402
from orienteer.models.fake_quantization import rounded  # noqa: E402
from orienteer.reader import TrainedReader  # noqa: E402
from orienteer.reader.batches import batches, cut_whole, groups_of, piece_span  # noqa: E402
from orienteer.reader.config import Share, StreamConfig, TrainConfig, with_negatives  # noqa: E402
from orienteer.reader.encoding import Marks, pieces, windows  # noqa: E402
from orienteer.reader.mining import Evidence, TrainingRow  # noqa: E402
from orienteer.reader.model import ReaderModel, tensors_of  # noqa: E402
from orienteer.reader.train import rank_loss, span_loss, train  # noqa: E402
from orienteer.training.loop import Progress, warmup_cosine  # noqa: E402


def rows(count: int = 60) -> list[TrainingRow]:
    """The answer to a question is the word after its own word; negatives have other words."""
    generator = random.Random(0)
    made = []
    for _ in range(count):
        asked, other = generator.sample(["paris", "france", "seine", "river", "city", "tolstoy"], 2)
        answer = generator.choice("0123456789")
        text = f"in the city . {asked} is {answer} . {other} lies on the river"
        start = text.index(f" {answer} ") + 1
        gold = Evidence("war", text, ((start, start + 1),))
        negative = Evidence("peace", f"{other} is of the city", ())
        made.append(TrainingRow(f"what is {asked}", (answer,), "test", gold, (), (negative,)))
    return made


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT without heads, as `save_pretrained` writes it."""
    from transformers import BertConfig, BertModel

    folder = tmp_path_factory.mktemp("base")
    torch.manual_seed(1)
    tokenizer = tiny_tokenizer()
    BertModel(BertConfig(**CONFIG, vocab_size=tokenizer.get_vocab_size())).save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def test_a_bert_with_heads_that_are_not_wanted_is_loaded_without_a_word(
    base: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ReaderModel.from_pretrained(base)
    assert capfd.readouterr() == ("", "")


def config(base: Path, out: Path, **settings: object) -> TrainConfig:
    stream = StreamConfig(batch=8, pool=32, max_pieces=48)
    defaults = {"steps": 6, "part": 3, "learning_rate": 1e-3, "stream": stream}
    return TrainConfig(base=str(base), out=out, **{**defaults, **settings})  # type: ignore[arg-type]


def test_a_killed_training_resumes_to_the_weights_of_an_unbroken_one(base: Path, tmp_path: Path):
    class Killed(Exception):
        pass

    def kill(progress: Progress) -> None:
        if progress.step == 4:  # one step after the last checkpoint
            raise Killed

    whole = train(rows(), config(base, tmp_path / "whole"))
    broken = config(base, tmp_path / "broken", checkpoint_minutes=0.0, show_seconds=0.0)
    with pytest.raises(Killed):
        train(rows(), broken, show=kill)
    resumed = train(rows(), broken)
    for (name, expected), found in zip(whole.state_dict().items(), resumed.state_dict().values(), strict=True):
        assert torch.equal(expected, found), name


def test_training_lowers_the_loss(base: Path, tmp_path: Path):
    seen: list[float] = []
    run = config(base, tmp_path, steps=150, learning_rate=3e-3, show_seconds=0.0, freeze_embeddings=False)
    train(rows(), run, show=lambda progress: seen.append(sum(progress.losses.values())))
    assert sum(seen[-10:]) < 0.6 * sum(seen[:10])


def test_rounded_training_computes_as_int8_does_and_keeps_its_exact_weights(base: Path, tmp_path: Path):
    model = train(rows(), config(base, tmp_path))
    passage = Passage("p", "Paris", "paris is the capital of france . it lies on the seine")
    question = "what is the capital of france"
    tokenizer = tiny_tokenizer()
    (window,) = windows(*pieces(tokenizer, [question, passage.title, passage.text]), Marks.of(tokenizer))
    inputs = tensors_of([window.ids], [window.question_size])
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with torch.no_grad():
        exact = float(model(*inputs)[0])
        with rounded(model.encoder):
            felt = float(model(*inputs)[0])
    int8 = TrainedReader.from_pretrained(tmp_path, "int8", threads=1).read(question, [passage])[0].logit
    assert abs(int8 - felt) < 0.6 * abs(int8 - exact)
    for name, value in model.state_dict().items():
        assert torch.equal(before[name], value), name


def test_the_runtime_computes_what_training_computed(base: Path, tmp_path: Path):
    model = train(rows(), config(base, tmp_path))
    passage = Passage("p", "Paris", "paris is the capital of france . it lies on the seine")
    question = "what is the capital of france"
    tokenizer = tiny_tokenizer()
    [window] = windows(*pieces(tokenizer, [question, passage.title, passage.text]), Marks.of(tokenizer))
    with torch.no_grad():
        select, _, _ = model(*tensors_of([window.ids], [window.question_size]))
    [reading] = TrainedReader.from_pretrained(tmp_path, "float32", threads=1).read(question, [passage])
    assert reading.logit == pytest.approx(select.item(), abs=1e-4)


def test_training_goes_on_from_a_readers_folder(base: Path, tmp_path: Path):
    first = train(rows(), config(base, tmp_path / "first"))
    again = ReaderModel.from_pretrained(tmp_path / "first")
    for (name, expected), found in zip(first.state_dict().items(), again.state_dict().values(), strict=True):
        assert torch.equal(expected, found), name
    train(rows(), config(tmp_path / "first", tmp_path / "second", steps=1))


def test_frozen_embeddings_stay(base: Path, tmp_path: Path):
    before = ReaderModel.from_pretrained(base).encoder.embeddings.word_embeddings.weight
    after = train(rows(), config(base, tmp_path)).encoder.embeddings.word_embeddings.weight
    assert torch.equal(before, after)


def test_a_base_that_is_not_there_is_one_clear_error(tmp_path: Path):
    with pytest.raises(ModelMissingError):
        train(rows(), config(tmp_path / "nowhere", tmp_path / "out"))


def test_a_damaged_checkpoint_is_one_clear_error(base: Path, tmp_path: Path):
    train(rows(), config(base, tmp_path, steps=1))
    (tmp_path / "checkpoint.safetensors").write_bytes(b"damaged")
    with pytest.raises(TrainingError, match="delete it to start afresh"):
        train(rows(), config(base, tmp_path))


def test_training_without_an_end_or_without_rows_is_refused(base: Path, tmp_path: Path):
    with pytest.raises(TrainingError, match="steps or minutes"):
        train(rows(), config(base, tmp_path, steps=0))
    with pytest.raises(TrainingError, match="no training rows"):
        train([], config(base, tmp_path))


def test_half_of_the_titles_are_blank_for_positives_and_negatives_alike():
    tokenizer = tiny_tokenizer()
    [war], [peace] = tokenizer.encode("war").ids, tokenizer.encode("peace").ids
    stream = batches(rows(), tokenizer, StreamConfig(batch=8, pool=64))
    examples = [example for batch in islice(stream, 200) for example in batch]
    for title, held in ((war, True), (peace, False)):
        of_kind = [e for e in examples if bool(e.spans) is held]
        with_title = [e for e in of_kind if title in e.window.ids[: e.window.text_from]]
        assert 0.45 < len(with_title) / len(of_kind) < 0.55


def test_a_window_of_a_positive_keeps_its_answer():
    tokenizer = tiny_tokenizer()
    text = "the river . " * 100 + "paris is 7 . " + "on the city . " * 100
    start = text.index("7")
    row = TrainingRow("what is paris", ("7",), "test", Evidence("", text, ((start, start + 1),)), (), ())
    seven = tokenizer.token_to_id("7")
    for batch in islice(batches([row], tokenizer, StreamConfig(batch=8, pool=16)), 6):
        for example in batch:
            assert [example.window.ids[s : e + 1] for s, e in example.spans] == [[seven]]
            assert not example.selects


@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
def test_a_source_says_how_many_of_its_positives_come_from_search(part: float):
    tokenizer = tiny_tokenizer()
    gold, found = Evidence("", "paris is 7", ((9, 10),)), Evidence("", "tolstoy is 7", ((11, 12),))
    row = TrainingRow("what is paris", ("7",), "test", gold, (found,), ())
    stream = batches([row], tokenizer, StreamConfig(batch=8, pool=64, shares={"test": Share(1.0, 0.0, part)}))
    examples = [example for batch in islice(stream, 100) for example in batch]
    tolstoy = tokenizer.token_to_id("tolstoy")
    assert sum(tolstoy in e.window.ids for e in examples) / len(examples) == pytest.approx(part, abs=0.06)


def test_a_span_of_characters_becomes_the_pieces_that_touch_it():
    [found] = pieces(tiny_tokenizer(), ["the capital of france"])
    assert piece_span(found.offsets, 4, 11) == (1, 1)
    assert piece_span(found.offsets, 4, 14) == (1, 2)
    assert piece_span(found.offsets, 30, 31) is None


def test_the_schedule_rises_in_a_line_and_falls_to_nothing():
    assert warmup_cosine(0.05, 0.1) == pytest.approx(0.5)
    assert warmup_cosine(0.1, 0.1) == pytest.approx(1.0)
    assert warmup_cosine(1.0, 0.1) == pytest.approx(0.0)


def test_a_positive_and_its_negatives_stay_in_one_batch_and_one_part():
    seen: dict[int, int] = {}
    for number, batch in enumerate(islice(batches(rows(), tiny_tokenizer(), StreamConfig(batch=5, pool=40)), 40)):
        for part_number, part in enumerate(cut_whole(groups_of(batch), 3)):
            for example in part:
                place = number * 100 + part_number
                assert seen.setdefault(example.group, place) == place


def test_the_rank_loss_compares_a_positive_with_its_own_negatives_only():
    batch = next(batches(rows(), tiny_tokenizer(), StreamConfig(batch=8, pool=32)))
    logits = torch.tensor([3.0 if example.spans else 1.0 for example in batch])
    pairs = len(groups_of(batch))
    expected = pairs * torch.log1p(torch.exp(torch.tensor(-2.0)))
    assert rank_loss(logits, batch).item() == pytest.approx(expected.item(), rel=1e-5)


def test_the_span_loss_counts_all_occurrences_of_an_answer_together():
    batch = next(batches(rows(), tiny_tokenizer(), StreamConfig(batch=8, pool=32)))
    example = next(e for e in batch if e.spans)
    size = len(example.window.ids)
    flat = torch.zeros(1, size)
    text = len(example.window.offsets)
    once = span_loss(flat, flat, [example]).item()
    assert once == pytest.approx(2 * math.log(text), rel=1e-5)
    other = (example.window.text_from, example.window.text_from)
    twice = span_loss(flat, flat, [replace(example, spans=(*example.spans, other))]).item()
    assert twice == pytest.approx(once - math.log(2), rel=1e-5)


def test_a_student_keeps_the_layers_it_was_given_and_nears_its_teacher(base: Path, tmp_path: Path):
    train(rows(), config(base, tmp_path / "teacher", steps=100, learning_rate=3e-3, freeze_embeddings=False))
    teacher, seen = str(tmp_path / "teacher"), []
    settings = {"layers": (1,), "teacher": teacher, "steps": 60, "learning_rate": 3e-3, "show_seconds": 0.0}
    run = config(base, tmp_path / "student", **settings, freeze_layers=0)
    train(rows(), run, show=lambda progress: seen.append(progress.losses["teacher"]))
    assert sum(seen[-10:]) < 0.9 * sum(seen[:10])
    student = ReaderModel.from_pretrained(tmp_path / "student")
    assert len(student.encoder.encoder.layer) == 1
    assert TrainedReader.from_pretrained(tmp_path / "student", threads=1).read("what is paris", []) == []


def test_a_layer_the_encoder_does_not_have_is_an_error(base: Path, tmp_path: Path):
    with pytest.raises(TrainingError, match="the encoder has 2"):
        train(rows(), config(base, tmp_path, layers=(0, 5)))


def test_the_selection_head_begins_with_the_likeness_of_question_and_passage(base: Path):
    model = ReaderModel.from_pretrained(base).eval()
    ids = torch.tensor([[2, 5, 6, 3, 5, 6, 3]])
    types = torch.tensor([[0, 0, 0, 0, 1, 1, 1]])
    with torch.no_grad():
        states = model.encoder(input_ids=ids, token_type_ids=types).last_hidden_state[0]
        likeness = torch.cosine_similarity(states[:4].mean(0), states[4:].mean(0), 0)
        select, _, _ = model(ids, types, torch.ones_like(ids))
    assert select.item() == pytest.approx(20 * likeness.item() - 17, abs=1e-3)


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT with a relevance head of one output, as `save_pretrained` writes it."""
    from transformers import BertConfig, BertForSequenceClassification

    folder = tmp_path_factory.mktemp("cross-encoder")
    torch.manual_seed(2)
    tokenizer = tiny_tokenizer()
    settings = BertConfig(**CONFIG, vocab_size=tokenizer.get_vocab_size(), num_labels=1)
    BertForSequenceClassification(settings).save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def example_inputs():
    ids = [[2, 5, 6, 3, 7, 8, 9, 3], [2, 9, 6, 3, 5, 8, 3]]
    return tensors_of(ids, [4, 4])


def test_a_reader_from_a_cross_encoder_ranks_as_that_does(cross_encoder: Path):
    from transformers import BertForSequenceClassification

    ids, types, mask = example_inputs()
    theirs = BertForSequenceClassification.from_pretrained(cross_encoder).eval()
    with torch.no_grad():
        relevance = theirs(input_ids=ids, token_type_ids=types, attention_mask=mask).logits.squeeze(-1)
        select, _, _ = ReaderModel.from_pretrained(cross_encoder).eval()(ids, types, mask)
    assert torch.allclose(select, 0.5 * relevance - 2.0, atol=1e-5)


def test_the_runtime_pools_as_training_does(cross_encoder: Path, tmp_path: Path):
    model = train(rows(), config(cross_encoder, tmp_path, steps=3))
    assert model.pooler is not None
    tokenizer = tiny_tokenizer()
    reader = TrainedReader.from_pretrained(tmp_path, "float32", threads=1)
    question, title, text = pieces(tokenizer, ["what is paris", "war", "paris is 3 . seine lies on the river"])
    [window] = windows(question, title, text, Marks.of(tokenizer))
    [(selection, starts, _)] = reader.run([window])
    with torch.no_grad():
        select, start, _ = model.eval()(*tensors_of([window.ids], [window.question_size]))
    assert selection == pytest.approx(select.item(), abs=1e-4)
    low = window.text_from
    assert starts == pytest.approx(start[0, low : low + len(window.offsets)].numpy(), abs=1e-4)
    again = ReaderModel.from_pretrained(tmp_path)
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in model.state_dict().items())


def test_bfloat16_stays_near_float32_and_learns(base: Path, tmp_path: Path):
    exact = ReaderModel.from_pretrained(base).eval()
    half = ReaderModel.from_pretrained(base).eval()
    compute_in_bfloat16(half.encoder)
    with torch.no_grad():
        wanted, found = exact(*example_inputs()), half(*example_inputs())
    assert all(value.dtype == torch.float32 for value in found)
    assert not torch.equal(wanted[0], found[0])
    assert torch.allclose(wanted[0], found[0], atol=0.3)
    seen: list[float] = []
    run = config(base, tmp_path, steps=150, learning_rate=3e-3, show_seconds=0.0, freeze_embeddings=False)
    train(rows(), replace(run, bfloat16=True), show=lambda progress: seen.append(sum(progress.losses.values())))
    assert sum(seen[-10:]) < 0.6 * sum(seen[:10])


def test_only_sources_that_teach_ranking_get_more_negatives():
    shares = {"ranks": Share(0.5, 3.0), "spans": Share(0.5, 0.25)}
    assert with_negatives(shares, 0) == shares
    more = with_negatives(shares, 7)
    assert (more["ranks"].negatives, more["spans"].negatives) == (7.0, 0.25)


def test_training_can_start_from_the_shipped_reader_which_has_a_bi_encoder_beside_it():
    model = ReaderModel.from_pretrained("shipped")
    assert not [name for name in model.state_dict() if name.startswith("likeness")]
