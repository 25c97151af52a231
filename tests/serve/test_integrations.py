"""The three adapters, each in a small chain of its own library."""

from __future__ import annotations

import pytest
from lexical_reader import LexicalReader
from small_world import QUESTIONS

from orienteer.api import Searcher
from orienteer.engine import EmbeddedEngine
from orienteer.integrations import find_passages

QUESTION = QUESTIONS[0].question


@pytest.fixture
def searcher(engine: EmbeddedEngine) -> Searcher:
    return Searcher(engine, reader=LexicalReader(), agent="prf-answer", steps=3)


@pytest.fixture
def best(searcher: Searcher) -> list[str]:
    return [each.id for each in searcher.ask(QUESTION).passages]


def test_the_langchain_retriever_runs_in_a_chain(searcher: Searcher, best: list[str]) -> None:
    pytest.importorskip("langchain_core", reason="needs the extra langchain")
    from langchain_core.documents import Document
    from langchain_core.language_models import FakeListChatModel
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.runnables import RunnablePassthrough

    from orienteer.integrations.langchain import OrienteerRetriever

    retriever = OrienteerRetriever(searcher=searcher, k=3)
    documents = retriever.invoke(QUESTION)
    assert [document.id for document in documents] == best[:3]
    assert documents[0].metadata["answer"]
    assert documents[0].metadata["query"].startswith(QUESTION)
    several = retriever.batch([QUESTION, QUESTIONS[1].question])
    assert [document.id for document in several[0]] == best[:3]

    def joined(documents: list[Document]) -> str:
        return "\n".join(document.page_content for document in documents)

    prompt = ChatPromptTemplate.from_template("{passages}\n\n{question}")
    model = FakeListChatModel(responses=["Maren Holt"])
    chain = {"passages": retriever | joined, "question": RunnablePassthrough()} | prompt | model | StrOutputParser()
    assert chain.invoke(QUESTION) == "Maren Holt"


def test_the_llama_index_retriever_runs_in_a_query_engine(searcher: Searcher, best: list[str]) -> None:
    pytest.importorskip("llama_index.core", reason="needs the extra llama-index")
    from llama_index.core import get_response_synthesizer
    from llama_index.core.llms import MockLLM
    from llama_index.core.query_engine import RetrieverQueryEngine

    from orienteer.integrations.llama_index import OrienteerRetriever

    retriever = OrienteerRetriever(searcher, k=3)
    nodes = retriever.retrieve(QUESTION)
    assert [node.node.node_id for node in nodes] == best[:3]
    assert nodes[0].score == pytest.approx(nodes[0].metadata["ps"])
    synthesizer = get_response_synthesizer(llm=MockLLM(max_tokens=50))
    answer = RetrieverQueryEngine(retriever, response_synthesizer=synthesizer).query(QUESTION)
    assert [node.node.node_id for node in answer.source_nodes] == best[:3]


def test_the_pyterrier_transformer_runs_in_a_pipeline_and_an_experiment(searcher: Searcher, best: list[str]) -> None:
    pytest.importorskip("pyterrier", reason="needs the extra pyterrier")
    import pandas as pd
    import pyterrier as pt

    from orienteer.integrations.pyterrier import OrienteerRetriever

    topics = pd.DataFrame({"qid": ["1", "2"], "query": [QUESTION, QUESTIONS[1].question]})
    agent = OrienteerRetriever(searcher)
    ranked = agent(topics)
    assert list(ranked[ranked.qid == "1"].docno) == best
    assert list(ranked[ranked.qid == "1"]["rank"]) == [0, 1, 2, 3, 4]
    assert len((agent % 2)(topics)) == 4
    assert agent(topics.iloc[:0]).empty
    qrels = pd.DataFrame({"qid": ["1", "2"], "docno": [best[0], "nowhere"], "label": [1, 1]})
    scores = pt.Experiment([agent], topics, qrels, ["recip_rank"])
    assert scores["recip_rank"][0] == pytest.approx(0.5)


def test_a_blank_question_finds_nothing_and_spoils_no_other(searcher: Searcher, best: list[str]) -> None:
    blank, passages = find_passages(searcher, [" ", QUESTION], 3)
    assert blank == ()
    assert [each.id for each in passages] == best[:3]
