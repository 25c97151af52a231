"""Which refinements a step tries, and in which order."""

from __future__ import annotations

from small_world import PASSAGES, QUESTIONS

from orienteer.engine import ReferenceEngine
from orienteer.query import G0, G2, G4, GRAMMARS
from orienteer.rocchio.vocabulary import Sigma, Vocabulary, Word, candidates, ideal_queries, split
from orienteer.session import Environment, Lexicon, Settings

ENGINE = ReferenceEngine(PASSAGES)


class Still:
    fingerprint = "still"

    def read(self, question, passages):  # type: ignore[no-untyped-def]
        return self.read_many([(question, passages)])[0]

    def read_many(self, batch):  # type: ignore[no-untyped-def]
        from orienteer.reader.protocol import Reading

        return [[Reading(0.5, 0.0, p.text[:5], 0, 5) for p in passages] for _, passages in batch]


def sigma(n: int = 100) -> Sigma:
    environment = Environment(ENGINE, Still(), Settings(snippet=70))
    [observation] = environment.observe(environment.open(QUESTIONS[:1]))
    return Vocabulary(ENGINE).sigma(observation, n)


SIGMA = Sigma(
    (Word("title", "reef"), Word("contents", "lamp"), Word("contents", "reef"), Word("contents", "storm"),
     Word("title", "point")),
    {
        Word("title", "reef"): ("title",), Word("contents", "lamp"): ("question", "snippet"),
        Word("contents", "reef"): ("snippet",), Word("contents", "storm"): ("snippet",),
        Word("title", "point"): ("title",),
    },
)  # fmt: skip
IDEAL = {Word("title", "reef"), Word("contents", "lamp"), Word("contents", "reef")}


def told(grammar: str, m: int = 100) -> list[str]:
    return [str(each.refinement) for each in candidates(SIGMA, IDEAL, GRAMMARS[grammar], m)]


def test_words_are_pairs_of_field_and_term_by_idf_in_their_field() -> None:
    words = sigma().words
    assert Word("title", "ardle") in words
    assert Word("contents", "reef") in words
    idf = [ENGINE.idf(word.field, word.term) for word in words]
    assert idf == sorted(idf, reverse=True)
    assert sigma(7).words == words[:7]
    assert sigma().sources[Word("contents", "reef")] == ("question", "snippet")


def test_up_is_what_the_ideal_results_share_and_down_is_the_rest() -> None:
    assert split(SIGMA, IDEAL) == (list(SIGMA.words[:3]), list(SIGMA.words[3:]))


def test_only_minus_takes_words_that_the_ideal_results_lack() -> None:
    assert told("G2") == [
        '+(title:"reef")', '+(contents:"lamp")', '+(contents:"reef")', '-(contents:"storm")', '-(title:"point")',
    ]  # fmt: skip


def test_operators_are_tried_in_the_order_of_algorithm_1() -> None:
    order = list(
        dict.fromkeys((each.refinement.op, each.refinement.weight) for each in candidates(SIGMA, IDEAL, G4, 9))
    )
    assert order == [("+", 1), ("-", 1), ("^", 0.1), ("^", 2), ("^", 4), ("^", 6), ("^", 8), ("or", 1)]


def test_the_plain_term_has_no_field_and_is_tried_once() -> None:
    [reef, lamp] = candidates(SIGMA, IDEAL, G0, 100)
    assert (reef.refinement.field, reef.refinement.term) == ("contents", "reef")
    assert reef.sources == ("title", "snippet")
    assert lamp.sources == ("question", "snippet")


def test_no_operator_is_tried_more_than_m_times() -> None:
    assert told("G2", 1) == ['+(title:"reef")', '-(contents:"storm")']
    assert len(candidates(SIGMA, IDEAL, G4, 2)) == 8 * 2


def test_every_grammar_tries_what_it_allows() -> None:
    for name, grammar in GRAMMARS.items():
        allowed = {(operator.op, operator.weight) for operator in grammar.operators}
        found = {(each.refinement.op, each.refinement.weight) for each in candidates(SIGMA, IDEAL, grammar, 100)}
        assert found == allowed, name
    assert candidates(Sigma((), {}), IDEAL, G2, 5) == []


def test_there_is_one_ideal_query_for_each_distinct_answer_that_can_be_asked() -> None:
    from orienteer.data import Question

    lexicon = Lexicon(ENGINE)
    question = Question(
        "x", "who lit it", ("Maren Holt", "maren  holt.", "the Maren Holt", "it", "", "Lind", "y" * 300)
    )
    assert [str(query) for query in ideal_queries(question, lexicon)] == [
        'who lit it +(contents:"Maren Holt")', 'who lit it +(contents:"Lind")',
    ]  # fmt: skip
