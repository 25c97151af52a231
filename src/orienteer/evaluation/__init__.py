"""The instrument by which agents are judged: measures, significance, tables, figures, run files, the report."""

from orienteer.evaluation.errors import EvaluationError
from orienteer.evaluation.experiment import Experiment, experiment
from orienteer.evaluation.figures import draw_landscape, read_landscape
from orienteer.evaluation.measures import MEASURES, Measure
from orienteer.evaluation.planned_comparisons import compare
from orienteer.evaluation.playing import Crew
from orienteer.evaluation.progress import Progress
from orienteer.evaluation.runner import Evaluation, evaluate, write_tables
from orienteer.evaluation.significance import bootstrap, holm, permutation_test
from orienteer.evaluation.statistics import Comparison, Statistics, headroom

__all__ = [
    "MEASURES", "Comparison", "Crew", "Evaluation", "EvaluationError", "Experiment", "Measure", "Progress",
    "Statistics", "bootstrap", "compare", "draw_landscape", "evaluate", "experiment", "headroom", "holm",
    "permutation_test", "read_landscape", "write_tables",
]  # fmt: skip
