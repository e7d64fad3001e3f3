// Trainer to daemon: fixed-layout messages over a unix SOCK_SEQPACKET socket, one message a datagram.
//
// Shared by libcauseway and causewayd, so it depends on nothing but fixed-width integers. All fields are
// little-endian; every struct has explicit padding ("zero" fields), which is sent as zero and refused
// otherwise, so that a later version can give it a meaning. Ids are never reused. proto/WIRE.md shows the
// bytes. Descriptors travel beside a message by SCM_RIGHTS, in the order that the message names.
//
// A session, in order (trainer -> daemon "t>", daemon -> trainer "d>"):
//   t> Hello                       d> Welcome | Error
//   t> Join + schema memfd         d> Joined + layout, snapshot and values memfds | Error
//   t> Share + allocation, where the tensors are a GPU's
//                                  d> Shared: whether snapshots may stay there
//   t> Offer + slices memfd, where there are several ranks (initial values lie in the snapshot memfd)
//                                  d> Ready (the run is formed: MATCH or REPLACE) | Error
//   t> Applied, for each fragment that it wrote
//   t> Submit                      d> Submitted | Error;  later OpState, each time its state changes
//   t> Applied | Abandon | Query | Await | Finish | Leave
//   d> Error may come at any time; a fatal one is the last message of the session.
//
// After a lost connection the trainer says Hello with its token. Where Welcome gives the same token back,
// the session goes on as it was: the trainer repeats the one request whose answer it has not seen (Join,
// Share, Offer or Finish; the daemon answers again) and Queries each op that it has not seen end. Where Welcome
// gives another token (daemon restarted, session expired) it starts at Join, and Queries the old session's
// ops after Ready. An op that is UNKNOWN is submitted again.
//
// Several ranks of a cluster (world > 1) each open a session, provide their own slices and collect their
// own part. Together they are one trainer: an op is one for all of them, by the number that each gives it
// (OpNumber), and begins once every rank has submitted; a rank that dies ends the sessions of all.
#pragma once

#include <cstdint>

