"""The paper's own figures, to stand beside ours: `tab:results`, `-t5`, `-full`, `tab:PRF-results`, and the rest.

Its corpus is 13 million passages of Wikipedia, its questions OpenQA-NQ (8,757 dev, 3,610 test), its agents have up to
11 billion parameters: the figures say where the system stood there, not what ours should reach.
"""

from __future__ import annotations

from collections.abc import Mapping

Table = Mapping[str, tuple[float | None, ...]]  # measure → one figure a column

# The columns of `tab:results` and which of our agents stands in each; the first that was evaluated is taken.
# What ships under near names is something else: `copynet` is no T5, `muzero` plans with the lookahead, `ensemble` has
# the pointer.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "BM25": ("bm25",),
    "+PS": ("bm25+ps",),
    "+RM3": ("prf-rm3-or",),  # its figures are those of the `or` operator in `tab:PRF-results`
    "MuZero": ("muzero-paper",),
    "T5-G1": ("t5-G1",),
    "MuZero+T5s": (f"ensemble(muzero-paper|{'|'.join(f't5-G{n}' for n in range(5))})",),
    "DPR": ("dense",),
    "Rocchio-G4": ("rocchio-G4", "rocchio"),
}

# Test and dev; EM-T5 of `tab:results` for BM25 (28.53) differs from that of `tab:results-full` (28.78).
RESULTS: Mapping[str, Table] = {
    "test": {
        "NDCG@5": (21.51, 24.82, 26.99, 32.23, 44.27, 46.22, None, 65.24),
        "Top-1": (28.67, 44.93, 46.13, 47.97, 52.60, 54.29, 52.47, 73.74),
        "Top-5": (53.76, 53.76, 56.33, 59.97, 66.59, 71.05, 72.24, 88.17),
        "EM": (28.53, 41.14, 40.14, 32.60, 44.04, 44.35, 41.50, 62.35),
    },
}

RESULTS_FULL: Mapping[str, Table] = {
    "dev": {
        "NDCG@5": (19.83, 22.95, 25.09, 30.76, 43.10, 45.30, None, 64.89),
        "Top-1": (28.17, 43.06, 44.81, 46.02, 52.12, 54.15, None, 74.99),
        "Top-5": (50.47, 50.47, 53.61, 57.71, 66.09, 70.05, None, 88.21),
        "EM-MR": (15.31, 25.15, 26.22, 27.17, 29.50, 31.12, None, 47.38),
        "EM-T5": (28.98, 40.70, 41.65, 32.48, 44.75, 44.47, None, 63.78),
    },
    "test": {
        "NDCG@5": (21.51, 24.82, 26.99, 32.23, 44.27, 46.22, None, 65.24),
        "Top-1": (28.67, 44.93, 46.13, 47.97, 52.60, 54.29, 52.47, 73.74),
        "Top-5": (53.76, 53.76, 56.33, 59.97, 66.59, 71.05, 72.24, 88.17),
        "EM-MR": (14.79, 25.87, 26.95, 28.19, 30.08, 30.58, 41.50, 46.34),
        "EM-T5": (28.78, 41.14, 40.14, 32.60, 44.04, 44.35, 41.50, 62.35),
    },
}

T5_MEASURES = ("NDCG@5", "Top-1", "Top-5", "EM-MR", "score")  # the last is headed "Reward" in the paper
RESULTS_T5: Table = {
    "G0": (40.75, 52.12, 64.93, 30.22, 33.30),
    "G1": (43.10, 52.12, 66.09, 29.50, 35.55),
    "G2": (41.16, 51.51, 63.54, 30.03, 33.81),
    "G3": (41.69, 51.34, 64.17, 29.77, 33.95),
    "G4": (41.53, 50.98, 63.49, 29.70, 34.25),
}

PRF_OPERATORS = ("-or", "+c", "+t", "-c", "-t", "^.1", "^2", "^4", "^6", "^8")
PRF: Mapping[tuple[str, str, str], tuple[float, ...]] = {  # measure, data, algorithm → one figure an operator
    ("NDCG@5", "dev", "idf"): (24.78, 25.13, 24.61, 25.12, 26.81, 23.67, 24.45, 24.43, 24.37, 24.30),
    ("NDCG@5", "dev", "rm3"): (25.09, 25.41, 24.78, 24.98, 26.32, 23.69, 24.53, 24.60, 24.50, 24.35),
    ("NDCG@5", "test", "idf"): (26.48, 26.60, 26.33, 27.32, 29.33, 25.51, 26.35, 26.25, 26.19, 26.08),
    ("NDCG@5", "test", "rm3"): (26.99, 26.98, 26.70, 26.90, 28.59, 25.47, 26.60, 26.61, 26.54, 26.37),
    ("Top-1", "dev", "idf"): (44.52, 44.87, 44.56, 45.35, 47.09, 44.13, 44.45, 44.36, 44.30, 44.21),
    ("Top-1", "dev", "rm3"): (44.81, 45.21, 44.45, 45.56, 46.92, 44.17, 44.53, 44.54, 44.42, 44.32),
    ("Top-1", "test", "idf"): (45.93, 45.90, 46.10, 47.09, 49.29, 45.84, 46.18, 46.01, 45.98, 45.90),
    ("Top-1", "test", "rm3"): (46.13, 46.41, 46.30, 47.37, 49.03, 45.78, 46.41, 46.24, 46.18, 46.10),
    ("Top-5", "dev", "idf"): (53.08, 53.15, 52.95, 54.27, 56.49, 51.74, 52.59, 52.68, 52.61, 52.58),
    ("Top-5", "dev", "rm3"): (53.61, 53.85, 53.19, 54.29, 56.01, 51.91, 52.88, 53.06, 52.91, 52.82),
    ("Top-5", "test", "idf"): (55.62, 55.62, 55.42, 57.37, 60.14, 54.96, 55.56, 55.50, 55.50, 55.42),
    ("Top-5", "test", "rm3"): (56.33, 56.27, 56.07, 57.54, 59.58, 55.04, 55.99, 56.02, 55.99, 55.93),
}

GRAMMARS = ("G0", "G1", "G2", "G3", "G4")
EXPANSION_STEPS = (243_529, 313_554, 230_921, 246_704, 298_654)  # on NQ Train
EXPANSION_SESSIONS = 77_492
G4_LENGTH = (5.06, 3.28)  # mean and standard deviation of Rocchio-G4 sessions on NQ Dev
