"""`why-not`, `find-query`, `tune`, `learn`, `regression`: the query workshop on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from orienteer.commands.terminal import compiling, out, plain, print_json
from orienteer.errors import OrienteerError
from orienteer.query import parse

if TYPE_CHECKING:
    from orienteer.engine import Engine
    from orienteer.workshop.find_query import FindQuery
    from orienteer.workshop.regression import Comparison
    from orienteer.workshop.tune import Tuning
    from orienteer.workshop.why_not import WhyNot

IndexOption = Annotated[Path | None, typer.Option(help="folder of the index; none: the bundled corpus")]
Json = Annotated[bool, typer.Option("--json", help="print JSON")]

DROPPED = 3  # exit code of `regression`; 1 is an error, 2 a wrong option


def why_not(
    query: Annotated[str, typer.Argument(help="the query, in Lucene's syntax")],
    passage: Annotated[str, typer.Option("--id", help="id of the passage that is missing")],
    index: IndexOption = None,
    k: Annotated[int, typer.Option("-k", help="how many hits count as found", min=1, max=1000)] = 10,
    keep: Annotated[list[str] | None, typer.Option(help="id of a hit that must not be lost; may be repeated")] = None,
    changes: Annotated[int, typer.Option(help="changes of the query at most", min=0, max=2)] = 2,
    as_json: Json = False,
) -> None:
    """Why a query does not find a passage, and the smallest edit with which it does.

    orienteer why-not 'green guy in a can' --index my-index --id oscar
    """
    from orienteer.workshop import why_not as workshop

    with compiling():
        result = workshop.why_not(_engine(index), parse(query), passage, k=k, keep=keep or (), changes=changes)
    if as_json:
        return print_json(workshop.as_dict(result))
    _print_why_not(result)
    return None


def find_query(
    relevant: Annotated[str, typer.Option(help="ids, comma between, or a file with an id a line")],
    index: IndexOption = None,
    not_relevant: Annotated[str | None, typer.Option(help="ids that must not be matched, or a file of them")] = None,
    seed: Annotated[str | None, typer.Option(help="a query in Lucene's syntax to begin with")] = None,
    objective: Annotated[
        str, typer.Option(help="f: the matches; description: a set known in part; ap or recall@N: the ranking")
    ] = "f",
    clauses: Annotated[int, typer.Option(help="clauses at most", min=1, max=64)] = 12,
    beta: Annotated[float, typer.Option(help="of F-beta; above 1 recall counts more", min=0.01)] = 1.0,
    holdout: Annotated[float, typer.Option(help="share of the ids that only judges", min=0, max=0.9)] = 0.0,
    beam: Annotated[int, typer.Option(help="queries kept of each length", min=1)] = 8,
    seconds: Annotated[float, typer.Option(help="time at most", min=0)] = 30.0,
    as_json: Json = False,
) -> None:
    """The best readable query for a set of passages: few clauses that match them and little else.

    orienteer find-query --index my-index --relevant ids.txt --holdout 0.3
    """
    from orienteer.workshop import find_query as workshop

    wanted, rejected = _ids(relevant), _ids(not_relevant) if not_relevant else []
    with compiling():
        result = workshop.find_query(
            _engine(index), wanted, not_relevant=rejected, seed=parse(seed) if seed else None, clauses=clauses,
            objective=objective, beta=beta, holdout=holdout, beam=beam, seconds=seconds,
        )  # fmt: skip
    if as_json:
        return print_json(workshop.as_dict(result))
    _print_found(result)
    return None


def tune(
    judged: Annotated[Path, typer.Option(help="a BEIR folder, its qrels/SPLIT.tsv, or questions judged by --qrels")],
    index: IndexOption = None,
    qrels: Annotated[Path | None, typer.Option(help="file of judgements, TREC's or BEIR's")] = None,
    out_dir: Annotated[Path | None, typer.Option("--out", help="folder for ranking.json and opensearch.json")] = None,
    limit: Annotated[int | None, typer.Option(help="only the first so many questions", min=1)] = None,
    folds: Annotated[int, typer.Option(help="of the cross-validation", min=2)] = 5,
    seed: Annotated[int, typer.Option(help="decides folds and intervals")] = 0,
    as_json: Json = False,
) -> None:
    """Tune k1, b, weights of title and phrases, stop words and a default refinement for judged questions.

    Says so where nothing is shown to be better.

    orienteer tune --index my-index --judged my-beir-folder --out tuned
    """
    from itertools import islice

    from orienteer.data import read_questions
    from orienteer.data.atomic import atomic_write
    from orienteer.engine.protocol import HasPostings
    from orienteer.workshop import ranking_setting as setting_files
    from orienteer.workshop import tune as workshop

    engine = _engine(index)
    questions = list(islice(read_questions(judged, qrels=qrels), limit))
    with compiling():
        result = workshop.tune(engine, questions, folds=folds, seed=seed)
    if out_dir is not None:
        out_dir.mkdir(parents=True, exist_ok=True)
        best = result.recommended
        left_out: list[str] = []
        if best.stop_share < 1.0 and isinstance(engine, HasPostings):
            left_out = setting_files.stop_words(engine, best.stop_share)
        files = {
            "ranking.json": setting_files.embedded_settings(best),
            "opensearch.json": setting_files.opensearch_settings(best, left_out),
        }
        for name, content in files.items():
            atomic_write(out_dir / name, json.dumps(content, indent=1) + "\n")
    if as_json:
        return print_json(workshop.as_dict(result))
    _print_tuning(result)
    return None


def _print_tuning(result: Tuning) -> None:
    out.print(
        f"{result.settings:,} settings × {result.questions:,} questions in {result.seconds:.1f} s; nDCG@10",
        soft_wrap=True,
    )
    from orienteer.workshop.ranking_setting import Setting

    table = Table("", "nDCG@10", *(name.replace("_", " ") for name in Setting._fields), box=None, header_style="dim")
    for name, value, setting in (
        ("default", result.default_value, Setting()), ("best on all questions", result.best_value, result.best),
    ):  # fmt: skip
        table.add_row(
            name, f"{value:.4f}", *(plain(each) if isinstance(each, str) else f"{each:g}" for each in setting)
        )
    table.add_row("cross-validated", f"{result.estimate:.4f}")
    out.print(table)
    told = f"cross-validated less default {result.difference:+.4f}, 95 % {result.low:+.4f} to {result.high:+.4f}"
    if result.shown_better:
        out.print(f"[bold]shown to be better[/]: {told}", soft_wrap=True)
    else:
        out.print(f"[yellow]no setting is shown to be better[/]: {told}; the default is kept", soft_wrap=True)


def learn(
    thumbs: Annotated[Path, typer.Option(help="file of thumbs, as the server keeps it: thumbs.jsonl")],
    index: IndexOption = None,
    out_file: Annotated[Path | None, typer.Option("--out", help="file for the proposal")] = None,
    qrels: Annotated[Path | None, typer.Option(help="write the thumbs as TREC's qrels, and end")] = None,
    seed: Annotated[int, typer.Option(help="decides the intervals")] = 0,
    as_json: Json = False,
) -> None:
    """Learn from thumbs: a refit, synonyms and boosts, judged by leaving one question out; changes nothing.

    orienteer learn --index my-index --thumbs sessions/thumbs.jsonl --out proposal.json
    """
    from orienteer.data.atomic import atomic_write
    from orienteer.engine.protocol import fingerprint_of
    from orienteer.workshop import learn as workshop
    from orienteer.workshop.thumbs import ThumbStore, qrels_lines

    engine = _engine(index)
    questions = ThumbStore(thumbs).questions(fingerprint_of(engine))
    if qrels is not None:
        atomic_write(qrels, qrels_lines(questions))
        return None
    with compiling():
        proposal = workshop.learn(engine, questions, seed=seed)
    if out_file is not None:
        atomic_write(out_file, json.dumps(workshop.as_dict(proposal), indent=1, ensure_ascii=False) + "\n")
    if as_json:
        return print_json(workshop.as_dict(proposal))
    out.print(f"{proposal.thumbs} thumbs on {proposal.questions} questions; nDCG@10, leaving one question out")
    table = Table("", "nDCG@10", "less nothing", "95 %", box=None, header_style="dim")
    table.add_row("nothing", f"{proposal.nothing:.4f}")
    for kind, each in proposal.estimates.items():
        table.add_row(kind, f"{each.value:.4f}", f"{each.difference:+.4f}", f"{each.low:+.4f} to {each.high:+.4f}")
    out.print(table)
    refit = ", ".join(f"{name} {value}" for name, value in proposal.changes.setting._asdict().items() if value != "")
    out.print(plain(f"refit: {refit}"))
    for term, others in proposal.changes.synonyms.items():
        out.print(f"synonyms: {plain(term)} → {plain(', '.join(others))}", soft_wrap=True)
    for term, weight in proposal.changes.boosts.items():
        out.print(f"boost: {plain(term)} ^{1 + weight:g}", soft_wrap=True)
    if proposal.recommended == "nothing":
        out.print("[yellow]nothing is shown to be better[/]; leave the ranking as it is")
    else:
        out.print(f"[bold]shown to be better[/]: {proposal.recommended}")
    return None


def regression(
    index: IndexOption = None,
    thumbs: Annotated[Path | None, typer.Option(help="file of thumbs, as the server keeps it: thumbs.jsonl")] = None,
    judged: Annotated[Path | None, typer.Option(help="a BEIR folder, its qrels/SPLIT.tsv, or questions")] = None,
    qrels: Annotated[Path | None, typer.Option(help="file of judgements for --judged, TREC's or BEIR's")] = None,
    ranking: Annotated[
        Path | None, typer.Option(help="ranking.json of tune, or a proposal of learn; none: what is switched on")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="file of the last report; none: beside the index")] = None,
    against: Annotated[Path | None, typer.Option(help="compare with this older report, and write none")] = None,
    accept: Annotated[bool, typer.Option(help="keep today's report even where a drop is shown")] = False,
    seed: Annotated[int, typer.Option(help="decides the interval")] = 0,
    as_json: Json = False,
) -> None:
    """Ask the judged questions again and compare with the last report; exit code 3 where a drop is shown.

    orienteer regression --index my-index --thumbs saved/thumbs/thumbs.jsonl
    """
    from orienteer.data import read_questions
    from orienteer.engine.protocol import fingerprint_of
    from orienteer.workshop import regression as workshop
    from orienteer.workshop.thumbs import ThumbStore

    if (thumbs is None) == (judged is None):
        raise OrienteerError("expected judgements: either --thumbs FILE or --judged FILE")
    if against is not None and not against.is_file():
        raise OrienteerError(f"{against}: no such file; expected an older report of this command")
    report = report or against
    if report is None:
        if index is None:
            raise OrienteerError("the bundled corpus has no folder for its report; name a file with --report")
        report = workshop.report_file(index)
    engine = _engine(index)
    last = workshop.read_report(against or report)
    known = [*(last.indexes if last else ()), fingerprint_of(engine)]
    changes = workshop.read_changes(ranking) if ranking else None
    if thumbs is not None:
        if not thumbs.is_file():
            raise OrienteerError(f"{thumbs}: no such file; expected thumbs as the server keeps them")
        # Thumbs were given on the index as it was: a sync gives it another fingerprint, not other judgements.
        questions = ThumbStore(thumbs).questions(*known)
        changes = changes or workshop.switched_on(thumbs.with_name("learned.json"), fingerprint_of(engine))
    else:
        assert judged is not None
        questions = list(read_questions(judged, qrels=qrels))
    with compiling():
        today = workshop.make_report(engine, questions, changes, known)
        result = workshop.compare(engine, questions, today, last, seed=seed)
    kept = against is None and (accept or not result.drop_is_shown)
    if kept:
        workshop.write_report(report, today)
    if as_json:
        print_json(workshop.as_dict(result))
    else:
        _print_regression(result, report, kept)
    if result.drop_is_shown and not accept:
        raise typer.Exit(DROPPED)


def _print_regression(result: Comparison, file: Path, kept: bool) -> None:
    out.print(f"{result.questions:,} judged questions, nDCG@10 {result.value:.4f}")
    if result.last_made is None:
        out.print(f"the first report: {plain(str(file))}", soft_wrap=True)
        return
    if not result.compared:
        out.print(f"[yellow]no question in common with the report of {plain(result.last_made)}[/]", soft_wrap=True)
        return
    out.print(
        f"{result.compared:,} of them in the report of {plain(result.last_made)}: {result.before:.4f} → "
        f"{result.after:.4f}, {result.difference:+.4f}, 95 % {result.low:+.4f} to {result.high:+.4f}",
        soft_wrap=True,
    )
    for moved in result.worse:
        told = f"  {moved.before:.2f} → {moved.after:.2f}  [bold]{plain(moved.question)}[/]"
        if moved.left:
            told += f"  [dim]left the first ten: {plain(', '.join(moved.left))}[/]"
        if moved.gone:
            told += f"  [dim]not in the index: {plain(', '.join(moved.gone))}[/]"
        out.print(told, soft_wrap=True)
    out.print(f"{len(result.worse):,} worse, {len(result.better):,} better")
    if result.drop_is_shown:
        out.print("[bold red]a drop is shown[/]" + ("" if kept else f"; {plain(file.name)} stays"))
    elif result.worse:
        out.print("no drop is shown")


def _ids(given: str) -> list[str]:
    """The lines of a file of this name, or the text's parts between commas."""
    file = Path(given)
    try:
        lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else given.split(",")
    except (OSError, UnicodeDecodeError) as error:
        raise OrienteerError(f"{given}: cannot be read: {error}; expected a file with an id a line") from None
    return [line.strip() for line in lines if line.strip()]


