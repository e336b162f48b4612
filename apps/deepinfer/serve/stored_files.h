// Where a server keeps the files of its clients, and the batches on them: options and opening.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "engine/engine.h"
#include "serving/api/api_keys.h"
#include "serving/files/batch_service.h"
#include "serving/files/file_store.h"

namespace CLI {
class App;
}

namespace deepinfer::cli {

struct FileCommandOptions {
  std::optional<std::string> folder;  // default: a temporary one, which goes with the server
  std::optional<double> gib;          // of one key's files; default: kDefaultFilesGib
};

inline constexpr double kDefaultFilesGib = 8;

void add_file_options(CLI::App& command, FileCommandOptions& options);

struct StoredFiles {
  std::unique_ptr<serving::FileStore> files;
  std::unique_ptr<serving::BatchService> batches;
};

// requests: as the server's own.  sequences: that the engine runs at the same time; batches take half of them at most.
// keys: null without; outlives what is opened, as the engine does.
Result<StoredFiles> open_stored_files(const FileCommandOptions& options, Engine& engine,
                                      const serving::RequestContext& requests, int sequences,
                                      const serving::ApiKeys* keys);

}  // namespace deepinfer::cli
