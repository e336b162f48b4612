// The feed-forward site of a layer: router, experts, and the mix that the next layer's input is made with
// (specs: v41-model.md 2.2, 2.9).
#include "models/deepseek_v41/forward.h"

namespace deepinfer::deepseek_v41 {

void Forward::feed_forward(int layer) {
  const LayerWeights& w = w_.layers[static_cast<size_t>(layer)];
  const FeedForwardWeights& f = w.feed_forward;
  const bool draft = layer >= table_.layer_count;
  const int top_k = draft ? c_.dspark_num_experts_per_tok : c_.num_experts_per_tok;
  const MatrixView<bf16> streams = active(a_.step.streams);
  const MatrixView<bf16> x = active(a_.step.x);
  const MatrixView<bf16> y = first_rows(a_.site.y);
  const MatrixView<float> post = first_rows(a_.site.post);
  const MatrixView<float> comb = first_rows(a_.site.comb);
  const MatrixView<int32_t> expert = first_rows(a_.feed_forward.expert).columns_from(0, top_k);
  const MatrixView<float> weight = first_rows(a_.feed_forward.weight).columns_from(0, top_k);

  // The input was mixed with the attention site's pre; this site's pre goes to the next layer.
  ops_.hyper_connection_mix({streams, w.feed_forward_mix, active(a_.step.pre), post, comb});
  ops_.route({x, f.gate, f.bias, f.bias_image, nullptr, top_k, c_.routed_scaling_factor, expert, weight});
  if (tells_choices_) tell_routed(layer, expert);
  ops_.mixture_of_experts({active(a_.step.quantized), expert, weight, f.experts.data(),
                           static_cast<int>(f.experts.size()), f.shared, c_.swiglu_limit, y});
  HyperConnectionCollapse next;
  if (input_comes_with_streams(layer + 1)) next = attention_input(layer + 1);
  ops_.hyper_connection_expand({y, post, comb, streams, next});
}

}  // namespace deepinfer::deepseek_v41
