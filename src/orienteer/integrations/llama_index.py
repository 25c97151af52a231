"""A LlamaIndex retriever: the passages that a search agent finds for a question (extra: llama-index).

retriever = OrienteerRetriever(Searcher.open("my-index"))
retriever.retrieve("who wrote war and peace")
"""

from __future__ import annotations

from orienteer.api import Searcher
from orienteer.errors import MissingExtraError
from orienteer.integrations import find_passages, metadata

try:
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
except ImportError:
    raise MissingExtraError("llama-index-core", "llama-index") from None


class OrienteerRetriever(BaseRetriever):
    """A node a passage, best first, its score PS; its metadata have the answer and the query that found it."""

    def __init__(self, searcher: Searcher, k: int = 5) -> None:
        self._searcher, self._k = searcher, k
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        [passages] = find_passages(self._searcher, [query_bundle.query_str], self._k)
        return [
            NodeWithScore(node=TextNode(id_=each.id, text=each.text, metadata=metadata(each)), score=each.ps)
            for each in passages
        ]
