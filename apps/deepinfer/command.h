// The sub-commands.  Each adds itself to the program and, when it is the one that was called, leaves its work in
// `Action`.
#pragma once

#include <functional>

#include "exit_code.h"

namespace CLI {
class App;
}

namespace deepinfer::cli {

using Action = std::function<ExitCode()>;

void add_run_command(CLI::App& program, Action& action);
void add_chat_command(CLI::App& program, Action& action);
void add_inspect_command(CLI::App& program, Action& action);
void add_tokenize_command(CLI::App& program, Action& action);
void add_batch_command(CLI::App& program, Action& action);
void add_replay_command(CLI::App& program, Action& action);
void add_serve_command(CLI::App& program, Action& action);
void add_bench_command(CLI::App& program, Action& action);

// Of `bench`.
void add_bench_kernels_command(CLI::App& bench, Action& action);
void add_bench_gpu_command(CLI::App& bench, Action& action);
void add_bench_gpu_model_command(CLI::App& bench, Action& action);
void add_bench_load_commands(CLI::App& bench, Action& action);
void add_bench_model_command(CLI::App& bench, Action& action);
void add_bench_serve_command(CLI::App& bench, Action& action);
void add_bench_tokenizer_command(CLI::App& bench, Action& action);

}  // namespace deepinfer::cli
