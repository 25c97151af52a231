"""A MuZero of a few thousand random weights over the tiny pointer's encoder and head."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "pointer"))

from tiny_mind import SIZES, random_tensors
from tiny_pointer import CONFIG as BERT
from tiny_pointer import pointer_tensors, pointer_tokenizer

from orienteer.agents.muzero.config import Config, Training
from orienteer.agents.muzero.grammar import query_grammar
from orienteer.agents.muzero.mcts import SearchSettings
from orienteer.agents.muzero.model_files import save_folder
from orienteer.agents.muzero.pretrained import Base
from orienteer.models.model_folder import Tensors
from orienteer.query import GRAMMARS

CONFIG = Config(
    sizes=replace(SIZES, prior=True),
    search=SearchSettings(simulations=10, children=20),
    training=Training(batch=8, episodes=3, updates=3, replay=60, steps=3, advice=0.9, learning_rate=1e-3),
)


def tiny_base() -> Base:
    tokenizer = pointer_tokenizer()
    bert = {**BERT, "vocab_size": tokenizer.get_vocab_size()}
    return Base(bert, pointer_tensors(), tokenizer.to_str(), True, "tiny")


def save_muzero(folder: Path, config: Config = CONFIG, seed: int = 0, more: Tensors | None = None) -> Path:
    """`more` are tensors beside the others, as a weigher's."""
    base = tiny_base()
    grammar = query_grammar(GRAMMARS[config.grammar], config.shape, config.fields)
    whole, width = base.sizes
    own = random_tensors(config.sizes, len(grammar), seed, whole, width, base.words.shape[1])
    named = {f"muzero.{name}": value for name, value in own.items()}
    save_folder(folder, base.bert, {**base.tensors, **(more or {}), **named}, base.tokenizer, config, cloned=True)
    return folder
