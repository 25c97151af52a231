"""The reader's speed beside torch's: the same windows of real passages in the same batches, in the same run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from tokenizers import Tokenizer

from orienteer.data import Passage
from orienteer.errors import MissingExtraError
from orienteer.reader.encoding import Window, encode
from orienteer.reader.folder import SHIPPED, load_folder
from orienteer.reader.runtime import TrainedReader

Pairs = Sequence[tuple[str, Sequence[Passage]]]
_Run = Callable[[list[Window]], object]


def bench_speed(
    pairs: Pairs, folder: Path | None = None, threads: int = 1, rounds: int = 5
) -> dict[str, dict[str, float]]:
    """Passages per second and per CPU second: CTranslate2 int8 and float32, torch float32 where it is installed.

    The contenders take turns batch by batch, so that another program's load falls on all of them; each batch
    counts with its fastest round. Windows are cut beforehand: that cost is the same for all.
    """
    files = load_folder(folder or SHIPPED)
    tokenizer = Tokenizer.from_str(files.tokenizer)
    windows = [w for row in encode(tokenizer, pairs) for passage in row for w in passage]
    batches = [[windows[i] for i in group] for group in length_groups(windows)]
    contenders: dict[str, _Run] = {
        "int8": TrainedReader(files, "int8", threads).run,
        "float32": TrainedReader(files, "float32", threads).run,
    }
    with suppress(MissingExtraError):
        contenders["torch float32"] = _torch(folder or SHIPPED, threads)
    wall, cpu = dict.fromkeys(contenders, 0.0), dict.fromkeys(contenders, 0.0)
    for batch in batches:
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
        for _ in range(rounds):
            for name, run in contenders.items():
                clock, spent = time.perf_counter(), time.process_time()
                run(batch)
                times[name].append((time.perf_counter() - clock, time.process_time() - spent))
        for name, found in times.items():
            wall[name] += min(seconds for seconds, _ in found)
            cpu[name] += min(seconds for _, seconds in found)
    passages = sum(len(found) for _, found in pairs)
    return {name: {"passages/s": passages / wall[name], "passages/CPU s": passages / cpu[name]} for name in contenders}


def _torch(folder: Path, threads: int) -> _Run:
    try:
        import torch

        from orienteer.reader.model import ReaderModel, tensors_of
    except ImportError:
        raise MissingExtraError("torch", "train") from None
    model = ReaderModel.from_pretrained(folder).eval()

    def run(windows: list[Window]) -> object:
        torch.set_num_threads(threads)
        with torch.inference_mode():
            return model(*tensors_of([w.ids for w in windows], [w.question_size for w in windows]))

    return run


def length_groups(windows: Sequence[Window]) -> Iterator[list[int]]:
    """Places of windows, shortest first, in groups that padding hardly swells and caches can hold."""
    group: list[int] = []
    for i in sorted(range(len(windows)), key=lambda i: len(windows[i].ids)):
        if group and (len(group) == 32 or (len(group) + 1) * len(windows[i].ids) > 2048):
            yield group
            group = []
        group.append(i)
    if group:
        yield group
