// The expected tensors against the released totals and the demonstration model's files, and that a checkpoint with one
// tensor renamed, added, missing or of another type or shape is refused by name.
#include "models/deepseek_v41/tensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "models/test_configs.h"
#include "tensor/safetensors_file.h"
#include "tensor/temporary_folder.h"

namespace deepinfer::deepseek_v41 {
namespace {

TEST(ExpectedTensors, TotalsOfTheReleasedModel) {
  const Config c = config_of(flash_json());
  const auto tensors = expected_tensors(c, table_of(c));
  EXPECT_EQ(tensors.size(), 96085u);
  uint64_t bytes = 0;
  for (const ExpectedTensor& t : tensors) bytes += t.bytes();
  EXPECT_EQ(bytes, 510286023000u);
  const auto find = [&](std::string_view name) {
    return *std::find_if(tensors.begin(), tensors.end(), [&](const ExpectedTensor& t) { return t.name == name; });
  };
  EXPECT_EQ(find("layers.39.ffn.experts.383.w2.weight").shape, (Shape{5120, 1152}));
  EXPECT_EQ(find("layers.14.engram.embed.scale").shape, (Shape{384016682, 8}));
  EXPECT_EQ(find("mtp.0.main_proj.scale").shape, (Shape{160, 480}));
  EXPECT_EQ(find("mtp.2.confidence_head.proj.weight").shape, (Shape{1, 5376}));
  EXPECT_EQ(find("aligner.w1.weight").shape, (Shape{5120, 9216}));
}

TEST(ExpectedTensors, AreThoseOfTheDemonstrationModel) {
  const Config c = config_of(demonstration_json());
  const LayerTable table = table_of(c);
  const Checkpoint checkpoint = Checkpoint::open(DEEPINFER_TEST_MODEL).value();
  const TensorAudit audit = audit_tensors(c, table, checkpoint);
  EXPECT_TRUE(audit.status(false).ok()) << audit.status(false).message();
  EXPECT_EQ(audit.tensors, checkpoint.size());
  EXPECT_EQ(audit.bytes, checkpoint.bytes());
  EXPECT_TRUE(audit.ignored.empty());
}

TEST(Weights, PointIntoTheFiles) {
  const Config c = config_of(demonstration_json());
  const Checkpoint checkpoint = Checkpoint::open(DEEPINFER_TEST_MODEL).value();
  const Weights w = bind_weights(c, table_of(c), checkpoint, false).value();
  EXPECT_EQ(reinterpret_cast<const std::byte*>(w.embed.data), checkpoint.find("embed.weight")->data);
  EXPECT_EQ(w.layers[5].feed_forward.experts[3].w2.data, checkpoint.find("layers.5.ffn.experts.3.w2.weight")->data);
  EXPECT_EQ(reinterpret_cast<const std::byte*>(w.layers[10].attention.wq_b.scale),
            checkpoint.find("mtp.2.attn.wq_b.scale")->data);
  EXPECT_EQ(w.layers[4].attention.compressor.wgate.data, nullptr);
  EXPECT_EQ(w.engrams[1].table.rows, 9456);
}

// A checkpoint of the demonstration model's tensors in one sparse file, edited.
class EditedCheckpoint : public testing::Test {
 protected:
  EditedCheckpoint()
      : config_(config_of(demonstration_json())),
        table_(table_of(config_)),
        tensors_(expected_tensors(config_, table_)) {}

  ExpectedTensor& tensor(std::string_view name) {
    return *std::find_if(tensors_.begin(), tensors_.end(), [&](const ExpectedTensor& t) { return t.name == name; });
  }

  Status bind(bool allow_extra = false) {
    nlohmann::ordered_json header;
    uint64_t offset = 0;
    // fp32 first, then bf16, then bytes, so that all are aligned.
    std::stable_sort(tensors_.begin(), tensors_.end(),
                     [](const ExpectedTensor& a, const ExpectedTensor& b) { return bits(a.dtype) > bits(b.dtype); });
    for (const ExpectedTensor& t : tensors_) {
      header[t.name] = {{"dtype", std::string(to_string(t.dtype))},
                        {"shape", std::vector<int64_t>(t.shape.dims().begin(), t.shape.dims().end())},
                        {"data_offsets", {offset, offset + t.bytes()}}};
      offset += t.bytes();
    }
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const std::string path = folder_.write("model.safetensors", length_prefix(text.size()) + text);
    std::filesystem::resize_file(path, 8 + text.size() + offset);
    const auto checkpoint = Checkpoint::open(folder_.path());
    DI_CHECK(checkpoint.ok(), checkpoint.status().message());
    return bind_weights(config_, table_, *checkpoint, allow_extra).status();
  }

