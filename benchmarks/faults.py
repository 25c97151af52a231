"""What an index survives: writers killed at random moments and at every step, damaged files, a full disk.

A victim is a fork of this process, already warm, that builds, adds, deletes, writes a delta or merges one, and dies by
SIGKILL. Whatever is
found afterwards must be the last commit, whole: its fingerprint is one that an undisturbed writer made, every
checksum holds, and the next writer goes on as if nothing had happened. A damaged index must be refused when it is
opened, or, where only contents changed, be found by `verify`.

    python benchmarks/faults.py --kills 200 --corruptions 300
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from orienteer.data.passage import Passage
from orienteer.engine.embedded import build
from orienteer.engine.embedded.build import build_index, update_index
from orienteer.engine.embedded.index import open_parts
from orienteer.engine.embedded.store import HEADER_BYTES, MANIFEST, TEMPORARY, read_manifest, verify
from orienteer.engine.embedded.warmup import warm_up
from orienteer.errors import IndexCorruptError, IndexMissingError, IndexVersionError, OrienteerError

SEED = 13
build.delta_limit = lambda passages: passages // 4  # small indexes have deltas, too
OPERATIONS = ("build", "add", "delete", "delta", "merge")
NOTHING = "no index"


@dataclass
class Outcome:
    """What was tried, where it hit, and every time that something was lost."""

    tried: int = 0
    where: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def check(self, holds: bool, message: str) -> None:
        if not holds:
            self.failures.append(message)

    def as_json(self) -> dict[str, Any]:
        return {"tried": self.tried, "where": dict(sorted(self.where.items())), "failures": self.failures}


@dataclass(frozen=True)
class Plan:
    """Every operation moves between two generations.

    "base": the passages `base`; "both": `more` after them; "delta": five of `more` after the base without its first
    five, in two segments; "merged": the same in one.
    """

    base: list[Passage]
    more: list[Passage]
    fingerprints: dict[str, str]

    @classmethod
    def make(cls, folder: Path, size: int, seed: int) -> Plan:
        passages = make_passages(size, seed)
        base, more = passages[: size * 2 // 3], passages[size * 2 // 3 :]
        both = build_index(passages, folder / "fresh").fingerprint
        merged = build_index([*base[5:], *more[:5]], folder / "fresh").fingerprint
        plan = cls(base, more, {"both": both, "merged": merged})
        plan.fingerprints["base"] = build_index(base, folder / "fresh").fingerprint
        plan.perform("delta", folder / "fresh")
        assert read_manifest(folder / "fresh").base is not None
        plan.fingerprints["delta"] = read_manifest(folder / "fresh").fingerprint
        return plan

    def before(self, operation: str) -> str:
        return {"build": "both", "add": "base", "delete": "both", "delta": "base", "merge": "delta"}[operation]

    def after(self, operation: str) -> str:
        return {"build": "base", "add": "both", "delete": "base", "delta": "delta", "merge": "merged"}[operation]

    def prepare(self, operation: str, path: Path) -> None:
        """An index as the operation expects it; nothing is written where it is already there."""
        if state_of(path) != self.fingerprints[self.before(operation)]:
            build_index(self.base + self.more if self.before(operation) == "both" else self.base, path)
            if self.before(operation) == "delta":
                self.perform("delta", path)

    def perform(self, operation: str, path: Path) -> None:
        match operation:
            case "build":
                build_index(self.base, path)
            case "add":
                update_index(path, add=self.more)
            case "delete":
                update_index(path, delete=[passage.id for passage in self.more])
            case "delta":
                gone = [passage.id for passage in self.base[:5]]
                update_index(path, add=self.more[:5], delete=gone)
            case "merge":
                update_index(path, merge=True)


def make_passages(size: int, seed: int) -> list[Passage]:
    """Passages of some 60 words, drawn as words are: few often, most seldom."""
    rng = random.Random(seed)
    words = [f"{a}{b}{c}" for a in "bdfgkl" for b in ("a", "e", "i", "o", "é") for c in ("", "n", "rt", "x7")]
    words += ["the", "of", "and", "is"] * 5
    rare = [f"{word}{number}" for word in words[:40] for number in range(50)]
    return [
        Passage(
            f"p{number}",
            " ".join(rng.choices(words, k=3)) if number % 5 else "",
            " ".join(rng.choices(words, k=rng.randrange(80)) + rng.choices(rare, k=rng.randrange(6))),
        )
        for number in range(size)
    ]


def state_of(path: Path) -> str:
    """The fingerprint of the index at `path`, checked to the last byte; raises where it is damaged."""
    try:
        manifest, _, _ = open_parts(path)
    except IndexMissingError:
        return NOTHING
    if damaged := verify(path):
        raise IndexCorruptError(f"damaged: {', '.join(damaged)}")
    return manifest.fingerprint


# Killed writers


def kill_at_random(plan: Plan, folder: Path, count: int, seed: int, report: Callable[[int], None]) -> Outcome:
    """Kill builds, first builds, adds and deletes at moments spread evenly over their time."""
    rng = random.Random(seed)
    outcome = Outcome()
    path = folder / "killed"
    seconds = {operation: _seconds(plan, operation, path) for operation in OPERATIONS}
    for number in range(count):
        operation = OPERATIONS[number % len(OPERATIONS)]
        if operation == "build" and rng.random() < 0.3:
            shutil.rmtree(path, ignore_errors=True)  # the first build of all: there is no old index to keep
        else:
            plan.prepare(operation, path)
        before = state_of(path)
        with _victim(partial(plan.perform, operation, path)) as victim:
            time.sleep(rng.random() * seconds[operation] * 1.2)
            os.kill(victim, signal.SIGKILL)
        _judge(plan, operation, path, before, outcome, f"kill {number} of {operation}")
        if number % 10 == 9:
            _carry_on(plan, operation, path, outcome)
        report(number + 1)
    return outcome


def kill_at_steps(plan: Plan, folder: Path, stride: int, report: Callable[[int], None]) -> Outcome:
    """Kill each operation before its first, second, third … change of a file, or every `stride`-th."""
    outcome = Outcome()
    path = folder / "stepped"
    for operation in OPERATIONS:
        step, survived = 0, False
        while not survived:
            plan.prepare(operation, path)
            before = state_of(path)
            work = partial(_die_at, step, partial(plan.perform, operation, path), path)
            with _victim(work) as pid:
                survived = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
            _judge(plan, operation, path, before, outcome, f"step {step} of {operation}")
            step += stride
            report(outcome.tried)
        outcome.check(step > 25, f"{operation} had only {step} steps: kills did not reach its end")
        _carry_on(plan, operation, path, outcome)
    return outcome


@contextmanager
def _victim(work: Callable[[], object]) -> Iterator[int]:
    """A fork that does the work and ends; it is reaped on leaving."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    try:
        yield pid
    finally:
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)


