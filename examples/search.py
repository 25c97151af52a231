"""Build an index of a few documents, search it, and score several refinements of a query in one pass."""

import tempfile
from pathlib import Path

from orienteer import Searcher

documents = [
    {"id": "davy", "title": "Humphry Davy", "text": "Davy isolated sodium by electrolysis of caustic soda in 1807."},
    {"id": "sodium", "title": "Sodium", "text": "Sodium is a soft metal that reacts strongly with water."},
    {"id": "soda", "title": "Soda lake", "text": "A soda lake holds water rich in sodium carbonate."},
]

with tempfile.TemporaryDirectory() as folder:
    searcher = Searcher.index(documents, Path(folder) / "index")
    for hit in searcher.search("sodium +title:sodium"):
        print(f"{hit.score:6.3f}  {hit.title}: {hit.text}")
    refinements = ["+title:davy", "-contents:lake", "contents:electrolysis^4"]
    for refinement, hits in zip(refinements, searcher.refine("who isolated sodium", refinements), strict=True):
        print(f"{refinement:28} {[hit.id for hit in hits]}")
