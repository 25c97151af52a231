"""Opens and uses mutated indexes and model folders: no signal, no hang, no traceback, only Orienteer's own errors.

A mutant is a sound index or folder with one to four changes, its checksums computed anew, so that nothing but the
checks of the contents stands between it and the kernels. Mutants are used in forks of this process, some hundreds in
each; the parent watches:

signal      the fork died; its last mutant is the cause
hang        the mutant took more than `CPU_LIMIT` seconds of processor time, or `WALL_LIMIT` of waiting
traceback   an exception that is not an `OrienteerError`

Which check refused a mutant, at which step, is the feedback: a mutant that could be opened and whose outcome is new
joins the pool that later ones are made from, so that what gets far is changed further. With `--bounds` the kernels are
compiled with bounds checks of their own, and an access outside an array, which may well go unpunished, becomes a
traceback.

    python benchmarks/mutate.py index --count 100000 --bounds
    python benchmarks/mutate.py models --count 20000
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import random
import re
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from orienteer.errors import OrienteerError

CPU_LIMIT, WALL_LIMIT = 10.0, 300.0  # seconds a mutant
MEMORY_LIMIT = 6 << 30  # bytes of address space
PER_FORK = 250
SEED = 26


class Target(Protocol):
    """What is mutated: a sample is anything that `mutate` changes and `use` writes to a folder, opens and uses."""

    def samples(self) -> dict[str, Any]: ...

    def mutate(self, sample: Any, rng: random.Random) -> Any: ...

    def use(self, sample: Any, folder: Path, rng: random.Random) -> dict[str, str]:
        """What became of "open" and each further step: "" where it went well, else the error's message."""
        ...


@dataclass
class Result:
    """What was tried and how it ended."""

    tried: int = 0
    steps: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    failures: list[dict[str, Any]] = field(default_factory=list)
    outcomes: int = 0
    pool: int = 0

    def as_json(self) -> dict[str, Any]:
        return {
            "tried": self.tried, "failures": self.failures, "outcomes": self.outcomes, "pool": self.pool,
            "steps": dict(self.steps.most_common()), "refused": dict(self.refused.most_common()),
        }  # fmt: skip


@dataclass
class Parent:
    """A sample that mutants are made of; `lineage` is its name and the seeds that made it."""

    sample: Any
    lineage: list[Any]
    picked: int = 0


def attempt(work: Callable[[], object]) -> str:
    """Runs a step: "" where it went well, the message without numbers and paths where Orienteer refused."""
    try:
        work()
    except OrienteerError as error:
        return re.sub(r"\d[\d,]*", "#", re.sub(r"/[\w./-]*/", "", str(error)))[:160]
    return ""


def fuzz(target: Target, count: int, seed: int, folder: Path, report: Callable[[Result], None]) -> Result:
    result = Result()
    pool = {f"sound {name}": Parent(sample, [name]) for name, sample in target.samples().items()}
    known: set[str] = set()
    while result.tried < count:
        size = min(PER_FORK, count - result.tried)
        done, news, failure = _fork(target, pool, known, seed + result.tried, size, folder)
        for row in done:
            result.tried += 1
            for step, message in row.items():
                result.steps[f"{step}: {'refused' if message else 'went well'}"] += 1
                if message:
                    result.refused[message] += 1
        if failure is not None:
            result.tried += 1
            result.failures.append(failure)
        for key, lineage in news:
            if key not in known:
                known.add(key)
                if not json.loads(key)["open"]:
                    pool[key] = Parent(replay(target, lineage), lineage)
        result.outcomes, result.pool = len(known), len(pool)
        report(result)
    return result


def replay(target: Target, lineage: Sequence[Any]) -> Any:
    """The mutant of a lineage, from the sound sample on."""
    name, *seeds = lineage
    sample = target.samples()[name]
    for each in seeds:
        sample = target.mutate(sample, random.Random(each))
    return sample


def _fork(
    target: Target, pool: dict[str, Parent], known: set[str], seed: int, size: int, folder: Path
) -> tuple[list[dict[str, str]], list[tuple[str, list[Any]]], dict[str, Any] | None]:
    """Uses `size` mutants in a fork; what became of each, new outcomes, and the mutant that it died of."""
    status = mmap.mmap(-1, 1 << 16)  # the lineage that is being used, seen by the parent
    reading, writing = os.pipe()
    errors = folder / "stderr"
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _child(target, pool, known, seed, size, folder, status, writing, errors)
    os.close(writing)
    data, failure = b"", None
    with os.fdopen(reading, "rb", buffering=0) as stream:
        heard = time.monotonic()
        while True:
            if select.select([stream], [], [], 5.0)[0]:
                block = stream.read(1 << 16)
                if not block:
                    break
                data, heard = data + block, time.monotonic()
            elif time.monotonic() - heard > WALL_LIMIT:
                os.kill(pid, signal.SIGKILL)
                failure = {"kind": "hang", "lineage": _lineage(status)}
                break
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    rows = [json.loads(line) for line in data.splitlines() if line.endswith(b"}") or line.endswith(b"]")]
    done = [row["steps"] for row in rows if "steps" in row]
    news = [(row["key"], row["lineage"]) for row in rows if row.get("key")]
    if failure is None:
        for row in rows:
            if "traceback" in row:
                failure = {"kind": "traceback", "lineage": row["lineage"], "what": row["traceback"]}
    if failure is None and code != 0:
        kind = "hang" if code == -signal.SIGPROF else f"signal {-code}" if code < 0 else f"exit {code}"
        failure = {"kind": kind, "lineage": _lineage(status), "what": errors.read_text()[-600:]}
    shutil.rmtree(folder / "mutant", ignore_errors=True)
    return done, news, failure