  Config config_;
  LayerTable table_;
  std::vector<ExpectedTensor> tensors_;
  TemporaryFolder folder_;
};

bool says(const Status& status, std::string_view part) {
  return status.message().find(part) != std::string::npos;
}

TEST_F(EditedCheckpoint, UneditedBinds) {
  const Status status = bind();
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST_F(EditedCheckpoint, PrefixIsAccepted) {
  for (ExpectedTensor& t : tensors_) t.name.insert(0, "model.");
  const Status status = bind();
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST_F(EditedCheckpoint, RenamedTensorIsMissingAndUnexpected) {
  tensor("mtp.1.attn.wq_a.scale").name = "mtp.1.attn.wq_a.weight_scale_inv";
  const Status status = bind();
  EXPECT_EQ(status.code(), StatusCode::kCorruptFile);
  EXPECT_TRUE(says(status, "1 missing tensor: mtp.1.attn.wq_a.scale")) << status.message();
  EXPECT_TRUE(says(status, "1 unexpected tensor: mtp.1.attn.wq_a.weight_scale_inv")) << status.message();
  EXPECT_FALSE(bind(true).ok());  // the missing one stays an error
}

TEST_F(EditedCheckpoint, ExtraTensorIsAnErrorUnlessAllowed) {
  tensors_.push_back({"layers.3.attn.compressor.norm.weight", DType::kBF16, {512}});
  const Status status = bind();
  EXPECT_TRUE(says(status, "1 unexpected tensor: layers.3.attn.compressor.norm.weight")) << status.message();
  EXPECT_FALSE(says(status, "missing"));
  EXPECT_TRUE(bind(true).ok());
}

TEST_F(EditedCheckpoint, MissingTensorsAreListed) {
  std::erase_if(tensors_, [](const ExpectedTensor& t) { return t.name.starts_with("mtp.2.ffn.experts."); });
  const Status status = bind();
  EXPECT_TRUE(says(status, "48 missing tensors: mtp.2.ffn.experts.0.w1.weight, mtp.2.ffn.experts.0.w1.scale"))
      << status.message();
  EXPECT_TRUE(says(status, "and 43 more")) << status.message();
}

TEST_F(EditedCheckpoint, WrongDtypeAndShapeNameBoth) {
  tensor("norm.weight").dtype = DType::kF16;
  EXPECT_TRUE(says(bind(), "norm.weight"));
  EXPECT_TRUE(says(bind(), "F16") && says(bind(), "BF16")) << bind().message();
  tensor("norm.weight").dtype = DType::kBF16;
  tensor("layers.0.attn.wkv.scale").shape = {8, 16};
  EXPECT_TRUE(says(bind(), "layers.0.attn.wkv.scale"));
  EXPECT_TRUE(says(bind(), "[8, 16]") && says(bind(), "[16, 8]")) << bind().message();
}

TEST_F(EditedCheckpoint, TiedCopiesOfDraftStagesAreIgnored) {
  tensors_.push_back({"mtp.0.embed.weight", DType::kBF16, {4096, 256}});
  tensors_.push_back({"mtp.2.head.weight", DType::kBF16, {4096, 256}});
  EXPECT_TRUE(bind().ok());
  tensors_.push_back({"mtp.3.head.weight", DType::kBF16, {4096, 256}});
  EXPECT_TRUE(says(bind(), "unexpected tensor: mtp.3.head.weight")) << bind().message();
}

TEST_F(EditedCheckpoint, BothSpellingsOfANameAreOneTooMany) {
  tensors_.push_back({"model.norm.weight", DType::kBF16, {256}});
  EXPECT_TRUE(says(bind(), "unexpected tensor: model.norm.weight")) << bind().message();
}

TEST_F(EditedCheckpoint, ConfigThatContradictsTheFiles) {
  auto j = demonstration_json();
  j["text_config"]["moe_intermediate_size"] = 160;
  config_ = config_of(j);
  const Status status = bind();
  EXPECT_TRUE(says(status, "wrong tensors")) << status.message();
  EXPECT_TRUE(says(status, "and ")) << status.message();
}

}  // namespace
}  // namespace deepinfer::deepseek_v41
