// See matrices.h.
#include "daemon/endpoint/matrices.h"

#include <algorithm>
#include <cassert>

#include "compression/low_rank.h"

namespace causeway::endpoint {
namespace {

using compression::MatrixPiece;
using compression::PieceOf;

// 0: no matrix.
uint64_t ColumnsOf(const schema::Tensor& tensor) {
  if (tensor.shape.size() < 2 || tensor.shape[0] == 0) return 0;
  return tensor.elements / tensor.shape[0];
}

// `elements` from `skipped` of a tensor (and the padding behind it) on, all in one chunk.
void AddStretch(uint32_t elements, uint64_t columns, uint64_t skipped, uint32_t rank,
                std::vector<MatrixPiece>* pieces) {
  if (columns > compression::kChunkElements) columns = 0;
  if (columns != 0 && skipped % columns != 0) {
    const auto lead = static_cast<uint32_t>(columns - skipped % columns);
    if (lead < elements) {
      pieces->push_back(PieceOf(lead, 0, rank));
      elements -= lead;
    }
  }
  pieces->push_back(PieceOf(elements, static_cast<uint32_t>(columns), rank));
}

}  // namespace

Matrices::Matrices(const schema::Schema& schema, const schema::Layout& layout, uint32_t rank)
    : rank_(rank), chunks_(layout.fragments().size()) {
  for (uint32_t f = 0; f < chunks_.size(); ++f) {
    std::vector<Chunk>& chunks = chunks_[f];
    chunks.resize(layout.fragments()[f].chunks);
    uint64_t done = 0;
    uint64_t first = 0;  // of the tensor that reaches to where the next one begins
    uint64_t columns = 0;
    const auto until = [&](uint64_t end) {
      while (done < end) {
        const uint64_t index = done / compression::kChunkElements;
        const uint64_t stop = std::min(end, (index + 1) * compression::kChunkElements);
        AddStretch(static_cast<uint32_t>(stop - done), columns, done - first, rank,
                   &chunks[index].pieces);
        done = stop;
      }
    };
    layout.ForEachTensor(f, [&](uint32_t tensor, uint64_t begin, uint64_t) {
      until(begin);
      first = begin;
      columns = ColumnsOf(schema.tensors()[tensor]);
    });
    until(layout.fragments()[f].elements);
    for (uint32_t c = 0; c < chunks.size(); ++c) {
      assert(compression::LegalPieces(chunks[c].pieces, layout.ChunkElements(f, c), rank));
      chunks[c].warm_first = warm_elements_;
      warm_elements_ += compression::WarmElements(rank, chunks[c].pieces);
    }
  }
}

}  // namespace causeway::endpoint