def _print_found(result: FindQuery) -> None:
    best, quality = result.best, result.best.quality
    held = f", recall of {result.held_out} held out {best.held_out:.2f}" if best.held_out is not None else ""
    out.print(
        f"[bold]F {quality.f:.3f}[/]: {quality.relevant} of {result.wanted} passages among {quality.matches:,} matches"
        f"{held}  [dim]{result.tried:,} queries, {result.seconds:.1f} s[/]", soft_wrap=True,
    )  # fmt: skip
    if not result.complete:
        out.print("[yellow]time ran out; --seconds gives it more[/]")
    out.print(f"[bold cyan]{plain(best.boolean)}[/]", soft_wrap=True)
    out.print(f"Lucene: {plain(best.lucene)}", soft_wrap=True)
    out.print(f"OpenSearch: {plain(json.dumps(best.opensearch(), ensure_ascii=False))}", soft_wrap=True)
    table = Table("clause", "loss without", "passages lost", "matches without", box=None, header_style="dim")
    for each in result.contributions:
        table.add_row(plain(each.clause), f"{each.loss:+.3f}", f"{each.relevant_lost}", f"{each.matches_without:,}")
    out.print(table)
    front = Table("clauses", "F", "precision", "recall", "held out", "matches", box=None, header_style="dim")
    for found in result.front:
        held = "" if found.held_out is None else f"{found.held_out:.2f}"
        told = found.quality
        row = (f"{told.f:.3f}", f"{told.precision:.2f}", f"{told.recall:.2f}", held, f"{told.matches:,}")
        front.add_row(str(len(found.clauses)), *row, style="bold" if found == best else "")
    out.print(front)


