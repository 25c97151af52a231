"""A LangChain retriever: the passages that a search agent finds for a question (extra: langchain).

retriever = OrienteerRetriever(searcher=Searcher.open("my-index"))
retriever.invoke("who wrote war and peace")
"""

from __future__ import annotations

from typing import Any

from orienteer.api import Searcher
from orienteer.errors import MissingExtraError
from orienteer.integrations import find_passages, metadata

try:
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from pydantic import ConfigDict
except ImportError:
    raise MissingExtraError("langchain-core", "langchain") from None


class OrienteerRetriever(BaseRetriever):
    """A document a passage, best first; its metadata have PS, the reader's answer and the query that found it."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    searcher: Searcher
    k: int = 5

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return self._documents([query])[0]

    def batch(self, inputs: list[str], config: Any = None, **kwargs: Any) -> list[list[Document]]:
        """All questions in one batch; with a config, one by one."""
        if config is not None or kwargs:
            return super().batch(inputs, config, **kwargs)  # type: ignore[no-any-return]
        return self._documents(inputs)

    def _documents(self, questions: list[str]) -> list[list[Document]]:
        return [
            [Document(page_content=each.text, id=each.id, metadata=metadata(each)) for each in passages]
            for passages in find_passages(self.searcher, questions, self.k)
        ]
