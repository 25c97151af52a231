"""What `train t5` and `train answerer` ask for: a taught world, and a tiny BERT to start from."""

from __future__ import annotations

from pathlib import Path

import pytest
from taught_world import options, run, sessions_file, taught_world

__all__ = ["make_world", "options", "run", "sessions_file"]


def make_world(tmp_path: Path) -> dict[str, Path]:
    """A taught world, and a tiny BERT to start from."""
    pytest.importorskip("torch", reason="training needs the extra [train]")
    transformers = pytest.importorskip("transformers", reason="training needs the extra [train]")
    import tiny
    from tiny_seq2seq import seq2seq_tokenizer

    world = taught_world(tmp_path)
    tokenizer = seq2seq_tokenizer()
    settings = {**tiny.CONFIG, "max_position_embeddings": 512, "vocab_size": tokenizer.get_vocab_size()}
    transformers.BertModel(transformers.BertConfig(**settings)).save_pretrained(tmp_path / "base")
    tokenizer.save(str(tmp_path / "base" / "tokenizer.json"))
    return {**world, "base": tmp_path / "base"}
