"""A tiny encoder, a small index, and its embeddings."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "session"))
sys.path.insert(0, str(Path(__file__).parent))

from bare_bert import save_bare
from small_world import PASSAGES

from orienteer.dense import TextEncoder, embed_index
from orienteer.engine import EmbeddedEngine, build_index, open_index


@pytest.fixture(scope="session")
def encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_bare(tmp_path_factory.mktemp("bare"))


@pytest.fixture(scope="session")
def encoder(encoder_folder: Path) -> TextEncoder:
    return TextEncoder.from_pretrained(encoder_folder, threads=1)


@pytest.fixture(scope="session")
def index_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lighthouses") / "index"
    build_index(PASSAGES, folder)
    return folder


@pytest.fixture(scope="session")
def engine(index_folder: Path) -> EmbeddedEngine:
    return open_index(index_folder, threads=1)


@pytest.fixture(scope="session")
def embeddings_folder(
    tmp_path_factory: pytest.TempPathFactory, engine: EmbeddedEngine, encoder: TextEncoder
) -> Path:  # fmt: skip
    folder = tmp_path_factory.mktemp("embeddings")
    embed_index(engine, encoder, folder, shard=5)
    return folder
