#!/usr/bin/env python3
"""Plots files of `deepinfer bench sweep -o`: throughput against the speed for one user, a line a file.

    .venv/bin/pip install -r tools/plots/requirements.txt
    .venv/bin/python tools/plots/plot_sweep.py sweep.json [other.json ...] -o sweep

writes sweep.png and sweep.svg.  Points are labelled with their concurrency; up and to the right is better.
"""
import argparse
import json
import pathlib

import matplotlib

matplotlib.use("Agg")
matplotlib.rcParams["svg.hashsalt"] = "deepinfer"  # the same data, the same file
import matplotlib.pyplot as plt


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("-o", "--output", type=pathlib.Path, help="name without ending (default: that of the first file)")
    arguments = parser.parse_args()
    output = arguments.output or arguments.files[0].with_suffix("")

    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    for file in arguments.files:
        sweep = json.loads(file.read_text())
        points = sorted(sweep["points"], key=lambda point: point["concurrency"])
        users = [point["user_tokens_per_second"] for point in points]
        totals = [point["tokens_per_second"] for point in points]
        axes.plot(users, totals, marker="o", label=file.stem)
        for point, x, y in zip(points, users, totals):
            axes.annotate(f'{point["concurrency"]}', (x, y), xytext=(4, 4), textcoords="offset points", fontsize=8)
    first = json.loads(arguments.files[0].read_text())
    work = first["workload"]
    lengths = f'{work["prompt_tokens"]} in, {work["answer_tokens"]} out' if work["kind"] == "random" else work["kind"]
    axes.set_title(f'{first["model"]}, {lengths}\n{first["hardware"]}', fontsize=10)
    axes.set_xlabel("tokens/s for one user")
    axes.set_ylabel("tokens/s of the engine")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    if len(arguments.files) > 1:
        axes.legend()
    for ending, metadata in ((".png", {}), (".svg", {"Date": None})):
        figure.savefig(output.with_suffix(ending), dpi=150, metadata=metadata)


if __name__ == "__main__":
    main()
