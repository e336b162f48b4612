// A Generator over an Engine of its own: one request at a time, with the engine's prefix cache and the tier below it.
// What `deepinfer run --kv-cache` stands on.
#pragma once

#include <memory>

#include "base/status.h"
#include "engine/engine.h"
#include "engine/generator.h"

namespace deepinfer {

// Answers are those of Generator::open, bit for bit; on_tokens is called on generate()'s thread.  The statistics'
// seconds are those of the engine, waiting for the tier included.
std::unique_ptr<Generator> make_engine_generator(std::unique_ptr<Engine> engine);

}  // namespace deepinfer
