"""An index that follows a folder of documents: what was added, changed, moved and deleted since the last time.

What the index holds of each file (a hash of its content, its size and times, how many passages) is stored in the index
itself, in the array `sources` of its newest generation: passages and state change in one commit, so a sync that is
killed at any moment is done again by the next one. A file whose size and times are as they were is not read; any other
is read for its hash, and cut into passages only if that is new. The passages of a changed file come after all others,
as `update_index` puts them.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from orienteer.data import texts
from orienteer.data.compression import plain_name
from orienteer.data.passage import Passage
from orienteer.data.reading import Source, Unreadable, document_passages
from orienteer.data.split import Split
from orienteer.engine.embedded.build import Progress, build_index, delta_has_grown, update_index
from orienteer.engine.embedded.occupied import refuse_occupied
from orienteer.engine.embedded.segmented_index import SegmentedIndex, open_segments
from orienteer.engine.embedded.store import Manifest
from orienteer.errors import FolderEmptiedError, IndexCorruptError, IndexMissingError

VERSION = 1
POLL = 0.5  # seconds between two looks at a folder that is watched, or five times what a look takes
QUIET = 30.0  # seconds without a change after which a watched index is merged
_SETTLED = 2_000_000_000  # nanoseconds: a file changed more recently may change again without a new time
_TABLES = (".csv", ".tsv")

log = logging.getLogger("orienteer.engine")


@dataclass(frozen=True, slots=True)
class SyncedFile:
    """What the index holds of one file; `reason` where it could not be read. Times are nanoseconds, 0: not settled."""

    hash: str
    size: int
    modified: int
    changed: int
    passages: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SyncState:
    """All files of a folder as the index holds them, and how they were cut into passages."""

    split: Split
    files: Mapping[str, SyncedFile]

    def to_bytes(self) -> bytes:
        files = {name: list(asdict(each).values()) for name, each in self.files.items()}
        raw = {"version": VERSION, "words": self.split.words, "overlap": self.split.overlap, "files": files}
        return json.dumps(raw, ensure_ascii=False, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> SyncState:
        """Raises `IndexCorruptError` for what no sync wrote: an index may come from a stranger."""
        try:
            raw = json.loads(data)
            files = {str(name): SyncedFile(*row) for name, row in raw["files"].items()}
            split = Split(raw["words"], raw["overlap"])
            numbers = [raw["words"], raw["overlap"]]
            for each in files.values():
                numbers += [each.size, each.modified, each.changed, each.passages]
                if (
                    not isinstance(each.hash, str)
                    or not isinstance(each.reason, str)
                    or not 0 <= each.passages < 1 << 31
                ):
                    raise ValueError("a row of another type")
            if raw["version"] != VERSION or any(type(number) is not int for number in numbers):
                raise ValueError("another version")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise IndexCorruptError(
                "the state of the synced folder is damaged: sources; build the index again"
            ) from None
        return cls(split, files)


@dataclass(frozen=True, slots=True)
class SyncResult:
    """What a sync did. `unreadable`: every file of the folder that could not be read, also those of earlier syncs."""

    manifest: Manifest
    added: tuple[str, ...]
    changed: tuple[str, ...]
    moved: tuple[tuple[str, str], ...]  # from, to
    deleted: tuple[str, ...]
    unchanged: int
    unreadable: tuple[Unreadable, ...]
    seconds: float

    @property
    def is_new(self) -> bool:
        """Whether anything was committed."""
        return bool(self.added or self.changed or self.moved or self.deleted)


@dataclass
class _Plan:
    """The difference between a folder and what the index holds of it."""

    files: dict[str, SyncedFile] = field(default_factory=dict)  # of the new state, those that stay as they are
    read: dict[str, SyncedFile] = field(default_factory=dict)  # to be cut into passages
    moved: dict[str, str] = field(default_factory=dict)  # new name → old name
    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)


def sync_folder(
    folder: Path | str,
    out: Path | str,
    *,
    split: Split | None = None,
    threads: int = 2,
    force: bool = False,
    allow_empty: bool = False,
    progress: Progress = lambda done: None,
) -> SyncResult:
    """Makes the index `out` one of the documents of a folder as they are now; commits only if something is new.

    Passages of an index that are of no document stay. The documents of an index that was not made by a sync are read
    again. A folder without any file is refused where the index holds files of it, unless `allow_empty`: a disk that is
    not mounted looks like that.
    """
    folder, out, started = Path(folder), Path(out), time.perf_counter()
    split = split or Split()
    if not folder.is_dir():
        raise FolderEmptiedError(f"{folder}: no such folder; name the folder of documents to follow")
    index: SegmentedIndex | None = None
    try:
        index = open_segments(out)
    except IndexMissingError:
        if not force:
            refuse_occupied(out)
    state = SyncState.from_bytes(index.sources) if index is not None and index.sources else None
    known = state.files if state is not None and state.split == split else {}
    plan = _plan(folder, out, known)
    if state is not None and state.files and not (plan.files or plan.read) and not allow_empty:
        raise FolderEmptiedError(
            f"{folder} holds no document, and the index {out} holds {len(state.files):,} of it: is the folder mounted? "
            "Nothing was changed; to empty the index give --allow-empty"
        )
    if state is not None and state.split != split:
        plan.changed, plan.added = [name for name in plan.added if name in state.files], []
        plan.deleted = [name for name in state.files if name not in plan.read]
    if index is not None and state is not None and not (plan.read or plan.moved or plan.deleted):
        return _result(index.manifest, plan, plan.files, started)
    files = dict(plan.files)
    passages = _new_passages(folder, plan, index, known, files, split)

    def sources() -> bytes:
        return SyncState(split, files).to_bytes()

    if index is None:
        manifest = build_index(passages, out, threads=threads, progress=progress, sources=sources)
    else:
        old = state.files if state is not None else {}
        gone = [*plan.deleted, *plan.changed, *plan.moved.values()]
        ids = [f"{name}#{number}" for name in gone for number in range(1, old[name].passages + 1)]
        delete = [id for id in ids if index.number(id) is not None] if state is not None else index.passages_of()
        manifest = update_index(
            out, add=passages, delete=delete, threads=threads, progress=progress, sources=sources,
            opened=index,
        )  # fmt: skip
    return _result(manifest, plan, files, started)


def watch_folder(
    folder: Path | str,
    out: Path | str,
    *,
    split: Split | None = None,
    threads: int = 2,
    force: bool = False,
    allow_empty: bool = False,
    stop: Callable[[], bool] = lambda: False,
    poll: float = POLL,
    quiet: float = QUIET,
) -> Iterator[SyncResult]:
    """Syncs, and syncs again whenever a file of the folder has changed, until `stop`; gives what each sync did.

    It looks at the times of all files twice a second, or less often where that takes long. A delta that has grown is
    merged while nothing changes. While the folder is gone or empty the index stays as it was, unless `allow_empty`.
    """
    seen: dict[str, tuple[int, int, int]] | None = None
    pause, since, merged = poll, time.monotonic(), False
    while not stop():
        started = time.perf_counter()
        now = _facts(Path(folder), Path(out)) if seen is None or Path(folder).is_dir() else {}
        if now != seen:
            try:
                result = sync_folder(
                    folder, out, split=split, threads=threads, force=force, allow_empty=allow_empty
                )  # fmt: skip
            except FolderEmptiedError as error:
                if seen is None:
                    raise
                log.warning("%s", error)
                seen = now
                time.sleep(pause)
                continue
            first, seen, since, merged = seen is None, now, time.monotonic(), False
            if result.is_new or first:
                yield result
        else:
            if not merged and time.monotonic() - since > quiet:
                merged = True
                merge_if_worth_it(out, threads=threads)
            pause = max(poll, 5 * (time.perf_counter() - started))
        time.sleep(pause)


def merge_if_worth_it(out: Path | str, *, threads: int = 2) -> bool:
    """Makes one segment of an index whose delta has grown."""
    if not delta_has_grown(open_segments(out)):
        return False
    update_index(out, threads=threads, merge=True)
    return True


def _facts(folder: Path, out: Path) -> dict[str, tuple[int, int, int]]:
    """Size and times of every file, by its name in the folder."""
    skipped = out.resolve()
    found = {}
    for path in texts.folder_files(folder):
        try:
            facts = path.stat()
        except OSError:
            continue  # gone since it was listed, or a link to nothing
        if skipped not in path.resolve().parents:
            found[path.relative_to(folder).as_posix()] = facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns
    return found


def _plan(folder: Path, out: Path, known: Mapping[str, SyncedFile]) -> _Plan:
    plan = _Plan()
    settled = time.time_ns() - _SETTLED
    for name, (size, modified, changed) in _facts(folder, out).items():
        old = known.get(name)
        if old is not None and (old.size, old.modified, old.changed) == (size, modified, changed):
            plan.files[name] = old
            continue
        try:
            content = texts.file_hash(folder / name) if (folder / name).is_file() else ""
        except OSError:
            content = ""  # reading it for its passages says why
        if max(modified, changed) > settled:
            changed = 0
        new = SyncedFile(content, size, modified, changed, 0)
        if old is not None and content and old.hash == content and _day(old.modified) == _day(modified):
            plan.files[name] = replace(new, passages=old.passages, reason=old.reason)
            continue
        (plan.added if old is None else plan.changed).append(name)
        plan.read[name] = new
    gone = [name for name in known if name not in plan.files and name not in plan.read]
    by_hash = {known[name].hash: name for name in reversed(gone) if known[name].hash}
    for name in list(plan.added):
        if (old_name := by_hash.pop(plan.read[name].hash, None)) is not None:
            plan.added.remove(name)
            gone.remove(old_name)
            plan.moved[name] = old_name
    plan.deleted = gone
    return plan


def _day(nanoseconds: int) -> str:
    """What a document without a date of its own is dated by."""
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC).strftime("%Y-%m-%d")


def _new_passages(
    folder: Path, plan: _Plan, index: SegmentedIndex | None, known: Mapping[str, SyncedFile],
    files: dict[str, SyncedFile], split: Split,
) -> Iterator[Passage]:  # fmt: skip
    """The passages of all files to be read, in the order of their names; `files` learns how many each has."""
    for name, new in sorted(plan.read.items(), key=lambda each: Path(each[0]).parts):
        count, reason = 0, ""
        moved = _moved_passages(index, known, plan.moved.get(name), name, new)
        if moved is not None:
            count = len(moved)
            yield from moved
        else:
            failed: list[Unreadable] = []
            format = "document" if texts.is_document(Path(name)) else "unknown"
            source = Source(folder / name, format, name)  # type: ignore[arg-type]
            for _, _, passage in document_passages(source, split, failed.append):
                count += 1
                yield passage
            reason = failed[0].reason if failed else ""
        files[name] = replace(new, passages=count, reason=reason)


def _moved_passages(
    index: SegmentedIndex | None, known: Mapping[str, SyncedFile], old_name: str | None, name: str, new: SyncedFile
) -> list[Passage] | None:
    """The passages of a file that was moved to another folder under its own name, from the index; None: read it.

    Where the name is another, titles may be: such a file is read again.
    """
    if index is None or old_name is None:
        return None
    old, path = known[old_name], PurePosixPath(name)
    table = Path(plain_name(Path(path.name))).suffix.lower() in _TABLES  # its columns are metadata as well
    if old.reason or path.name != PurePosixPath(old_name).name or _day(old.modified) != _day(new.modified) or table:
        return None
    passages = []
    for count in range(1, old.passages + 1):
        if (number := index.number(f"{old_name}#{count}")) is None:
            return None
        stored = index.passage(number)
        metadata: dict[str, Any] = {"file": name}
        if path.parent.as_posix() != ".":
            metadata["folder"] = path.parent.as_posix()
        metadata |= {key: value for key, value in stored.metadata.items() if key not in ("file", "folder")}
        passages.append(Passage(f"{name}#{count}", stored.title, stored.text, metadata))
    return passages


def _result(manifest: Manifest, plan: _Plan, files: Mapping[str, SyncedFile], started: float) -> SyncResult:
    unreadable = tuple(Unreadable(name, each.reason) for name, each in sorted(files.items()) if each.reason)
    return SyncResult(
        manifest, tuple(plan.added), tuple(plan.changed), tuple((old, new) for new, old in plan.moved.items()),
        tuple(plan.deleted), len(plan.files), unreadable, time.perf_counter() - started,
    )  # fmt: skip
