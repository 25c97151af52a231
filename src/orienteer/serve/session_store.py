"""Saved sessions: one file each, as `orienteer show` reads it; written whole or not at all."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from orienteer.serve.errors import DiskFullError, UnknownSessionError
from orienteer.session import Record, RecordError, from_line, write_records

ID = re.compile(r"[A-Za-z0-9_-]{8,32}")


class SavedSessions:
    """A folder of session files, named by id. What is damaged is passed over in lists and told when asked for."""

    def __init__(self, folder: Path, most: int) -> None:
        self.folder, self._most = folder, most

    def save(self, id: str, record: Record) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self._file(id)
        if not file.exists() and sum(1 for _ in self.folder.glob("*.jsonl")) >= self._most:
            raise DiskFullError(f"{self._most} sessions are saved, more are not kept; delete some")
        write_records(file, [record])

    def load(self, id: str) -> Record:
        try:
            return _whole(from_line(self._file(id).read_bytes()))
        except OSError:
            raise UnknownSessionError(f"no session {id!r} is open or saved; it may have been deleted") from None

    def delete(self, id: str) -> bool:
        """Whether there was one."""
        try:
            self._file(id).unlink()
        except OSError:
            return False
        return True

    def __contains__(self, id: str) -> bool:
        return self._file(id).is_file()

    def newest(self, most: int) -> Iterator[tuple[str, float, Record]]:
        """Id, time of saving and record, the newest first."""
        found = []
        for file in self.folder.glob("*.jsonl"):
            try:
                found.append((file.stat().st_mtime, file))
            except OSError:  # deleted meanwhile
                continue
        for when, file in sorted(found, reverse=True)[:most]:
            try:
                yield file.stem, when, _whole(from_line(file.read_bytes()))
            except (OSError, RecordError):
                continue

    def _file(self, id: str) -> Path:
        if not ID.fullmatch(id):
            raise UnknownSessionError(f"{id!r} is not the id of a session")
        return self.folder / f"{id}.jsonl"


def _whole(record: Record) -> Record:
    """The record, if it can be shown: every passage that a step names is in it."""
    for step in record.steps:
        for id in (*step.best, *step.entered, *step.left):
            if str(id) not in record.passages:
                raise RecordError(f"a damaged record: a step names the passage {id!r}, which is not in it")
    return record
