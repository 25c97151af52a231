"""The pointer as an agent: always legal, the same in any batch, honest about damaged folders."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lexical_reader import LexicalReader
from small_world import HARD_QUESTIONS, PASSAGES, QUESTIONS
from tiny_pointer import observations, save_pointer, value_model_tensors

from orienteer.agents import CheckpointMissingError, check_agent, make_agent
from orienteer.agents.action_space import SLOTS, Decoding, RankedActions, rank_actions
from orienteer.agents.encoding import pool
from orienteer.agents.lookahead.value_model import has_value_model
from orienteer.agents.pointer.agent import PointerAgent, act_on_values
from orienteer.agents.pointer.model_files import SHIPPED, Layout, load_folder
from orienteer.engine import EmbeddedEngine, Engine, ReferenceEngine
from orienteer.errors import ModelCorruptError, ModelMissingError, OrienteerError
from orienteer.query import GRAMMARS, Operator, Refinement
from orienteer.session import STOP, UNDO, Agent, Environment, Settings, Stop, run_sessions

WORLD = ReferenceEngine(PASSAGES)


@pytest.fixture(scope="module")
def by_grammar(pointer_folder: Path) -> dict[str, PointerAgent]:
    return {
        name: PointerAgent.from_pretrained(pointer_folder, WORLD, grammar, threads=1)
        for name, grammar in GRAMMARS.items()
    }


@pytest.mark.long
@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=80)
@given(seen=observations(WORLD), name=st.sampled_from(list(GRAMMARS)))
def test_no_state_of_any_grammar_makes_an_illegal_refinement(by_grammar, seen, name: str) -> None:
    agent = by_grammar[name]
    [(action, notes)] = agent.act_with_explanations([seen])
    if isinstance(action, Stop):
        assert seen.may_stop or not notes["likeliest"]
        return
    assert isinstance(action, Refinement)
    assert Operator(action.op, action.weight) in GRAMMARS[name].operators
    offered = {term.text: term.sources for term in seen.terms}
    assert action.term in offered
    assert action.term not in seen.used
    assert action.field == "contents" or "title" in offered[action.term]


@pytest.mark.long
@pytest.mark.parametrize("name", list(GRAMMARS))
def test_whole_sessions_of_hard_questions_have_no_illegal_step(name: str, engine: Engine, pointer_folder: Path) -> None:
    agent = PointerAgent.from_pretrained(pointer_folder, engine, GRAMMARS[name], threads=1)
    environment = Environment(engine, LexicalReader(), Settings(steps=12))
    for session in run_sessions(environment, agent, [*QUESTIONS, *HARD_QUESTIONS]).sessions:
        assert session.ended != "illegal", session.error
        assert session.ended != "error" or "cannot be asked" in session.error


@pytest.mark.long
def test_the_pointer_keeps_the_contract(engine: Engine, pointer_folder: Path, environment: Environment) -> None:
    check_agent(PointerAgent.from_pretrained(pointer_folder, engine, threads=2), environment, QUESTIONS)


def test_a_pointer_is_made_by_its_name(embedded: EmbeddedEngine, pointer_folder: Path) -> None:
    entry = make_agent(f"pointer-G1={pointer_folder}[steps=7]", embedded)
    assert isinstance(entry.agent, PointerAgent)
    assert isinstance(entry.agent, Agent)
    assert entry.agent.grammar.name == "G1"
    assert entry.settings.steps == 7
    blind = make_agent(f"pointer-blind={pointer_folder}", embedded).agent
    assert isinstance(blind, PointerAgent)
    assert (blind.grammar.name, blind.decoding.lookahead) == ("G4", False)


def test_a_missing_checkpoint_says_how_to_make_one(embedded: EmbeddedEngine, tmp_path: Path) -> None:
    with pytest.raises(CheckpointMissingError, match="orienteer train pointer"):
        make_agent(f"pointer={tmp_path / 'nowhere'}", embedded)
    with pytest.raises(ModelMissingError, match="no pointer there"):
        make_agent(f"pointer={tmp_path}", embedded)


def test_an_agent_that_may_stop_does_so_once_it_is_likely_enough(embedded: EmbeddedEngine, tmp_path: Path) -> None:
    environment = Environment(embedded, LexicalReader(), Settings(allow_stop=True))
    [seen] = environment.observe(environment.open(QUESTIONS[:1]))
    stops = []
    for number, threshold in enumerate((0.0, 1.0)):
        folder = save_pointer(tmp_path / str(number), decoding=Decoding(stop=threshold))
        agent = PointerAgent.from_pretrained(folder, embedded, threads=1)
        [action] = agent.act([seen])
        stops.append(isinstance(action, Stop))
    assert stops == [True, False]


@pytest.mark.long
def test_an_agent_with_lookahead_keeps_the_contract(engine: Engine, tmp_path: Path) -> None:
    folder = save_pointer(tmp_path, more=value_model_tensors())
    agent = PointerAgent.from_pretrained(folder, engine, threads=1)
    assert agent.has_value_model
    check_agent(agent, Environment(engine, LexicalReader(), Settings(steps=5)), QUESTIONS)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_sessions_with_lookahead_take_no_illegal_step(seed: int, embedded: EmbeddedEngine, tmp_path: Path) -> None:
    agent = PointerAgent.from_pretrained(save_pointer(tmp_path, more=value_model_tensors(seed)), embedded, threads=1)
    environment = Environment(embedded, LexicalReader(), Settings(steps=12))
    for session in run_sessions(environment, agent, [*QUESTIONS, *HARD_QUESTIONS]).sessions:
        assert session.ended != "illegal", session.error
        assert session.ended != "error" or "cannot be asked" in session.error


def test_pooling_takes_the_mean_of_a_terms_pieces_in_each_source() -> None:
    states = np.arange(12, dtype=np.float32).reshape(6, 2)
    occurrences = np.array([[0, 0, 1], [0, 3, 2], [0, 3, 4], [2, 1, 5]], np.int16)
    pooled = pool(states, occurrences, 3).reshape(3, 4, 2)
    expected = np.zeros((3, 4, 2), np.float32)
    expected[0, 0], expected[0, 3], expected[2, 1] = states[1], (states[2] + states[4]) / 2, states[5]
    assert (pooled == expected).all()


def test_the_probabilities_of_all_legal_actions_add_up_to_one(pointer: PointerAgent, embedded: EmbeddedEngine) -> None:
    environment = Environment(embedded, LexicalReader(), Settings())
    each = pointer.featurize(environment.observe(environment.open(QUESTIONS[:1]))[0])
    found = pointer.ranked(each, next(pointer.scores([each])))
    assert np.exp(found.log_probabilities).sum() + found.stop == pytest.approx(1)
    assert (np.diff(found.log_probabilities) <= 0).all()
    assert len(found) == each.open_slots.sum()


def test_the_notes_name_the_action_taken(pointer: PointerAgent, environment: Environment) -> None:
    seen = environment.observe(environment.open(QUESTIONS))
    for action, notes in pointer.act_with_explanations(seen):
        assert notes["likeliest"][0][0] == str(action)
        json.dumps(notes)


def test_int8_stays_near_float32(pointer_folder: Path, embedded: EmbeddedEngine) -> None:
    environment = Environment(embedded, LexicalReader(), Settings())
    exact = PointerAgent.from_pretrained(pointer_folder, embedded, compute="float32", threads=1)
    small = PointerAgent.from_pretrained(pointer_folder, embedded, threads=1)
    assert exact.fingerprint != small.fingerprint
    inputs = [exact.featurize(seen) for seen in environment.observe(environment.open(QUESTIONS))]
    one, other = (np.concatenate([s.slots.ravel() for s in agent.scores(inputs)]) for agent in (exact, small))
    assert np.corrcoef(one, other)[0, 1] > 0.95


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
@pytest.mark.parametrize("damage", ["cut", "flip", "gone"])
def test_a_damaged_file_is_one_clear_error(tmp_path: Path, name: str, damage: str) -> None:
    path = save_pointer(tmp_path) / name
    data = bytearray(path.read_bytes())
    if damage == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "flip":
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    else:
        path.unlink()
    expected = ModelMissingError if damage == "gone" else ModelCorruptError
    with pytest.raises(expected, match=name):
        load_folder(tmp_path)


def test_weights_of_other_features_are_refused(tmp_path: Path) -> None:
    save_pointer(tmp_path, layout=Layout(term_features=("idf",)))
    with pytest.raises(ModelCorruptError, match="other features"):
        load_folder(tmp_path)


def test_a_readers_folder_is_told_from_a_pointers(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"reader": {}}')
    with pytest.raises(ModelMissingError, match='no entry "pointer"'):
        load_folder(tmp_path)


def test_a_folder_holds_no_more_than_it_should(pointer_folder: Path) -> None:
    files = load_folder(pointer_folder)
    assert files.layout == Layout()
    assert files.decoding == Decoding()
    assert sorted(path.name for path in pointer_folder.iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    ]


@pytest.mark.parametrize("wrong", [{"stop": 1.5}, {"success_weight": -1}])
def test_decoding_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(OrienteerError, match="expected"):
        Decoding(**wrong)  # type: ignore[arg-type]


def test_folders_keep_the_keys_of_the_first_version() -> None:
    decoding = Decoding(lookahead=False, success_weight=2.0, read_cost=0.1, undo_threshold=0.4)
    stored = decoding.as_dict()
    assert stored == {"stop": 0.5, "look": False, "success": 2.0, "price": 0.1, "back": 0.4}
    assert Decoding.from_dict(stored) == decoding
    layout = Layout(snippet=12)
    assert {"moment_features", "sight_features"} < set(layout.as_dict())
    assert Layout.from_dict(json.loads(json.dumps(layout.as_dict()))) == layout


def test_the_shipped_folder_is_a_pointer_with_a_value_model() -> None:
    files = load_folder(SHIPPED)
    assert files.layout == Layout()
    assert has_value_model(files.tensors)


def test_where_there_is_no_term_stopping_is_certain() -> None:
    found = rank_actions(np.zeros((0, 15), np.float32), 0.3, np.zeros((0, 15), np.bool_), ())
    assert len(found) == 0
    assert found.stop == 1.0


@pytest.mark.long
def test_playing_imports_no_torch() -> None:
    code = "import sys, orienteer.agents, orienteer.agents.pointer.agent; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_row_alone_on_all_cores_is_scored_as_it_is_among_others(
    pointer_folder: Path, embedded: EmbeddedEngine
) -> None:
    agent = PointerAgent.from_pretrained(pointer_folder, embedded, threads=2)
    environment = Environment(embedded, LexicalReader(), Settings())
    inputs = [agent.featurize(seen) for seen in environment.observe(environment.open(QUESTIONS))]
    for each, among in zip(inputs, agent.scores(inputs), strict=True):
        [alone] = agent.scores([each], 1)
        assert (alone.slots == among.slots).all()
        assert (alone.stop, alone.gain) == (among.stop, among.gain)


def test_where_nothing_is_worth_reading_it_undoes_stops_or_takes_what_costs_no_reading(
    embedded: EmbeddedEngine,
) -> None:
    environment = Environment(embedded, LexicalReader(), Settings())
    [seen] = environment.observe(environment.open(QUESTIONS[:1]))
    terms = seen.terms[:3]
    found = RankedActions(terms, np.arange(3) * len(SLOTS), np.log([0.5, 0.3, 0.2]), 0.0)
    poor, good = np.array([-0.1, -np.inf, -0.2]), np.array([0.01, 0.02, -np.inf])
    refined = replace(seen, refinements=(found.refinement(2),))
    assert act_on_values(seen, found, good, 0.05) == found.refinement(1)
    assert act_on_values(refined, found, good, 0.05) == UNDO
    assert act_on_values(refined, found, good, 0.0) == found.refinement(1)
    assert act_on_values(seen, found, poor, 0.05) == found.refinement(1)  # it finds nothing new
    assert act_on_values(replace(seen, may_stop=True), found, poor, 0.05) == STOP
