"""`bench …`: the programs of the `benchmarks` folder on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orienteer.commands.terminal import benchmark
from orienteer.errors import OrienteerError

Index = Annotated[Path, typer.Option("--index", help="folder of the index", show_default=False)]
Questions = Annotated[Path, typer.Option(help="file of questions")]
Reader = Annotated[Path | None, typer.Option(help="folder of a reader; none: the shipped one")]
LuceneJar = Annotated[Path | None, typer.Option(help="jar with Lucene's classes: measure Lucene too")]
Json = Annotated[bool, typer.Option("--json", help="print JSON")]


def bench_all(
    index: Index,
    questions: Questions,
    lucene_jar: LuceneJar = None,
    limit: Annotated[int, typer.Option(help="how many questions", min=1)] = 700,
    parts: Annotated[str, typer.Option(help="what to measure, with commas between")] = (
        "search,refine,shards,disk,start,bm25s,growth"
    ),
    sizes: Annotated[str, typer.Option(help="passages of the indexes of `growth`")] = "110000,880000,3500000",
    out_file: Annotated[
        Path, typer.Option("--out", help="file for the report, JSON; measured parts replace its own")
    ] = Path("results/speed/speed.json"),
) -> None:
    """The engine beside Lucene, tantivy and bm25s: search, refine, shards, disk, start, growth; writes the docs' table.

    orienteer bench all --index my-index --questions dev.jsonl.xz --lucene-jar anserini-fatjar.jar
    """
    speed = benchmark("speed")
    chosen = [part.strip() for part in parts.split(",") if part.strip()]
    if unknown := [part for part in chosen if part not in speed.PARTS]:
        raise OrienteerError(f"unknown part {unknown[0]!r}; expected some of {', '.join(speed.PARTS)}")
    speed.run(index, questions, lucene_jar, limit, chosen, _numbers("--sizes", sizes), out_file)


def bench_refinements(
    index: Index,
    questions: Questions,
    lucene_jar: LuceneJar = None,
    tantivy: Annotated[bool, typer.Option(help="measure tantivy too, where it is installed")] = True,
    limit: Annotated[int, typer.Option(help="how many questions", min=1)] = 200,
    as_json: Json = False,
) -> None:
    """Cost of a refinement by `refine`, by one search each, by Lucene and by tantivy, on the same states."""
    benchmark("refinements").run(index, questions, lucene_jar, tantivy, limit, as_json)


def bench_search(
    index: Index,
    questions: Questions,
    lucene_jar: LuceneJar = None,
    limit: Annotated[int, typer.Option(help="how many questions", min=1)] = 1000,
    as_json: Json = False,
) -> None:
    """Plain top-5 queries a second beside Lucene and tantivy."""
    benchmark("plain_search").run(index, questions, lucene_jar, limit, as_json)


def bench_index(
    passages: Annotated[list[Path], typer.Argument(help="files of passages")],
    lucene_jar: LuceneJar = None,
    as_json: Json = False,
) -> None:
    """Time to build an index beside Lucene."""
    benchmark("index_build").run(passages, lucene_jar, as_json)


def bench_exactness(
    index: Index,
    questions: Questions,
    pairs: Annotated[int, typer.Option(help="how many (state, refinement) pairs", min=2)] = 50_000,
    lucene_jar: Annotated[Path | None, typer.Option(help="jar with Lucene's classes: compare with Lucene too")] = None,
) -> None:
    """Whether `refine` equals `search`, the reference engine and Lucene; prints one line of JSON."""
    benchmark("exactness").run(index, questions, pairs, lucene_jar)


def bench_faults(
    kills: Annotated[int, typer.Option(help="builds, additions and deletions to kill", min=0)] = 200,
    corruptions: Annotated[int, typer.Option(help="files to damage", min=0)] = 300,
    as_json: Json = False,
) -> None:
    """Kill writers, damage files, fill the disk: nothing may be lost or go unseen."""
    if not benchmark("faults").run(kills=kills, corruptions=corruptions, as_json=as_json):
        raise typer.Exit(1)


def bench_fuzz(
    count: Annotated[int, typer.Option(help="how many query strings", min=1)] = 1_000_000,
    index: Annotated[Path | None, typer.Option(help="an index; one of 10,000 passages is made without it")] = None,
    as_json: Json = False,
) -> None:
    """Ask fuzzed query strings: no crash, only typed errors, each within 50 ms of CPU time."""
    if not benchmark("fuzz_queries").run(index, count, as_json=as_json):
        raise typer.Exit(1)


def bench_mutate(
    kind: Annotated[str, typer.Argument(help="what to mutate: index or models")] = "index",
    count: Annotated[int, typer.Option(help="how many mutants", min=1)] = 10_000,
    seed: Annotated[int, typer.Option(help="of the mutations")] = 26,
    bounds: Annotated[
        bool, typer.Option("--bounds", help="kernels with bounds checks: finds what goes unpunished")
    ] = False,
    lineage: Annotated[str | None, typer.Option(help="use one mutant again, as a failure names it")] = None,
    as_json: Json = False,
) -> None:
    """Open and use mutated indexes or model folders: no signal, no hang, no traceback.

    orienteer bench mutate index --count 100000 --bounds
    """
    if kind not in ("index", "models"):
        raise OrienteerError(f"cannot mutate {kind!r}; expected index or models")
    if not benchmark("mutate").run(kind, count, seed, bounds, as_json, lineage):
        raise typer.Exit(1)


def bench_reader(
    index: Index,
    data: Annotated[Path, typer.Option(help="folder with questions/{squad-dev,dev,dev-who}.jsonl.xz")] = Path(
        "../shared/data"
    ),
    reader: Reader = None,
    float32: Annotated[Path | None, typer.Option(help="folder of the float32 weights, to compare int8 with")] = None,
    sample: Annotated[int, typer.Option(help="questions of each set; 0: all", min=0)] = 0,
    deep: Annotated[int, typer.Option(help="questions whose BM25 top 100 is read", min=0)] = 0,
    titles: Annotated[int, typer.Option(help="questions read again without titles", min=0)] = 100,
    cache: Annotated[Path | None, typer.Option(help="file of readings: a killed run goes on where it was")] = None,
    threads: Annotated[int, typer.Option(help="threads to use", min=1)] = 2,
    parts: Annotated[str, typer.Option(help="what to measure, with commas between")] = "gold,speed,rank,float32",
    out_file: Annotated[Path | None, typer.Option("--out", help="file for the figures, as JSON")] = None,
) -> None:
    """A reader's answers, ranks and probabilities, what int8 costs and gains, speed beside torch; a line of JSON each.

    orienteer bench reader --index my-index --sample 100
    """
    benchmark("reader").run(
        index, data, reader, float32, sample, deep, titles, cache, threads, parts.split(","), out_file
    )  # fmt: skip


def bench_mcts(
    index: Annotated[Path | None, typer.Option(help="an index whose words plans think of; none: wordpieces")] = None,
    base: Annotated[str, typer.Option(help="folder of a reader or BERT, for its tokenizer")] = "shipped",
    peer_python: Annotated[str | None, typer.Option(help="a Python that has mctx; none: this one, if it has")] = None,
    seconds: Annotated[float, typer.Option(help="for each figure at least", min=0.1)] = 2.0,
    as_json: Json = False,
) -> None:
    """Tree simulations a second, alone and with the networks, beside mctx where it is installed."""
    benchmark("mcts").run(index, base, peer_python, seconds, as_json)


def bench_steps(
    index: Index,
    questions: Questions,
    agents: Annotated[str, typer.Option(help="agents to play, with commas between")] = "pointer[snippet=45],muzero",
    steps: Annotated[int, typer.Option(help="of a session at most", min=1)] = 20,
    alone: Annotated[int, typer.Option(help="sessions that are played one at a time", min=1)] = 8,
    together: Annotated[int, typer.Option(help="sessions in one batch", min=1)] = 64,
    read: Annotated[bool, typer.Option("--read", help="with the shipped reader instead of a stand-in")] = False,
    as_json: Json = False,
) -> None:
    """Cost of an agent's step beside search and reading: one session at a time, and many in one batch.

    orienteer bench steps --agents pointer,muzero --index my-index --questions dev.jsonl.xz
    """
    names = [name.strip() for name in agents.split(",")]
    benchmark("steps").run(index, questions, names, steps, alone, together, read, as_json)


def bench_sessions(
    index: Index,
    questions: Annotated[Path, typer.Option(help="file of questions with answers")],
    reader: Reader = None,
    limit: Annotated[int, typer.Option(help="questions, pruned and exhaustive", min=1)] = 60,
    naive: Annotated[int, typer.Option(help="questions that are also searched the naive way; 0: none", min=0)] = 5,
    grammar: Annotated[str, typer.Option(help="grammar of the sessions")] = "G4",
    as_json: Json = False,
) -> None:
    """Passages read and time of a Rocchio search, beside reading everything and beside the naive way.

    orienteer bench sessions --index my-index --questions dev.jsonl.xz
    """
    benchmark("sessions").run(index, questions, reader, limit, naive, grammar, as_json)


def bench_isolation(
    seconds: Annotated[float, typer.Option(help="of each phase, alone and beside", min=1)] = 60.0,
    out_file: Annotated[Path | None, typer.Option("--out", help="file for the report, JSON")] = None,
    heavy: Annotated[str, typer.Option(help="the heavy user's agent")] = "muzero[hits=100]",
    as_json: Json = False,
) -> None:
    """What a light user notices of a heavy one: p50 and p99 by action, alone and beside.

    orienteer bench isolation --seconds 60
    """
    if not benchmark("isolation").run(seconds, out_file, as_json, heavy):
        raise typer.Exit(1)


def bench_crash_points(
    out_file: Annotated[Path | None, typer.Option("--out", help="file for the report, JSON")] = None,
    stride: Annotated[int, typer.Option(help="every so many calls", min=1)] = 1,
    only: Annotated[str, typer.Option(help="session, training, index or sync; none: all of them")] = "",
    as_json: Json = False,
) -> None:
    """Kill, fail or fill the disk at every call that changes a file: the old state or the new one (needs cc).

    orienteer bench crash-points
    """
    if not benchmark("crash_points").run(out_file, stride, as_json, only):
        raise typer.Exit(1)


def bench_soak(
    out_file: Annotated[Path, typer.Option("--out", help="file for the report, JSON, written every minute")],
    minutes: Annotated[float, typer.Option(help="how long", min=0.1)] = 120.0,
    clients: Annotated[int, typer.Option(help="clients at one time", min=1)] = 100,
    pace: Annotated[float, typer.Option(help="mean seconds between two actions of a client", min=0.01)] = 10.0,
    as_json: Json = False,
) -> None:
    """A server left on: random actions of the whole API; no 5xx, no lost session, flat memory, p99 by action.

    orienteer bench soak --minutes 120 --out soak.json
    """
    if not benchmark("soak").run(minutes, clients, pace, out_file, as_json):
        raise typer.Exit(1)


def bench_scale(
    passages: Annotated[
        list[Path] | None, typer.Argument(help="files of passages, parts of one size", show_default=False)
    ] = None,
    questions: Annotated[Path | None, typer.Option(help="file of questions with answers", show_default=False)] = None,
    *,
    work: Annotated[Path, typer.Option("--out", help="folder for indexes and scale.json; built ones are kept")],
    sizes: Annotated[str, typer.Option(help="files in each index")] = "1,2,4,8",
    workers: Annotated[str, typer.Option(help="worker processes to try")] = "1,2,4",
    reader: Reader = None,
    search: Annotated[int, typer.Option(help="questions to search", min=24)] = 1000,
    refine: Annotated[int, typer.Option(help="questions to refine", min=1)] = 40,
    read: Annotated[int, typer.Option(help="questions whose passages are read", min=1)] = 20,
    rocchio: Annotated[int, typer.Option(help="questions to search Rocchio sessions for", min=1)] = 8,
    table: Annotated[bool, typer.Option("--table", help="print what is in --out already, measure nothing")] = False,
    as_json: Json = False,
) -> None:
    """Cost of index, search, refine, reading and Rocchio by the number of passages and of workers.

    Some ten minutes on two quiet processors. Tables are in Markdown; docs/scale.md has them.

    orienteer bench scale passages-*.jsonl.xz --questions dev.jsonl.xz --out scale
    """
    scale = benchmark("scale")
    if table:
        scale.show(work, as_json)
        return
    if not passages or questions is None:
        raise OrienteerError("nothing to measure with; name files of passages and --questions, or see --table")
    counts = {name: _numbers(name, text) for name, text in (("--sizes", sizes), ("--workers", workers))}
    load = scale.Load(search, refine, read, rocchio)
    scale.run(passages, questions, work, counts["--sizes"], counts["--workers"], load, reader, as_json)


def bench_remote(
    address: Annotated[str, typer.Argument(help="the index to measure: https://host:9200/index", show_default=False)],
    questions: Questions,
    index: Annotated[Path | None, typer.Option("--index", help="embedded index of the same passages")] = None,
    limit: Annotated[int, typer.Option(help="how many questions", min=1)] = 10,
    refinements: Annotated[int, typer.Option(help="of each question at most", min=1)] = 600,
    batches: Annotated[str, typer.Option(help="searches in a request, to try")] = "1,16,64,256",
    concurrencies: Annotated[str, typer.Option(help="requests at once, to try")] = "1,2,4,8",
    as_json: Json = False,
) -> None:
    """Cost of a refinement over OpenSearch or Elasticsearch, by batch and concurrency, beside the embedded engine.

    orienteer bench remote http://127.0.0.1:9200/passages --questions dev.jsonl.xz --index my-index
    """
    sizes, at_once = _numbers("--batches", batches), _numbers("--concurrencies", concurrencies)
    benchmark("remote").run(address, questions, index, limit, refinements, sizes, at_once, as_json)


def bench_remote_sessions(
    address: Annotated[str, typer.Argument(help="the index to measure: https://host:9200/index", show_default=False)],
    questions: Questions,
    index: Index,
    agent: Annotated[str, typer.Option(help="the agent that plays")] = "pointer",
    steps: Annotated[int, typer.Option(help="refinements of a session", min=1, max=100)] = 5,
    limit: Annotated[int, typer.Option(help="how many questions", min=1)] = 10,
    ways: Annotated[str, typer.Option(help="of: mirror, pool, service")] = "mirror,pool,service",
    mirror: Annotated[Path | None, typer.Option(help="folder of a mirror; none: the index")] = None,
    as_json: Json = False,
) -> None:
    """Sessions over OpenSearch or Elasticsearch beside the embedded engine: seconds, searches, equal actions.

    orienteer bench remote-sessions http://127.0.0.1:9200/passages --questions dev.jsonl.xz --index my-index
    """
    chosen = [each.strip() for each in ways.split(",")]
    if unknown := sorted(set(chosen) - {"mirror", "pool", "service"}):
        raise OrienteerError(f"--ways holds {unknown[0]!r}; expected some of mirror, pool, service")
    benchmark("remote_sessions").run(address, questions, index, agent, steps, limit, chosen, mirror, as_json)


def bench_find_query(
    index: Index,
    sets: Annotated[int, typer.Option(help="how many sets, their kinds in turn", min=6)] = 100,
    seed: Annotated[int, typer.Option(help="of the sets")] = 0,
    lucene_jar: LuceneJar = None,
    lucene_index: Annotated[
        Path | None, typer.Option(help="folder of Lucene's index; made where it is missing; none: a temporary one")
    ] = None,
    out_file: Annotated[
        Path | None, typer.Option("--out", help="file for the report, JSON, written after each")
    ] = None,
    as_json: Json = False,
) -> None:
    """find-query on random sets with a hidden property: F1, CPU time, recall of a hidden half beside baselines.

    orienteer bench find-query --index my-index --out find-query.json
    """
    benchmark("find_query").run(index, sets, seed, lucene_jar, lucene_index, out_file, as_json)


def bench_thumbs(
    index: Index,
    beir: Annotated[Path, typer.Option(help="folder in BEIR's layout: questions with judgements")],
    split: Annotated[str, typer.Option(help="which of its qrels thumbs are taken from")] = "train",
    judge: Annotated[str, typer.Option(help="which of its qrels judges")] = "test",
    thumbs: Annotated[int, typer.Option(help="of each draw", min=5)] = 20,
    draws: Annotated[int, typer.Option(help="how many times thumbs are drawn", min=1)] = 100,
    seed: Annotated[int, typer.Option(help="of the draws")] = 0,
    out_file: Annotated[Path | None, typer.Option("--out", help="file for the report, JSON")] = None,
) -> None:
    """What `learn` gains from simulated thumbs on questions that gave none, beside nothing and a refit alone.

    orienteer bench thumbs --index scifact-index --beir scifact --out thumbs.json
    """
    files = [beir / "qrels" / f"{name}.tsv" for name in (split, judge)]
    for file in files:
        if not file.is_file():
            raise OrienteerError(f"{file}: no such file; expected a folder in BEIR's layout with this split")
    benchmark("thumbs").run(index, *files, thumbs, draws, seed, out_file)


def _numbers(option: str, text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise OrienteerError(f"{option} {text!r}; expected numbers of 1 or more with commas between, such as 1,2,4")
    return numbers


def bench_feel(
    index: Index,
    runs: Annotated[int, typer.Option(help="warm runs of each command", min=1)] = 3,
    cold: Annotated[bool, typer.Option(help="also the first run after an installation, which compiles")] = True,
    out_file: Annotated[Path | None, typer.Option("--out", help="file for the report, JSON")] = None,
) -> None:
    """What a person waits for: `--help`, `search`, `ask` with 0, 5, 20 steps, alone and by a server, first and warm."""
    benchmark("feel").run(index, runs, cold, out_file)
