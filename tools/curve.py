"""Curves of training, a panel each: python tools/curve.py RUN/curve.jsonl play/reward dev/reward --out FILE.svg"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from orienteer.evaluation.figures import save
from orienteer.training.log import read_curve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("curve", type=Path)
    parser.add_argument("names", nargs="+", help="as the file has them: play/reward dev/reward loss/policy …")
    parser.add_argument("--mean", type=int, default=10, help="values that a thick line is the running mean of")
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    curves = read_curve(asked.curve)
    if missing := [name for name in asked.names if name not in curves]:
        parser.error(f"{asked.curve} has no {', '.join(missing)}; it has {', '.join(curves)}")
    figure = Figure(figsize=(7, 2.2 * len(asked.names)), layout="tight")
    for axes, name in zip(
        figure.subplots(len(asked.names), 1, sharex=True, squeeze=False)[:, 0], asked.names, strict=True
    ):
        steps, values = np.array(list(curves[name].items())).T
        axes.plot(steps, values, color="0.7", linewidth=0.8, marker="o" if len(values) < 20 else None, markersize=3)
        if len(values) >= 2 * asked.mean:
            smooth = np.convolve(values, np.ones(asked.mean) / asked.mean, "valid")
            axes.plot(steps[asked.mean - 1 :], smooth, color="C0", linewidth=1.8)
        axes.set_ylabel(name)
        axes.grid(alpha=0.3)
    axes.set_xlabel("updates")
    save(figure, asked.out)


if __name__ == "__main__":
    main()
