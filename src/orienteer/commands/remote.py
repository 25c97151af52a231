"""`doctor` and `index --to`: search services on the command line. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from orienteer.commands.terminal import err, out, plain, print_json
from orienteer.errors import DuplicateIdError

_MARKS = {"good": "[green]✓[/]", "fair": "[yellow]![/]", "bad": "[red]✗[/]"}


def doctor(
    engine: Annotated[str, typer.Option(help="the index to examine: https://host:9200/index", show_default=False)],
    index: Annotated[
        Path | None, typer.Option(help="folder of an embedded index of the same passages, to compare with")
    ] = None,
    sample: Annotated[int, typer.Option(help="passages to look at", min=1, max=5000)] = 100,
    thorough: Annotated[bool, typer.Option(help="check the whole Engine contract too: some thousand searches")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON, one finding a line")] = False,
) -> None:
    """Say whether an index of OpenSearch or Elasticsearch is fit for Orienteer, and how near its scores are.

    orienteer doctor --engine https://search.example.org:9200/passages --index my-index
    """
    from orienteer.engine.adapters.opensearch.doctor import examine
    from orienteer.engine.adapters.opensearch.service import Service
    from orienteer.engine.adapters.opensearch.settings import ServiceSettings, read_address
    from orienteer.engine.embedded.engine import open_index

    service = Service(read_address(engine), ServiceSettings.from_environment())
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
