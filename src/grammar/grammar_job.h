// GrammarTicket::Job: one compilation that somebody waits for.  Made by GrammarCompiler; shared by its tickets, the
// queue and the thread that works on it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "grammar/grammar_compiler.h"

namespace deepinfer {

struct GrammarTicket::Job {
  std::string key;
  GrammarSpec spec;
  std::chrono::steady_clock::time_point deadline;
  std::atomic<bool> cancelled{false};

  mutable std::mutex mutex;
  mutable std::condition_variable done;
  int tickets = 0;
  bool finished = false;
  Status error;
  SharedGrammar grammar;

  void finish(Result<SharedGrammar> outcome) {
    std::lock_guard lock(mutex);
    finished = true;
    if (outcome.ok()) {
      grammar = std::move(outcome).value();
    } else {
      try {
        error = outcome.status();
      } catch (const std::bad_alloc&) {
        error = Status(StatusCode::kResourceExhausted, "out of memory");  // so short that it needs none
      }
    }
    done.notify_all();
  }
  // One more ticket, unless the job has been given up.
  bool join() {
    std::lock_guard lock(mutex);
    if (cancelled) return false;
    ++tickets;
    return true;
  }
};

}  // namespace deepinfer
