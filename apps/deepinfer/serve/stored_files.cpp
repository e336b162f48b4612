#include "serve/stored_files.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <utility>

#include "number_option.h"
#include "serving/api/file_routes.h"

namespace deepinfer::cli {

void add_file_options(CLI::App& command, FileCommandOptions& options) {
  command
      .add_option("--files-dir", options.folder,
                  "folder for /v1/files and /v1/batches; a later server there goes on with the batches (default: a "
                  "temporary one, removed at the end)")
      ->type_name("FOLDER");
  add_number<double>(command, "--files-size", options.gib, {.lowest = 0.001, .highest = 1e6},
                     "GiB of files that a key may keep (default: 8)");
}

Result<StoredFiles> open_stored_files(const FileCommandOptions& options, Engine& engine,
                                      const serving::RequestContext& requests, int sequences,
                                      const serving::ApiKeys* keys) {
  serving::FileStoreLimits limits;
  limits.bytes = static_cast<int64_t>(options.gib.value_or(kDefaultFilesGib) * (int64_t{1} << 30));
  StoredFiles stored;
  DI_ASSIGN_OR_RETURN(stored.files, options.folder ? serving::FileStore::open(*options.folder, limits)
                                                   : serving::FileStore::open_temporary(limits));
  serving::BatchServiceOptions batches;
  batches.requests = requests;
  batches.most_submitted = std::max(1, sequences / 2);
  batches.owner = serving::batch_owners(keys);
  batches.clock = [] {
    using std::chrono::system_clock;
    return std::chrono::duration_cast<std::chrono::seconds>(system_clock::now().time_since_epoch()).count();
  };
  DI_ASSIGN_OR_RETURN(stored.batches, serving::BatchService::open(engine, *stored.files, std::move(batches)));
  return stored;
}

}  // namespace deepinfer::cli