def _die_at(step: int, work: Callable[[], object], path: Path) -> None:
    """In a victim: do the work, but die before change number `step` in the index."""
    seen = 0
    changes = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree"}

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if event in changes or (event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)):
            if not str(arguments[0]).startswith(str(path)):
                return
            if seen == step:
                os.kill(os.getpid(), signal.SIGKILL)
            seen += 1

    sys.addaudithook(hook)
    work()


def _seconds(plan: Plan, operation: str, path: Path) -> float:
    """How long a victim takes when nobody kills it."""
    taken = []
    for _ in range(3):
        plan.prepare(operation, path)
        started = time.perf_counter()
        with _victim(partial(plan.perform, operation, path)):
            pass
        taken.append(time.perf_counter() - started)
    return sorted(taken)[1]


def _judge(plan: Plan, operation: str, path: Path, before: str, outcome: Outcome, name: str) -> None:
    outcome.tried += 1
    after = plan.fingerprints[plan.after(operation)]
    try:
        found = state_of(path)
    except OrienteerError as error:
        outcome.failures.append(f"{name}: {error}")
        return
    outcome.check(found in (before, after), f"{name}: found {found}, expected {before} or {after}")
    outcome.where[f"{operation}: {_phase(path, found == after)}"] += 1


def _phase(path: Path, committed: bool) -> str:
    """How far the victim came, by what it left."""
    if committed:
        return "6 committed"
    if not path.is_dir():
        return "0 not begun"
    if any(path.glob(TEMPORARY)):
        return "5 manifest"
    kept = _folders(path) if (path / MANIFEST).exists() else []
    strays = [folder for folder in path.glob("generation-*") if folder.name not in kept]
    names = {file.stem for folder in strays for file in folder.iterdir()}
    for name, phase in (("pairs", "4 checksums"), ("documents", "3 postings"), ("ids", "2 vocabulary")):
        if name in names:
            return phase
    return "1 text" if names else "0 not begun"


def _folders(path: Path) -> list[str]:
    """The folders that the manifest names."""
    manifest = read_manifest(path)
    return [each.folder for each in (manifest, manifest.base) if each is not None]


