// The local endpoint's readers of the snapshot, and digests over whole models.
//
// They run on workers: a pass over gigabytes does not belong on the control thread.
#include <openssl/evp.h>

#include <algorithm>
#include <cassert>
#include <cstring>

#include "compression/vector.h"
#include "daemon/endpoint/endpoint.h"
#include "daemon/endpoint/fragment_state.h"

namespace causeway::endpoint {
namespace {

constexpr uint32_t kTile = 4096;

compression::DType CodecDType(uint8_t dtype) { return static_cast<compression::DType>(dtype); }

// SHA-256 over fp32 values.
class ValueHash {
 public:
  ValueHash() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    Expect(context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
  }
  void Add(const float* values, size_t n) {
    Expect(EVP_DigestUpdate(context_.get(), values, n * sizeof(float)) == 1);
  }
  schema::Digest Finish() {
    schema::Digest digest{};
    Expect(EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr) == 1);
    return digest;
  }

 private:
  static void Expect(bool done) {
    assert(done && "SHA-256 is always available");
    (void)done;
  }
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

}  // namespace

const std::byte* LocalEndpoint::SnapshotArea(uint32_t fragment) const {
  return snapshot_.data() + record(fragment).snapshot_offset;
}

void LocalEndpoint::LoadSnapshot(uint32_t fragment, absl::Span<float> out) const {
  assert(out.size() == record(fragment).elements);
  const compression::DType dtype = CodecDType(record(fragment).dtype);
  const std::byte* area = SnapshotArea(fragment);
  uint64_t done = 0;
  layout_->ForEachTensor(fragment, [&](uint32_t, uint64_t first, uint64_t elements) {
    std::fill(out.begin() + done, out.begin() + first, 0.0f);
    compression::CastToFp32(area + first * compression::DTypeBytes(dtype), elements, dtype,
                            out.data() + first);
    done = first + elements;
  });
  std::fill(out.begin() + done, out.end(), 0.0f);
}

std::optional<std::string> LocalEndpoint::NonFiniteInSnapshot(uint32_t fragment) const {
  const compression::DType dtype = CodecDType(record(fragment).dtype);
  const std::byte* area = SnapshotArea(fragment);
  std::optional<uint32_t> found;
  layout_->ForEachTensor(fragment, [&](uint32_t tensor, uint64_t first, uint64_t elements) {
    if (found) return;
    float tile[kTile];
    for (uint64_t done = 0; done < elements && !found; done += kTile) {
      const size_t count = std::min<uint64_t>(kTile, elements - done);
      compression::CastToFp32(area + (first + done) * compression::DTypeBytes(dtype), count, dtype,
                              tile);
      if (compression::FirstNonFinite({tile, count}) != count) found = tensor;
    }
  });
  if (!found) return std::nullopt;
  return schema_->tensors()[*found].name;
}

bool LocalEndpoint::SnapshotMatches(uint32_t fragment, int64_t round) const {
  const compression::DType dtype = CodecDType(record(fragment).dtype);
  const size_t size = compression::DTypeBytes(dtype);
  const std::byte* area = SnapshotArea(fragment);
  const float* value = Value(fragment, round).data();
  bool equal = true;
  layout_->ForEachTensor(fragment, [&](uint32_t, uint64_t first, uint64_t elements) {
    float tile[kTile];  // large enough for any dtype
    for (uint64_t done = 0; done < elements && equal; done += kTile) {
      const size_t count = std::min<uint64_t>(kTile, elements - done);
      compression::CastFromFp32(value + first + done, count, dtype, tile);
      equal = std::memcmp(tile, area + (first + done) * size, count * size) == 0;
    }
  });
  return equal;
}

schema::Digest LocalEndpoint::SnapshotDigest(uint32_t first_fragment) const {
  ValueHash hash;
  for (uint32_t f = first_fragment; f < layout_->fragments().size(); ++f) {
    const compression::DType dtype = CodecDType(record(f).dtype);
    const std::byte* area = SnapshotArea(f);
    uint64_t done = 0;
    const auto zeros = [&](uint64_t end) {
      const float none[local::kTensorAlignElements] = {};
      for (; done < end; done += std::min<uint64_t>(std::size(none), end - done)) {
        hash.Add(none, std::min<uint64_t>(std::size(none), end - done));
      }
    };
    layout_->ForEachTensor(f, [&](uint32_t, uint64_t first, uint64_t elements) {
      zeros(first);
      float tile[kTile];
      while (done < first + elements) {
        const size_t count = std::min<uint64_t>(kTile, first + elements - done);
        compression::CastToFp32(area + done * compression::DTypeBytes(dtype), count, dtype, tile);
        hash.Add(tile, count);
        done += count;
      }
    });
    zeros(record(f).elements);
  }
  return hash.Finish();
}

schema::Digest LocalEndpoint::ValuesDigest(absl::Span<const int64_t> rounds) const {
  assert(rounds.size() == layout_->fragments().size());
  ValueHash hash;
  for (uint32_t f = 0; f < rounds.size(); ++f) {
    const absl::Span<const float> value = Value(f, rounds[f]);
    hash.Add(value.data(), value.size());
  }
  return hash.Finish();
}

}  // namespace causeway::endpoint
