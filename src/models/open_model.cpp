#include "models/open_model.h"

#include "models/deepseek_v41/deepseek_v41.h"

namespace deepinfer {

Result<std::unique_ptr<Model>> open_model(const ModelOptions& options, Ops& ops) {
  // One family so far: its config reader refuses every other model_type by name.
  DI_ASSIGN_OR_RETURN(std::unique_ptr<deepseek_v41::DeepseekV41> model, deepseek_v41::DeepseekV41::open(options, ops));
  return std::unique_ptr<Model>(std::move(model));
}

}  // namespace deepinfer
