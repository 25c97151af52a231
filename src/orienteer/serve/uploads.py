"""Files that a client drops on the page become an index: names made safe, sizes bounded, built in another process.

    FOLDER/ID/files/…      what was sent, under safe names
    FOLDER/ID/index        the index of it
    FOLDER/ID/about.json   the name that it is served under

Nothing of a file's content is looked at in this process.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import shutil
import sys
import tempfile
import unicodedata
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orienteer.data import texts
from orienteer.data.compression import plain_name
from orienteer.engine import open_index
from orienteer.engine.embedded.current import CurrentEngines
from orienteer.errors import OrienteerError
from orienteer.serve.errors import ServeError

_ROWS = (".jsonl", ".json", ".ndjson")  # files of passages
_MAX_PART, _MAX_PARTS = 100, 6  # bytes of a name's part, folders deep
_SPARE = 256 << 20  # bytes of the disk that stay free
_CRASHES = 5  # files at which the builder may die before the upload is given up
_MAX_LINE = 1 << 16
UPLOAD_ID = re.compile(r"[0-9a-f]{16}")


class UploadError(ServeError):
    """An upload that this server does not take."""

    status = 422


class UnknownUploadError(ServeError):
    status = 404


class UploadFailedError(ServeError):
    """Files of which no index could be made."""

    status = 422


@dataclass(frozen=True, slots=True)
class UploadLimits:
    """Files of an upload; bytes of a file and of all uploads together; indexes kept; seconds of building."""

    files: int = 2_000
    file: int = 200 << 20
    total: int = 1 << 30
    indexes: int = 20
    seconds: float = 900.0


@dataclass(frozen=True, slots=True)
class UploadFile:
    """A file as it will be stored; `reason` where it is not taken."""

    name: str
    size: int
    reason: str = ""


@dataclass(slots=True)
class Upload:
    """`received` is bytes of each file so far; `index` is the name of the index once it is built."""

    id: str
    name: str
    files: tuple[UploadFile, ...]
    received: list[int] = field(default_factory=list)
    index: str = ""
    building: bool = False


class Uploads:
    """All uploads of a server, in one folder; a temporary one where none is given, which goes with the server."""

    def __init__(self, engines: CurrentEngines, folder: Path | None = None, limits: UploadLimits | None = None) -> None:
        self.engines, self.limits = engines, limits or UploadLimits()
        self._temporary = tempfile.TemporaryDirectory(prefix="orienteer-uploads-") if folder is None else None
        self.folder = Path(self._temporary.name) if self._temporary else folder or Path()
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._uploads: dict[str, Upload] = {}
        for upload in self._kept():
            self._uploads[upload.id] = upload

    @property
    def temporary(self) -> bool:
        return self._temporary is not None

    def close(self) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()

    def documents(self) -> dict[str, Path]:
        """Index name → the folder of its files."""
        return {each.index: self._place(each) / "files" for each in self._uploads.values() if each.index}

    def begin(self, name: str, files: Iterable[tuple[str, int]]) -> Upload:
        """A new upload: which files it will have, under which names, and which are not taken."""
        wanted = list(files)
        if len(wanted) > self.limits.files:
            raise UploadError(f"{len(wanted):,} files; this server takes {self.limits.files:,} at a time")
        taken = tuple(self._checked(wanted))
        size = sum(each.size for each in taken if not each.reason)
        if all(each.reason for each in taken):
            reasons = "; ".join(f"{each.name}: {each.reason}" for each in taken[:5])
            raise UploadError(f"no file that can be read: {reasons or 'none was named'}")
        self._drop_unfinished()
        if len(self._uploads) >= self.limits.indexes:
            raise UploadError(f"{len(self._uploads)} uploads are kept, more are not; delete one first")
        used = sum(file.size for each in self._uploads.values() for file in each.files if not file.reason)
        if used + size > self.limits.total:
            raise UploadError(
                f"{size / 1e6:,.0f} MB; this server keeps {self.limits.total / 1e6:,.0f} MB of uploads and has "
                f"{(self.limits.total - used) / 1e6:,.0f} MB left"
            )
        if shutil.disk_usage(self.folder).free < 3 * size + _SPARE:
            raise UploadError("the server's disk has too little space left for these files and their index")
        shown = safe_name(name).rpartition("/")[2] or Path(taken[0].name).stem
        upload = Upload(secrets.token_hex(8), shown[:60], taken, [0] * len(taken))
        (self._place(upload) / "files").mkdir(parents=True, mode=0o700)
        self._uploads[upload.id] = upload
        return upload

    def write(self, id: str, number: int, offset: int, data: bytes) -> int:
        """Appends a piece to a file; how many bytes it has now."""
        upload = self.get(id)
        if upload.building or upload.index:
            raise UploadError("this upload is complete; begin another")
        if not 0 <= number < len(upload.files) or upload.files[number].reason:
            raise UploadError(f"no file {number} is expected in this upload")
        file = upload.files[number]
        if offset != upload.received[number] or offset + len(data) > file.size:
            raise UploadError(
                f"{file.name}: {len(data):,} bytes at {offset:,}; expected those at {upload.received[number]:,} of "
                f"{file.size:,}"
            )
        path = self._place(upload) / "files" / file.name
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with path.open("ab" if offset else "xb") as out:
            out.write(data)
        upload.received[number] += len(data)
        return upload.received[number]

    def get(self, id: str) -> Upload:
        if id not in self._uploads:
            raise UnknownUploadError(f"no upload {id!r} is known here; drop the files again")
        return self._uploads[id]

    def of_index(self, index: str) -> Upload:
        found = next((each for each in self._uploads.values() if each.index == index), None)
        if found is None:
            raise UnknownUploadError(f"the index {index!r} was not made from an upload; it stays")
        return found

    def delete(self, id: str) -> None:
        """Forgets an upload, its files and its index; sessions that search it keep what they have open."""
        upload = self.get(id)
        if upload.building:
            raise UploadError("the index is being built; stop that first")
        if upload.index:
            self.engines.remove(upload.index)
        del self._uploads[id]
        shutil.rmtree(self._place(upload), ignore_errors=True)

    async def build(self, id: str) -> AsyncGenerator[dict[str, Any], None]:
        """Builds the index and serves it; progress as it comes, at last `index` with `unreadable` files.

        Closing the generator ends the builder.
        """
        upload = self.get(id)
        if upload.index or upload.building:
            raise UploadError("the index of this upload is made already, or being made")
        missing = [
            file.name for file, received in zip(upload.files, upload.received, strict=True)
            if not file.reason and received != file.size
        ]  # fmt: skip
        if missing:
            raise UploadError(f"{missing[0]} has not come whole; send it again")
        upload.building = True
        unreadable = {file.name: file.reason for file in upload.files if file.reason}
        try:
            passages = 0
            async with aclosing(self._build(upload, unreadable)) as rows:
                async for row in rows:
                    passages = row.get("passages", passages)
                    if "file" in row:
                        yield row
            engine = await asyncio.to_thread(open_index, self._place(upload) / "index")
            name = self._free_name(upload.name)
            about = {"name": name, "files": [[each.name, each.size, each.reason] for each in upload.files]}
            (self._place(upload) / "about.json").write_text(json.dumps(about))
            self.engines.add(name, engine)
            upload.index = name
        finally:
            upload.building = False
        left_out = [{"file": name, "reason": reason} for name, reason in unreadable.items()]
        yield {"index": upload.index, "passages": passages, "unreadable": left_out}

    async def _build(self, upload: Upload, unreadable: dict[str, str]) -> AsyncGenerator[dict[str, Any], None]:
        """Runs the builder; a file at which it dies is left out, and it begins again."""
        skipped: list[str] = []
        until = asyncio.get_running_loop().time() + self.limits.seconds
        while True:
            last = ""
            ended = False
            async with aclosing(self._one_run(upload, skipped, until)) as rows:
                async for row in rows:
                    if "unreadable" in row:
                        unreadable[str(row["unreadable"])] = str(row["reason"])
                    elif "error" in row:
                        reasons = "; ".join(f"{name}: {reason}" for name, reason in list(unreadable.items())[:5])
                        raise UploadFailedError(f"{row['error']}{f' ({reasons})' if reasons else ''}")
                    else:
                        last, ended = row.get("file", last), ended or "done" in row
                        yield row
            if ended:
                return
            if not last or len(skipped) >= _CRASHES:
                raise UploadFailedError("the index could not be built: its process ended before its time")
            skipped.append(last)
            unreadable[last] = "broken: its reader came to an end at it"

    async def _one_run(self, upload: Upload, skipped: list[str], until: float) -> AsyncGenerator[dict[str, Any], None]:
        place = self._place(upload)
        (place / "skipped").write_text("\n".join(skipped))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "orienteer.serve.upload_builder", str(place / "files"), str(place / "index"),
            str(place / "skipped"), stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL, limit=_MAX_LINE,
        )  # fmt: skip
        assert process.stdout is not None
        try:
            async with asyncio.timeout_at(until):
                while line := await process.stdout.readline():
                    yield json.loads(line)
                await process.wait()
        except TimeoutError:
            raise UploadFailedError(f"not built in {self.limits.seconds:g} seconds; drop fewer files") from None
        except ValueError:
            raise UploadFailedError("the builder said what cannot be read") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    def _checked(self, wanted: Iterable[tuple[str, int]]) -> Iterator[UploadFile]:
        names: set[str] = set()
        for raw, size in wanted:
            name = unique_name(safe_name(raw), names)
            reason = ""
            if _is_hidden(raw):
                reason = "a hidden file"
            elif not readable(name):
                reason = f"unknown type {Path(name).suffix or 'without a suffix'}"
            elif not size:
                reason = "the file is empty"
            elif size > self.limits.file:
                reason = f"{size / 1e6:,.0f} MB; this server takes files of {self.limits.file / 1e6:,.0f} MB"
            yield UploadFile(name, size, reason)

    def _drop_unfinished(self) -> None:
        """An upload that nobody builds makes room where there is none left."""
        if len(self._uploads) >= self.limits.indexes:
            for each in [each for each in self._uploads.values() if not each.index and not each.building]:
                self.delete(each.id)

    def _free_name(self, name: str) -> str:
        number, free = 1, name
        while free in self.engines:
            number += 1
            free = f"{name}-{number}"
        return free

    def _place(self, upload: Upload) -> Path:
        return self.folder / upload.id

    def _kept(self) -> Iterator[Upload]:
        """The uploads of an earlier server in this folder; one that cannot be opened is left alone."""
        for file in sorted(self.folder.glob("*/about.json")):
            if not UPLOAD_ID.fullmatch(file.parent.name):
                continue
            try:
                raw = json.loads(file.read_text())
                files = tuple(UploadFile(str(name), int(size), str(reason)) for name, size, reason in raw["files"])
                engine = open_index(file.parent / "index")
                name = self._free_name(str(raw["name"])[:80])
            except (OSError, ValueError, KeyError, TypeError, OrienteerError):
                continue
            self.engines.add(name, engine)
            yield Upload(file.parent.name, name, files, [each.size for each in files], name)


def readable(name: str) -> bool:
    """Whether the name is that of a format that can be read."""
    return texts.is_document(Path(name)) or plain_name(Path(name)).lower().endswith(_ROWS)


def safe_name(raw: str) -> str:
    """A relative path of at most a few folders, without what a file system, a terminal or a path could obey."""
    parts = []
    for part in re.split(r"[\\/]+", unicodedata.normalize("NFC", raw)):
        clean = "".join("_" if _is_unsafe(each) else each for each in part).strip().lstrip(".").rstrip(". ")
        if clean:
            parts.append(_shortened(clean))
    return "/".join(parts[-_MAX_PARTS:]) or "file"


def unique_name(name: str, taken: set[str]) -> str:
    """The name, or with a number where another has it already; `taken` gets it."""
    path, number, free = Path(name), 1, name
    while free.casefold() in taken:
        number += 1
        free = (path.parent / f"{path.stem} ({number}){path.suffix}").as_posix()
    taken.add(free.casefold())
    return free


def _is_hidden(raw: str) -> bool:
    return any(part.startswith(".") and part not in (".", "..") for part in re.split(r"[\\/]+", raw))


def _is_unsafe(character: str) -> bool:
    return unicodedata.category(character)[0] == "C" or character in '<>:"|?*'


def _shortened(part: str) -> str:
    if len(part.encode()) <= _MAX_PART:
        return part
    suffix = Path(part).suffix[:12]
    kept = part.encode()[: _MAX_PART - len(suffix.encode())].decode("utf-8", "ignore")
    return kept.rstrip(". ") + suffix
