"""Passages and questions, in and out: JSONL, DPR's TSV, BEIR, SQuAD, folders of texts."""

from orienteer.data.jsonl import write_jsonl
from orienteer.data.passage import Passage, Question
from orienteer.data.reading import find_ids, read_passages, read_qrels, read_questions
from orienteer.data.rows import BadRows

__all__ = [
    "BadRows", "Passage", "Question",
    "find_ids", "read_passages", "read_qrels", "read_questions", "write_jsonl",
]  # fmt: skip
