// Steps that make cached records: ops/window_kv.h, ops/compressor.h and the queries of ops/index_topk.h.  Operands as
// there, in device memory; `sequences` of an operation is not looked at, the list beside it is.
#pragma once

#include "backends/cuda/launch/sequence_list.h"
#include "backends/cuda/launch/stream.h"
#include "base/status.h"
#include "ops/compressor.h"
#include "ops/index_topk.h"
#include "ops/window_kv.h"

namespace deepinfer::cuda {

Status any_make_window_records(const MakeWindowRecords& op, Stream stream);
Status any_commit_window(const CommitWindow& op, const SequenceList<WindowCommit>& list, Stream stream);
Status any_compress_pairs(const CompressPairs& op, const SequenceList<CompressSequence>& list, Stream stream);
Status any_store_compressed(const StoreCompressed& op, const SequenceList<StoreSequence>& list, Stream stream);
Status any_store_index_keys(const StoreIndexKeys& op, const SequenceList<StoreSequence>& list, Stream stream);
Status any_make_index_queries(const MakeIndexQueries& op, Stream stream);

}  // namespace deepinfer::cuda