namespace causeway::local {

inline constexpr uint32_t kMagic = 0x4c575743u;  // "CWWL" as bytes in memory: 43 57 57 4c
inline constexpr uint16_t kVersionMin = 1;
inline constexpr uint16_t kVersionMax = 1;

inline constexpr uint32_t kMessageBytesMax = 4096;  // of any datagram, header included
inline constexpr uint32_t kRunNameMax = 63;         // bytes, without the terminating zero
inline constexpr uint32_t kClusterNameMax = 63;
inline constexpr uint32_t kTensorNameMax = 191;
inline constexpr uint32_t kErrorTextMax = 1023;
inline constexpr uint32_t kLabelMax = 31;
inline constexpr uint32_t kTensorsMax = 65536;
inline constexpr uint32_t kDimensionsMax = 8;
inline constexpr uint32_t kFragmentsMax = 256;
inline constexpr uint32_t kClustersMax = 64;
inline constexpr uint64_t kElementsMax = uint64_t{1} << 42;  // of a schema
inline constexpr uint32_t kTensorAlignElements = 256;        // each tensor starts on such a boundary
inline constexpr uint32_t kRanksMax = 65536;
inline constexpr uint32_t kSlicesMax = 1u << 18;  // of one rank, and of one fragment

enum class Type : uint16_t {
  kHello = 1,
  kWelcome = 2,
  kJoin = 3,
  kJoined = 4,
  kOffer = 5,
  kReady = 6,
  kSubmit = 7,
  kSubmitted = 8,
  kOpState = 9,
  kApplied = 10,
  kAbandon = 11,
  kQuery = 12,
  kAwait = 13,
  kAwaiting = 14,
  kFinish = 15,
  kFinished = 16,
  kLeave = 17,
  kError = 18,
  kShare = 19,
  kShared = 20,
};

// Starts every message. `sequence` numbers the sender's messages from 1; a reply carries the request's
// number in `answers`, an unprompted message carries 0.
struct Header {
  uint32_t magic;
  uint16_t version;  // of the session; in Hello the sender's kVersionMin
  uint16_t type;
  uint32_t size;  // of the whole message, this header included; equals the datagram's length
  uint32_t zero;
  uint64_t sequence;
  uint64_t answers;
};
static_assert(sizeof(Header) == 32);

enum class DType : uint8_t { kFp32 = 0, kBf16 = 1, kFp16 = 2 };
enum class Group : uint8_t {
  kParameter = 0,  // the run's rule applies
  kBuffer = 1,     // weighted mean, no momentum (BatchNorm statistics)
  // Not exchanged, equal everywhere: takes no room and counts as empty, whatever its shape. Its name
  // carries a hash of its contents, so that runs whose tensors differ are refused like others that differ.
  kFixed = 2,
};

// Identifies one trainer process of a cluster. A live duplicate of (run, rank) is refused: IDENTITY_TAKEN.
struct Hello {
  Header header;
  uint16_t version_min;
  uint16_t version_max;
  uint32_t rank;   // of this process in its cluster
  uint32_t world;  // trainer processes of the cluster that open handles on this run
  uint32_t zero;
  uint8_t token[16];  // of the session to resume after a lost connection; all zero: a new one
  char run[kRunNameMax + 1];
};
static_assert(sizeof(Hello) == 128);

struct Welcome {
  Header header;
  uint8_t token[16];     // Hello's, where that session goes on; otherwise new. Proves who asks later
  uint64_t incarnation;  // of the daemon's process
  uint64_t session;      // first half of every op id of this session; one for all ranks of a cluster
  char cluster[kClusterNameMax + 1];
};
static_assert(sizeof(Welcome) == 128);

enum class Init : uint8_t {
  kRun = 0,    // take the run's values; offer ours only where the run is new and this is the seed cluster
  kMine = 1,   // refuse unless the run is new or already equals ours
  kMatch = 2,  // refuse unless equal
};

// The schema memfd holds `tensors` TensorRecords and nothing else.
struct TensorRecord {
  char name[kTensorNameMax + 1];  // zero-terminated, non-empty, unique
  uint8_t dtype;                  // DType
  uint8_t group;                  // Group
  uint8_t dimensions;             // 0: a scalar
  uint8_t stage;                  // with which growth of the run it came: 0 first, ascending, without gaps
  int32_t alias_of;  // index of the earlier tensor that shares its storage, or -1; same dtype and shape
  uint64_t shape[kDimensionsMax];
};
static_assert(sizeof(TensorRecord) == 264);

struct Join {
  Header header;
  uint32_t tensors;
  uint8_t init;     // Init
  uint8_t outer;    // 1: parameters under an outer rule; 0: gradients, averaged each step
  uint16_t zero;
  uint32_t local_steps;  // H that the trainer insists on; 0: whatever the run's configuration says
  uint32_t zero2;
};
static_assert(sizeof(Join) == 48);

// How a fragment's new value meets the parameters.
enum class ApplyMode : uint8_t { kCarry = 0, kMix = 1, kReplace = 2 };

inline constexpr uint32_t kDelayAuto = 0xffffffffu;

// Descriptors: layout (read-only), snapshot (read and write), values (read-only).
// layout:   FragmentRecord[fragments], then PlacementRecord[tensors].
// snapshot: the fragments' areas at FragmentRecord::snapshot_offset, in the fragment's dtype.
// values:   two slots of fp32 a fragment; the value of round r lies in slot r % 2.
struct Joined {
  Header header;
  uint32_t fragments;
  uint32_t tensors;
  uint64_t snapshot_bytes;
  uint64_t values_bytes;
  uint64_t layout_bytes;
  uint32_t local_steps;   // H
  uint32_t delay_steps;   // d, or kDelayAuto
  float mix;              // a of mode kMix
  uint8_t apply_mode;     // ApplyMode
  uint8_t outer;          // 1: outer rule; 0: gradient averaging
  uint16_t zero;
  uint64_t wait_timeout_ms;   // 0: wait for ever
  uint64_t peer_timeout_ms;
  char rule[32];
  char codec[32];
  float learning_rate;  // outer, and its momentum: for trainers that run ahead of the result (rule eager)
  float momentum;
};
static_assert(sizeof(Joined) == 168);

struct FragmentRecord {
  uint64_t elements;         // padding included; a multiple of kTensorAlignElements
  uint64_t snapshot_offset;  // bytes into the snapshot memfd
  uint64_t values_offset[2]; // bytes into the values memfd, slot 0 and slot 1
  uint32_t chunks;
  uint8_t dtype;
  uint8_t group;
  uint16_t zero;
};
static_assert(sizeof(FragmentRecord) == 40);

struct PlacementRecord {
  uint64_t first_element;  // of the tensor, in its fragment
  uint64_t elements;
  uint32_t fragment;
  uint32_t zero;
};
static_assert(sizeof(PlacementRecord) == 24);

// How a trainer shares memory of a device: an allocation of its own, handed over as a descriptor.
enum class DeviceMemory : uint8_t {
  // One physical allocation of cuMemCreate, exported by cuMemExportToShareableHandle as
  // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR. The daemon imports it, maps all of `bytes` from its
  // start, and closes the descriptor.
  kCudaVmm = 1,
};

// Asks whether snapshots may stay in the trainer's device memory, laid out as the snapshot memfd is. The
// allocation must hold `bytes` and lie on that device; the daemon tries it before it says yes. After a
// no, or without the question, snapshots go through the memfd. One descriptor: the allocation.
struct Share {
  Header header;
  uint64_t bytes;  // of the allocation; at least Joined::snapshot_bytes
  uint8_t kind;    // DeviceMemory
  uint8_t zero[7];
  uint8_t device[16];  // its UUID (cuDeviceGetUuid)
};
static_assert(sizeof(Share) == 64);

struct Shared {
  Header header;
  uint8_t accepted;  // 1: Submit::memory may be kDevice
  uint8_t zero[7];
  char reason[256];  // why not, for the trainer's log
};
static_assert(sizeof(Shared) == 296);

// What of a fragment one rank provides. Disjoint; together the ranks' slices cover every element of every
// tensor; padding may be left out or be part of one.
struct SliceRecord {
  uint64_t first_element;  // in the fragment, in unsharded coordinates
  uint64_t element_count;
  uint32_t fragment;
  uint32_t zero;
};
static_assert(sizeof(SliceRecord) == 24);

// The trainer's values lie in the snapshot memfd (outer rules; gradient averaging offers none), and from
// now on it stands for these slices of the run. One descriptor where `slices` > 0: a memfd of
// SliceRecord[slices]; none and 0: for all of it.
struct Offer {
  Header header;
  uint32_t slices;
  uint32_t zero;
};
static_assert(sizeof(Offer) == 40);

enum class Start : uint8_t { kMatch = 0, kReplace = 1 };

struct Ready {
  Header header;
  uint8_t start;  // Start: kReplace: write the values before the first step, then Applied
  uint8_t zero[7];
  uint32_t fragments;
  uint32_t members;                 // clusters
  int64_t round[kFragmentsMax];     // newest committed round of each fragment: the base
};
static_assert(sizeof(Ready) == 48 + 8 * kFragmentsMax);

// What the local work started from: D = that value - snapshot. The round after base_round is contributed to
// in any case.
enum class Origin : uint8_t {
  kBase = 0,   // the value of base_round
  kOlder = 1,  // the value of the round before it, which base_round's came too late to replace (co2, eager)
};

enum class Memory : uint8_t {
  kHost = 0,    // the snapshot memfd
  kDevice = 1,  // the allocation of Share, at the same offset; the copy into it is complete
};

// This rank's slices of the fragment's snapshot area hold the tensors as they are now; they belong to the
// daemon until the op ends.
struct Submit {
  Header header;
  uint64_t op;  // second half of the op id; not 0, not used for another submission of this session
  uint32_t fragment;
  uint8_t origin;         // Origin
  uint8_t memory;         // Memory
  uint8_t zero[2];
  int64_t base_round;  // the newest value that this trainer has
  uint64_t weight;  // samples or tokens of this rank since base_round; the cluster's is the sum
  // Not empty: the state that this round commits is kept on the gateway's disk under this label, which names
  // one moment in all clusters if their trainers give it after the same step. A letter or digit, then those
  // and . _ -; of one of several ranks is enough.
  char label[kLabelMax + 1];
};
static_assert(sizeof(Submit) == 96);

// Whether a string can be a label.
constexpr bool IsLabel(const char* text, uint64_t size) {
  for (uint64_t i = 0; i < size; ++i) {
    const char c = text[i];
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!plain && (i == 0 || (c != '.' && c != '_' && c != '-'))) return false;
  }
  return size > 0 && size <= kLabelMax;
}

