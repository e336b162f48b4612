#include "backends/cpu/steps/isa_kernels.h"

#define DI_TABLE_NAME_OF(isa) step_kernels_##isa
#define DI_TABLE_NAME(isa) DI_TABLE_NAME_OF(isa)

namespace deepinfer::cpu {

const StepKernels& DI_TABLE_NAME(DI_SIMD_NAMESPACE)() {
  namespace isa = DI_SIMD_NAMESPACE;
  static constexpr StepKernels kTable = {
      .exponential = isa::exponentials,
      .rms_norm = isa::rms_norm,
      .rope = isa::rope,
      .quantize_activation = isa::quantize_activation,
      .mix_partial = isa::mix_partial,
      .mix_finish = isa::mix_finish,
      .collapse = isa::collapse,
      .expand = isa::expand,
      .mean = isa::mean,
      .engram_row = isa::engram_row,
      .engram_mix = isa::engram_mix,
      .pool_pair = isa::pool_pair,
      .encode_fp8 = isa::encode_fp8,
      .encode_main = isa::encode_main,
      .encode_index = isa::encode_index,
      .decode_fp8 = isa::decode_fp8,
      .decode_main = isa::decode_main,
      .widen_fp8 = isa::widen_fp8,
      .widen_main = isa::widen_main,
      .unpack_index_query = isa::unpack_index_query,
      .index_scores = isa::index_scores,
      .attention = &isa::kAttention,
      .add_rows = isa::add_rows,
      .logit_stats = isa::logit_stats,
      .mask_logits = isa::mask_logits,
      .find_first = isa::find_first,
      .exp_weights = isa::exp_weights,
      .draw = isa::draw,
      .natural_log = isa::natural_log,
  };
  return kTable;
}

}  // namespace deepinfer::cpu
