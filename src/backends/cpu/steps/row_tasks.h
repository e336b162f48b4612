// How the drivers of this folder share rows out to threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/function_ref.h"
#include "base/thread_pool.h"

namespace deepinfer::cpu {

inline constexpr int64_t kTaskWork = 16384;  // values of a task

// Calls body(row, thread) for every row.  row_work is about the number of values that a row touches: small operations
// stay on the calling thread (thread 0), since a fork and join costs as much as some ten thousand values.
inline void for_each_row(ThreadPool& pool, int64_t rows, int64_t row_work, FunctionRef<void(int64_t, int)> body) {
  const int64_t rows_per_task = std::max<int64_t>(1, kTaskWork / std::max<int64_t>(1, row_work));
  const int64_t tasks = (rows + rows_per_task - 1) / rows_per_task;
  const auto run = [&](int64_t task, int thread) {
    const int64_t end = std::min(rows, (task + 1) * rows_per_task);
    for (int64_t row = task * rows_per_task; row < end; ++row) body(row, thread);
  };
  if (tasks <= 1 || pool.threads() == 1) {
    for (int64_t task = 0; task < tasks; ++task) run(task, 0);
  } else {
    pool.parallel_for(tasks, run);
  }
}

// Calls body(row, first, count) for parts of rows whose columns are independent of each other, in multiples of 64.
// column_work is about the number of values that a column touches.
inline void for_each_part(ThreadPool& pool, int64_t rows, int64_t columns, int64_t column_work,
                          FunctionRef<void(int64_t, int64_t, int64_t)> body) {
  const int64_t most = kTaskWork / column_work, parts = std::max<int64_t>(1, (columns + most - 1) / most);
  const int64_t width = (columns + parts * 64 - 1) / (parts * 64) * 64;
  for_each_row(pool, rows * parts, column_work * width, [&](int64_t task, int) {
    const int64_t row = task / parts, first = std::min(columns, task % parts * width);
    body(row, first, std::min(width, columns - first));
  });
}

// As for_each_row, for tasks that are large enough by themselves.
inline void for_each_task(ThreadPool& pool, int64_t tasks, FunctionRef<void(int64_t, int)> body) {
  if (tasks <= 1 || pool.threads() == 1) {
    for (int64_t task = 0; task < tasks; ++task) body(task, 0);
  } else {
    pool.parallel_for(tasks, body);
  }
}

}  // namespace deepinfer::cpu