// The op that all ranks of a cluster submit for (fragment, base_round): none of them needs to ask another.
constexpr uint64_t OpNumber(uint32_t fragment, int64_t base_round) {
  return (static_cast<uint64_t>(base_round) + 1) * kFragmentsMax + fragment;
}

struct Submitted {
  Header header;
  uint64_t op;
  int64_t round;  // that the op contributes to
};
static_assert(sizeof(Submitted) == 48);

enum class State : uint8_t {
  kUnknown = 0,  // answers Query only: never seen here, resubmit
  kPending = 1,
  kCommitted = 2,
  kExcluded = 3,
  kStalled = 4,
  kFailed = 5,
  kAbandoned = 6,
};

struct OpState {
  Header header;
  uint64_t op;
  uint32_t fragment;
  uint8_t state;     // State
  uint8_t in_doubt;  // 1: pending, and its bytes have left: the outcome is not known yet
  // kFailed: Code. kPending, kStalled: 1 + the fragment whose work of this cluster those wait for that
  // this operation waits for, a trainer that waits submits it now; 0: none.
  uint16_t code;
  int64_t round;     // whose value is now in values slot round % 2, when committed or excluded
  uint32_t participants;  // clusters that the round counted
  uint32_t staleness;     // rounds between base and result; 1 without delay
  uint64_t raw_bytes;     // fp32 bytes that the contribution stands for
  uint64_t wire_bytes;    // encoded bytes sent for it
  uint64_t exchange_us;   // submit to commit
  uint8_t nonfinite;      // 1: the committed result holds NaN or Inf (gradient averaging: skip the step)
  uint8_t zero[7];
  char awaited[256];      // pending or stalled: who is waited for, comma separated
};
static_assert(sizeof(OpState) == 352);

