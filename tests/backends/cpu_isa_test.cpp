// Which path is chosen, and what is said when a path cannot be.
#include <gtest/gtest.h>

#include <cstdlib>

#include "backends/cpu_backends.h"

namespace deepinfer {
namespace {

class SelectCpuIsa : public testing::Test {
 protected:
  void SetUp() override { unsetenv("DEEPINFER_CPU_ISA"); }
  void TearDown() override { unsetenv("DEEPINFER_CPU_ISA"); }
};

TEST_F(SelectCpuIsa, TheBestOfTheMachine) {
  const Result<CpuIsa> isa = select_cpu_isa();
  ASSERT_TRUE(isa.ok());
  EXPECT_EQ(*isa, machine_paths().back());
}

TEST_F(SelectCpuIsa, TheVariableForcesAPath) {
  for (CpuIsa isa : {CpuIsa::kAvx2, CpuIsa::kAvx512, CpuIsa::kAmx}) {
    setenv("DEEPINFER_CPU_ISA", std::string(to_string(isa)).c_str(), 1);
    const Result<CpuIsa> chosen = select_cpu_isa();
    if (machine_has(isa)) {
      ASSERT_TRUE(chosen.ok());
      EXPECT_EQ(*chosen, isa);
      const auto ops = make_cpu_ops();
      ASSERT_TRUE(ops.ok());
      EXPECT_EQ((*ops)->name(), "cpu/" + std::string(to_string(isa)));
    } else {
      EXPECT_EQ(chosen.status().code(), StatusCode::kUnsupported);
      EXPECT_NE(chosen.status().message().find("lacks"), std::string::npos);
    }
  }
}

TEST_F(SelectCpuIsa, AnotherNameIsRefused) {
  setenv("DEEPINFER_CPU_ISA", "sse2", 1);
  const Result<CpuIsa> isa = select_cpu_isa();
  ASSERT_FALSE(isa.ok());
  EXPECT_EQ(isa.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(isa.status().message(), "DEEPINFER_CPU_ISA is \"sse2\"; allowed: avx2, avx512, amx");
}

}  // namespace
}  // namespace deepinfer