def _carry_on(plan: Plan, operation: str, path: Path, outcome: Outcome) -> None:
    """The next writer succeeds and leaves one generation and no stray file."""
    plan.prepare(operation, path)
    plan.perform(operation, path)
    outcome.check(state_of(path) == plan.fingerprints[plan.after(operation)], f"{operation} after kills differs")
    names = sorted(file.name for file in path.iterdir())
    expected = [*_folders(path), MANIFEST, "write.lock"]
    outcome.check(names == sorted(expected), f"after {operation} the folder holds {names}")


# Damaged files


def corrupt(plan: Plan, folder: Path, count: int, seed: int, report: Callable[[int], None]) -> Outcome:
    """Damage a copy in one way at a time. Opening must refuse it, or `verify` name the damaged file."""
    rng = random.Random(seed)
    outcome = Outcome()
    whole = folder / "whole"
    manifest = build_index(plan.base, whole)
    kinds = list(DAMAGES)
    for number in range(count):
        kind = kinds[number % len(kinds)]
        copy = folder / "damaged"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(whole, copy)
        files = sorted((copy / manifest.folder).iterdir())
        file = rng.choice([one for one in files if one.stat().st_size > HEADER_BYTES])
        DAMAGES[kind](rng, copy, file)
        outcome.tried += 1
        outcome.where[f"{kind}: {_found(copy, file, outcome, f'{kind} {number} of {file.name}')}"] += 1
        report(number + 1)
    return outcome


def _found(path: Path, file: Path, outcome: Outcome, name: str) -> str:
    at_open = name.split()[0] != "payload"
    try:
        open_parts(path)
    except (IndexCorruptError, IndexVersionError, IndexMissingError) as error:
        return type(error).__name__  # of contents only the structure is read at opening
    if at_open:
        outcome.failures.append(f"{name}: opened")
        return "opened"
    damaged = verify(path)
    outcome.check(damaged == [str(file)], f"{name}: verify named {damaged}")
    return "found by verify"


def _truncate(rng: random.Random, path: Path, file: Path) -> None:
    os.truncate(file, rng.randrange(file.stat().st_size))


def _append(rng: random.Random, path: Path, file: Path) -> None:
    with file.open("ab") as out:
        out.write(rng.randbytes(rng.randrange(1, 100)))


def _remove(rng: random.Random, path: Path, file: Path) -> None:
    file.unlink()


def _header_bit(rng: random.Random, path: Path, file: Path) -> None:
    _flip(file, rng.randrange(HEADER_BYTES * 8))


def _payload_bit(rng: random.Random, path: Path, file: Path) -> None:
    _flip(file, rng.randrange(HEADER_BYTES * 8, file.stat().st_size * 8))


def _payload_block(rng: random.Random, path: Path, file: Path) -> None:
    """A block that the disk lost."""
    data = bytearray(file.read_bytes())
    start = rng.randrange(HEADER_BYTES, len(data))
    data[start : start + 512] = bytes(byte ^ 0xFF for byte in data[start : start + 512])
    file.write_bytes(data)


def _swap(rng: random.Random, path: Path, file: Path) -> None:
    """Another array under this name."""
    head = file.read_bytes()[:HEADER_BYTES]
    others = sorted(one for one in file.parent.iterdir() if one.read_bytes()[:HEADER_BYTES] != head)
    shutil.copyfile(rng.choice(others), file)


def _manifest_cut(rng: random.Random, path: Path, file: Path) -> None:
    os.truncate(path / MANIFEST, rng.randrange((path / MANIFEST).stat().st_size))


def _manifest_bit(rng: random.Random, path: Path, file: Path) -> None:
    _flip(path / MANIFEST, rng.randrange((path / MANIFEST).stat().st_size * 8))


def _manifest_value(rng: random.Random, path: Path, file: Path) -> None:
    """A well-formed manifest that says something else."""
    raw = json.loads((path / MANIFEST).read_bytes())
    where = rng.choice([raw["counts"], raw["files"][file.name], raw["settings"]])
    where[rng.choice(sorted(where))] = rng.choice([0, -1, 1 << 70, None, [], {}, "", 0.5])
    (path / MANIFEST).write_text(json.dumps(raw, indent=1))


def _manifest_other(rng: random.Random, path: Path, file: Path) -> None:
    """Something else in its place."""
    texts = [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"7",
        b'"x"',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"format": "orienteer-index"}',
    ]
    (path / MANIFEST).write_bytes(rng.choice([*texts, rng.randbytes(300)]))


