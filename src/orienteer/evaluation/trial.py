"""`trial`: does an agent help on an index that is already there? Three ways of asking it, judged, on one page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from orienteer.data.passage import Question
from orienteer.defaults import ORDER
from orienteer.engine.protocol import Engine
from orienteer.evaluation.experiment import Experiment, experiment
from orienteer.evaluation.sessions import OnProgress
from orienteer.evaluation.statistics import Comparison
from orienteer.reader.protocol import Reader
from orienteer.session import Settings

PLAIN, READ = "bm25", "bm25+ps"
SHOWN = ("NDCG@5", "Top-1", "Top-5")
WAYS = {PLAIN: "the service's own ranking", READ: "the same five, put in order by the reader"}
ENOUGH = 50  # questions below which differences are seldom more than chance


@dataclass(frozen=True, slots=True)
class Trial:
    """What a trial found.

    searches   agent → searches sent to the service, a question
    """

    address: str
    agent: str
    result: Experiment
    searches: Mapping[str, float]
    steps: int

    def comparisons(self) -> list[Comparison]:
        return list(self.result.compare(self.agent, PLAIN)) + list(self.result.compare(self.agent, READ))


def run_trial(
    address: str, engine: Engine, questions: Sequence[Question], *, agent: str, steps: int, sent: Callable[[], int],
    reader: Reader | None = None, progress: OnProgress | None = None,
) -> Trial:  # fmt: skip
    """`sent` says how many searches the service has got so far."""
    searches: dict[str, int] = {}
    so_far = sent()

    def count(done: object) -> None:
        nonlocal so_far
        name = str(getattr(done, "agent", agent))
        now = sent()
        searches[name] = searches.get(name, 0) + now - so_far
        so_far = now
        if progress is not None:
            progress(done)  # type: ignore[arg-type]

    result = experiment(
        [PLAIN, READ, agent], questions, engine=engine, reader=reader, settings=Settings(steps=steps, order=ORDER),
        progress=count,
    )  # fmt: skip
    each = {name: searches.get(name, 0) / max(1, len(questions)) for name in result.metrics}
    return Trial(address, agent, result, each, steps)


def page(trial: Trial) -> str:
    """The report, in Markdown."""
    count = len(trial.result.questions)
    lines = [
        "# Does an agent help on this index?", "",
        f"{count} questions, each asked in three ways, over `{trial.address}`. "
        f"Refinements of the agent at most: {trial.steps}.", "",
        f"| | {' | '.join(SHOWN)} | seconds a question | searches a question |",
        "|---|" + "---|" * (len(SHOWN) + 2),
    ]  # fmt: skip
    intervals = trial.result.statistics.intervals
    for name, values in trial.result.metrics.items():
        cells = []
        for measure in SHOWN:
            low, high = intervals[name][measure]
            cells.append(f"{values[measure]:.1f} ({low:.1f}–{high:.1f})")
        way = WAYS.get(name, f"the agent `{name}`")
        seconds = trial.result.seconds.get(name)
        spent = "–" if seconds is None else f"{seconds:.2f}"
        lines.append(f"| {way} | {' | '.join(cells)} | {spent} | {trial.searches[name]:.0f} |")
    lines += ["", "In percent, with 95 % intervals over the questions.", "", "## The agent beside the others", ""]
    for each in trial.comparisons():
        if each.measure in SHOWN:
            lines.append(f"- {_said(each)}")
    if count < ENOUGH:
        lines += ["", f"With {count} questions only large differences are more than chance; {ENOUGH} or more say more."]
    lines += [
        "", "## How to read this", "",
        "- NDCG@5: how well the first five passages are ordered; Top-1, Top-5: the answer is in the first, in one of "
        "the first five.",
        "- Searches a question is the load on the service. With a mirror (`orienteer mirror`) the agent's refinements "
        "are looked at on this machine, and only what it chooses is asked of the service.",
        "- Waiting for the reader is part of the seconds; it runs where this trial ran.",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _said(each: Comparison) -> str:
    other = WAYS[each.baseline]
    sure = "more than chance" if each.p_holm < 0.05 else "may be chance"
    return (
        f"{each.measure}: {each.difference:+.1f} points against {other} "
        f"({each.low:+.1f} to {each.high:+.1f}; p {each.p_holm:.3f}, {sure})"
    )