def _child(
    target: Target, pool: dict[str, Parent], known: set[str], seed: int, size: int, folder: Path,
    status: mmap.mmap, writing: int, errors: Path,
) -> None:  # fmt: skip
    """Never returns. The first traceback ends it, as a signal would."""
    code = 1
    try:
        os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        warnings.simplefilter("error")
        rng = random.Random(seed)
        parents = list(pool.values())
        for _ in range(size):
            parent = min(rng.choices(parents, k=3), key=lambda each: each.picked)  # what is new is picked more often
            parent.picked += 1
            lineage = [*parent.lineage, rng.getrandbits(48)]
            status.seek(0)
            status.write(json.dumps(lineage).encode() + b"\n")
            row: dict[str, Any] = {"lineage": lineage}
            try:
                mutant = target.mutate(parent.sample, random.Random(lineage[-1]))
                signal.setitimer(signal.ITIMER_PROF, CPU_LIMIT)
                row["steps"] = target.use(mutant, folder / "mutant", random.Random(lineage[-1]))
                signal.setitimer(signal.ITIMER_PROF, 0)
            except BaseException:
                row["traceback"] = traceback.format_exc()[-1500:]
            if "steps" in row:
                key = json.dumps(row["steps"])
                if key not in known and len(lineage) < 12:
                    known.add(key)
                    row["key"] = key
                    if not row["steps"]["open"]:
                        parents.append(Parent(mutant, lineage))
            os.write(writing, json.dumps(row).encode() + b"\n")
            if "traceback" in row:
                os._exit(0)
        code = 0
    finally:
        os._exit(code)


def _lineage(status: mmap.mmap) -> Any:
    status.seek(0)
    return json.loads(status.readline() or b"null")


def _target(kind: str, folder: Path) -> Target:
    if kind == "index":
        import mutate_index

        return mutate_index.IndexTarget(folder)
    tests = Path(__file__).parents[1] / "tests"  # whose small models are the samples
    sys.path += [str(tests / part) for part in ("session", "reader", "agents/pointer", "agents/t5", "agents/muzero")]
    import mutate_model

    return mutate_model.ModelTarget(folder)


def run(
    kind: str, count: int, seed: int = SEED, bounds: bool = False, as_json: bool = False, lineage: str | None = None
) -> bool:
    """Tries `count` mutants of an index or of model folders and prints what was found; True where all went well."""
    if sys.platform != "linux":
        raise OrienteerError("mutation tests fork and watch, which wants Linux")
    if bounds and os.environ.get("NUMBA_BOUNDSCHECK") != "1":
        # Read when numba is imported: begin again, with a cache of its own for these kernels.
        cache = Path(tempfile.gettempdir()) / f"orienteer-bounds-{os.getuid()}"
        environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(cache)}
        command = [__file__, kind, "--count", str(count), "--seed", str(seed), *(["--json"] if as_json else [])]
        if lineage:
            command += ["--lineage", lineage]
        return os.spawnve(os.P_WAIT, sys.executable, [sys.executable, *command], environment) == 0
    started = time.monotonic()
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="orienteer-mutate-", dir=shared if shared.is_dir() else None) as name:
        target = _target(kind, Path(name))
        if lineage:
            print(target.use(replay(target, json.loads(lineage)), Path(name) / "mutant", random.Random(0)))
            return True
        result = fuzz(target, count, seed, Path(name), _report(count))
    fine = not result.failures
    seconds = round(time.monotonic() - started, 1)
    checked = os.environ.get("NUMBA_BOUNDSCHECK") == "1"
    summary = {"mutated": kind, "bounds_checked": checked, "fine": fine, **result.as_json(), "seconds": seconds}
    if as_json:
        print(json.dumps(summary))
    else:
        print(f"{result.tried:,} mutants of {kind}, {result.outcomes:,} outcomes, {len(result.failures)} failures")
        for step, times in sorted(result.steps.items()):
            print(f"  {step:32} {times:,}")
        for failure in result.failures[:20]:
            print(json.dumps(failure)[-600:])
    return fine


def _report(count: int) -> Callable[[Result], None]:
    shown = 0

    def report(result: Result) -> None:
        nonlocal shown
        for failure in result.failures[shown:]:
            print(str(failure)[-500:], file=sys.stderr)
        shown = len(result.failures)
        kinds = Counter(str(failure["kind"]) for failure in result.failures)
        print(
            f"{result.tried:,} of {count:,}, {result.outcomes} outcomes, pool {result.pool}, failures {dict(kinds)}",
            file=sys.stderr,
        )

    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kind", choices=("index", "models"))
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--bounds", action="store_true")
    parser.add_argument("--lineage", help="use one mutant, as a failure names it")
    parser.add_argument("--json", action="store_true", dest="as_json")
    sys.exit(0 if run(**vars(parser.parse_args())) else 1)


if __name__ == "__main__":
    main()
