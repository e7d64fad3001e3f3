// Which matrices each chunk of a run holds, for the codec that sends factors of them, and where the
// sender keeps what each chunk's next factors begin with.
//
// A tensor of two and more dimensions is a matrix with a row for each index of the first. Chunks
// cut tensors anywhere: the rest of a row that a chunk begins with is a piece of its own, and the
// padding behind a tensor belongs to its last row. Immutable once built; any thread may read.
#ifndef CAUSEWAY_DAEMON_ENDPOINT_MATRICES_H_
#define CAUSEWAY_DAEMON_ENDPOINT_MATRICES_H_

#include <cstdint>
#include <vector>

#include "compression/codec.h"
#include "daemon/schema/layout.h"
#include "daemon/schema/schema.h"

namespace causeway::endpoint {

class Matrices {
 public:
  struct Chunk {
    std::vector<compression::MatrixPiece> pieces;  // in order
    uint64_t warm_first = 0;                       // of its bf16 numbers in the run's
  };

  // Nothing: the codec sends no factors.
  Matrices() = default;
  Matrices(const schema::Schema& schema, const schema::Layout& layout, uint32_t rank);

  bool empty() const { return chunks_.empty(); }
  uint32_t rank() const { return rank_; }
  const Chunk& chunk(uint32_t fragment, uint32_t index) const {
    return chunks_.at(fragment).at(index);
  }
  uint64_t warm_elements() const { return warm_elements_; }  // of all chunks

 private:
  uint32_t rank_ = 0;
  uint64_t warm_elements_ = 0;
  std::vector<std::vector<Chunk>> chunks_;  // by fragment
};

}  // namespace causeway::endpoint

#endif  // CAUSEWAY_DAEMON_ENDPOINT_MATRICES_H_
