#!/usr/bin/env python3
"""What PyTorch (cuBLASLt and its own kernels) does on the shapes of `deepinfer bench gpu`, on the same GPU.

    python3 bench/gpu_baselines.py [--rows 1,8,64,2048]

Needs PyTorch with CUDA; prints one line a figure. Each figure is the median of graph replays that walk through copies of
the operands larger than four times the L2, so that nothing is read from a cache that would not be there in a model.
"""

import argparse
import statistics

import torch

DENSE = {  # outputs, K
    "wq_a": (1280, 5120),
    "wkv": (512, 5120),
    "wq_b": (32768, 1280),
    "wo_a group": (1024, 4096),
    "wo_b": (5120, 8192),
    "shared up": (4608, 5120),
    "shared down": (5120, 2304),
    "head": (129280, 5120),
}
HIDDEN, HEADS, TOP_K, SLOTS = 5120, 64, 512, 640


def seconds(calls, repeats=7):
    """Median seconds of one call, replayed as a graph of all calls."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for call in calls[:2]:
            call()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for call in calls:
                call()
        times = []
        for _ in range(repeats):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record(stream)
            graph.replay()
            end.record(stream)
            end.synchronize()
            times.append(start.elapsed_time(end) * 1e-3 / len(calls))
    return statistics.median(times)


def copies(bytes_each):
    """How many copies of an operand make more than four L2s, at most 64."""
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    return max(1, min(64, -(-4 * l2 // bytes_each)))


def report(name, rows, time, flops=0.0, moved=0.0):
    parts = [f"{name:34s} rows {rows:6d}  {time * 1e6:10.2f} us"]
    if flops:
        parts.append(f"{flops / time / 1e12:8.1f} TFLOP/s")
    if moved:
        parts.append(f"{moved / time / 1e9:8.0f} GB/s")
    print("  ".join(parts), flush=True)


def dense(rows_list):
    for name, (n, k) in DENSE.items():
        count = copies(n * k)
        bf16 = [torch.randn(n, k, dtype=torch.bfloat16, device="cuda") for _ in range(copies(2 * n * k))]
        fp8 = [(torch.randn(n, k, device="cuda") * 0.1).to(torch.float8_e4m3fn) for _ in range(count)]
        scale = torch.ones((), device="cuda")
        for rows in rows_list:
            x = torch.randn(rows, k, dtype=torch.bfloat16, device="cuda")
            flops = 2.0 * rows * n * k
            time = seconds([lambda w=w: torch.mm(x, w.t()) for w in bf16])
            report(f"bf16 mm {name} [{n}, {k}]", rows, time, flops, 2.0 * n * k)
            if rows % 16 == 0:  # what scaled_mm takes
                q = (x * 0.1).to(torch.float8_e4m3fn)
                call = lambda w: torch._scaled_mm(q, w.t(), scale, scale, out_dtype=torch.bfloat16, use_fast_accum=False)
                report(f"fp8 scaled_mm {name} [{n}, {k}]", rows, seconds([lambda w=w: call(w) for w in fp8]), flops, 1.0 * n * k)
        del bf16, fp8


def rows_of_activations(rows_list):
    for rows in rows_list:
        count = copies(4 * rows * HIDDEN)
        xs = [torch.randn(rows, HIDDEN, dtype=torch.bfloat16, device="cuda") for _ in range(count)]
        weight = torch.randn(HIDDEN, dtype=torch.bfloat16, device="cuda")
        time = seconds([lambda x=x: torch.nn.functional.rms_norm(x, (HIDDEN,), weight) for x in xs])
        report(f"rms_norm [{HIDDEN}]", rows, time, 0, 4.0 * rows * HIDDEN)
        scores = [torch.randn(rows * HEADS, SLOTS, device="cuda") for _ in range(copies(8 * rows * HEADS * SLOTS))]
        time = seconds([lambda s=s: torch.softmax(s, dim=-1) for s in scores])
        report(f"softmax [{HEADS}, {SLOTS}]", rows, time, 0, 8.0 * rows * HEADS * SLOTS)


def selection(rows_list):
    for keys in (65536, 131072):
        for rows in rows_list:
            if rows * keys > 1 << 25:
                continue
            scores = [torch.randn(rows, keys, device="cuda") for _ in range(copies(4 * rows * keys))]
            time = seconds([lambda s=s: torch.topk(s, TOP_K, dim=-1) for s in scores])
            report(f"topk {TOP_K} of {keys} given scores", rows, time, 0, 4.0 * rows * keys)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="1,8,64,2048", help="rows of the operands, separated by commas")
    rows_list = [int(text) for text in parser.parse_args().rows.split(",")]
    print(f"{torch.cuda.get_device_name(0)}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}")
    dense(rows_list)
    rows_of_activations(rows_list)
    selection([rows for rows in rows_list if rows <= 256])


if __name__ == "__main__":
    main()
