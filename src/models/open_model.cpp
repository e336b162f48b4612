#include "models/open_model.h"

#include <fmt/format.h>

#include "base/out_of_memory.h"
#include "models/deepseek_v41/deepseek_v41.h"

namespace deepinfer {

Result<std::unique_ptr<Model>> open_model(const ModelOptions& options, Ops& ops) {
  return or_out_of_memory([&] { return fmt::format("the tables of the model in {}", options.folder.string()); },
                          [&]() -> Result<std::unique_ptr<Model>> {
                            // One family so far: its config reader refuses every other model_type by name.
                            DI_ASSIGN_OR_RETURN(std::unique_ptr<deepseek_v41::DeepseekV41> model,
                                                deepseek_v41::DeepseekV41::open(options, ops));
                            return std::unique_ptr<Model>(std::move(model));
                          });
}

}  // namespace deepinfer
