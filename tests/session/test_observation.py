"""What an agent sees, and which terms it may use."""

from __future__ import annotations

from small_world import QUESTIONS, Wanderer, minus, plus

from orienteer.data.passage import Question
from orienteer.engine import EmbeddedEngine
from orienteer.engine.embedded.analysis import STOP_WORDS
from orienteer.reader import snippet
from orienteer.session import Environment, Observation, Session, Settings
from orienteer.session.observation import STOP_LIST, is_stop_word


def moment(environment: Environment, question: str, *actions: object) -> tuple[Session, Observation]:
    [session] = environment.open([Question("q", question)])
    for action in actions:
        [session] = environment.step([session], [action])  # type: ignore[list-item]
    [observation] = environment.observe([session])
    return session, observation


def test_the_stop_list_is_some_180_function_words_and_holds_the_analysers() -> None:
    assert 170 <= len(STOP_LIST) <= 190
    assert STOP_WORDS <= STOP_LIST
    assert is_stop_word("don’t")
    assert not is_stop_word("lamp")


def test_an_observation_shows_the_best_passages_with_title_answer_score_and_snippet(environment: Environment) -> None:
    session, observation = moment(environment, "who lit the first lamp on the reef")
    assert [each.id for each in observation.passages] == [each.passage.id for each in session.best]
    first, best = observation.passages[0], session.best[0]
    assert (first.title, first.answer, first.score) == ("Ardle Light", "Ardle Light", best.reading.score)
    assert first.snippet == snippet(best.passage.text, best.reading.start, best.reading.end, 30)


def test_snippets_have_as_many_words_as_the_settings_say(engine: EmbeddedEngine, environment: Environment) -> None:
    short = Environment(engine, environment.reader, Settings(snippet=4))
    _, observation = moment(short, "who lit the first lamp on the reef")
    assert max(len(each.snippet.split()) for each in observation.passages) == 4


def test_terms_are_index_terms_of_question_titles_answers_and_snippets(environment: Environment) -> None:
    _, observation = moment(environment, "who lit the first lamp on the reef")
    sources = {term.text: set(term.sources) for term in observation.terms}
    assert sources["lamp"] == {"question", "snippet"}
    assert sources["ardle"] == {"title", "answer", "snippet"}
    assert "keeper" in sources
    assert not {"who", "the", "on", "its"} & set(sources), "stop words are not offered"


def test_a_term_that_no_passage_has_is_not_offered(environment: Environment) -> None:
    _, observation = moment(environment, "lamp zyxwv")
    offered = [term.text for term in observation.terms]
    assert "lamp" in offered
    assert "zyxwv" not in offered
    assert "zyxwv" in observation.idf


def test_a_used_term_is_not_offered_again_even_after_a_dead_end(environment: Environment) -> None:
    _, observation = moment(environment, "lamp", plus("Tower"), plus("halcyon"), minus("storm"))
    assert observation.used == {"tower", "halcyon", "storm"}
    assert not observation.used & {term.text for term in observation.terms}


def test_idf_is_that_of_contents(environment: Environment, engine: EmbeddedEngine) -> None:
    _, observation = moment(environment, "who lit the first lamp on the reef")
    for term in observation.terms:
        assert term.idf == observation.idf[term.text] == engine.idf("contents", term.text)


def test_an_observation_does_not_know_the_answers(environment: Environment) -> None:
    with_answers = environment.observe(environment.open(QUESTIONS))
    bare = [Question(question.id, question.question) for question in QUESTIONS]
    assert environment.observe(environment.open(bare)) == with_answers


def test_every_step_of_every_session_has_a_seed_of_its_own(environment: Environment) -> None:
    sessions, seeds = environment.open(QUESTIONS), []
    for _ in range(3):
        observations = environment.observe(sessions)
        seeds += [observation.seed for observation in observations]
        sessions = environment.step(sessions, Wanderer().act(observations))
    assert len(set(seeds)) == len(seeds)
    other = Environment(environment.engine, environment.reader, Settings(seed=1))
    assert other.observe(other.open(QUESTIONS))[0].seed not in seeds


def test_an_observation_reads_as_text(environment: Environment) -> None:
    _, observation = moment(environment, "lamp", plus("tower"))
    text = str(observation)
    assert text.startswith('Question: lamp\nRefinement: +(contents:"tower")\n1. ')
    assert "Dunmore Tower (PS " in text
