"""Interrupts every call that changes a file, one after the other: the old state or the new one, and a clear error.

A library that is preloaded (crash_shim.c, compiled when this starts) counts the calls of write, fsync, rename, unlink,
mkdir, truncate and creating open under a folder. Each operation is done once for every such call, in a fork:

kill     SIGKILL before the call
EIO      the call fails with an input/output error
ENOSPC   the call and every further one of its kind fail: the disk is full and stays so

Afterwards the state must be the one before or the one after, whole, and one that a next writer goes on from. A failed
call must have been reported as an `OrienteerError`, or have left the new state (a failed clean-up does no harm).

    orienteer bench crash-points --out crash-points.json
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SHIM = "ORIENTEER_CRASH_SHIM"
MODES = {"kill": signal.SIGKILL.value, "EIO": errno.EIO, "ENOSPC": errno.ENOSPC}
_REFUSED, _FAILED = 3, 4  # exit codes of a fork


@dataclass(frozen=True)
class Operation:
    """`prepare` makes the old state at a path, `perform` changes it, `state` names what is there, whole or raises."""

    prepare: Callable[[Path], None]
    perform: Callable[[Path], None]
    state: Callable[[Path], str]


@dataclass
class Outcome:
    tried: int = 0
    found: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def operations(folder: Path, only: str) -> dict[str, Operation]:
    """All operations, or those of one kind."""
    kinds: dict[str, Callable[[], dict[str, Operation]]] = {
        "session": lambda: {"session save": _session_save()},
        "training": _checkpoint,
        "index": lambda: _index_operations(folder),
        "sync": lambda: _sync_operations(folder),
    }
    return {name: each for kind, make in kinds.items() if only in ("", kind) for name, each in make().items()}


def _index_operations(folder: Path) -> dict[str, Operation]:
    from faults import OPERATIONS, Plan, state_of

    plan = Plan.make(folder, 60, 13)

    def operation(name: str) -> Operation:
        return Operation(lambda path: plan.prepare(name, path), lambda path: plan.perform(name, path), state_of)

    first = Operation(Path.mkdir, lambda path: plan.perform("build", path), state_of)
    return {"index first build": first, **{f"index {name}": operation(name) for name in OPERATIONS}}


def _sync_operations(folder: Path) -> dict[str, Operation]:
    """The first sync of a folder, and one after files were changed, added, moved and deleted, which writes a delta."""
    from faults import NOTHING, make_passages, state_of
    from orienteer.engine.embedded.folder_sync import SyncState, sync_folder
    from orienteer.engine.embedded.segmented_index import open_segments

    texts = [passage.text or "nothing" for passage in make_passages(40, 17)]
    before = {f"{number}.txt": text for number, text in enumerate(texts[:36])}
    after = {**before, "0.txt": texts[36], "new.txt": texts[37], "moved.txt": before["1.txt"]}
    del after["1.txt"], after["2.txt"]
    for name, files in (("before", before), ("after", after)):
        (folder / name).mkdir()
        for file, text in files.items():
            (folder / name / file).write_text(text)

    def state(path: Path) -> str:
        """Passages and files; not the times of the files, which are noted only once they are some seconds old."""
        if (fingerprint := state_of(path)) == NOTHING:
            return NOTHING
        files = SyncState.from_bytes(open_segments(path).sources).files
        return json.dumps([fingerprint, {name: [file.hash, file.passages] for name, file in sorted(files.items())}])

    def sync(name: str, path: Path) -> None:
        sync_folder(folder / name, path)

    def perform_delta(path: Path) -> None:
        sync("after", path)
        assert open_segments(path).manifest.base is not None, "a small change is to be a delta"

    return {
        "first sync": Operation(Path.mkdir, lambda path: sync("before", path), state),
        "sync": Operation(lambda path: sync("before", path), perform_delta, state),
    }


def _session_save() -> Operation:
    from orienteer.data.passage import Question
    from orienteer.serve.sessions import SessionStore
    from orienteer.session import Record, Settings, to_line
    from orienteer.session.record import Provenance

    def a_record(question: str) -> Record:
        return Record(Provenance("bm25", "", "", Settings()), Question("q", question), (), {}, None, "")

    def save(path: Path, question: str) -> None:
        SessionStore(path, 10).save("a-session", a_record(question))

    def state(path: Path) -> str:
        return to_line(SessionStore(path, 10).load("a-session")).decode()

    return Operation(lambda path: save(path, "before"), lambda path: save(path, "after " * 5000), state)


def _checkpoint() -> dict[str, Operation]:
    try:
        import torch
    except ImportError:
        print("no torch: training checkpoints are left out", file=sys.stderr)
        return {}
    from orienteer.training import checkpoint

    torch.set_num_threads(1)  # a fork has no threads of its parent

    def parts() -> tuple[Any, Any]:
        torch.manual_seed(0)
        model = torch.nn.Linear(200, 100)
        return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def save(path: Path, step: int) -> None:
        model, optimizer = parts()
        checkpoint.save(path, model, optimizer, {"step": step})

    def state(path: Path) -> str:
        return str(checkpoint.load(path, *parts())[0]["step"])

    return {"training checkpoint": Operation(lambda path: save(path, 1), lambda path: save(path, 2), state)}


def try_all(name: str, operation: Operation, mode: str, folder: Path, stride: int) -> Outcome:
    """The operation with each of its calls interrupted in turn."""
    outcome, path, point, hit = Outcome(), folder / "victim", 0, True
    shutil.rmtree(path, ignore_errors=True)
    operation.prepare(path)
    before = operation.state(path)
    copy = folder / "sound"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(path, copy)
    operation.perform(path)
    after = operation.state(path)
    while hit:
        shutil.rmtree(path)
        shutil.copytree(copy, path)
        code, hit = _in_fork(operation, path, point, mode)
        where = f"{name}, {mode} at call {point}"
        try:
            found = operation.state(path)
        except Exception as error:
            outcome.failures.append(f"{where}: {type(error).__name__}: {error}")
            found = ""
        if found and found not in (before, after):
            outcome.failures.append(f"{where}: neither the old state nor the new one")
        if code == _FAILED or (mode != "kill" and hit and code == 0 and found != after):
            outcome.failures.append(f"{where}: no clear error (exit {code})")
        try:
            if found != after:
                operation.perform(path)  # whoever comes next goes on
            if operation.state(path) != after:
                outcome.failures.append(f"{where}: the next writer makes another state")
        except Exception as error:
            outcome.failures.append(f"{where}: the next writer fails: {error}")
        if hit:
            outcome.tried += 1
            outcome.found["new" if found == after else "old"] += 1
        point += stride
    return outcome


def _in_fork(operation: Operation, path: Path, point: int, mode: str) -> tuple[int, bool]:
    """The exit code of a fork that performs the operation, and whether the call was reached."""
    shim = ctypes.CDLL(os.environ[SHIM])
    pid = os.fork()
    if pid == 0:
        code = _FAILED
        try:
            from orienteer.errors import OrienteerError

            sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115
            shim.crash_arm(str(path).encode(), ctypes.c_long(point), MODES[mode], int(mode == "ENOSPC"))
            try:
                operation.perform(path)
                code = 0
            except OrienteerError:
                code = _REFUSED
            finally:
                reached = shim.crash_hits() > 0
                shim.crash_arm(b"/nowhere", ctypes.c_long(-1), 0, 0)
            code += 16 * (not reached)
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return (code, True) if code < 0 else (code % 16, code < 16)


def run(out: Path | None = None, stride: int = 1, as_json: bool = False, only: str = "") -> bool:
    """Tries every point and prints what was found; True where nothing was lost. `only`: one kind."""
    if sys.platform != "linux" or shutil.which("cc") is None:
        from orienteer.errors import OrienteerError

        raise OrienteerError("crash points need Linux and a C compiler named cc")
    if SHIM not in os.environ:
        with tempfile.TemporaryDirectory(prefix="orienteer-shim-") as name:
            shim = Path(name) / "shim.so"
            source = Path(__file__).with_name("crash_shim.c")
            subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", shim, source, "-ldl"], check=True)
            command = [sys.executable, __file__, "--stride", str(stride), *(["--json"] if as_json else [])]
            command += [*(["--out", str(out)] if out else []), *(["--only", only] if only else [])]
            environment = {**os.environ, "LD_PRELOAD": str(shim), SHIM: str(shim)}
            return subprocess.run(command, env=environment).returncode == 0
    from orienteer.engine.embedded.warmup import warm_up

    warm_up()
    started, rows, failures = time.monotonic(), [], []
    with tempfile.TemporaryDirectory(prefix="orienteer-crash-") as name:
        for operation, each in operations(Path(name), only).items():
            for mode in MODES:
                outcome = try_all(operation, each, mode, Path(name), stride)
                rows.append({"operation": operation, "fault": mode, "points": outcome.tried, **outcome.found})
                failures += outcome.failures
                print(f"{operation}, {mode}: {outcome.tried} points, {len(outcome.failures)} lost", file=sys.stderr)
                seconds = round(time.monotonic() - started, 1)
                result = {"stride": stride, "points": rows, "failures": failures, "seconds": seconds}
                if out is not None:  # after every row: a killed run has a report too
                    out.write_text(json.dumps(result, indent=1) + "\n")
    if as_json:
        print(json.dumps(result))
    for failure in failures[:20]:
        print(failure, file=sys.stderr)
    return not failures


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--only", default="", choices=("", "session", "training", "index", "sync"))
    parser.add_argument("--json", action="store_true", dest="as_json")
    sys.exit(0 if run(**vars(parser.parse_args())) else 1)


if __name__ == "__main__":
    main()
