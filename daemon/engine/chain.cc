// Serialises what a chain hash covers: little-endian, fixed widths, a tag first so that a seed can
// never be mistaken for a commit.
#include "daemon/engine/chain.h"

#include <string_view>

namespace causeway::engine {
namespace {

class Bytes {
 public:
  explicit Bytes(std::string_view tag) {
    data_.reserve(kUsual);
    data_.insert(data_.end(), tag.begin(), tag.end());
  }
  Bytes& U64(uint64_t value) {
    uint8_t bytes[8];
    for (int i = 0; i < 8; ++i) bytes[i] = static_cast<uint8_t>(value >> (8 * i));
    data_.insert(data_.end(), bytes, bytes + 8);
    return *this;
  }
  Bytes& Hash(const Hash256& hash) {
    data_.insert(data_.end(), hash.begin(), hash.end());
    return *this;
  }
  const std::vector<uint8_t>& data() const { return data_; }

 private:
  static constexpr size_t kUsual = 512;  // bytes of a commit of a few clusters

  std::vector<uint8_t> data_;
};

}  // namespace

Hash256 SeedChain(const Config& config, const Hash256& parameters, FragmentId fragment) {
  return config.hash(Bytes("causeway seed 1\n").Hash(parameters).U64(fragment).data());
}

Hash256 CommitChain(const Config& config, const CommitRecord& record) {
  Bytes bytes("causeway commit 1\n");
  bytes.Hash(record.previous_chain)
      .U64(record.fragment)
      .U64(record.state.lineage)
      .U64(static_cast<uint64_t>(record.state.round))
      .U64(record.epoch.counter)
      .U64(record.epoch.candidate)
      .U64(record.attempt)
      .U64(record.contributors.size());
  for (const Contributor& part : record.contributors) {
    bytes.U64(part.cluster).U64(part.incarnation).U64(part.op.session).U64(part.op.sequence);
    bytes.U64(part.weight).U64(part.plan);
  }
  return config.hash(bytes.Hash(record.result).data());
}

}  // namespace causeway::engine
