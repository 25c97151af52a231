"""Evaluation of agents: measures, significance, tables, figures, run files, the report."""

from orienteer.evaluation.experiment import Experiment, experiment
from orienteer.evaluation.figures import draw_landscape, read_landscape
from orienteer.evaluation.journal import EvaluationError
from orienteer.evaluation.measures import MEASURES, Measure
from orienteer.evaluation.runner import Evaluation, evaluate, write_tables
from orienteer.evaluation.sessions import EvaluationProgress, WorkerConfig
from orienteer.evaluation.statistics import Comparison, Statistics, bootstrap, compare, headroom, holm, permutation_test

__all__ = [
    "MEASURES",
    "Comparison",
    "Evaluation",
    "EvaluationError",
    "EvaluationProgress",
    "Experiment",
    "Measure",
    "Statistics",
    "WorkerConfig",
    "bootstrap",
    "compare",
    "draw_landscape",
    "evaluate",
    "experiment",
    "headroom",
    "holm",
    "permutation_test",
    "read_landscape",
    "write_tables",
]  # fmt: skip
