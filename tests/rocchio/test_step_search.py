"""The fast search finds the sessions of the plain one, and reads less."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hash_reader import HashReader
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import naive_session
from small_world import HARD_QUESTIONS, PASSAGES, QUESTIONS

from orienteer.bundled import bundled_engine, bundled_passages, bundled_questions
from orienteer.data import Question
from orienteer.engine import EmbeddedEngine, ReferenceEngine
from orienteer.query import G0, G3, G4, GRAMMARS, Refinement
from orienteer.rocchio import RocchioConfig, RocchioError, RocchioSession, Variant, rocchio_sessions, variants_of
from orienteer.rocchio.sessions import SEARCHED
from orienteer.session import Environment, Settings

ENGINE = bundled_engine()
ASKED = bundled_questions("train")


def course(session: RocchioSession) -> RocchioSession:
    """The session without what depends on how much was read."""
    return replace(session, read=0, steps=tuple(replace(step, read=0, others=()) for step in session.steps))


def searched(
    reader: HashReader, questions: list[Question], variant: Variant, config: RocchioConfig
) -> list[RocchioSession]:
    return [session for [session] in rocchio_sessions(ENGINE, reader, questions, [variant], config)]


variants = st.builds(
    Variant,
    st.sampled_from(list(GRAMMARS.values())),
    *[st.sampled_from([0.0, 0.2, 0.4, 0.5])] * 2,
)
plans = st.builds(
    RocchioConfig,
    n=st.integers(1, 100),
    m=st.integers(1, 100),
    settings=st.builds(Settings, steps=st.integers(1, 20), hits=st.integers(1, 6), snippet=st.integers(5, 70)),
)


@pytest.mark.long
@settings(max_examples=60)
@given(st.integers(0, len(ASKED) - 4), st.integers(0, 1000), st.sampled_from([0, 0, 2, 3, 6, 20]), variants, plans)
def test_pruned_and_exhaustive_find_the_same_sessions(
    first: int, seed: int, levels: int, variant: Variant, config: RocchioConfig
) -> None:
    questions = ASKED[first : first + 4]
    lean, whole = HashReader(questions, seed, levels), HashReader(questions, seed, levels)
    pruned = searched(lean, questions, variant, config)
    every = searched(whole, questions, variant, replace(config, exhaustive=True))
    assert [course(session) for session in pruned] == [course(session) for session in every]
    assert lean.passages <= whole.passages
    for a, b in zip(pruned, every, strict=True):
        assert a.read <= b.read


@settings(max_examples=12)
@given(st.integers(0, len(ASKED) - 1), st.integers(0, 1000), st.sampled_from([0, 4]), variants)
def test_the_search_finds_what_one_query_a_candidate_finds(
    place: int, seed: int, levels: int, variant: Variant
) -> None:
    question, config = ASKED[place], RocchioConfig(n=15, m=10, settings=Settings(steps=5, snippet=30))
    [session] = searched(HashReader([question], seed, levels), [question], variant, config)
    slow = naive_session(ENGINE, HashReader([question], seed, levels), question, variant, config)
    assert [step.refinement for step in session.steps] == [refinement for refinement, _ in slow]
    for step, (_, score) in zip(session.steps, slow, strict=True):
        assert step.state.score == score


@pytest.mark.long
def test_any_engine_gives_the_sessions_of_the_embedded_one() -> None:
    questions = ASKED[:3]
    config = RocchioConfig(n=10, m=6, settings=Settings(steps=3))
    plain = ReferenceEngine(bundled_passages())
    expected = rocchio_sessions(ENGINE, HashReader(questions), questions, variants_of("G4"), config)
    assert rocchio_sessions(plain, HashReader(questions), questions, variants_of("G4"), config) == expected


@pytest.mark.long
def test_every_step_raises_the_score_and_no_runner_up_was_better() -> None:
    questions = ASKED[:20]
    steps = 0
    for own in rocchio_sessions(ENGINE, HashReader(questions), questions, variants_of("all"), RocchioConfig()):
        for session in own:
            assert session.start is not None
            before = session.start.score.total
            for step in session.steps:
                assert step.state.score.total > before
                before = step.state.score.total
                assert all(score <= before + 1e-12 for _, score in step.others)
                assert len(step.others) <= 32
                assert [score for _, score in step.others] == sorted((s for _, s in step.others), reverse=True)
                assert step.refinement not in [refinement for refinement, _ in step.others]
                steps += 1
    assert steps > 100


@pytest.mark.long
def test_a_session_is_the_same_in_any_company() -> None:
    questions = ASKED[10:22]
    grammars = variants_of("all")
    together = rocchio_sessions(ENGINE, HashReader(questions), questions, grammars, RocchioConfig())
    for place, question in enumerate(questions):
        alone = rocchio_sessions(ENGINE, HashReader(questions), [question], grammars[place % 5 :][:1], RocchioConfig())
        assert alone == [[together[place][place % 5]]]
    backwards = rocchio_sessions(ENGINE, HashReader(questions), questions[::-1], grammars[::-1], RocchioConfig())
    assert [own[::-1] for own in backwards[::-1]] == together


@pytest.mark.long
def test_all_grammars_of_a_question_share_what_is_read() -> None:
    questions = ASKED[:8]
    together = HashReader(questions)
    rocchio_sessions(ENGINE, together, questions, variants_of("all"), RocchioConfig())
    apart = 0
    for variant in variants_of("all"):
        reader = HashReader(questions)
        rocchio_sessions(ENGINE, reader, questions, [variant], RocchioConfig())
        apart += reader.passages
    assert together.passages < 0.5 * apart


def test_the_same_text_is_read_once_for_a_question() -> None:
    questions = ASKED[:8]
    reader = HashReader(questions)
    read: list[tuple[str, str, str]] = []
    inner = reader.read_many

    def noted(batch):  # type: ignore[no-untyped-def]
        read.extend((question, p.title, p.text) for question, passages in batch for p in passages)
        return inner(batch)

    reader.read_many = noted  # type: ignore[method-assign]
    rocchio_sessions(ENGINE, reader, questions, variants_of("all"), RocchioConfig())
    assert len(read) == len(set(read))


@pytest.mark.long
def test_pruned_reads_a_part_of_what_exhaustive_reads() -> None:
    questions = ASKED[:20]
    lean, whole = HashReader(questions), HashReader(questions)
    rocchio_sessions(ENGINE, lean, questions, variants_of("G4"), RocchioConfig())
    rocchio_sessions(ENGINE, whole, questions, variants_of("G4"), RocchioConfig(exhaustive=True))
    # The corpus is small: most of what candidates find, they all find.
    assert lean.passages < 0.85 * whole.passages


@pytest.mark.long
@pytest.mark.parametrize("budget", [1, 5, 20])
def test_a_read_budget_bounds_the_reading_of_every_step(budget: int) -> None:
    questions = ASKED[:20]
    sessions = searched(HashReader(questions), questions, Variant(G4), RocchioConfig(read_budget=budget))
    assert any(session.steps for session in sessions)
    for session in sessions:
        assert all(step.read <= budget for step in session.steps)
        assert session.start is not None
        totals = [session.start.score.total, *(step.state.score.total for step in session.steps)]
        assert all(after > before for before, after in pairwise(totals))


def test_a_session_that_the_budget_ended_does_not_pass_for_the_best() -> None:
    questions = ASKED[:20]
    capped = searched(HashReader(questions), questions, Variant(G4), RocchioConfig(read_budget=2))
    free = searched(HashReader(questions), questions, Variant(G4), RocchioConfig())
    assert {session.ended for session in free} == {"best"}
    assert {session.ended for session in capped} >= {"budget"}
    for session, whole in zip(capped, free, strict=True):
        assert session.ended != "best" or session.steps or not whole.steps


@pytest.mark.long
def test_a_budget_that_is_never_reached_changes_nothing() -> None:
    questions = ASKED[:10]
    free = searched(HashReader(questions), questions, Variant(G4), RocchioConfig())
    assert searched(HashReader(questions), questions, Variant(G4), RocchioConfig(read_budget=100_000)) == free


def test_limits_are_kept() -> None:
    questions = ASKED[:30]
    config = RocchioConfig(n=12, m=3, settings=Settings(steps=2))
    for session in searched(HashReader(questions), questions, Variant(G4), config):
        assert len(session.steps) <= 2
        assert session.ended != "steps" or len(session.steps) == 2
        # Eight operators, at most three tries each.
        assert all(step.candidates <= 8 * 3 for step in session.steps)


HARD = [
    *HARD_QUESTIONS,
    Question("nowhere", "who lit the first lamp on the reef", ("Napoleon Bonaparte",)),
    Question("stop-word-answer", "who lit the first lamp", ("It", "They", "and to the")),
    Question("some-stop-words", "who lit the first lamp", ("they", "Maren Holt")),
    Question("aliases", "who lit the first lamp", (*(f"Maren Holt {n}" for n in range(49)), "Maren Holt")),
    Question("long-answer", "who lit the first lamp", ("Maren Holt " * 40,)),
    Question("sign-answer", "who lit the first lamp", ("$%&", "…")),
]


def test_hard_questions_are_handled_or_skipped_and_say_why() -> None:
    engine = ReferenceEngine(PASSAGES)
    questions = [*QUESTIONS, *HARD]
    sessions = rocchio_sessions(engine, HashReader(questions), questions, variants_of("G0,G4"), RocchioConfig())
    ended = {question.id: {each.ended for each in own} for question, own in zip(questions, sessions, strict=True)}
    assert ended["q1"] == ended["aliases"] == ended["some-stop-words"] == {"best"}
    assert ended["q5"] == ended["no-answers"] == ended["empty-answers"] == {"no answer"}
    assert ended["nowhere"] == {"answer nowhere"}
    assert ended["stop-word-answer"] == ended["long-answer"] == {"no answer term"}
    assert ended["no-hits"] == ended["empty"] == {"no hits"}
    assert ended["too-many-words"] == {"error"}
    for own in sessions:
        for session in own:
            assert session.ended in SEARCHED or not session.steps


def test_a_query_that_cannot_take_another_clause_harms_no_other_session() -> None:
    engine = ReferenceEngine(PASSAGES)
    full = Question("full", "lamp " * 1024, ("Maren Holt",))
    [[hurt], [alone]] = rocchio_sessions(
        engine, HashReader([*QUESTIONS, full]), [full, QUESTIONS[0]], variants_of("G4"), RocchioConfig()
    )
    assert hurt.ended in ("error", "no answer term")
    assert alone.ended == "best"


@pytest.mark.long
def test_a_score_of_relevance_alone_and_one_of_ps_alone_can_be_raised() -> None:
    questions = ASKED[:20]
    for variant in (Variant(G3, 0.0, 0.0), Variant(G3, 1.0, 0.0), Variant(G3, 0.0, 1.0)):
        config = RocchioConfig(n=20, m=20)
        pruned = searched(HashReader(questions), questions, variant, config)
        every = searched(HashReader(questions), questions, variant, replace(config, exhaustive=True))
        assert [course(session) for session in pruned] == [course(session) for session in every]
        assert any(session.steps for session in pruned)


def test_a_used_term_is_not_used_again(engine: EmbeddedEngine) -> None:
    questions = ASKED[:30]
    for session in searched(HashReader(questions), questions, Variant(G0), RocchioConfig()):
        used: list[Refinement] = [step.refinement for step in session.steps]
        terms = [refinement.term for refinement in used]
        assert len(set(terms)) == len(terms)


@pytest.mark.long
def test_the_sessions_do_not_hang_on_the_size_of_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    from orienteer.rocchio import step_search as search

    questions = ASKED[:15]
    reads = []
    found = []
    for part in (10**9, 4, 1):
        monkeypatch.setattr(search, "_PART", part)
        reader = HashReader(questions)
        found.append([course(s) for s in searched(reader, questions, Variant(G4), RocchioConfig())])
        reads.append(reader.passages)
    assert found[0] == found[1] == found[2]
    assert reads[0] <= np.max(reads)


@pytest.mark.parametrize(("reuse", "without"), [(True, ()), (False, ("+c", "-t")), (True, ("-c", "-t"))])
def test_sessions_may_use_a_term_again_or_lack_an_operator(reuse: bool, without: tuple[str, ...]) -> None:
    config = RocchioConfig(
        n=12, m=8, settings=Settings(steps=6, snippet=30, reuse_terms=reuse), without=without
    )  # fmt: skip
    variant, usual_settings, taken, plain = Variant(G4), Settings(steps=6, snippet=30), [], []
    for place, question in enumerate(ASKED[:6]):
        [session] = searched(HashReader([question], place, 4), [question], variant, config)
        slow = naive_session(ENGINE, HashReader([question], place, 4), question, variant, config)
        assert [step.refinement for step in session.steps] == [refinement for refinement, _ in slow]
        taken.append([step.refinement for step in session.steps])
        [usual] = searched(HashReader([question], place, 4), [question], variant, RocchioConfig(12, 8, usual_settings))
        plain.append([step.refinement for step in usual.steps])
    assert not {f"{each.op}{each.field[0]}" for steps in taken for each in steps} & set(without)
    again = [len(steps) > len({each.term for each in steps}) for steps in taken]
    assert reuse or not any(again)
    assert (taken != plain) or not without
    assert RocchioConfig.from_dict(json.loads(json.dumps(config.as_dict()))) == config


def test_a_term_that_may_be_used_again_is_offered_again() -> None:
    first, again = Refinement("+", "contents", "lamp"), Refinement("^", "contents", "lamp", 4.0)
    for reuse in (False, True):
        environment = Environment(ENGINE, HashReader(ASKED, 0, 4), Settings(reuse_terms=reuse))
        sessions = environment.step(environment.open([Question("q", "who lit the lamp", ("nobody",))]), [first])
        [seen] = environment.observe(sessions)
        assert ("lamp" in {term.text for term in seen.terms}) == reuse
        assert (environment.objection(sessions[0], again) is None) == reuse
        assert ("lamp" in seen.used) != reuse


def test_an_operator_that_does_not_exist_cannot_be_left_out() -> None:
    with pytest.raises(RocchioError, match="'×c'"):
        RocchioConfig(without=("×c",))
    assert "without" not in RocchioConfig().as_dict()
    assert "reuse_terms" not in RocchioConfig().as_dict()["settings"]
