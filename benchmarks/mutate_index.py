"""Mutated indexes for `mutate.py`: samples of several shapes, changes to them, and all that one can ask."""

from __future__ import annotations

import copy
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mutate import attempt
from orienteer.data.passage import Passage
from orienteer.engine.embedded import build, clauses
from orienteer.engine.embedded.build import build_index, update_index
from orienteer.engine.embedded.engine import EmbeddedEngine, open_index
from orienteer.engine.embedded.index import Index, verify_index
from orienteer.engine.embedded.kernels.stream import SPARE
from orienteer.engine.embedded.store import (
    FORMAT,
    LOCK,
    MANIFEST,
    SEGMENTED,
    VERSION,
    _canonical,
    _digest,
    _header,
    _rendered,
    open_latest,
    read_manifest,
)
from orienteer.engine.embedded.warmup import warm_up
from orienteer.engine.sharded.engine import ShardedEngine
from orienteer.engine.sharded.shard_transport import LocalTransport
from orienteer.query import G4, Query, Refinement, parse

build.delta_limit = lambda passages: passages // 4  # small indexes have deltas, too
WORDS = "green muppet street trash grouch lives in a can on the seven elmo bird big cookie é日本 x7".split()
QUERIES = [
    parse(text)
    for text in (
        "green muppet street", "who lives in the trash can", "+muppet green", "+title:green -contents:trash elmo",
        'green +"muppet street"', '"trash can"^4 grouch', '-"green muppet" street bird', 'title:"green muppet"^2 é日本',
        'unknownword +elmo "big bird" "cookie street" "green trash"', "-green", "+nothing",
    )
]  # fmt: skip


@dataclass(frozen=True)
class Sample:
    """An index as data; `tricks` are done to its files after they are written. A delta has its base."""

    arrays: dict[str, NDArray[Any]]
    raw: dict[str, Any]  # the manifest, without its entries of files
    headers: dict[str, tuple[str, Any]] = field(default_factory=dict)  # name: type and shape that are claimed instead
    tricks: tuple[tuple[str, str], ...] = ()
    recomputed: bool = True  # the manifest's checksum
    base: Sample | None = None

    def write(self, path: Path) -> None:
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        (path / LOCK).touch()
        raw = {"format": FORMAT, "version": VERSION, **self.raw}
        if self.base is not None:
            older = {name: value for name, value in self.base.raw.items() if name != "settings"}
            raw |= {"version": SEGMENTED, "base": {**older, "files": self.base.write_arrays(path)}}
        raw["files"] = self.write_arrays(path)
        raw["checksum"] = _digest(_canonical(raw)) if self.recomputed else "0" * 32
        (path / MANIFEST).write_bytes(_rendered(raw))
        for sample in (self, self.base) if self.base is not None else (self,):
            for trick, name in sample.tricks:
                TRICKS[trick](path, sample.folder(path) / f"{name}.npy")

    def folder(self, path: Path) -> Path:
        generation = self.raw.get("generation")
        plain = type(generation) is int and abs(generation) < 10**12
        return path / f"generation-{generation if plain else 1:06d}"

    def write_arrays(self, path: Path) -> dict[str, Any]:
        """The files of a generation; their entries in the manifest."""
        folder, files = self.folder(path), {}
        folder.mkdir(exist_ok=True)
        for name, array in self.arrays.items():
            dtype, shape = self.headers.get(name, (array.dtype.str, [array.size]))
            header = _any_header(dtype, shape)
            data = header + array.tobytes()
            (folder / f"{name}.npy").write_bytes(data)
            files[f"{name}.npy"] = {"dtype": dtype, "shape": shape, "bytes": len(data), "blake2b": _digest(data)}
        return files


def _any_header(dtype: str, shape: Any) -> bytes:
    """The header of a type that may be none, as a stranger would write it."""
    try:
        return _header(np.dtype(dtype), *shape)
    except (TypeError, ValueError):
        return b"\x93NUMPY\x01\x00" + repr({"descr": dtype, "shape": shape}).encode().ljust(120)[:120]


# Changes to the files themselves


def _link(path: Path, file: Path) -> None:
    target = path / "elsewhere"
    target.write_bytes(file.read_bytes())
    file.unlink()
    file.symlink_to(target)


