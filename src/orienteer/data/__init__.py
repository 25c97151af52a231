"""Passages and questions, in and out: JSONL, DPR's TSV, BEIR, SQuAD, documents of every format."""

from orienteer.data.jsonl import write_jsonl
from orienteer.data.passage import Passage, Question
from orienteer.data.reading import Unreadable, find_ids, read_passages, read_qrels, read_questions
from orienteer.data.rows import BadRows
from orienteer.data.split import Split

__all__ = [
    "BadRows", "Passage", "Question", "Split", "Unreadable",
    "find_ids", "read_passages", "read_qrels", "read_questions", "write_jsonl",
]  # fmt: skip
