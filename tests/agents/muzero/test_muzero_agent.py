"""The agent `muzero`: the contract, its folder, its names, its tree."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lexical_reader import LexicalReader
from small_world import HARD_QUESTIONS, QUESTIONS
from tiny_muzero import CONFIG, save_muzero, tiny_base
from tiny_pointer import observations, pointer_tokenizer

from orienteer.agents import make_agent
from orienteer.agents.check import check_agent
from orienteer.agents.encoding import SNIPPET, Renderer
from orienteer.agents.muzero.agent import MuZeroAgent
from orienteer.agents.muzero.config import PAPER, PAPER_SMALL, SMALL, Config, preset
from orienteer.agents.muzero.grammar import query_grammar
from orienteer.agents.muzero.model_files import for_shipping, load_folder, load_pretrained, save_folder
from orienteer.agents.muzero.representation import (
    IDF_STEP,
    ActionHistory,
    ObservationTokenizer,
    layered_kinds,
    layered_table,
)
from orienteer.agents.muzero.tries import TermTokenizer
from orienteer.agents.spec import CheckpointMissingError
from orienteer.engine import EmbeddedEngine, Engine
from orienteer.errors import ModelCorruptError, ModelMissingError, OrienteerError
from orienteer.query import G4, Query, Refinement
from orienteer.session import Environment, Settings, run_sessions
from orienteer.session.agent import check_explanation, tree_of


@pytest.mark.long
def test_it_keeps_the_promises_of_an_agent(muzero: MuZeroAgent, embedded: EmbeddedEngine) -> None:
    check_agent(muzero, Environment(embedded, LexicalReader(), Settings(steps=5)), [*QUESTIONS, *HARD_QUESTIONS[:6]])


@pytest.mark.long
def test_it_keeps_them_where_it_may_stop_and_on_an_engine_of_which_only_the_protocol_is_known(
    muzero_folder: Path, engine: Engine
) -> None:
    agent = MuZeroAgent.from_pretrained(muzero_folder, engine, threads=1)
    check_agent(agent, Environment(engine, LexicalReader(), Settings(steps=3, allow_stop=True)), QUESTIONS[:3])


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_observation_has_an_action_whatever_stands_beside_it(
    muzero: MuZeroAgent, embedded: EmbeddedEngine, data: st.DataObject
) -> None:
    some = data.draw(st.lists(observations(embedded), min_size=1, max_size=3))
    together = muzero.act(some)
    assert [muzero.act([each])[0] for each in some] == together


@pytest.mark.parametrize("config", [
    replace(CONFIG, shape="paper", fields="any",
    networks=replace(CONFIG.networks, policy_prior=False, word_context=False, gates="relu")),
    replace(CONFIG, search=replace(CONFIG.search, gumbel=6)),
    replace(CONFIG, search=replace(CONFIG.search, simulations=0)),
    replace(CONFIG, grammar="G2", title_pieces=2, snippet=70),
])  # fmt: skip
def test_it_plays_whole_sessions_in_every_shape(tmp_path: Path, embedded: EmbeddedEngine, config: Config) -> None:
    agent = MuZeroAgent.from_pretrained(save_muzero(tmp_path, config), embedded, threads=1)
    environment = Environment(embedded, LexicalReader(), Settings(steps=3, snippet=config.snippet))
    for session in run_sessions(environment, agent, QUESTIONS).sessions:
        assert session.ended == "steps", session.error
        operators = {f"{step.action.op}" for step in session.steps[1:] if isinstance(step.action, Refinement)}
        assert config.grammar == "G4" or operators <= {"+", "-"}


def test_the_tree_tells_what_was_thought_of_and_what_was_taken(muzero: MuZeroAgent, embedded: EmbeddedEngine) -> None:
    environment = Environment(embedded, LexicalReader(), Settings())
    seen = environment.observe(environment.open(QUESTIONS))
    told = muzero.act_with_explanations(seen)
    assert [action for action, _ in told] == muzero.act(seen)
    for action, notes in told:
        check_explanation(notes)
        tree = tree_of(notes)
        assert tree is not None
        assert tree.visits == 10
        path, node = [], tree
        while taken := [child for child in node.children if child.taken]:
            [node] = taken
            path.append(node.label)
        assert isinstance(action, Refinement)
        pieces = [label.removeprefix("##") for label in path[1:] if label != "end"]
        assert "".join(pieces) == action.term
        waiting = [tree]
        while waiting:
            node = waiting.pop()
            assert len(node.children) <= 5
            waiting += node.children


def test_names_choose_the_folder_and_the_simulations(muzero_folder: Path, embedded: EmbeddedEngine) -> None:
    entry = make_agent(f"muzero+sims3={muzero_folder}[steps=4]", embedded)
    assert isinstance(entry.agent, MuZeroAgent)
    assert entry.agent.search.simulations == 3
    assert entry.settings.steps == 4
    assert entry.settings.snippet == CONFIG.snippet


def test_it_joins_an_ensemble_with_and_without_planning(muzero_folder: Path, embedded: EmbeddedEngine) -> None:
    entry = make_agent(
        f"ensemble(muzero+sims0={muzero_folder}|muzero+sims4={muzero_folder}|prf-idf-t)", embedded, Settings(steps=2)
    )
    environment = entry.environment(embedded, LexicalReader())
    sessions = run_sessions(environment, entry.agent, QUESTIONS).sessions
    assert all(session.best and session.queries > 3 for session in sessions)


def test_a_missing_checkpoint_is_one_clear_error(embedded: EmbeddedEngine, tmp_path: Path) -> None:
    with pytest.raises(CheckpointMissingError, match="orienteer train muzero"):
        make_agent(f"muzero={tmp_path / 'none'}", embedded)
    with pytest.raises(ModelMissingError, match="orienteer train muzero"):
        make_agent(f"muzero={tmp_path}", embedded)


def test_a_folder_comes_back_as_it_was_saved_and_a_damaged_one_not(tmp_path: Path) -> None:
    folder = save_muzero(tmp_path / "a")
    files = load_folder(folder)
    assert files.config == CONFIG
    save_folder(tmp_path / "b", files.bert, files.tensors, files.tokenizer, files.config, **files.notes)
    again = load_folder(tmp_path / "b")
    assert all((again.tensors[name] == files.tensors[name]).all() for name in files.tensors)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-7] + b"damaged")
    with pytest.raises(ModelCorruptError, match="checksum"):
        load_folder(folder)


def test_the_form_that_is_shipped_plays_too_and_is_smaller(tmp_path: Path, embedded: EmbeddedEngine) -> None:
    files = load_folder(save_muzero(tmp_path / "a"))
    save_folder(tmp_path / "b", files.bert, for_shipping(files), files.tokenizer, files.config, **files.notes)
    size = [(tmp_path / name / "model.safetensors").stat().st_size for name in "ab"]
    assert size[1] < 0.7 * size[0]
    agent = MuZeroAgent.from_pretrained(tmp_path / "b", embedded, threads=1)
    environment = Environment(embedded, LexicalReader(), Settings(steps=2))
    assert all(s.ended == "steps" for s in run_sessions(environment, agent, QUESTIONS).sessions)


def test_the_paper_s_table_is_a_preset() -> None:
    assert preset("paper") is PAPER
    assert preset("small") is SMALL
    table = {
        "simulations": PAPER.search.simulations, "actors": PAPER.training.actors,
        "h batch": PAPER.training.initial_batch,
        "training cores": PAPER.training.learner_cores, "inference cores": PAPER.training.actor_cores,
        "fg batch": PAPER.training.recurrent_batch, "lstm": PAPER.networks.lstm, "head": PAPER.networks.head,
        "batch": PAPER.training.batch, "optimiser": PAPER.training.optimiser, "rate": PAPER.training.learning_rate,
        "decay": PAPER.training.weight_decay, "discount": PAPER.search.discount, "unroll": PAPER.training.unroll,
        "children": PAPER.search.children, "title": PAPER.title_pieces, "content": PAPER.snippet,
    }  # fmt: skip
    assert table == {
        "simulations": 100, "actors": 500, "training cores": 1, "inference cores": 7, "h batch": 4,
        "fg batch": 32, "lstm": 512, "head": 32, "batch": 16,
        "optimiser": "sgd", "rate": 1e-4, "decay": 1e-5, "discount": 0.9, "unroll": 5, "children": 100, "title": 10,
        "content": 70,
    }  # fmt: skip
    with pytest.raises(OrienteerError, match="expected one of small, paper, paper-small"):
        preset("large")


def test_the_paper_s_agent_at_our_size_differs_in_how_it_learns_alone() -> None:
    assert replace(PAPER_SMALL, training=PAPER.training) == PAPER
    assert PAPER.is_paper
    assert PAPER_SMALL.is_paper
    assert not SMALL.is_paper
    assert not replace(PAPER, networks=replace(PAPER.networks, lookahead_scale=100.0)).is_paper
    ours, theirs = PAPER_SMALL.training, PAPER.training
    for name in ("steps", "episode_length", "batch", "unroll", "targets", "empty_penalty", "guided_share", "priority"):
        assert getattr(ours, name) == getattr(theirs, name), name


def test_settings_are_changed_wherever_they_stand() -> None:
    changed = SMALL.with_options(simulations=16, lstm=64, steps=None, grammar="G1")
    assert (changed.search.simulations, changed.networks.lstm, changed.grammar) == (16, 64, "G1")
    assert changed.training == SMALL.training
    assert Config.from_dict(json.loads(json.dumps(changed.as_dict()))) == changed
    with pytest.raises(OrienteerError, match="unknown setting"):
        SMALL.with_options(colour=3)


def test_a_look_has_the_clone_s_row_with_idf_and_ps_beside_it(embedded: EmbeddedEngine) -> None:
    environment = Environment(embedded, LexicalReader(), Settings())
    [seen] = environment.observe(environment.open(QUESTIONS[:1]))
    looker = ObservationTokenizer(pointer_tokenizer(), embedded, 320)
    tokenized = looker(seen)
    numbers = {term.text: number for number, term in enumerate(tokenized.terms)}
    theirs = Renderer(pointer_tokenizer(), looker.lexicon, 320).render(seen, numbers)
    assert (tokenized.rendered.ids == theirs.ids).all()
    assert (tokenized.rendered.types == theirs.types).all()
    assert (tokenized.rendered.occurrences == theirs.occurrences).all()
    for number, _, place in tokenized.rendered.occurrences:
        assert tokenized.idf[place] == round(tokenized.terms[number].idf / IDF_STEP)
    assert tokenized.ps[0] == 0
    assert {round(p.score * 15) for p in seen.passages} == set(
        tokenized.ps[tokenized.rendered.types == SNIPPET].tolist()
    )


def test_type_idf_and_ps_are_one_number_and_its_vector_their_sum() -> None:
    draw = np.random.default_rng(0)
    kinds, idf, ps = draw.normal(size=(5, 8)), draw.normal(size=8), draw.normal(size=8)
    table = layered_table(*(each.astype(np.float32) for each in (kinds, idf, ps)))
    types, steps, scores = (np.array([v], np.uint8) for v in (3, 10, 15))
    [row] = layered_kinds(types, steps, scores)
    np.testing.assert_allclose(table[row], kinds[3] + 10 * IDF_STEP / 12 * idf + ps, rtol=1e-5)


def test_the_past_is_told_by_the_refinements_in_force() -> None:
    grammar, term_tokenizer = query_grammar(G4), TermTokenizer(pointer_tokenizer())
    action_history = ActionHistory(grammar, term_tokenizer)
    query = Query("q").refine(Refinement("+", "title", "tower"), Refinement("^", "contents", "lamp", 4.0))
    past = action_history(query.refinements, 20)
    rules = [grammar.label(action) for action in past if action < len(grammar)]
    assert rules == ["+ title index", "^4 contents index"]
    assert term_tokenizer.text(action - len(grammar) for action in past if action >= len(grammar)) == "towerlamp"
    assert action_history(query.refinements, 2) == past[-2:]
    paper = query_grammar(G4, "paper")
    rules = [paper.label(a) for a in ActionHistory(paper, term_tokenizer)(query.refinements, 20) if a < len(paper)]
    assert rules == ["+", "title", "^4", "contents"]


def test_h_can_start_from_a_reader_and_says_what_it_wants(tmp_path: Path) -> None:
    from tiny import save_tiny

    base = load_pretrained(save_tiny(tmp_path / "reader"))
    assert not base.cloned
    assert base.encoding_sizes[1] == 256
    assert load_pretrained(save_muzero(tmp_path / "muzero")).cloned
    assert tiny_base().word_embeddings.shape[1] == 32
    with pytest.raises(ModelMissingError, match="a pointer, a reader or a BERT"):
        load_pretrained(tmp_path / "nothing")
