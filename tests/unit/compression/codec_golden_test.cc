// Bytes that never change: one hash a codec over all hostile samples and real slices. Another
// compiler, optimisation level or machine must find the same; a change here is a change of the
// format.
#include <catch2/catch.hpp>
#include <cinttypes>
#include <cstdio>
#include <map>

#include "compression/codec_internal.h"
#include "compression/vector.h"
#include "tests/unit/compression/samples.h"

namespace causeway::compression {
namespace {

std::vector<samples::Sample> AllSamples() {
  std::vector<samples::Sample> all = samples::HostileSamples();
  all.push_back({"delta", samples::ReadSlice("delta_slice.f32")});
  all.push_back({"gradient", samples::ReadSlice("gradient_slice.f32")});
  return all;
}

uint64_t HashOf(const KernelTable& unit, const CodecSpec& spec,
                const std::vector<samples::Sample>& all) {
  std::vector<uint8_t> bytes;
  for (const samples::Sample& sample : all) {
    EncodeInput input;
    input.snapshot = sample.values.data();
    input.n = static_cast<uint32_t>(sample.values.size());
    input.seed = spec.stochastic ? 99 : 0;
    std::vector<uint8_t> chunk(EncodedSizeMax(spec, input.n));
    EncodeStats stats;
    chunk.resize(EncodeChunkWith(unit, spec, input, absl::MakeSpan(chunk), &stats));
    std::vector<float> decoded(sample.values.size());
    DecodeChunkWith(unit, chunk, decoded.data());
    const uint8_t* values = reinterpret_cast<const uint8_t*>(decoded.data());
    bytes.insert(bytes.end(), chunk.begin(), chunk.end());
    bytes.insert(bytes.end(), values, values + decoded.size() * sizeof(float));
  }
  return ContentHash(bytes);
}

const std::map<std::string, uint64_t> kGolden = {
    {"fp32", 0xb3facedea9c23d5cu},
    {"bf16", 0x30e29703f93dd77du},
    {"fp16", 0xe807b04d4b22ed95u},
    {"int8:b256", 0x57e21b15e0242586u},
    {"int8:b64", 0x40328a44534a8c4du},
    {"int8:b32", 0x238423070a964006u},
    {"int8:b4096", 0x5102e6994385af22u},
    {"int8:b256:sr", 0x977ba9cfde952d46u},
    {"int4:b64", 0x0c1a19aeee798e52u},
    {"int4:b32", 0xc46c5e0ec3cbd14du},
    {"int4:b128", 0xf623b59c906226deu},
    {"int4:b256", 0x488deb9c6cf6dc43u},
    {"int4:b1024", 0x0a1f8ec3460f6824u},
    {"int4:b64:sr", 0x89aa47a56f4909c4u},
    {"nf4:b64", 0x31c72d5735b86918u},
    {"nf4:b32", 0x748d469ba9ac8162u},
    {"nf4:b256", 0x88ad5db71715ff61u},
    {"fp8:b128", 0x18ef1dd30dd8a1d0u},
    {"fp8:b64", 0x89844410e45764dbu},
    {"mxfp4:b32", 0x6dd23168d2111b77u},
    {"mxfp4:b64", 0x52d344421d212d6bu},
    {"e3m0:b64", 0x45c9096666d41569u},
    {"e3m0:b128", 0x3980f81eac186e1eu},
    {"2bit:b256", 0x1d909de45047f2a3u},
    {"2bit:b32", 0xa8137015b354dbcdu},
    {"2bit:b1024", 0x443f1cf23ab7facdu},
    {"sign:b256", 0xd5fade891a960ad7u},
    {"sign:b32", 0x2f0f61856a7e1533u},
    {"topk:k100:v4", 0x8cd2bb80623e9a03u},
    {"topk:k3000:v2", 0x88c247e70bbbca62u},
    {"topk:k9000:v4", 0xe25e807ec3d07019u},
    {"btopk:b4096:k64:v2", 0x28ee4b328ef63748u},
    {"btopk:b128:k32:v4", 0xdfc805a26e7d8058u},
    {"bf16x", 0x52fdc1ca04957ce7u},
    {"fp32x", 0x22a6ff0c1b9a58a0u},
    {"cosine:b256", 0xd659f2afb0e6658bu},
    {"cosine:b64", 0x47292f824eeeaf71u},
    {"patch", 0x56078738db5f9c44u},
    {"sign:b2048", 0xbfb8cabaab85fbecu},
    {"lowrank:r4", 0x23e88f0fdb83a44fu},
    {"lowrank:r1", 0xbf8b3e1e690191f1u},
    {"lowrank:r16", 0x5279365c826ff74fu},
};

// Hidden: prints the rows above.
TEST_CASE("print the golden hashes", "[.print]") {
  for (const CodecSpec& spec : samples::AllSpecs()) {
    std::printf("    {\"%s\", 0x%016" PRIx64 "u},\n", spec.ToString().c_str(),
                HashOf(ActiveKernels(), spec, AllSamples()));
  }
}

TEST_CASE("encoded and decoded bytes are those of every other build") {
  const std::vector<samples::Sample> all = AllSamples();
  for (Isa isa : kIsas) {
    const KernelTable* unit = KernelsFor(isa);
    if (unit == nullptr) continue;
    for (const CodecSpec& spec : samples::AllSpecs()) {
      CAPTURE(unit->name, spec.ToString());
      REQUIRE(kGolden.count(spec.ToString()) == 1);
      CHECK(HashOf(*unit, spec, all) == kGolden.at(spec.ToString()));
    }
  }
}

}  // namespace
}  // namespace causeway::compression