def _manifest_gone(rng: random.Random, path: Path, file: Path) -> None:
    (path / MANIFEST).unlink()


def _manifest_version(rng: random.Random, path: Path, file: Path) -> None:
    raw = json.loads((path / MANIFEST).read_bytes())
    raw["version"] = rng.choice([0, 2, 99, "2", None, [1], 1.5])
    (path / MANIFEST).write_text(json.dumps(raw, indent=1))


def _flip(file: Path, bit: int) -> None:
    data = bytearray(file.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    file.write_bytes(data)


DAMAGES: dict[str, Callable[[random.Random, Path, Path], None]] = {
    "truncated": _truncate, "longer": _append, "removed": _remove, "swapped": _swap,
    "header bit": _header_bit, "payload bit": _payload_bit, "payload block": _payload_block,
    "manifest cut": _manifest_cut, "manifest bit": _manifest_bit, "manifest value": _manifest_value,
    "manifest other": _manifest_other,
    "manifest gone": _manifest_gone, "manifest version": _manifest_version,
}  # fmt: skip


# A full disk


def fill_disk(plan: Plan, folder: Path, count: int, report: Callable[[int], None]) -> Outcome:
    """Writers that may write no file beyond a size: each says so once and leaves the old index alone."""
    outcome = Outcome()
    path = folder / "full"
    largest = max(entry["bytes"] for entry in build_index(plan.base + plan.more, folder / "size").files.values())
    for number in range(count):
        size = 64 + (largest - 64) * number // count
        for operation in OPERATIONS:
            plan.prepare(operation, path)
            before = state_of(path)
            with _victim(partial(_in_little_room, plan, operation, path, size)) as pid:
                refused = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
            name = f"{operation} with {size} bytes a file"
            after = plan.fingerprints[plan.after(operation)]
            outcome.tried += 1
            found = state_of(path)
            outcome.where[f"{operation}: {'refused' if found == before else 'fitted'}"] += 1
            outcome.check(refused, f"{name}: neither succeeded nor said that there is no space")
            outcome.check(found in (before, after), f"{name}: found {found}, expected {before} or {after}")
            strays = len(list(path.iterdir())) - 2 - len(_folders(path))
            outcome.check(strays == 0, f"{name}: {strays} stray files left")
        report(outcome.tried)
    return outcome


def _in_little_room(plan: Plan, operation: str, path: Path, size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    try:
        plan.perform(operation, path)
    except OrienteerError as error:
        if "no space left" not in str(error):
            raise


def run(
    kills: int = 200,
    corruptions: int = 300,
    full_disks: int = 20,
    passages: int = 3000,
    stride: int = 1,
    seed: int = SEED,
    as_json: bool = False,
) -> bool:
    """Try all of it and print what was found; True where nothing was lost."""
    if sys.platform != "linux":
        raise OrienteerError("fault tests fork and kill, which wants Linux")
    warm_up()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="orienteer-faults-") as name:
        folder = Path(name)
        large, small = Plan.make(folder, passages, seed), Plan.make(folder, 60, seed)
        results = {
            "kills": kill_at_random(large, folder, kills, seed, _progress("kills", kills)),
            "steps": kill_at_steps(small, folder, stride, _progress("steps")),
            "corruptions": corrupt(small, folder, corruptions, seed, _progress("corruptions", corruptions)),
            "full_disks": fill_disk(small, folder, full_disks, _progress("full disks", full_disks * 3)),
        }
    whole = not any(outcome.failures for outcome in results.values())
    report = {name: outcome.as_json() for name, outcome in results.items()}
    if not as_json:
        for name, outcome in results.items():
            print(f"{name}: {outcome.tried} tried, {len(outcome.failures)} lost", file=sys.stderr)
    print(json.dumps({"whole": whole, **report, "seconds": round(time.perf_counter() - started, 1)}))
    return whole


def _progress(what: str, total: int = 0) -> Callable[[int], None]:
    def report(done: int) -> None:
        if done % 20 == 0 or done == total:
            print(f"{what}: {done}{f' of {total}' if total else ''}", file=sys.stderr, flush=True)

    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--corruptions", type=int, default=300)
    parser.add_argument("--full-disks", type=int, default=20)
    parser.add_argument("--passages", type=int, default=3000)
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--json", action="store_true", dest="as_json")
    sys.exit(0 if run(**vars(parser.parse_args())) else 1)


if __name__ == "__main__":
    main()
