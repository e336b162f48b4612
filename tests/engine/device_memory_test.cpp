// Generator and engine over a backend whose memory the host cannot look into: answers are those of the same backend in
// the host's memory, bit for bit.
#include "backends/cpu_backends.h"
#include "engine/company_suite.h"
#include "engine/engine_run.h"
#include "models/synthetic_model.h"
#include "ops/guarded_ops.h"

namespace deepinfer {
namespace {

const CpuIsa kBest = machine_paths().back();
const OpsBackend kGuarded{"guarded", [] { return std::make_unique<GuardedOps>(make_cpu_path(kBest, 1)); }};
const OpsBackend kHost{"host", [] { return make_cpu_path(kBest, 1); }};

const GeneratorCase kGenerator{kGuarded, 1};
INSTANTIATE_TEST_SUITE_P(DeviceMemory, GoldenGenerator, testing::Values(kGenerator), generator_case_name);

const CompanyCase kCompany{kGuarded, kHost, 1, 6};
INSTANTIATE_TEST_SUITE_P(DeviceMemory, Company, testing::Values(kCompany), company_case_name);

TEST(DeviceMemory, OtherWeightsTakeThePlaceOfTheFirst) {
  const TemporaryFolder first, second;
  write_synthetic_model(first, synthetic_config(nlohmann::json::object()), 11);
  write_synthetic_model(second, synthetic_config(nlohmann::json::object()), 12);
  EngineRequest request;
  for (int32_t i = 0; i < 40; ++i) request.prompt.push_back(3 + i * 7 % 50);
  request.params = greedy_params(12, -1);
  request.params.stop_tokens.clear();
  const auto options = [](const TemporaryFolder& model) {
    EngineOptions options;
    options.model = model.path();
    options.max_context = 256;
    options.cache_bytes = 4 << 20;
    options.max_sequences = 2;
    return options;
  };
  const auto ask = [&](EngineRun& run) {
    const RequestId id = run.submit(request).value();
    run.drain();
    return run.seen(id).tokens;
  };
  EngineRun guarded(kGuarded, options(first));
  EngineRun one(kHost, options(first));
  EngineRun other(kHost, options(second));
  expect_same_tokens(ask(guarded), ask(one), "first weights");
  ASSERT_TRUE(guarded.engine().update_weights({.folder = second.path(), .mode = PauseMode::kDrain}).ok());
  expect_same_tokens(ask(guarded), ask(other), "other weights");
}

}  // namespace
}  // namespace deepinfer
