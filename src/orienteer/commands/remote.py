"""`doctor`, `mirror`, `trial` and `index --to`: search services. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from orienteer.commands.terminal import err, out, plain, print_json, progress
from orienteer.errors import DuplicateIdError

if TYPE_CHECKING:
    from orienteer.engine.adapters.opensearch.mirror import Mirror, MirrorStatus
    from orienteer.engine.adapters.opensearch.settings import ServiceSettings
    from orienteer.engine.protocol import Engine

Filter = Annotated[
    str | None,
    typer.Option("--filter", help="a query in JSON that every search carries; none: ORIENTEER_SEARCH_FILTER"),
]
_MARKS = {"good": "[green]✓[/]", "fair": "[yellow]![/]", "bad": "[red]✗[/]"}


def doctor(
    engine: Annotated[str, typer.Option(help="the index to examine: https://host:9200/index", show_default=False)],
    index: Annotated[
        Path | None, typer.Option(help="folder of an embedded index of the same passages, to compare with")
    ] = None,
    sample: Annotated[int, typer.Option(help="passages to look at", min=1, max=5000)] = 100,
    thorough: Annotated[bool, typer.Option(help="check the whole Engine contract too: some thousand searches")] = False,
    filter_json: Filter = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON, one finding a line")] = False,
) -> None:
    """Say whether an index of OpenSearch or Elasticsearch is fit for Orienteer, and how near its scores are.

    orienteer doctor --engine https://search.example.org:9200/passages --index my-index
    """
    from orienteer.engine.adapters.opensearch.doctor import examine
    from orienteer.engine.adapters.opensearch.service import Service
    from orienteer.engine.adapters.opensearch.settings import read_address
    from orienteer.engine.embedded.engine import open_index

    service = Service(read_address(engine), _settings(filter_json))
    embedded = open_index(index) if index is not None else None
    unfit = False
    for finding in examine(service, embedded, sample=sample, thorough=thorough):
        unfit |= finding.level == "bad"
        if as_json:
            row = {"level": finding.level, "what": finding.what, "advice": finding.advice}
            print_json(row)
            continue
        out.print(f"{_MARKS[finding.level]} {plain(finding.what)}", soft_wrap=True)
        if finding.advice:
            out.print(f"  [dim]{plain(finding.advice)}[/]", soft_wrap=True)
    service.close()
    if unfit:
        raise typer.Exit(1)


def mirror(
    address: Annotated[str, typer.Argument(help="the index to follow: https://host:9200/index", show_default=False)],
    folder: Annotated[Path, typer.Option("--out", help="folder of the mirror", show_default=False)],
    follow: Annotated[bool, typer.Option("--follow", help="catch up again and again until stopped")] = False,
    every: Annotated[float, typer.Option(help="seconds between two looks with --follow", min=0.1)] = 10.0,
    status: Annotated[bool, typer.Option("--status", help="say how far behind it is; follow nothing")] = False,
    filter_json: Filter = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON, one line each time")] = False,
) -> None:
    """Keep an embedded index of a service's passages, so that agents look at refinements without asking the service.

    orienteer mirror https://search.example.org:9200/passages --out my-mirror

    orienteer ask 'who wrote war and peace' --index mirror:my-mirror

    Reading needs the right to refresh the index and to see its statistics. A killed mirror goes on where it stopped.
    """
    from dataclasses import asdict

    from orienteer.engine.adapters.opensearch.mirror import Mirror
    from orienteer.engine.adapters.opensearch.service import Service
    from orienteer.engine.adapters.opensearch.settings import read_address

    made = Mirror(Service(read_address(address), _settings(filter_json)), folder)
    while True:
        if status:
            state = made.status()
        else:
            state = _caught_up(made)
        if as_json:
            print_json(asdict(state))
        else:
            out.print(plain(str(state)), soft_wrap=True)
        if not follow or status:
            break
        time.sleep(every)
    made.close()
    if status and (state.behind or not state.built):
        raise typer.Exit(1)


def trial(
    address: Annotated[str, typer.Argument(help="the index to try: https://host:9200/index", show_default=False)],
    questions: Annotated[Path, typer.Option(help="questions with answers or judged passages; 50 are enough")],
    agent: Annotated[str, typer.Option(help="the agent to try")] = "pointer",
    steps: Annotated[int, typer.Option(help="refinements at most", min=1, max=100)] = 5,
    limit: Annotated[int | None, typer.Option(help="only the first so many questions", min=1)] = None,
    mirror_folder: Annotated[
        Path | None, typer.Option("--mirror", help="folder of a mirror: refinements are looked at there")
    ] = None,
    pool: Annotated[bool, typer.Option("--pool", help="look at refinements in a pool for each question")] = False,
    report: Annotated[Path | None, typer.Option("--out", help="file for the page; none: print it")] = None,
    filter_json: Filter = None,
) -> None:
    """Say on one page whether an agent helps on an index of OpenSearch or Elasticsearch, and what load it makes.

    orienteer trial https://search.example.org:9200/passages --questions questions.jsonl --out trial.md
    """
    from itertools import islice

    from orienteer.data import read_questions
    from orienteer.engine.adapters.opensearch.engine import OpenSearchEngine
    from orienteer.engine.adapters.opensearch.mirror import MirroredEngine
    from orienteer.engine.adapters.opensearch.pool import PooledEngine
    from orienteer.engine.adapters.opensearch.service import Service
    from orienteer.engine.adapters.opensearch.settings import read_address
    from orienteer.engine.embedded.engine import open_index
    from orienteer.engine.long_documents import SplitEngine
    from orienteer.evaluation.trial import page, run_trial

    service = Service(read_address(address), _settings(filter_json))
    remote = OpenSearchEngine(service)
    engine: Engine = PooledEngine(remote) if pool else remote
    if mirror_folder is not None:
        engine = MirroredEngine(remote, open_index(mirror_folder / "index"))
    if service.settings.split is not None:
        engine = SplitEngine(engine, service.settings.split)
    asked = list(islice(read_questions(questions), limit))
    with progress("sessions") as show:
        found = run_trial(
            str(service.address), engine, asked, agent=agent, steps=steps, sent=lambda: service.counters.searches,
            progress=lambda done: show(done, done.agent),
        )  # fmt: skip
    service.close()
    written = page(found)
    if report is None:
        sys.stdout.write(written)
    else:
        report.write_text(written, "utf-8")
        out.print(f"{len(asked)} questions: {plain(str(report))}", soft_wrap=True)


def _caught_up(mirror: Mirror) -> MirrorStatus:
    columns = (SpinnerColumn(), TextColumn("following"), MofNCompleteColumn(), TextColumn("passages"))
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task("following", total=None)
        return mirror.catch_up(lambda done: bar.update(task, completed=done))


def _settings(filter_json: str | None) -> ServiceSettings:
    from dataclasses import replace

    from orienteer.engine.adapters.opensearch.settings import ServiceSettings, read_filter

    settings = ServiceSettings.from_environment()
    return settings if filter_json is None else replace(settings, filter=read_filter(filter_json))


def index_to(
    passages: Sequence[Path],
    address: str,
    *,
    shards: int = 1,
    replicas: int = 1,
    skip_bad: bool = False,
    as_json: bool = False,
) -> None:
    """Load files of passages into an index of a service; a load that was broken off goes on where it stopped."""
    from orienteer.data import BadRows, find_ids, read_passages
    from orienteer.engine.adapters.opensearch.bulk_load import bulk_settings, load
    from orienteer.engine.adapters.opensearch.service import Service
    from orienteer.engine.adapters.opensearch.settings import ServiceSettings, read_address

    service, bad = Service(read_address(address), bulk_settings(ServiceSettings.from_environment())), BadRows()
    started = time.perf_counter()
    columns = (SpinnerColumn(), TextColumn("loading"), BarColumn(), MofNCompleteColumn(), TextColumn("passages"))
    with Progress(*columns, TimeElapsedColumn(), console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task("loading", total=None)
        try:
            source = read_passages(passages, skip_bad=skip_bad, on_bad=bad)
            loaded = load(
                service,
                source,
                shards=shards,
                replicas=replicas,
                progress=lambda done: bar.update(task, completed=done),
            )
        except DuplicateIdError as error:
            where = find_ids(passages, [error.passage_id]).get(error.passage_id, [])
            raise DuplicateIdError(f"{error}; it stands at {', '.join(map(str, where[:4]))}") from None
    seconds = time.perf_counter() - started
    service.close()
    if bad.count:
        err.print(f"[yellow]{plain(str(bad))}[/]", soft_wrap=True)
    if as_json:
        row = {"index": str(service.address), "passages": loaded.passages, "already_there": loaded.already_there,
               "bad_rows": bad.count, "fingerprint": loaded.fingerprint, "seconds": round(seconds, 3)}  # fmt: skip
        print_json(row)
        return
    there = f", {loaded.already_there:,} of them were there already" if loaded.already_there else ""
    skipped = f", {bad.count:,} bad rows left out" if bad.count else ""
    out.print(
        f"{loaded.passages:,} passages in {plain(str(service.address))}{there} ({seconds:.1f} s{skipped})",
        soft_wrap=True,
    )