def _pipe(path: Path, file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def _folder(path: Path, file: Path) -> None:
    file.unlink()
    file.mkdir()


def _cut(path: Path, file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def _huge(path: Path, file: Path) -> None:
    os.truncate(file, 1 << 40)  # sparse


def _manifest_link(path: Path, file: Path) -> None:
    (path / MANIFEST).rename(path / "elsewhere")
    (path / MANIFEST).symlink_to("elsewhere")


def _manifest_pipe(path: Path, file: Path) -> None:
    (path / MANIFEST).unlink()
    os.mkfifo(path / MANIFEST)


def _lock_pipe(path: Path, file: Path) -> None:
    (path / LOCK).unlink()
    os.mkfifo(path / LOCK)


def _lock_link(path: Path, file: Path) -> None:
    (path / LOCK).unlink()
    (path / LOCK).symlink_to(path / "victim")


def _generation_link(path: Path, file: Path) -> None:
    file.parent.rename(path / "elsewhere")
    file.parent.symlink_to(path / "elsewhere")


TRICKS: dict[str, Callable[[Path, Path], None]] = {
    "link": _link, "pipe": _pipe, "folder": _folder, "cut": _cut, "huge": _huge, "manifest link": _manifest_link,
    "manifest pipe": _manifest_pipe, "lock pipe": _lock_pipe, "lock link": _lock_link,
    "generation link": _generation_link,
}  # fmt: skip


# Changes to arrays


def _values(rng: random.Random, array: NDArray[Any], sizes: list[int]) -> int:
    """A number at the edge of something."""
    info = np.iinfo(array.dtype)
    around = rng.choice([*sizes, 0, int(info.max), int(info.min), 1 << 15, 1 << 16, 1 << 31, 1 << 32, 1 << 40])
    return min(max(around + rng.choice((-2, -1, 0, 0, 1, 2)), int(info.min)), int(info.max))


def _set_one(rng: random.Random, array: NDArray[Any], sizes: list[int]) -> None:
    array[rng.choice((0, -1, rng.randrange(array.size)))] = _values(rng, array, sizes)


def _set_some(rng: random.Random, array: NDArray[Any], sizes: list[int]) -> None:
    low = rng.randrange(array.size)
    array[low : low + rng.randrange(1, 50)] = _values(rng, array, sizes)


def _nudge(rng: random.Random, array: NDArray[Any], sizes: list[int]) -> None:
    at = rng.randrange(array.size)
    with np.errstate(over="ignore"):
        array[at : at + rng.choice((1, 1, 5, array.size))] += np.array(rng.choice((1, 2, 7))).astype(array.dtype)


def _swap_two(rng: random.Random, array: NDArray[Any], sizes: list[int]) -> None:
    one, other = rng.randrange(array.size), rng.randrange(array.size)
    array[[one, other]] = array[[other, one]]


def _flip(rng: random.Random, array: NDArray[Any], sizes: list[int]) -> None:
    data = array.view(np.uint8)
    for _ in range(rng.choice((1, 1, 3, 20))):
        data[rng.randrange(data.size)] ^= 1 << rng.randrange(8)


def _reverse(rng: random.Random, array: NDArray[Any], sizes: list[int]) -> None:
    array[:] = array[::-1].copy()


def _fill(rng: random.Random, array: NDArray[Any], sizes: list[int]) -> None:
    array[:] = _values(rng, array, sizes)


def _copy_one(rng: random.Random, array: NDArray[Any], sizes: list[int]) -> None:
    array[rng.randrange(array.size)] = array[rng.randrange(array.size)]


IN_PLACE = (_set_one, _set_one, _set_one, _set_some, _nudge, _nudge, _swap_two, _flip, _reverse, _fill, _copy_one)
TYPES = ("|O", "<f8", "<i8", ">i8", "<u4", "<i4", "|u1", "<u2", "<U4", "|S0", "|V8", "<M8[s]", "nonsense", "")
SHAPES = ([], [2, 3], [-1], [1 << 62], ["3"], None, "ab", [None], [3.0], [True])
WRONG = (None, "7", 0.5, -1, [], {}, 1 << 62, 10**300, True, "../../etc")


DEEP = (
    "codes",
    "documents",
    "ids",
    "norms",
    "pairs",
    "ranked",
    "stream",
    "terms",
    "text",
    "window_starts",
    "window_best",
)


class IndexTarget:
    def __init__(self, folder: Path):
        warm_up()
        self._beside = folder / "beside"
        build_index([Passage("other", "green", "another muppet on a street")], self._beside, threads=1)
        self._samples = {name: _sample(folder / "sound", make) for name, make in SHAPES_OF_INDEXES.items()}
        wide = copy.deepcopy(self._samples["titles"])
        for name in ("codes", "best_codes", "window_best"):
            wide.arrays[name] = wide.arrays[name].astype("<u4")
        self._samples["wide codes"] = wide
        for name, sample in self._samples.items():
            told = self.use(sample, folder / "mutant", random.Random(0))
            assert not any(told.values()), f"the sound sample {name} was refused: {told}"

    def samples(self) -> dict[str, Sample]:
        return self._samples

    def mutate(self, sample: Sample, rng: random.Random) -> Sample:
        if sample.base is not None and rng.random() < 0.4:
            base = self.mutate(sample.base, rng)
            return replace(sample, base=base, tricks=() if base.tricks else sample.tricks)
        arrays = {name: array.copy() for name, array in sample.arrays.items()}
        raw, headers = copy.deepcopy(sample.raw), dict(sample.headers)
        tricks, recomputed = sample.tricks, sample.recomputed
        sizes = [array.size for array in arrays.values()]
        for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
            draw = rng.random()
            names = [name for name in DEEP if name in arrays] if rng.random() < 0.6 else sorted(arrays)
            name = rng.choice(names) if names else ""
            if draw < 0.72 and name:
                if arrays[name].size:
                    rng.choice(IN_PLACE)(rng, arrays[name], sizes)
            elif draw < 0.85 and name:
                arrays[name] = _resized(rng, arrays[name], arrays)
                if rng.random() < 0.7:
                    _follow(rng, name, arrays, raw)
            elif draw < 0.92:
                where = rng.choice((raw["counts"], raw["counts"], raw)) if isinstance(raw["counts"], dict) else raw
                key = rng.choice(sorted(where) or ["generation"])
                near = where[key] + rng.choice((-1, 1, 2)) if type(where.get(key)) is int else 0
                where[key] = rng.choice((near, near, near, *WRONG))
            elif draw < 0.97 and name:
                array = arrays[name]
                headers[name] = rng.choice(((rng.choice(TYPES), [array.size]), (array.dtype.str, rng.choice(SHAPES))))
            elif draw < 0.98 and name:
                if rng.random() < 0.5:
                    del arrays[name]
                else:
                    arrays[rng.choice(("extra", "../escape", "manifest", "é\n"))] = arrays[name]
            elif name:
                tricks = (*tricks, (rng.choice(sorted(TRICKS)), name))
                recomputed = rng.random() < 0.9
        arrays = {name: array for name, array in arrays.items() if "/" not in name}
        tricks = tuple(t for t in tricks if t[1] in arrays)[:1]
        base = None if sample.base is None else replace(sample.base, tricks=() if tricks else sample.base.tricks)
        return Sample(arrays, raw, headers, tricks, recomputed, base)

    def use(self, sample: Sample, folder: Path, rng: random.Random) -> dict[str, str]:
        """Verify, open, search, phrases, refine, explain, statistics, as a shard, add and delete."""
        sample.write(folder)
        told = {"verify": attempt(lambda: verify_index(folder))}
        engines: list[EmbeddedEngine] = []
        told["open"] = attempt(lambda: engines.append(open_index(folder, threads=1)))
        for engine in engines:
            told |= self._ask(engine, rng)
        if rng.random() < 0.3:
            told["shards"] = attempt(lambda: self._as_shard(folder))
        if not engines or rng.random() < 0.5:
            told["add"] = attempt(lambda: _add(folder, engines[0].index if engines else None))
        return told

    def _ask(self, engine: EmbeddedEngine, rng: random.Random) -> dict[str, str]:
        clauses.PHRASE_COST = rng.choice((0, 40_000))  # phrases one by one, or all in one pass
        hits: list[str] = []
        told = {}
        for k in (3, 200):
            told[f"search {k}"] = attempt(
                lambda k=k: [hits.extend(hit.id for hit in engine.search(query, k)) for query in QUERIES]  # type: ignore[misc]
            )
        terms = ["green", "muppet", "street", "trash can", "green muppet", "é日本", "nothing"]
        refinements = [r for term in terms for at in ("contents", "title") for r in G4.refinements(at, term)]  # type: ignore[arg-type]
        for name, query in (("plain", QUERIES[0]), ("must", QUERIES[2]), ("phrases", QUERIES[5])):
            told[f"refine {name}"] = attempt(lambda query=query: list(engine.refine(query, refinements, 5)))  # type: ignore[misc]
        some = sorted(set(hits))[:5]
        told["explain"] = attempt(lambda: [engine.explain(query, hit) for query in QUERIES[:8] for hit in some])
        told["passages"] = attempt(lambda: engine.passages(some))
        told["terms"] = attempt(lambda: _statistics(engine, some))
        told["unknown id"] = attempt(lambda: engine.passage_terms("no such id"))
        return told

    def _as_shard(self, folder: Path) -> None:
        transport = LocalTransport([folder, self._beside])
        try:
            engine = ShardedEngine(transport)
            engine.check_ids()
            for query in QUERIES[:7]:
                engine.passages([hit.id for hit in engine.search(query, 3)])
            engine.refine(QUERIES[0], [Refinement("+", "contents", "street"), Refinement("-", "title", "green")], 3)
        finally:
            transport.close()


def _statistics(engine: EmbeddedEngine, ids: list[str]) -> None:
    for hit in ids:
        for number in engine.passage_terms(hit).tolist()[:20]:
            engine.term(number)
            engine.term_idf(number)
            engine.term_probability(number)
    engine.idf("title", "green")
    engine.term_numbers(WORDS)


def _add(folder: Path, index: Index | None) -> None:
    deleted = [index.id(0)] if index is not None and index.size else []
    update_index(folder, add=[Passage("new one", "green", "a new muppet é日本 zebra")], delete=deleted, threads=1)
    engine = open_index(folder, threads=1)
    [hit] = engine.search(Query("zebra"), 3)
    engine.passages([hit.id])


def _resized(rng: random.Random, array: NDArray[Any], arrays: dict[str, NDArray[Any]]) -> NDArray[Any]:
    kind = rng.randrange(5)
    if kind == 0:
        return array[: rng.randrange(array.size + 1)]
    if kind == 1:
        return array[:-1]
    if kind == 2:
        more = array[-1:] if array.size else np.zeros(1, array.dtype)
        return np.concatenate([array, np.repeat(more, rng.choice((1, 1, 2, 100)))])
    if kind == 3:
        return array[:0]
    other = arrays[rng.choice(sorted(arrays))]
    return other.astype(array.dtype)


def _follow(rng: random.Random, name: str, arrays: dict[str, NDArray[Any]], raw: dict[str, Any]) -> None:
    """Make counts and neighbours fit a resized array, so that only what it holds can be refused."""
    counts = raw["counts"]
    if not isinstance(counts, dict):
        return
    size = arrays[name].size
    if name in ("documents", "codes"):
        counts["postings"] = size
        for other in ("documents", "codes"):
            if other in arrays:
                arrays[other] = np.resize(arrays[other], size)
        if "offsets" in arrays and arrays["offsets"].size:
            arrays["offsets"][-1] = size
    if name == "stream" and "stream_ends" in arrays and arrays["stream_ends"].size:
        arrays["stream_ends"][-1] = 32 * (size - SPARE)
    for ends, data in (("text_ends", "text"), ("id_ends", "ids"), ("term_ends", "terms")):
        if name == data and ends in arrays and arrays[ends].size:
            arrays[ends][-1] = size


def _sample(folder: Path, make: Callable[[Path], object]) -> Sample:
    shutil.rmtree(folder, ignore_errors=True)
    make(folder)
    manifest, segments = open_latest(folder)
    parts = [manifest] if manifest.base is None else [manifest.base, manifest]
    sample: Sample | None = None
    for number, (part, arrays) in enumerate(zip(parts, segments, strict=True), 1):
        raw = {"generation": number, "settings": dict(part.settings), "counts": dict(part.counts)}
        sample = Sample({name: np.array(array) for name, array in arrays.items()}, raw, base=sample)
    assert sample is not None
    return sample


def _passages(count: int, words: int, seed: int = 1) -> list[Passage]:
    rng = random.Random(seed)
    return [
        Passage(f"p{number}", " ".join(rng.choices(WORDS, k=rng.randrange(4))), " ".join(rng.choices(WORDS, k=words)))
        for number in range(count)
    ]


def _updated(path: Path) -> None:
    build_index(_passages(30, 8), path, threads=1)
    update_index(path, add=[Passage("added", "", "green muppet")], delete=["p3", "p7"], threads=1)


def _with_delta(path: Path) -> None:
    """Two segments: some passages of the base are deleted, the delta has others."""
    build_index(_passages(40, 12), path, threads=1)
    new = [Passage(f"new{number}", "green", "a muppet é日本 on the street") for number in range(6)]
    update_index(path, add=new, delete=["p3", "p7"], threads=1)
    assert read_manifest(path).base is not None


SHAPES_OF_INDEXES: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: build_index([], path, threads=1),
    "one": lambda path: build_index([Passage("é", "green muppet", "green muppet street")], path, threads=1),
    "titles": lambda path: build_index(_passages(40, 12), path, threads=1),
    "phrases": lambda path: build_index(_passages(12, 150, 2), path, threads=1),
    "windows": lambda path: build_index(_passages(2100, 5, 3), path, threads=1),
    "updated": _updated,
    "delta": _with_delta,
}
