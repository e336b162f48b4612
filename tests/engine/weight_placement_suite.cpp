// Where weights lie never shows in an answer: every placement gives the answers of the backend in the host's memory,
// also with other weights.
#include "engine/company_suite.h"
#include "engine/two_models.h"

namespace deepinfer {
namespace {

TEST_P(WeightPlacements, NeverChangeAnAnswer) {
  const TwoModels models;
  EngineRun one(GetParam().solo, models.options(models.first, {}));
  EngineRun other(GetParam().solo, models.options(models.second, {}));
  const auto want = models.answer(one), want_other = models.answer(other);
  const bool device = !GetParam().backend.make()->memory().is_host();
  for (const ExpertPlacement experts : {ExpertPlacement::kDevice, ExpertPlacement::kHost}) {
    for (const EngramPlacement engram : {EngramPlacement::kDevice, EngramPlacement::kHost, EngramPlacement::kDisk}) {
      if (!device && (experts == ExpertPlacement::kHost || engram == EngramPlacement::kDevice)) continue;
      const std::string what =
          "experts: " + std::string(to_string(experts)) + ", Engram tables: " + std::string(to_string(engram));
      EngineRun placed(GetParam().backend, models.options(models.first, {experts, engram}));
      expect_same_tokens(models.answer(placed), want, what);
      ASSERT_TRUE(placed.engine().update_weights({.folder = models.second.path(), .mode = PauseMode::kDrain}).ok())
          << what;
      expect_same_tokens(models.answer(placed), want_other, what + ", other weights");
    }
  }
}

TEST_P(WeightPlacements, ThatABackendLacksAreRefused) {
  if (!GetParam().backend.make()->memory().is_host()) GTEST_SKIP() << "a device has all of them";
  const TemporaryFolder folder;
  write_synthetic_model(folder, synthetic_config(nlohmann::json::object()), 11);
  const auto error = [&](const WeightPlacement& placement) {
    EngineOptions options;
    options.model = folder.path();
    options.placement = placement;
    const auto engine = Engine::open(options, GetParam().backend.make());
    return engine.ok() ? Status() : engine.status();
  };
  const Status experts = error({ExpertPlacement::kHost, EngramPlacement::kDisk});
  EXPECT_EQ(experts.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(experts.message().find("expert_placement is host"), std::string::npos) << experts.message();
  const Status engram = error({ExpertPlacement::kDevice, EngramPlacement::kDevice});
  EXPECT_EQ(engram.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(engram.message().find("engram_placement is device"), std::string::npos) << engram.message();
}

}  // namespace
}  // namespace deepinfer
