"""Learning to look: the rule is found, playing computes what training did, a killed run goes on with the same bytes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs the extra [train]")

from lexical_reader import LexicalReader  # noqa: E402
from taught_world import run, taught_world  # noqa: E402
from tiny_pointer import save_pointer  # noqa: E402
from toy import toy_questions  # noqa: E402

from orienteer.agents.lookahead.passage_features import FEATURES  # noqa: E402
from orienteer.agents.lookahead.rollouts import CandidateLabels, RolloutConfig, answerable, collect_rollouts  # noqa: E402
from orienteer.agents.lookahead.train import ValueModelConfig, ValueNetwork, train_lookahead, train_value_model  # noqa: E402
from orienteer.agents.lookahead.value_model import ValueModel  # noqa: E402
from orienteer.agents.pointer.agent import PointerAgent  # noqa: E402
from orienteer.agents.pointer.model_files import load_folder  # noqa: E402
from orienteer.data import Question  # noqa: E402
from orienteer.engine import EmbeddedEngine  # noqa: E402
from orienteer.errors import OrienteerError, TrainingError  # noqa: E402
from orienteer.query import Query  # noqa: E402
from orienteer.session import Environment, Settings  # noqa: E402

HELD, SHARE = FEATURES.index("holds answer 1"), FEATURES.index("share of the question")


def _labels(number: int, generator: np.random.Generator, count: int = 40) -> CandidateLabels:
    """Passages that hold the answer and half of the question are right; PS is higher where more of it stands."""
    features = generator.random((count, len(FEATURES)))
    features[:, HELD] = generator.random(count) < 0.4
    right = (features[:, HELD] > 0) & (features[:, SHARE] > 0.5)
    ps = 1 / (1 + np.exp(-(4 * features[:, SHARE] - 2 + right)))
    read = generator.random(count) < 0.5
    ps = np.where(read, ps, np.nan).astype(np.float32)
    return CandidateLabels(str(number), features.astype(np.float16), right, ps)


def test_it_learns_what_is_right_and_which_ps_it_gets() -> None:
    generator = np.random.default_rng(0)
    model, found = train_value_model(
        [_labels(n, generator) for n in range(200)], ValueModelConfig(epochs=30, batch=512)
    )
    assert found["AUC"] > 0.95
    prediction = ValueModel(model.tensors())((fresh := _labels(999, generator)).features.astype(np.float32))
    assert prediction.right[fresh.right].mean() > prediction.right[~fresh.right].mean() + 0.4
    wanted = 4 * fresh.features[:, SHARE].astype(float) - 2
    assert np.corrcoef(prediction.logit[:, 0], wanted)[0, 1] > 0.8
    assert prediction.logit[:, 1].mean() > prediction.logit[:, 0].mean()


def test_playing_computes_what_training_did() -> None:
    torch.manual_seed(0)
    model = ValueNetwork(np.full(len(FEATURES), 0.3, np.float32), np.full(len(FEATURES), 0.5, np.float32))
    features = np.random.default_rng(1).normal(0, 2, (30, len(FEATURES))).astype(np.float32)
    with torch.no_grad():
        told = model(torch.from_numpy(features)).numpy()
    prediction = ValueModel(model.tensors())(features)
    np.testing.assert_allclose(prediction.right, 1 / (1 + np.exp(-told[:, 0])), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(prediction.logit, told[:, 1:], rtol=1e-4, atol=1e-4)


def test_too_few_questions_are_refused() -> None:
    with pytest.raises(TrainingError, match="too few"):
        train_value_model([_labels(0, np.random.default_rng(0))], ValueModelConfig())


def test_only_questions_whose_answer_is_near_teach_anything(embedded: EmbeddedEngine) -> None:
    [good] = toy_questions(1)
    questions = [Question("1", good.question, ("nowhere to be found",)), good, Question("2", "?!", good.answers)]
    assert list(answerable(embedded, questions)) == [good]


def test_judgements_teach_where_no_answer_is_known(embedded: EmbeddedEngine, tmp_path: Path) -> None:
    environment = Environment(embedded, LexicalReader(), Settings())
    agent = PointerAgent.from_pretrained(save_pointer(tmp_path / "p"), embedded, threads=1)
    plain = [Question(each.id, each.question) for each in toy_questions(16)]
    found = {each.id: [hit.id for hit in embedded.search(Query(each.question), 40)] for each in plain}
    judged = [replace(each, judgements=tuple((id, n % 2) for n, id in enumerate(found[each.id]))) for each in plain]
    assert not list(answerable(embedded, plain))
    assert list(answerable(embedded, judged)) == judged
    labels = collect_rollouts(tmp_path / "a", environment, agent, judged, RolloutConfig(states=1))
    assert labels
    for each in labels:
        [state] = environment.open([question for question in judged if question.id == each.question_id])
        [observation] = environment.observe([state])
        [ranked] = agent.rank([observation])
        candidates = agent.look_ahead(observation, ranked)
        assert candidates is not None
        relevant = set(found[each.question_id][1::2])
        assert each.right.tolist() == [id in relevant for id in candidates.ids]
    assert any(each.right.any() for each in labels)


def test_rollouts_are_collected_once_and_damage_is_told(embedded: EmbeddedEngine, tmp_path: Path) -> None:
    environment = Environment(embedded, LexicalReader(), Settings())
    agent = PointerAgent.from_pretrained(save_pointer(tmp_path / "p"), embedded, threads=1)
    questions, config = toy_questions(40), RolloutConfig(states=2)
    whole = collect_rollouts(tmp_path / "a", environment, agent, questions, config)
    assert {labels.question_id for labels in whole} <= {question.id for question in questions}
    assert any(labels.right.any() for labels in whole)
    assert all(np.isfinite(labels.ps).any() for labels in whole)
    done: list[int] = []
    files = sorted((tmp_path / "a").iterdir())
    before = files[1].read_bytes()
    files[1].unlink()  # as a killed run leaves it
    collect_rollouts(tmp_path / "a", environment, agent, questions, config, done.append)
    assert files[1].read_bytes() == before
    assert done == [16, 32, 40]
    files[0].write_bytes(before[:100])
    with pytest.raises(TrainingError, match="damaged rollouts"):
        collect_rollouts(tmp_path / "a", environment, agent, questions, config)


def test_a_pointer_learns_to_look_from_its_own_sessions(embedded: EmbeddedEngine, tmp_path: Path) -> None:
    environment = Environment(embedded, LexicalReader(), Settings())
    files = load_folder(save_pointer(tmp_path / "p"))
    lines: list[str] = []
    config = ValueModelConfig(epochs=2)
    learned, told = train_lookahead(files, environment, toy_questions(100), tmp_path, config, show=lines.append)
    assert PointerAgent(learned, embedded, threads=1).has_value_model
    assert told["states"] > 100
    assert sum("states" in line for line in lines) == 2
    again, _ = train_lookahead(files, environment, toy_questions(100), tmp_path, config)
    for name, value in learned.tensors.items():
        assert (again.tensors[name] == value).all(), name


def test_the_command_teaches_a_pointer_and_says_when_nothing_is_left(tmp_path: Path) -> None:
    world = taught_world(tmp_path)
    folder = save_pointer(tmp_path / "p")
    given = ["--pointer", folder, "--index", world["index"], "--reader", world["reader"], "--out", tmp_path / "out"]
    many, none = tmp_path / "many.jsonl", tmp_path / "none.jsonl"
    rows = [{"id": q.id, "question": q.question, "answers": list(q.answers)} for q in toy_questions(100)]
    many.write_text("".join(json.dumps(row) + "\n" for row in rows))
    none.write_text(json.dumps({"id": "1", "question": "harbour", "answers": ["nowhere to be found"]}) + "\n")
    said = run("train", "look", *given, "--questions", many, "--threads", 1, "--price", 0.01)
    assert "states" in said
    learned = load_folder(tmp_path / "out" / "int8")
    assert learned.decoding.read_cost == 0.01
    assert learned.notes["look"]["questions"] > 50
    with pytest.raises(OrienteerError, match="no question is left"):
        run("train", "look", *given, "--questions", none)
