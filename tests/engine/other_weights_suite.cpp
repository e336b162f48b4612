// Weights that are copied into a backend's memory are exchanged there.
#include "engine/company_suite.h"
#include "engine/two_models.h"

namespace deepinfer {
namespace {

TEST_P(OtherWeights, TakeThePlaceOfTheFirst) {
  const TwoModels models;
  EngineRun placed(GetParam().backend, models.options(models.first));
  EngineRun one(GetParam().solo, models.options(models.first));
  EngineRun other(GetParam().solo, models.options(models.second));
  expect_same_tokens(models.answer(placed), models.answer(one), "first weights");
  ASSERT_TRUE(placed.engine().update_weights({.folder = models.second.path(), .mode = PauseMode::kDrain}).ok());
  expect_same_tokens(models.answer(placed), models.answer(other), "other weights");
}

}  // namespace
}  // namespace deepinfer
