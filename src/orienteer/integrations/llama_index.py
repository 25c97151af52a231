"""A LlamaIndex retriever: the passages that a search agent finds for a question (extra: llama-index).

retriever = OrienteerRetriever(Researcher.open("my-index"))
retriever.retrieve("who wrote war and peace")
"""

from __future__ import annotations

from orienteer.errors import MissingExtraError
from orienteer.integrations.researcher import Researcher, about

try:
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
except ImportError:
    raise MissingExtraError("llama-index-core", "llama-index") from None


class OrienteerRetriever(BaseRetriever):
    """A node a passage, best first, its score PS; its metadata tell the answer and the query that found it."""

    def __init__(self, researcher: Researcher, k: int = 5) -> None:
        self._researcher, self._k = researcher, k
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        [session] = self._researcher.sessions([query_bundle.query_str])
        return [
            NodeWithScore(
                node=TextNode(id_=each.passage.id, text=each.passage.text, metadata=about(each, session)),
                score=float(each.reading.score),
            )
            for each in session.best[: self._k]
        ]
