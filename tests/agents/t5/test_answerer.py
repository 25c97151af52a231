"""The answer generator: words of the passages out, examples from sessions in, a command that trains it."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lexical_reader import LexicalReader
from small_world import PASSAGES, QUESTIONS
from tiny_seq2seq import save_seq2seq, seq2seq_tokenizer, tiny_config

from orienteer.agents.imitation import Label, LabelledState
from orienteer.agents.t5.answerer import ANSWERER_LAYOUT, Answerer, ExactMatch, best_passages, play_sessions
from orienteer.agents.t5.constraints import PassageSpans
from orienteer.agents.t5.dataset import answerer_example, answerer_examples, answerer_row
from orienteer.agents.t5.model_files import Codec, load_folder
from orienteer.agents.t5.rendering import render_question
from orienteer.engine import EmbeddedEngine
from orienteer.errors import ModelMissingError
from orienteer.query import G4
from orienteer.session import Environment, ObservedPassage, Session, Settings

CODEC = Codec(seq2seq_tokenizer(), tiny_config())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_seq2seq(tmp_path_factory.mktemp("answerer"), purpose="answerer", layout=ANSWERER_LAYOUT)


@pytest.fixture
def sessions(embedded: EmbeddedEngine) -> list[Session]:
    return Environment(embedded, LexicalReader(), Settings(steps=0)).open(QUESTIONS)


def test_a_source_is_question_answers_titles_and_texts() -> None:
    passages = [ObservedPassage("1", "Ardle Light", "Maren Holt lit  the lamp", "Maren Holt", 0.9)]
    assert render_question("who lit the lamp", passages, ANSWERER_LAYOUT) == (
        "Query: 'who lit the lamp'. Answer: 'Maren Holt'. Title: 'Ardle Light'. Result: 'Maren Holt lit the lamp'."
    )


def test_answers_are_words_of_the_passages(folder: Path, sessions: list[Session]) -> None:
    answerer = Answerer.from_pretrained(folder, threads=1)
    answers = answerer.of_sessions(sessions)
    for answer, session in zip(answers, sessions, strict=True):
        texts = [text for each in best_passages(session, 70) for text in (each.snippet, each.title)]
        assert answer
        assert any(answer in text for text in texts)
    assert answers == [answerer.of_sessions([session])[0] for session in sessions]
    assert answers == Answerer.from_pretrained(folder, threads=2).of_sessions(sessions)


def test_without_passages_there_is_no_answer(folder: Path) -> None:
    for free in (False, True):
        assert Answerer.from_pretrained(folder, free=free, threads=1).answer([("who", []), ("", [])]) == ["", ""]


def test_a_free_answerer_writes_any_text(folder: Path, sessions: list[Session]) -> None:
    answers = Answerer.from_pretrained(folder, free=True, threads=1).of_sessions(sessions)
    assert all(isinstance(answer, str) for answer in answers)


def test_the_folder_of_an_agent_is_no_answerer(tmp_path: Path) -> None:
    with pytest.raises(ModelMissingError, match="orienteer train answerer"):
        Answerer.from_pretrained(save_seq2seq(tmp_path / "t5"))


_TEXTS = st.lists(
    st.one_of(
        st.sampled_from([passage.text for passage in PASSAGES]), st.text(max_size=20), st.just("Café 1,000.5 d'Arc")
    ),
    max_size=4,
)


@given(_TEXTS, st.integers(0, 9))
def test_every_walk_through_spans_is_a_piece_of_some_text(texts: list[str], seed: int) -> None:
    spans, draw = PassageSpans(CODEC, texts, 6), random.Random(seed)
    node, size = spans.root, 0
    assert spans.value(node) is None
    while allowed := spans.allowed(node):
        assert CODEC.unknown not in allowed
        node = spans.advance(node, draw.choice(allowed))
        size += 1
        if (value := spans.value(node)) is not None:
            assert any(value in text for text in texts)
            assert value[0].isalnum()
            assert value[-1].isalnum()
    assert size <= 6


def test_spans_keep_case_accents_and_signs() -> None:
    spans = PassageSpans(CODEC, ["on the reef", "the Lámp 1,871.5"], 9)
    [ids] = CODEC.tokenize(["the lamp 1,871.5"])
    node = spans.root
    values = []
    for token in ids:
        assert token in spans.allowed(node)
        node = spans.advance(node, token)
        values.append(spans.value(node))
    assert values[-1] == "the Lámp 1,871.5"


def test_a_state_teaches_the_gold_answers_that_it_shows(embedded: EmbeddedEngine) -> None:
    environment = Environment(embedded, LexicalReader(), Settings(steps=3, snippet=70))
    question = QUESTIONS[2]
    [seen] = environment.observe(environment.open([question]))
    row = json.loads(json.dumps(answerer_row(LabelledState("q3", seen, (Label(G4, ()),)), question, ANSWERER_LAYOUT)))
    assert row["answers"] == ["Halcyon", "the Halcyon"]
    assert row["last"]
    assert answerer_example(row, 0.0).rate == 1.0
    assert answerer_example({**row, "last": False}, 0.2).rate == 0.2
    assert answerer_example(row, 0.0).targets[0] == ("Halcyon", 0.0)


def test_examples_come_from_one_grammars_sessions(embedded: EmbeddedEngine, tmp_path: Path) -> None:
    from training_world import sessions_file

    file = sessions_file(tmp_path / "sessions.jsonl", embedded, LexicalReader())
    world = (embedded, LexicalReader())
    last, more = (
        answerer_examples(tmp_path / "examples", [file], lambda: QUESTIONS, G4, ANSWERER_LAYOUT, lambda: world, earlier)
        for earlier in (0.0, 0.5)
    )
    assert last
    assert len(last) < len(more)
    assert all(example.source.startswith("Query: '") for example in more)


def test_exact_match_in_training_stands_beside_the_readers(folder: Path, embedded: EmbeddedEngine) -> None:
    played = play_sessions(embedded, LexicalReader(), "bm25+ps", QUESTIONS)
    assert len(played) == 4  # one question has no answers
    measures = ExactMatch(played)(load_folder(folder, "answerer"))
    assert measures.keys() == {"EM-T5", "EM-MR"}
    assert all(0 <= value <= 100 for value in measures.values())


def test_an_answerer_is_trained_by_command(tmp_path: Path) -> None:
    from training_world import make_world, options, run

    made = make_world(tmp_path)
    out = tmp_path / "answerer"
    said = run(
        "train", "answerer", *options(made), "--out", out, "--steps", 2, "--threads", 1, "--dev", made["questions"],
        "--tokens", 1024,
    )  # fmt: skip
    assert "dev EM-T5" in said
    assert Answerer.from_pretrained(out / "int8", threads=1).answer([("who lit it", [])]) == [""]
