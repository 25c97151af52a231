"""From Rocchio's sessions to examples in dataset."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from lexical_reader import LexicalReader
from small_world import QUESTIONS
from tiny_pointer import pointer_tokenizer
from toy import toy_questions, toy_states

from orienteer.agents.action_space import SLOTS, grammar_slots
from orienteer.agents.encoding import Featurizer
from orienteer.agents.imitation import Label, LabelledState, by_id, grammars_of, label, labelled_states
from orienteer.agents.pointer import dataset
from orienteer.agents.pointer.dataset import Example, encode, gather
from orienteer.agents.pointer.model_files import Layout
from orienteer.engine import EmbeddedEngine, Engine
from orienteer.engine.protocol import fingerprint_of
from orienteer.errors import TrainingError
from orienteer.query import G0, G1, G4, GRAMMARS, Refinement
from orienteer.reader.protocol import Reader
from orienteer.rocchio import Header, RocchioConfig, RocchioSession, rocchio_sessions, variants_of
from orienteer.rocchio.sessions import header_line, session_line
from orienteer.session import Environment, Settings

PLUS, OR = Refinement("+", "contents", "reef"), Refinement("or", "contents", "storm")


@pytest.fixture(scope="module")
def featurizer(embedded: EmbeddedEngine) -> Featurizer:
    return Featurizer(pointer_tokenizer(), embedded, 320)


@pytest.fixture(scope="module")
def toys(embedded: EmbeddedEngine) -> list[LabelledState]:
    return toy_states(Environment(embedded, LexicalReader(), Settings(steps=6)), 20)


@pytest.fixture(scope="module")
def searched(embedded: EmbeddedEngine) -> tuple[Header, list[RocchioSession]]:
    reader, plan = LexicalReader(), RocchioConfig(settings=Settings(steps=4, snippet=30))
    found = rocchio_sessions(embedded, reader, QUESTIONS, variants_of("all"), plan)
    header = Header(plan, fingerprint_of(embedded), fingerprint_of(reader))
    return header, [session for own in found for session in own]


def same(one: Example, other: Example) -> bool:
    """Equal in every array."""
    for field in fields(Example):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if field.name == "targets":
            if [t.grammar for t in mine] != [t.grammar for t in theirs]:
                return False
            pairs = [(a.actions, b.actions) for a, b in zip(mine, theirs, strict=True)]
            pairs += [(a.gains, b.gains) for a, b in zip(mine, theirs, strict=True)]
        else:
            pairs = [(np.asarray(mine), np.asarray(theirs))]
        if not all(a.shape == b.shape and (a == b).all() for a, b in pairs):
            return False
    return True


def test_examples_come_back_from_their_files_as_they_were(
    featurizer: Featurizer, toys: list[LabelledState], tmp_path: Path
) -> None:
    parts = [toys[:7], [], toys[7:]]
    dataset.build(tmp_path, lambda done: parts[done:], lambda: featurizer)
    expected = [example for state in toys if (example := encode(state, featurizer)) is not None]
    found = list(dataset.read(tmp_path))
    assert len(found) == len(expected) > 20
    assert all(same(one, other) for one, other in zip(found, expected, strict=True))


def test_a_killed_build_goes_on_after_its_last_whole_file(
    featurizer: Featurizer, toys: list[LabelledState], tmp_path: Path
) -> None:
    parts, began = [toys[:5], toys[5:10], toys[10:]], []

    def batches(done: int) -> Iterator[list[LabelledState]]:
        began.append(done)
        for number in range(done, 3):
            if len(began) == 1 and number == 2:
                raise KeyboardInterrupt
            yield parts[number]

    with pytest.raises(KeyboardInterrupt):
        dataset.build(tmp_path, batches, lambda: featurizer)
    with pytest.raises(TrainingError, match="no finished examples"):
        list(dataset.read(tmp_path))
    dataset.build(tmp_path, batches, lambda: featurizer)
    assert began == [0, 2]
    assert len(list(dataset.read(tmp_path))) == sum(encode(each, featurizer) is not None for each in toys)

    def never(done: int) -> Iterator[list[LabelledState]]:
        raise AssertionError("a full folder is not built again")

    dataset.build(tmp_path, never, lambda: featurizer)


def test_a_damaged_file_of_examples_is_one_clear_error(
    featurizer: Featurizer, toys: list[LabelledState], tmp_path: Path
) -> None:
    dataset.build(tmp_path, lambda done: [toys], lambda: featurizer)
    part = tmp_path / "00000.safetensors"
    part.write_bytes(part.read_bytes()[:100])
    with pytest.raises(TrainingError, match="to encode them again"):
        list(dataset.read(tmp_path))


def test_only_improving_candidates_are_targets_with_their_gains() -> None:
    made = label(G4, 0.5, (PLUS, 0.7), [(OR, 0.6), (Refinement("-", "title", "x"), 0.5)])
    assert made.gains == ((PLUS, pytest.approx(0.2)), (OR, pytest.approx(0.1)))
    assert label(G4, 0.5, None) == Label(G4, ())


def test_states_that_grammars_share_are_made_once(
    embedded: EmbeddedEngine, searched: tuple[Header, list[RocchioSession]]
) -> None:
    header, sessions = searched
    [found] = labelled_states(header, sessions, by_id(QUESTIONS), embedded, LexicalReader(), snippet=30)
    first = [state for state in found if not state.observation.refinements]
    assert len(first) == len({session.id for session in sessions if session.start})
    assert all([each.grammar.name for each in state.labels] == list(GRAMMARS) for state in first)
    steps = sum(len(session.steps) + (session.ended == "best") for session in sessions)
    assert sum(len(state.labels) for state in found) == steps


def test_every_target_is_legal_and_the_best_one_is_rocchios(
    embedded: EmbeddedEngine, featurizer: Featurizer, searched: tuple[Header, list[RocchioSession]]
) -> None:
    header, sessions = searched
    refined = 0
    [found] = labelled_states(header, sessions, by_id(QUESTIONS), embedded, LexicalReader(), snippet=30)
    for state in found:
        example = encode(state, featurizer)
        assert example is not None  # the search saw the same snippets
        for target, recorded in zip(example.targets, state.labels, strict=True):
            legal = (example.open_slots & grammar_slots(target.grammar)).reshape(-1)
            assert legal[target.actions].all()
            if recorded.gains:
                refined += 1
                best = target.actions[int(np.argmax(target.gains))]
                operator, field = SLOTS[best % len(SLOTS)]
                terms = featurizer(state.observation).terms
                assert operator.apply(field, terms[best // len(SLOTS)].text) == recorded.gains[0][0]
                assert (target.gains > 0).all()
    assert refined > 5


def test_sessions_become_examples_once_and_then_need_neither_index_nor_reader(
    embedded: EmbeddedEngine, searched: tuple[Header, list[RocchioSession]], tmp_path: Path
) -> None:
    header, sessions = searched
    file = tmp_path / "sessions.jsonl"
    file.write_bytes(header_line(header) + b"".join(map(session_line, sessions)))
    opened: list[int] = []

    def load() -> tuple[Engine, Reader]:
        opened.append(1)
        return embedded, LexicalReader()

    def examples(*grammars: str) -> list[Example]:
        chosen = [GRAMMARS[name] for name in grammars]
        return gather(tmp_path / "cache", [file], lambda: QUESTIONS, chosen, pointer_tokenizer(), Layout(), load)

    everything = examples(*GRAMMARS)
    assert opened == [1]
    again = examples(*GRAMMARS)
    assert opened == [1]
    assert all(same(one, other) for one, other in zip(everything, again, strict=True))
    alone = examples("G1")
    assert opened == [1, 1]
    assert {target.grammar for example in alone for target in example.targets} == {G1}
    assert len(alone) < len(everything)


def test_a_label_on_words_that_the_agent_does_not_see_is_left_out(
    featurizer: Featurizer, toys: list[LabelledState]
) -> None:
    seen = toys[0].observation
    hidden = Label(G4, ((Refinement("+", "contents", "nowhere"), 0.3),))
    wrong = Label(G0, ((Refinement("+", "contents", seen.terms[0].text), 0.3),))
    assert encode(LabelledState("q", seen, (hidden, wrong)), featurizer) is None
    kept = encode(LabelledState("q", seen, (hidden, Label(G1, ()))), featurizer)
    assert kept is not None
    assert kept.only_stops
    assert [target.grammar for target in kept.targets] == [G1]


def test_grammars_are_named_one_by_one_or_all_at_once() -> None:
    assert grammars_of("all") == tuple(GRAMMARS.values())
    assert grammars_of("G4, G0") == (G4, G0)
    with pytest.raises(TrainingError, match="no grammar is called 'G9'"):
        grammars_of("G9")


def test_toy_questions_have_ids_of_their_own() -> None:
    assert len({question.id for question in toy_questions(23)}) == 23
