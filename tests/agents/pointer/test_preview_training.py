"""Learning to look: what hits show decides where the first opinion is wrong, and playing computes what training did."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs the extra [train]")

from lexical_reader import LexicalReader  # noqa: E402
from tiny_pointer import save_pointer  # noqa: E402
from toy import toy_moments  # noqa: E402

from orienteer.agents.pointer.preview import CANDIDATE_FEATURES, HIT_FEATURES, Preview  # noqa: E402
from orienteer.agents.pointer.preview_head import PreviewHead  # noqa: E402
from orienteer.agents.pointer.preview_train import Lesson, LookConfig, PreviewModel, lessons, train_preview  # noqa: E402
from orienteer.agents.pointer.runtime import PointerAgent  # noqa: E402
from orienteer.engine import EmbeddedEngine  # noqa: E402
from orienteer.reader.errors import TrainingError  # noqa: E402
from orienteer.session import Environment, Settings  # noqa: E402
from orienteer.session.score import K  # noqa: E402

ANSWERED = HIT_FEATURES.index("holds answer 1")


def _preview(generator: np.random.Generator, count: int = 8) -> Preview:
    new = generator.random((count, K)) < 0.6
    of_hits = generator.random((count, K, len(HIT_FEATURES)), np.float32) * new[:, :, None]
    of_hits[:, :, ANSWERED] = (generator.random((count, K)) < 0.3) & new
    return Preview(of_hits, new, generator.random((count, len(CANDIDATE_FEATURES)), np.float32))


def _lesson(number: int, generator: np.random.Generator) -> Lesson:
    """A refinement gains as many points as it finds passages with the answer; the first opinion knows nothing."""
    preview = _preview(generator)
    gains = preview.of_hits[:, :, ANSWERED].sum(1) / 10
    return Lesson(str(number), preview, np.log(generator.dirichlet(np.ones(len(gains)))).astype(np.float32), gains)


def test_it_learns_to_take_what_finds_answers() -> None:
    generator = np.random.default_rng(0)
    taught = [each for number in range(300) if (each := _lesson(number, generator)).gains.any()]
    _, found = train_preview(taught, LookConfig(epochs=8))
    assert found["share before"] < 0.6
    assert found["share"] > 0.9


def test_playing_computes_what_training_did() -> None:
    torch.manual_seed(0)
    model = PreviewModel()
    torch.nn.init.normal_(model.worth.weight)
    preview = _preview(np.random.default_rng(1))
    with torch.no_grad():
        wanted = model(*map(torch.from_numpy, (preview.of_hits, preview.new, preview.of_candidates)))
    np.testing.assert_allclose(PreviewHead(model.tensors())(preview), wanted.numpy(), rtol=1e-4, atol=1e-5)


def test_moments_become_lessons_about_what_was_within_sight(
    embedded: EmbeddedEngine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    world = Environment(embedded, LexicalReader(), Settings(steps=6))
    agent = PointerAgent.from_pretrained(save_pointer(tmp_path_factory.mktemp("p")), embedded, threads=1)
    moments = toy_moments(world, 20)
    taught = list(lessons(agent, moments, 400))
    assert taught
    for lesson in taught:
        assert lesson.gains.max() == pytest.approx(0.3)
        assert (lesson.gains > 0).sum() == 1
        assert lesson.preview.hopeful[lesson.gains.argmax()]
    fewer = list(lessons(agent, moments, 2))
    assert len(fewer) < len(taught)


def test_too_few_moments_are_refused() -> None:
    with pytest.raises(TrainingError, match="too few"):
        train_preview([_lesson(0, np.random.default_rng(0))], LookConfig())
