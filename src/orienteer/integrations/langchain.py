"""A LangChain retriever: the passages that a search agent finds for a question (extra: langchain).

retriever = OrienteerRetriever(researcher=Researcher.open("my-index"))
retriever.invoke("who wrote war and peace")
"""

from __future__ import annotations

from typing import Any

from orienteer.errors import MissingExtraError
from orienteer.integrations.researcher import Researcher, about

try:
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from pydantic import ConfigDict
except ImportError:
    raise MissingExtraError("langchain-core", "langchain") from None


class OrienteerRetriever(BaseRetriever):
    """A document a passage, best first; its metadata tell PS, the reader's answer and the query that found it."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    researcher: Researcher
    k: int = 5

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return self._documents([query])[0]

    def batch(self, inputs: list[str], config: Any = None, **kwargs: Any) -> list[list[Document]]:
        """All questions in lock-step; with a config of its own each is asked by itself."""
        if config is not None or kwargs:
            return super().batch(inputs, config, **kwargs)  # type: ignore[no-any-return]
        return self._documents(inputs)

    def _documents(self, questions: list[str]) -> list[list[Document]]:
        return [
            [
                Document(page_content=each.passage.text, id=each.passage.id, metadata=about(each, session))
                for each in session.best[: self.k]
            ]
            for session in self.researcher.sessions(questions)
        ]
