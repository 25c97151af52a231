"""The three adapters, each in a small chain of its own library."""

from __future__ import annotations

from pathlib import Path

import pytest
from lexical_reader import LexicalReader
from small_world import PASSAGES, QUESTIONS
from tiny import save_tiny

from orienteer.engine import EmbeddedEngine, build_index
from orienteer.integrations.researcher import Researcher

QUESTION = QUESTIONS[0].question


@pytest.fixture
def researcher(engine: EmbeddedEngine) -> Researcher:
    return Researcher(engine, LexicalReader(), "prf-answer", steps=3)


@pytest.fixture
def best(researcher: Researcher) -> list[str]:
    [session] = researcher.sessions([QUESTION])
    return [each.passage.id for each in session.best]


def test_the_langchain_retriever_runs_in_a_chain(researcher: Researcher, best: list[str]) -> None:
    pytest.importorskip("langchain_core", reason="needs the extra langchain")
    from langchain_core.documents import Document
    from langchain_core.language_models import FakeListChatModel
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.runnables import RunnablePassthrough

    from orienteer.integrations.langchain import OrienteerRetriever

    retriever = OrienteerRetriever(researcher=researcher, k=3)
    found = retriever.invoke(QUESTION)
    assert [document.id for document in found] == best[:3]
    assert found[0].metadata["answer"]
    assert found[0].metadata["query"].startswith(QUESTION)
    several = retriever.batch([QUESTION, QUESTIONS[1].question])
    assert [document.id for document in several[0]] == best[:3]

    def joined(documents: list[Document]) -> str:
        return "\n".join(document.page_content for document in documents)

    prompt = ChatPromptTemplate.from_template("{passages}\n\n{question}")
    model = FakeListChatModel(responses=["Maren Holt"])
    chain = {"passages": retriever | joined, "question": RunnablePassthrough()} | prompt | model | StrOutputParser()
    assert chain.invoke(QUESTION) == "Maren Holt"


def test_the_llama_index_retriever_runs_in_a_query_engine(researcher: Researcher, best: list[str]) -> None:
    pytest.importorskip("llama_index.core", reason="needs the extra llama-index")
    from llama_index.core import get_response_synthesizer
    from llama_index.core.llms import MockLLM
    from llama_index.core.query_engine import RetrieverQueryEngine

    from orienteer.integrations.llama_index import OrienteerRetriever

    retriever = OrienteerRetriever(researcher, k=3)
    found = retriever.retrieve(QUESTION)
    assert [node.node.node_id for node in found] == best[:3]
    assert found[0].score == pytest.approx(found[0].metadata["ps"])
    synthesizer = get_response_synthesizer(llm=MockLLM(max_tokens=50))
    answer = RetrieverQueryEngine(retriever, response_synthesizer=synthesizer).query(QUESTION)
    assert [node.node.node_id for node in answer.source_nodes] == best[:3]


def test_the_pyterrier_transformer_runs_in_a_pipeline_and_an_experiment(
    researcher: Researcher, best: list[str]
) -> None:
    pytest.importorskip("pyterrier", reason="needs the extra pyterrier")
    import pandas as pd
    import pyterrier as pt

    from orienteer.integrations.pyterrier import OrienteerRetriever

    topics = pd.DataFrame({"qid": ["1", "2"], "query": [QUESTION, QUESTIONS[1].question]})
    agent = OrienteerRetriever(researcher)
    found = agent(topics)
    assert list(found[found.qid == "1"].docno) == best
    assert list(found[found.qid == "1"]["rank"]) == [0, 1, 2, 3, 4]
    assert len((agent % 2)(topics)) == 4
    assert agent(topics.iloc[:0]).empty
    qrels = pd.DataFrame({"qid": ["1", "2"], "docno": [best[0], "nowhere"], "label": [1, 1]})
    scores = pt.Experiment([agent], topics, qrels, ["recip_rank"])
    assert scores["recip_rank"][0] == pytest.approx(0.5)


def test_a_researcher_opens_an_index_and_a_reader_by_their_folders(tmp_path: Path) -> None:
    build_index(PASSAGES, tmp_path / "index")
    opened = Researcher.open(tmp_path / "index", steps=1, reader=save_tiny(tmp_path / "reader"))
    [session] = opened.sessions([QUESTION])
    assert len(session.best) == 5
