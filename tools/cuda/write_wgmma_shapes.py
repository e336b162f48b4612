#!/usr/bin/env python3
"""Writes src/backends/cuda/device/wgmma_shapes.cuh and wgmma_attention_shapes.cuh: one function for each wgmma
instruction that the kernels use.

Inline assembly names every accumulator register, which no template can write.
usage: tools/cuda/write_wgmma_shapes.py > src/backends/cuda/device/wgmma_shapes.cuh
       tools/cuda/write_wgmma_shapes.py attention > src/backends/cuda/device/wgmma_attention_shapes.cuh
"""

import sys

COLUMNS = (8, 16, 32, 64, 128, 256)
HEADER = '''// wgmma instructions by shape.  Written by tools/cuda/write_wgmma_shapes.py; device/wgmma.cuh says what they do.
#pragma once

#include <cstdint>

namespace deepinfer::cuda {

// Columns: of D and B.  Specialised below.
template <int Columns>
struct WgmmaBf16;  // D[64, Columns] += A[64, 16] B[Columns, 16]^T
template <int Columns>
struct WgmmaE4m3;  // D[64, Columns] += A[64, 32] B[Columns, 32]^T
'''

ATTENTION_SCORES = (96, 160, 176)
ATTENTION_VALUES = (64, 128)
ATTENTION_HEADER = '''// More wgmma instructions by shape, those of attention.  Written by tools/cuda/write_wgmma_shapes.py.
#pragma once

#include "backends/cuda/device/wgmma_shapes.cuh"

namespace deepinfer::cuda {

// Rows of B run along its columns (wgmma.cuh, "transposed_descriptor").
template <int Columns>
struct WgmmaBf16Transposed;  // D[64, Columns] += A[64, 16] B[16, Columns]
'''


def lines(items, width=16):
    rows = [", ".join(items[i:i + width]) for i in range(0, len(items), width)]
    return ",\n          ".join(rows)


def instruction(columns, kind, a_in_registers, b_transposed=False):
    registers = columns // 2
    k = 16 if kind == "bf16" else 32
    name = "multiply_registers" if a_in_registers else "multiply"
    a_parameters = "const uint32_t (&a)[4]" if a_in_registers else "uint64_t a"
    d = ", ".join(f"%{i}" for i in range(registers))
    next_operand = registers
    if a_in_registers:
        a = "{%" + ", %".join(str(next_operand + i) for i in range(4)) + "}"
        a_operands = ", ".join(f'"r"(a[{i}])' for i in range(4))
        next_operand += 4
    else:
        a, a_operands = f"%{next_operand}", '"l"(a)'
        next_operand += 1
    b, keep = f"%{next_operand}", f"%{next_operand + 1}"
    if kind == "bf16":
        transposes = ("" if a_in_registers else ", 0") + (", 1" if b_transposed else ", 0")
    else:
        transposes = ""
    types = f"f32.{kind}.{kind}"
    d_text = "\n          ".join(f'"{d[i:i + 90]}"' for i in range(0, len(d), 90))
    outputs = lines([f'"+f"(d[{i}])' for i in range(registers)], 8)
    return f'''  static __device__ __forceinline__ void {name}(float (&d)[{registers}], {a_parameters}, uint64_t b, bool keep) {{
    asm volatile(
        "{{\\n.reg .pred p;\\nsetp.ne.b32 p, {keep}, 0;\\n"
        "wgmma.mma_async.sync.aligned.m64n{columns}k{k}.{types} {{"
          {d_text}
        "}}, {a}, {b}, p, 1, 1{transposes};\\n}}\\n"
        : {outputs}
        : {a_operands}, "l"(b), "r"(static_cast<int>(keep)));
  }}
'''


def write_attention():
    print(ATTENTION_HEADER)
    for columns in ATTENTION_SCORES:
        print(f"template <>\nstruct WgmmaBf16<{columns}> {{")
        print(instruction(columns, "bf16", False), end="};\n\n")
    for columns in ATTENTION_VALUES:
        print(f"template <>\nstruct WgmmaBf16Transposed<{columns}> {{")
        print(instruction(columns, "bf16", False, True), end="};\n\n")
    print("\n}  // namespace deepinfer::cuda")


def main():
    print(HEADER)
    for columns in COLUMNS:
        print(f"template <>\nstruct WgmmaBf16<{columns}> {{")
        print(instruction(columns, "bf16", False))
        print(instruction(columns, "bf16", True), end="};\n\n")
    for columns in (256,):
        print(f"template <>\nstruct WgmmaE4m3<{columns}> {{")
        print(instruction(columns, "e4m3", False), end="};\n\n")
    print("\n}  // namespace deepinfer::cuda")


write_attention() if sys.argv[1:] == ["attention"] else main()
