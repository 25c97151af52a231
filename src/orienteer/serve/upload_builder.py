"""An index of uploaded files, in a process of its own: python -m orienteer.serve.upload_builder FILES INDEX SKIPPED

A file may be anything. What its reader does to this process harms no server: memory and processor time are bounded, and
the server goes on without a file at which the process died. Progress is told on stdout, a JSON object a line.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from orienteer.data import Split, Unreadable, read_passages, texts
from orienteer.data.passage import Passage
from orienteer.data.reading import Source, document_passages
from orienteer.engine import build_index
from orienteer.errors import DataError, OrienteerError

MEMORY = 8 << 30  # bytes of address space
SECONDS = 1800  # of processor time
_TOLD_EVERY = 200  # passages

Tell = Callable[[dict[str, Any]], None]


def main(files: Path, index: Path, skipped: Path) -> int:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    os.nice(5)

    def tell(row: dict[str, Any]) -> None:
        print(json.dumps(row), flush=True)

    left_out = {name for name in skipped.read_text().splitlines() if name}
    try:
        passages = build(files, index, tell, left_out)
    except MemoryError:
        tell({"error": "the files need more memory than an upload may use; drop fewer at a time"})
        return 1
    except (OrienteerError, OSError) as error:
        tell({"error": str(error)})
        return 1
    tell({"done": True, "passages": passages})
    return 0


def build(files: Path, index: Path, tell: Tell, left_out: set[str] | frozenset[str] = frozenset()) -> int:
    """Indexes every file of the folder that can be read; `tell` is called with progress and unreadable files."""
    found = [path for path in texts.folder_files(files) if path.relative_to(files).as_posix() not in left_out]
    return build_index(_all_passages(found, files, tell), index, threads=1).passages


def _all_passages(found: list[Path], root: Path, tell: Tell) -> Iterator[Passage]:
    seen: set[str] = set()
    count = 0
    for number, path in enumerate(found):
        name = path.relative_to(root).as_posix()
        tell({"file": name, "number": number, "files": len(found), "passages": count})
        twice = 0
        for passage in _passages(path, name, lambda each: tell({"unreadable": each.file, "reason": each.reason})):
            if passage.id in seen:
                twice += 1
                continue
            seen.add(passage.id)
            count += 1
            if count % _TOLD_EVERY == 0:
                tell({"file": name, "number": number, "files": len(found), "passages": count})
            yield passage
        if twice:
            tell({"unreadable": name, "reason": f"{twice:,} of its passages have the ids of others, and are left out"})
    if not count:
        raise DataError("nothing in these files can be read; the list says why")


def _passages(path: Path, name: str, on_unreadable: Callable[[Unreadable], None]) -> Iterator[Passage]:
    if texts.is_document(path):
        for _, _, passage in document_passages(Source(path, "document", name), Split(), on_unreadable):
            yield passage
        return
    bad: Counter[str] = Counter()
    try:
        yield from read_passages([path], skip_bad=True, on_bad=lambda error: bad.update([str(error)]))
    except DataError as error:
        on_unreadable(Unreadable(name, str(error).removeprefix(f"{path}: ")))
    if bad:
        first = next(iter(bad)).removeprefix(f"{path}:")
        on_unreadable(Unreadable(name, f"{bad.total():,} of its rows; the first is line {first}"))


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:4])))
