#!/usr/bin/env python3
"""Where the time of a decode step goes on a GPU, from the file that kernel_timeline.cpp writes.

Prints the kernels of the last whole step by what they add to its critical path: the time from the end of all that
ended before to a kernel's own end.  A kernel's own time includes what it waits for, as it may be launched early.

  CUDA_INJECTION64_PATH=libkernel_timeline.so DEEPINFER_TIMELINE=step.tsv deepinfer bench gpu-model --batch 1
  bench/kernel_timeline.py step.tsv --list 40
  bench/kernel_timeline.py step.tsv --svg step.svg --from 300 --count 40
"""
import argparse
import collections
import html
import re
import shutil
import subprocess
import sys

FIELDS = ("start", "end", "stream", "blocks", "threads", "shared", "registers")


def read_kernels(path):
    kernels = []
    with open(path) as lines:
        next(lines, None)
        for line in lines:
            parts = line.rstrip("\n").split("\t")
            if len(parts) != len(FIELDS) + 1:
                sys.exit(f"{path}: a line has {len(parts)} fields, not {len(FIELDS) + 1}: {line[:80]!r}")
            kernel = dict(zip(FIELDS, map(int, parts)))
            kernel["name"] = parts[-1]
            kernels.append(kernel)
    names = plain_names({kernel["name"] for kernel in kernels})
    for kernel in kernels:
        kernel["name"] = names[kernel["name"]]
    return kernels


def plain_names(mangled):
    """C++ names without namespaces, arguments and template parameters."""
    ordered = sorted(mangled)
    if shutil.which("c++filt") is None:
        return {name: name for name in ordered}
    shown = subprocess.run(["c++filt"], input="\n".join(ordered), capture_output=True, text=True, check=True).stdout
    return {
        name: re.sub(r"[<(].*", "", re.sub(r"\(anonymous namespace\)|\w+::|::|^void ", "", text))
        for name, text in zip(ordered, shown.split("\n"))
    }


def last_step(kernels, ends_with):
    """The kernels behind the last but one run of `ends_with`, up to the last."""
    ends = [i for i, kernel in enumerate(kernels) if kernel["name"] == ends_with]
    ends = [i for i, following in zip(ends, ends[1:] + [None]) if following is None or following - i > 20]
    if len(ends) < 2:
        sys.exit(f"fewer than two steps end with the kernel {ends_with!r}: name another by --ends-with")
    return kernels[ends[-2] + 1 : ends[-1] + 1]


def with_gains(step):
    """Each kernel's microseconds: start, end, and what it adds to the critical path."""
    begin = step[0]["start"]
    reached = begin
    for kernel in step:
        kernel["at"] = (kernel["start"] - begin) / 1e3
        kernel["until"] = (kernel["end"] - begin) / 1e3
        kernel["gain"] = max(0, kernel["end"] - reached) / 1e3
        reached = max(reached, kernel["end"])
    return (reached - begin) / 1e3


def print_summary(step, span):
    total = collections.Counter()
    own = collections.Counter()
    count = collections.Counter()
    for kernel in step:
        total[kernel["name"]] += kernel["gain"]
        own[kernel["name"]] += kernel["until"] - kernel["at"]
        count[kernel["name"]] += 1
    print(f"{len(step)} kernels in {span:.1f} us")
    print(f"{'kernel':34} {'count':>6} {'critical us':>12} {'share':>7} {'each':>8} {'own us each':>12}")
    for name, gain in total.most_common():
        n = count[name]
        print(f"{name:34} {n:6} {gain:12.1f} {gain / span:7.1%} {gain / n:8.2f} {own[name] / n:12.2f}")


def print_list(kernels):
    print(f"{'start us':>10} {'end us':>10} {'adds':>7}  blocks threads shared registers  kernel")
    for k in kernels:
        print(
            f"{k['at']:10.2f} {k['until']:10.2f} {k['gain']:7.2f}  {k['blocks']:6} {k['threads']:7} "
            f"{k['shared'] // 1024:4} KB {k['registers']:9}  {k['name']}"
        )


def svg(kernels):
    """Lanes of kernels over time; a kernel takes the first lane that is free."""
    begin, end = kernels[0]["at"], max(k["until"] for k in kernels)
    width, left, height, gap = 1400, 10, 26, 4
    scale = (width - 2 * left) / (end - begin)
    lanes = []
    boxes = []
    palette = [
        "#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#b8860b", "#b07aa1", "#9c755f",
        "#7f7f7f", "#1f5f3f", "#d4619b", "#2f4b7c", "#a05195", "#665191", "#ff7c43", "#8c564b",
    ]
    colours = {}
    for k in kernels:
        lane = next((i for i, free in enumerate(lanes) if free <= k["at"]), len(lanes))
        if lane == len(lanes):
            lanes.append(0)
        lanes[lane] = k["until"]
        colour = colours.setdefault(k["name"], palette[len(colours) % len(palette)])
        boxes.append((left + (k["at"] - begin) * scale, 40 + lane * (height + gap), (k["until"] - k["at"]) * scale, colour, k))
    bottom = 40 + len(lanes) * (height + gap)
    columns = 7  # of the legend
    legend_rows = -(-len(colours) // columns)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{bottom + 10 + 18 * legend_rows}" font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for tick in range(20, int(end - begin) + 1, 20):
        x = left + tick * scale
        out.append(f'<line x1="{x:.1f}" y1="30" x2="{x:.1f}" y2="{bottom}" stroke="#ddd"/>')
        out.append(f'<text x="{x:.1f}" y="22" text-anchor="middle" fill="#555">{tick} us</text>')
    for x, y, w, colour, k in boxes:
        title = html.escape(f"{k['name']}: {k['until'] - k['at']:.1f} us, adds {k['gain']:.1f} us, {k['blocks']} blocks")
        out.append(f'<g><title>{title}</title><rect x="{x:.1f}" y="{y}" width="{max(w, 1):.1f}" height="{height}" fill="{colour}"/>')
        if w > 6.5 * len(k["name"]):
            out.append(f'<text x="{x + 4:.1f}" y="{y + 17}" fill="white">{html.escape(k["name"])}</text>')
        out.append("</g>")
    for i, (name, colour) in enumerate(colours.items()):
        x = left + i % columns * (width - 2 * left) / columns
        y = bottom + 8 + i // columns * 18
        out.append(f'<rect x="{x:.1f}" y="{y}" width="10" height="10" fill="{colour}"/>')
        out.append(f'<text x="{x + 14:.1f}" y="{y + 9}">{html.escape(name)}</text>')
    out.append("</svg>")
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--ends-with", default="sample", help="the last kernel of a step (default: %(default)s)")
    parser.add_argument("--from", dest="first", type=int, default=300, help="first kernel of --list and --svg (default: %(default)s)")
    parser.add_argument("--count", type=int, default=25, help="kernels of --svg (default: %(default)s)")
    parser.add_argument("--list", type=int, default=0, metavar="N", help="also print N kernels in order")
    parser.add_argument("--svg", metavar="FILE", help="draw --count kernels")
    options = parser.parse_args()
    step = last_step(read_kernels(options.file), options.ends_with)
    print_summary(step, with_gains(step))
    if options.list > 0:
        print_list(step[options.first : options.first + options.list])
    if options.svg:
        with open(options.svg, "w") as out:
            out.write(svg(step[options.first : options.first + options.count]))


if __name__ == "__main__":
    main()
