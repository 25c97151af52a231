"""A MuZero of a few thousand random weights over the tiny pointer's encoder and head."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "pointer"))

from tiny_networks import SIZES, random_tensors
from tiny_pointer import CONFIG as BERT
from tiny_pointer import pointer_tensors, pointer_tokenizer

from orienteer.agents.muzero.config import Config, SearchSettings, TrainingConfig
from orienteer.agents.muzero.grammar import query_grammar
from orienteer.agents.muzero.model_files import PretrainedEncoder, save_folder
from orienteer.models.model_folder import Tensors
from orienteer.query import GRAMMARS

CONFIG = Config(
    networks=replace(SIZES, policy_prior=True),
    search=SearchSettings(simulations=10, children=20),
    training=TrainingConfig(
        batch=8, episodes=3, updates=3, replay_size=60, steps=3, guided_share=0.9, learning_rate=1e-3
    ),
)


def tiny_base() -> PretrainedEncoder:
    tokenizer = pointer_tokenizer()
    bert = {**BERT, "vocab_size": tokenizer.get_vocab_size()}
    return PretrainedEncoder(bert, pointer_tensors(), tokenizer.to_str(), True, "tiny")


def save_muzero(folder: Path, config: Config = CONFIG, seed: int = 0, more: Tensors | None = None) -> Path:
    """`more` are tensors beside the others, as those of a value model."""
    base = tiny_base()
    grammar = query_grammar(GRAMMARS[config.grammar], config.shape, config.fields)
    whole, width = base.encoding_sizes
    own = random_tensors(config.networks, len(grammar), seed, whole, width, base.word_embeddings.shape[1])
    named = {f"muzero.{name}": value for name, value in own.items()}
    save_folder(folder, base.bert, {**base.tensors, **(more or {}), **named}, base.tokenizer, config, cloned=True)
    return folder
