"""The vectors of an index, in its own folder: made with it, kept up to date, opened with it.

    INDEX/vectors/0123456789abcdef/    embeddings (see `embeddings.py`) of the passages with this fingerprint

The name of the folder is that of the passages, so a reader never sees vectors of other passages than it searches. After
passages were added or deleted there is a new folder: vectors of passages that stayed are copied, those of new ones are
encoded, and the old folder is removed once the new one is complete. An index without vectors is untouched by all this.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from orienteer.dense.embed import EmbedWorkers, OnProgress, embed_index
from orienteer.dense.embeddings import (
    DenseError,
    Embeddings,
    EmbeddingsMissingError,
    Manifest,
    damaged_shards,
    read_manifest,
)
from orienteer.dense.encoder import Encoder
from orienteer.dense.search import EmbeddingRetriever
from orienteer.dense.static_encoder import open_encoder
from orienteer.engine.protocol import Engine, InFolder, StoresPassages

_FOLDER = "vectors"


def make_vectors(
    index: str | Path, encoder: Encoder, *, progress: OnProgress | None = None, workers: EmbedWorkers | None = None
) -> Manifest:
    """Vectors for all passages of an index, in its folder; goes on where an earlier run stopped."""
    from orienteer.engine import open_index

    engine = open_index(index)
    folder = _folder(Path(index), engine)
    others = [other for other in _folders(Path(index)) if other != folder]
    manifest = embed_index(
        engine, encoder, folder, progress=progress, workers=workers, known=_largest(others, encoder.fingerprint)
    )
    for other in others:
        shutil.rmtree(other, ignore_errors=True)
    return manifest


def encoder_address(index: str | Path) -> str | None:
    """The address of the encoder of an index's vectors, whatever passages they are of; None where it has none."""
    return next((read_manifest(folder).address for folder in _folders(Path(index))), None)


def has_vectors(engine: Engine) -> bool:
    """Whether a complete set of vectors lies beside the engine's index."""
    if not isinstance(engine, InFolder) or not isinstance(engine, StoresPassages) or engine.folder is None:
        return False
    try:
        return read_manifest(_folder(engine.folder, engine)).complete
    except DenseError:
        return False


def open_vectors(engine: Engine) -> EmbeddingRetriever:
    """Search by the vectors that lie beside the engine's index."""
    if not isinstance(engine, InFolder) or not isinstance(engine, StoresPassages) or engine.folder is None:
        raise EmbeddingsMissingError(
            f"a {type(engine).__name__} has no vectors of its own: they belong to an index in one folder"
        )
    folder = _folder(engine.folder, engine)
    try:
        embeddings = Embeddings.open(folder)
    except EmbeddingsMissingError:
        if folder.is_dir():
            raise
        raise EmbeddingsMissingError(
            f"the index {engine.folder} has no vectors of its passages; make them with "
            f"`orienteer index --out {engine.folder} --dense static`"
        ) from None
    return EmbeddingRetriever(engine, embeddings, open_encoder(embeddings.manifest.address))


def damaged_vectors(index: str | Path) -> list[str]:
    """Reads every byte of an index's vectors and returns the damaged files."""
    return [str(file) for folder in _folders(Path(index)) for file in damaged_shards(folder)]


def _folder(index: Path, engine: StoresPassages) -> Path:
    return index / _FOLDER / engine.passages_fingerprint[:16]


def _folders(index: Path) -> Iterator[Path]:
    """Every set of vectors of an index."""
    for manifest in sorted((index / _FOLDER).glob("*/embeddings.json")):
        yield manifest.parent


def _largest(folders: list[Path], encoder: str) -> Embeddings | None:
    """Of the sets by this encoder the one with most vectors, complete or not."""
    found = []
    for folder in folders:
        try:
            found.append(Embeddings.open(folder, partial=True))
        except DenseError:
            continue  # nothing of it can be copied
    fitting = [each for each in found if each.manifest.encoder == encoder]
    return max(fitting, key=lambda each: sum(map(len, each.shards.values())), default=None)