struct Applied {
  Header header;
  uint32_t fragment;
  uint32_t computing_us;  // since the trainer last applied this fragment, without waiting; 0: unknown
  int64_t round;
};
static_assert(sizeof(Applied) == 48);

struct Abandon {
  Header header;
  uint64_t op;
};
struct Query {
  Header header;
  uint64_t session;  // of the op id; sessions survive reconnects by token
  uint64_t op;
};
// Asks who is waited for; answered by Awaiting.
struct Await {
  Header header;
  uint64_t op;  // 0: whatever the run waits for
};
struct Awaiting {
  Header header;
  uint64_t op;
  uint64_t waited_us;
  char awaited[256];  // comma-separated clusters; "local" is this cluster's own trainers
  char reason[256];
};
static_assert(sizeof(Awaiting) == 560);

// All ops are applied. Answered by Finished when every member's values are known to be equal.
struct Finish {
  Header header;
};
struct Finished {
  Header header;
  uint8_t values_hash[32];  // SHA-256 over all fragments' newest values
};
struct Leave {
  Header header;
};

enum class Code : uint16_t {
  kOk = 0,
  kBusy = 1,           // an op of this fragment is unread
  kStalled = 2,        // no quorum; resumes by itself
  kGatewayLost = 3,    // made by the shim: the connection is gone
  kRebase = 4,         // base_round is unknown here: take the newest value
  kNotReady = 5,       // the daemon or run is starting; retry
  kSchema = 16,
  kAlgorithm = 17,
  kIdentityTaken = 18,
  kNonfinite = 19,
  kHashMismatch = 20,
  kForked = 21,        // made by the shim
  kComm = 22,          // made by the shim: local collectives failed
  kRun = 23,           // no such run in the configuration
  kProtocol = 24,      // malformed message; the session ends
  kMemory = 25,        // over the daemon's budget
  kTimeout = 26,       // made by the shim: wait_timeout passed; the op stays pending
  kInit = 27,          // init = mine or match, and the values differ
  kInternal = 28,
  kDraining = 29,      // the daemon is shutting down
};

struct Error {
  Header header;
  uint16_t code;  // Code
  uint8_t retryable;
  uint8_t fatal;  // 1: the session ends
  uint32_t rank;
  int64_t round;
  char cluster[kClusterNameMax + 1];
  char tensor[kTensorNameMax + 1];
  char text[kErrorTextMax + 1];
};
static_assert(sizeof(Error) == 48 + 64 + 192 + 1024);

}  // namespace causeway::local