def _engine(index: Path | None) -> Engine:
    if index is None:
        from orienteer.bundled import bundled_engine

        return bundled_engine()
    from orienteer.engine.open import open_engine

    return open_engine(index)


def _print_why_not(result: WhyNot) -> None:
    kth = result.kth
    if result.rank is not None:
        against = f"; rank {result.k} has {kth.score:.4f} ({plain(kth.id)})" if kth else ""
        out.print(f"[bold]rank {result.rank:,}[/], score {result.score:.4f}{against}", soft_wrap=True)
    else:
        out.print("[bold]not returned by the query[/]")
    for clause in result.blocked_by:
        verb = "requires" if clause.startswith("+") else "excludes"
        out.print(f"shut out: the query {verb} {plain(clause[1:])}", soft_wrap=True)
    if result.clauses:
        out.print(_clause_table(result))
    if result.missing:
        out.print(f"missing: {plain(', '.join(result.missing))}", soft_wrap=True)
    if kth:
        out.print(f"length: {result.length} terms, rank {result.k} has {result.kth_length}")
    if result.found:
        return
    if not result.edits:
        out.print(f"[yellow]none of {result.tried:,} edits brings it into the first {result.k}[/]")
        return
    size = len(result.edits[0].added) + len(result.edits[0].dropped)
    sure = "" if result.complete else "; not all could be tried in time"
    changes = "one change" if size == 1 else f"{size} changes"
    out.print(f"\n[bold]smallest edits[/] ({changes}, of {result.tried:,} tried{sure})")
    for edit in result.edits:
        out.print(f"  [bold cyan]{plain(str(edit))}[/]  [dim]rank {edit.rank}[/]", soft_wrap=True)
        if edit.left:
            out.print(f"    leaves: {plain(', '.join(edit.left))}", style="dim", soft_wrap=True)


def _clause_table(result: WhyNot) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("clause", "boost", "idf", "frequency", "score", f"rank {result.k}: frequency", "score"):
        table.add_column(column, justify="left" if column == "clause" else "right")
    signs = {"must": "+", "should": "", "must_not": "-"}
    for each in result.clauses:
        row: list[Any] = [
            f"{signs[each.occur]}{each.field}:{plain(each.term)}", f"{each.boost:g}", f"{each.idf:.3f}",
            each.frequency, f"{each.score:.4f}", each.kth_frequency, f"{each.kth_score:.4f}",
        ]  # fmt: skip
        table.add_row(*map(str, row), style="" if each.frequency else "dim")
    return table
