// The session's bytes: copies into the snapshot, merges out of the values, and what can be asked
// about them.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "client/shim/merge.h"
#include "client/shim/session.h"

namespace causeway::client {
namespace {

uint8_t* Advance(void* memory, uint64_t elements, uint8_t dtype) {
  return static_cast<uint8_t*>(memory) + elements * BytesOf(dtype);
}

Status CheckMemory(const std::vector<Part>& parts, const Schema& schema, bool needs_now) {
  for (const Part& part : parts) {
    if (needs_now && part.slice->data == nullptr) {
      return TensorFailure(CW_ARGUMENT, schema.tensors()[part.slice->tensor].name,
                           "the slice has no `data` to read");
    }
  }
  return Status();
}

}  // namespace

void Session::CopyIn(const std::vector<Part>& parts) {
  for (const Part& part : parts) {
    const uint8_t dtype = areas_->layout.fragments()[part.fragment].dtype;
    std::memcpy(Advance(areas_->SnapshotOf(part.fragment), part.first, dtype), part.slice->data,
                part.count * BytesOf(dtype));
  }
}

std::vector<Range> Session::OwnRanges(uint32_t fragment) const {
  if (identity_.world == 1) return {{fragment, 0, areas_->layout.fragments()[fragment].elements}};
  std::vector<Range> ranges;
  for (const Range& range : claim_) {
    if (range.fragment == fragment && range.count > 0) ranges.push_back(range);
  }
  return ranges;
}

// With several ranks each submits the slices that it offered, no others.
Status Session::CheckClaim(uint32_t fragment, const std::vector<Part>& parts) const {
  if (identity_.world == 1 || RangesOf(parts) == OwnRanges(fragment)) return Status();
  return Status(CW_ARGUMENT, "the slices of fragment " + std::to_string(fragment) +
                                 " are not those that this rank offered");
}

Status Session::MergeParts(const Areas& fresh, int64_t fresh_round, const Operation* operation,
                           Rule rule, float mix, uint32_t fragment,
                           const std::vector<Part>& parts) {
  const uint8_t dtype = fresh.layout.fragments()[fragment].dtype;
  bool device = false;
  std::vector<MergeSpan> spans;
  for (const Part& part : parts) {
    MergeSpan span;
    span.dtype = dtype;
    span.cast_dtype = part.slice->cast_dtype;
    span.count = part.count;
    span.fresh = fresh.ValueOf(fragment, fresh_round) + part.first;
    span.now = part.slice->data;
    span.mix = mix;
    if (rule == Rule::kCarrySent) {
      span.sent = Advance(operation->sent->SnapshotOf(fragment), part.first, dtype);
      device = device || operation->on_device;
    } else if (rule == Rule::kCarryBase) {
      span.base = operation->base->ValueOf(fragment, operation->base_round) + part.first;
    }
    span.out = part.slice->out != nullptr ? part.slice->out : part.slice->data;
    span.cast = part.slice->cast;
    device = device || part.slice->memory == CW_MEMORY_CUDA;
    spans.push_back(span);
  }
  if (device) return MergeOnDevice(rule, operation, parts, std::move(spans));
  for (const MergeSpan& span : spans) Merge(rule, span);
  return Status();
}

Status Session::PlanMerge(const Operation& operation, int mode, float mix, int& rule) const {
  if (mode < CW_CARRY || mode > CW_REPLACE) return Status(CW_ARGUMENT, "unknown apply mode");
  if (!(mix >= 0.0f && mix <= 1.0f)) return Status(CW_ARGUMENT, "mix must be within 0 and 1");
  if (!operation.has_result()) {
    return Status(CW_BUSY, "the operation has no result yet: wait for it first");
  }
  const bool excluded = operation.result.state == CW_STATE_EXCLUDED;
  if (mode == CW_REPLACE) {
    rule = static_cast<int>(Rule::kReplace);
  } else if (mode == CW_MIX && !excluded) {
    rule = static_cast<int>(Rule::kMix);
  } else if (!excluded) {
    rule = static_cast<int>(Rule::kCarrySent);
  } else {
    rule = static_cast<int>(Rule::kCarryBase);
    const bool same_slot = (operation.result.round - operation.base_round) % 2 == 0;
    if (operation.base == operation.fresh && same_slot) {
      Failure failure;
      failure.code = CW_REBASE;
      failure.retryable = true;
      failure.round = operation.result.round;
      failure.text = "the value that the local work started from is gone; apply by replace";
      return Status(std::move(failure));
    }
  }
  return Status();
}

Status Session::Apply(uint64_t op, int mode, float mix, const cw_slice* slices, uint32_t count) {
  Lock lock;
  if (Status status = Enter(lock); !status.ok()) return status;
  Operation* operation = Find(op);
  if (operation == nullptr) return NoSuchOperation(op);
  int rule = 0;
  if (Status status = PlanMerge(*operation, mode, mix, rule); !status.ok()) return status;
  std::vector<Part> parts;
  const Coverage coverage = identity_.world == 1 ? Coverage::kWhole : Coverage::kAny;
  Status status = PlaceSlices(schema_, operation->fresh->layout, operation->fragment, slices, count,
                              coverage, parts);
  if (status.ok()) status = CheckMemory(parts, schema_, mode != CW_REPLACE);
  if (status.ok()) status = CheckCuda(parts);
  if (!status.ok()) return status;
  return MergeParts(*operation->fresh, operation->result.round, operation, static_cast<Rule>(rule),
                    mix, operation->fragment, parts);
}

Status Session::Read(uint32_t fragment, int64_t round, const cw_slice* slices, uint32_t count) {
  Lock lock;
  if (Status status = Enter(lock); !status.ok()) return status;
  if (Status status = CheckFragment(fragment); !status.ok()) return status;
  const Progress& progress = progress_[fragment];
  const Areas* areas = nullptr;
  if (round >= 0 && round == progress.newest_round) {
    areas = progress.newest.get();
  } else if (round >= 0 && round == progress.base_round) {
    areas = progress.base.get();
  }
  if (areas == nullptr) {
    return Status(CW_ARGUMENT, "the value of round " + std::to_string(round) + " of fragment " +
                                   std::to_string(fragment) + " is not held; only the base (" +
                                   std::to_string(progress.base_round) + ") and the newest (" +
                                   std::to_string(progress.newest_round) + ") are");
  }
  std::vector<Part> parts;
  Status status =
      PlaceSlices(schema_, areas->layout, fragment, slices, count, Coverage::kAny, parts);
  if (status.ok()) status = CheckCuda(parts);
  if (!status.ok()) return status;
  return MergeParts(*areas, round, nullptr, Rule::kReplace, 0, fragment, parts);
}

Status Session::Applied(uint32_t fragment, int64_t round) {
  Lock lock;
  if (Status status = Enter(lock); !status.ok()) return status;
  Pump();
  if (!failure_.ok()) return Status(failure_.failure());
  if (Status status = CheckFragment(fragment); !status.ok()) return status;
  Progress& progress = progress_[fragment];
  if (round < 0 || round != progress.newest_round) {
    return Status(CW_ARGUMENT,
                  "fragment " + std::to_string(fragment) + ": the newest value is of round " +
                      std::to_string(progress.newest_round) + ", not " + std::to_string(round));
  }
  if (const Operation* operation = Find(progress.op)) {
    if (!operation->has_result()) {
      return Status(CW_BUSY, "fragment " + std::to_string(fragment) +
                                 ": its operation has not ended; wait for it or abandon it first");
    }
    Forget(progress.op);
  }
  progress.base_round = round;
  progress.base = progress.newest;
  progress.stale = false;
  // Without a connection the gateway learns it on the next one.
  if (running()) TellApplied();
  return Status();
}

Status Session::LayoutOf(cw_layout& layout) {
  Lock lock;
  if (Status status = Enter(lock); !status.ok()) return status;
  if (!areas_) return Status(CW_ARGUMENT, "cw_join comes first");
  const uint32_t size = layout.struct_bytes;
  layout = cw_layout{};
  layout.struct_bytes = size;
  layout.fragments = terms_.fragments;
  layout.tensors = terms_.tensors;
  layout.local_steps = terms_.local_steps;
  layout.delay_steps = terms_.delay_steps;
  layout.mix = terms_.mix;
  layout.learning_rate = terms_.learning_rate;
  layout.momentum = terms_.momentum;
  layout.apply_mode = terms_.apply_mode;
  layout.outer = terms_.outer;
  layout.wait_timeout_ms = terms_.wait_timeout_ms;
  layout.peer_timeout_ms = terms_.peer_timeout_ms;
  std::memcpy(layout.rule, terms_.rule, sizeof(layout.rule));
  std::memcpy(layout.codec, terms_.codec, sizeof(layout.codec));
  cluster_.copy(layout.cluster, sizeof(layout.cluster) - 1);
  layout.gateway_pid = connection_.PeerPid();
  return Status();
}

Status Session::FragmentOf(uint32_t fragment, cw_fragment& out) {
  Lock lock;
  if (Status status = Enter(lock); !status.ok()) return status;
  if (Status status = CheckFragment(fragment); !status.ok()) return status;
  const Fragment& known = areas_->layout.fragments()[fragment];
  out = cw_fragment{};
  out.elements = known.elements;
  out.chunks = known.chunks;
  out.dtype = known.dtype;
  out.group = known.group;
  out.base_round = progress_[fragment].base_round;
  out.newest_round = progress_[fragment].newest_round;
  return Status();
}

Status Session::PlacementOf(uint32_t tensor, cw_placement& out) {
  Lock lock;
  if (Status status = Enter(lock); !status.ok()) return status;
  if (!areas_) return Status(CW_ARGUMENT, "cw_join comes first");
  if (tensor >= areas_->layout.placements().size()) {
    return Status(CW_ARGUMENT, "no tensor " + std::to_string(tensor));
  }
  const Placement& known = areas_->layout.placements()[tensor];
  out = cw_placement{known.fragment, 0, known.first_element, known.elements};
  return Status();
}

}  // namespace causeway::client
