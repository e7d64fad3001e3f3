/* libcauseway: how a trainer talks to its cluster's gateway (causewayd). Plain C, needs libc only.
 *
 * A trainer opens one handle per process and run, joins with the names, types and shapes of its
 * tensors, offers its values, and from then on submits fragments (groups of tensors that are
 * exchanged together) and applies the combined results:
 *
 *     cw_open -> cw_join -> cw_offer -> cw_ready -> [cw_read, cw_applied for each fragment if
 * REPLACE] every H steps: cw_submit -> (train on) -> cw_wait -> cw_apply -> cw_applied at the end:
 * cw_finish -> cw_leave -> cw_close
 *
 * Threads     Every call may come from any thread. Calls on one handle are serialised by a lock;
 * calls that wait release it, so cw_submit or cw_test of another thread goes on meanwhile. cw_close
 * must be the last call. No callbacks, no threads of its own (one, once cw_cuda_use was called; one
 * that reconnects, where world is above 1).
 * Signals     Waits end early with CW_INTERRUPTED when a signal handler ran in the waiting thread;
 * nothing is lost and the same call may be made again. Fork        In a forked child every call
 * returns CW_FORKED (cw_close only frees memory there); the child's copy of the connection is
 * closed and the shared memory is not mapped in it. Ownership   Tensors belong to the caller
 * always. The library reads them in cw_offer and cw_submit and writes them in cw_apply and cw_read
 * only. Strings and arrays passed in are copied. Errors      Calls return a cw_code. cw_last_error
 * tells the calling thread what its latest failed call means: which cluster, rank, tensor and
 * round, and whether the same call can succeed later. Time        Time-outs are milliseconds: 0
 * polls, CW_TIMEOUT_RUN takes the run's wait_timeout from the gateway's configuration (which may
 * be: for ever), CW_TIMEOUT_NONE waits for ever. Connection  When the gateway goes away, pending
 * operations stay and waits answer CW_GATEWAY_LOST once, promptly. Later calls reconnect by
 * themselves, at most a few times a second, ask what became of each operation, and submit again
 * only what the gateway never saw: nothing counts twice.
 */
#ifndef CAUSEWAY_H_
#define CAUSEWAY_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CW_API __attribute__((visibility("default")))

/* Changes only when a program built against an older header could misbehave. */
#define CW_ABI_VERSION 1
#define CW_DIMENSIONS_MAX 8
#define CW_TIMEOUT_NONE (-1)
#define CW_TIMEOUT_RUN (-2)
#define CW_WHOLE UINT64_MAX  /* cw_slice.count: the whole tensor */
#define CW_BASE_CURRENT (-1) /* cw_submission.base_round: the value applied last */
#define CW_DELAY_AUTO \
  0xffffffffu /* cw_layout.delay_steps: the trainer chooses from measured times */

/* Numbers are those of the local protocol; 64 and above never travel. */
typedef enum cw_code {
  CW_OK = 0,
  /* Retryable: the same call, or a wait, can succeed later. */
  CW_BUSY = 1,         /* an operation of this fragment is not applied yet */
  CW_STALLED = 2,      /* no quorum of clusters; resumes by itself */
  CW_GATEWAY_LOST = 3, /* no connection to the gateway; reconnects by itself */
  CW_REBASE =
      4, /* the gateway holds a newer value: cw_read it, then cw_applied; local steps are lost */
  CW_NOT_READY = 5,    /* the gateway or the run is starting */
  CW_TIMEOUT = 26,     /* the wait ended; the operation stays pending */
  CW_DRAINING = 29,    /* the gateway is shutting down */
  CW_INTERRUPTED = 64, /* a signal ended the wait; the operation stays pending */
  /* Fatal for the handle or the operation. */
  CW_SCHEMA = 16, /* tensors differ between clusters, ranks or from the layout: names the tensor */
  CW_ALGORITHM = 17,      /* rule, codec or H differ between clusters: names the key */
  CW_IDENTITY_TAKEN = 18, /* a live process already is (run, rank) */
  CW_NONFINITE = 19,      /* NaN or Inf in a tensor under an outer rule: names the tensor */
  CW_HASH_MISMATCH = 20,  /* clusters computed different bytes: names the tensor */
  CW_FORKED = 21,         /* this process is a fork of the one that opened the handle */
  CW_COMM = 22,           /* a local collective failed (language bindings) */
  CW_RUN = 23,            /* the gateway's configuration has no such run */
  CW_PROTOCOL = 24,       /* gateway and library do not understand each other */
  CW_MEMORY = 25,         /* over the gateway's memory budget, or memory ran out here */
  CW_INIT = 27,           /* init = mine or match, and the values differ */
  CW_INTERNAL = 28,       /* a bug in the gateway */
  CW_ARGUMENT = 65,       /* the call itself is wrong: nothing was done */
  CW_CUDA = 66            /* a call of the CUDA driver failed: names it */
} cw_code;

typedef enum cw_dtype { CW_FP32 = 0, CW_BF16 = 1, CW_FP16 = 2 } cw_dtype;
typedef enum cw_group {
  CW_PARAMETER = 0,
  CW_BUFFER = 1, /* weighted mean, whatever the rule */
  CW_FIXED = 2   /* never exchanged, equal on every cluster: put a hash of its contents into its name,
                    and clusters that differ are refused by it. No slices; not all tensors */
} cw_group;
typedef enum cw_init { CW_INIT_RUN = 0, CW_INIT_MINE = 1, CW_INIT_MATCH = 2 } cw_init;
typedef enum cw_start { CW_MATCH = 0, CW_REPLACE_ALL = 1 } cw_start;
typedef enum cw_apply_mode { CW_CARRY = 0, CW_MIX = 1, CW_REPLACE = 2 } cw_apply_mode;
/* What the local work of a submission started from. */
typedef enum cw_origin {
  CW_ORIGIN_BASE = 0, /* the value of base_round */
  CW_ORIGIN_OLDER = 1 /* the value before it: rules whose results are one round late (cw_applied
                         of the late result, cw_submit of the work since the value before it,
                         cw_read of the result) */
} cw_origin;
typedef enum cw_state {
  CW_STATE_PENDING = 1,
  CW_STATE_COMMITTED = 2, /* counted once, everywhere */
  CW_STATE_EXCLUDED = 3,  /* counted nowhere; the global value advanced and is delivered */
  CW_STATE_STALLED = 4,   /* no quorum; becomes PENDING again by itself */
  CW_STATE_FAILED = 5,    /* nothing counted, the snapshot is free, the base is unchanged */
  CW_STATE_ABANDONED = 6,
  CW_STATE_SNAPSHOT = 64 /* CUDA: the copy off the tensors is under way; then PENDING */
} cw_state;
/* Where a slice's data, out and cast lie. */
typedef enum cw_memory { CW_MEMORY_HOST = 0, CW_MEMORY_CUDA = 1 } cw_memory;

typedef struct cw_handle cw_handle;

/* What the calling thread's latest failed call means. Strings are empty and numbers -1 where
 * unknown. */
typedef struct cw_error {
  int32_t code; /* cw_code */
  int32_t retryable;
  int64_t rank;
  int64_t round;
  char cluster[64];
  char tensor[192];
  char text[1024];
} cw_error;

typedef struct cw_options {
  uint32_t struct_bytes; /* sizeof(cw_options) */
  uint32_t rank;         /* of this process among those of its cluster that open a handle */
  uint32_t world;        /* how many open one; 0 means 1. Together they are the cluster's trainer:
                            when one dies, the others' handles end with COMM */
  uint32_t connect_timeout_ms; /* keep trying while there is no gateway or it is not ready; 0: try
                                  once */
  const char* run;             /* as the gateway's configuration names it */
  const char* socket_path;     /* NULL: $CAUSEWAY_SOCKET, or else /run/causeway/trainer.sock */
} cw_options;

typedef struct cw_tensor {
  const char* name;   /* unique, 1 to 191 bytes */
  uint8_t dtype;      /* cw_dtype */
  uint8_t group;      /* cw_group */
  uint8_t dimensions; /* 0: a scalar */
  uint8_t stage;      /* 0, or with which growth of the run it came (1, 2 ..); these come last */
  int32_t alias_of; /* index of the earlier tensor that shares its storage, or -1 */
  uint64_t shape[CW_DIMENSIONS_MAX];
} cw_tensor;

typedef struct cw_join_options {
  uint32_t struct_bytes; /* sizeof(cw_join_options) */
  uint8_t init;          /* cw_init: what to do where values differ */
  uint8_t outer; /* 1: parameters under the run's outer rule; 0: gradients, averaged each step */
  uint8_t zero[2];
  uint32_t local_steps; /* H that this trainer insists on; 0: the run's */
} cw_join_options;

/* What the run's configuration and the gateway decided. */
typedef struct cw_layout {
  uint32_t struct_bytes; /* set by the caller: sizeof(cw_layout) */
  uint32_t fragments;
  uint32_t tensors;
  uint32_t local_steps; /* H */
  uint32_t delay_steps; /* steps from submit to apply, or CW_DELAY_AUTO */
  float mix;            /* a, for CW_MIX */
  uint8_t apply_mode;   /* cw_apply_mode */
  uint8_t outer;
  uint8_t zero[6];
  uint64_t wait_timeout_ms; /* 0: for ever */
  uint64_t peer_timeout_ms;
  char rule[32];
  char codec[32];
  char cluster[64];    /* this trainer's */
  float learning_rate; /* outer, and its momentum: for trainers that run ahead of the result (eager)
                        */
  float momentum;      /* without an outer rule: of the gradients, in place of the optimizer's */
  uint32_t gateway_pid; /* of the gateway's process; 0: in another PID namespace */
  uint32_t zero2;
} cw_layout;

typedef struct cw_fragment {
  uint64_t elements; /* padding included */
  uint32_t chunks;
  uint8_t dtype;
  uint8_t group;
  uint8_t zero[2];
  int64_t base_round;   /* of the value applied last; -1 before that */
  int64_t newest_round; /* of the newest value that can be read; -1 before cw_ready */
} cw_fragment;

typedef struct cw_placement {
  uint32_t fragment;
  uint32_t zero;
  uint64_t first_element; /* in the fragment */
  uint64_t elements;
} cw_placement;

/* A contiguous part of a tensor in the caller's memory, in unsharded coordinates and the tensor's
 * dtype. Tensors that are aliases of others are skipped: they share storage. */
typedef struct cw_slice {
  uint32_t tensor; /* index in cw_join's array */
  uint8_t cast_dtype;
  uint8_t memory; /* cw_memory; CW_MEMORY_CUDA: of the device that cw_cuda_use named */
  uint8_t zero[2];
  uint64_t first; /* element of the tensor, in row-major order */
  uint64_t count; /* elements, or CW_WHOLE */
  void* data; /* read by offer, submit and apply; written by apply and read unless `out` is given */
  void* out;  /* NULL, or where apply and read write instead of `data` */
  void* cast; /* NULL, or where apply and read also write the new value as cast_dtype */
} cw_slice;

typedef struct cw_submission {
  uint32_t struct_bytes; /* sizeof(cw_submission) */
  uint32_t fragment;
  int64_t base_round; /* the local work started from it; CW_BASE_CURRENT */
  uint64_t weight; /* samples or tokens of this process since base_round (the cluster's is the sum
                      of its ranks'); 0 takes part and contributes nothing */
  uint8_t origin;  /* cw_origin */
  uint8_t asynchronous; /* 1: do not wait for the gateway's answer; what it refuses ends the
                           operation instead of this call */
  uint8_t zero[6];
  /* NULL, or a label of at most 31 letters, digits and . _ -: the state that this round commits is
   * kept under it on the gateways' disks, where `causeway run rollback --to` finds it. All clusters
   * give it after the same step. Read before the call returns. */
  const char* label;
} cw_submission;

/* Which GPU, and the stream whose order its tensors follow. */
typedef struct cw_cuda {
  uint32_t struct_bytes; /* sizeof(cw_cuda) */
  int32_t device;        /* ordinal, as cudaGetDevice gives it */
  void* stream;          /* cudaStream_t; NULL: the legacy default stream */
  uint8_t private_only;  /* 1: do not offer the gateway memory of this GPU to quantise from */
  uint8_t zero[7];
} cw_cuda;

/* Of an operation. Round, participants and what follows are meaningful once COMMITTED or EXCLUDED.
 */
typedef struct cw_result {
  uint32_t struct_bytes; /* set by the caller: sizeof(cw_result) */
  uint32_t fragment;
  uint8_t state;    /* cw_state */
  uint8_t in_doubt; /* pending, and its bytes have left the gateway */
  uint8_t
      nonfinite; /* gradient averaging: the result holds NaN or Inf; every cluster skips the step */
  uint8_t zero;
  uint32_t wanted; /* pending: 1 + the fragment whose work of this cluster those wait for that this
                      waits for: submit it, they do not come before. 0: none */
  int64_t round;
  uint32_t participants; /* clusters counted */
  uint32_t staleness;    /* rounds between base and result; 1 without delay */
  uint64_t raw_bytes;    /* fp32 bytes that the contribution stands for */
  uint64_t wire_bytes;   /* encoded bytes sent for it */
  uint64_t exchange_us;  /* submit to commit */
  char awaited[256];     /* pending or stalled: clusters waited for, comma separated */
} cw_result;

/* CW_ABI_VERSION of the loaded library. */
CW_API uint32_t cw_abi_version(void);

/* The calling thread's latest failure on any handle. */
CW_API void cw_last_error(cw_error* error);

/* Connects and introduces this process. On success *handle is the caller's, to be given to
 * cw_close. */
CW_API int cw_open(const cw_options* options, cw_handle** handle);

/* Names the tensors. Never touches trainer memory. `layout` may be NULL.
 * SCHEMA and ALGORITHM name the first difference from what the cluster's other ranks joined with.
 * A run grows when the trainers of all its clusters finish, leave, and join on a new handle with
 * new tensors behind those that they had, of the next stage: cw_ready then waits until all have. */
CW_API int cw_join(cw_handle* handle, const cw_join_options* options, const cw_tensor* tensors,
                   uint32_t tensor_count, cw_layout* layout);
CW_API int cw_fragment_of(cw_handle* handle, uint32_t fragment, cw_fragment* out);
CW_API int cw_placement_of(cw_handle* handle, uint32_t tensor, cw_placement* out);

/* Says on which device and stream the CUDA slices of later calls lie; after cw_join, and again
 * whenever the stream changes (the device cannot). The CUDA driver is looked for here and nowhere
 * else. cw_submit then enqueues its copy on that stream and returns: what is enqueued there later
 * may overwrite the tensors. The copy goes into a snapshot on the device, and from there on a side
 * stream into the gateway's memory; where the gateway can use this GPU (*shared = 1), it stays on
 * the device. cw_offer, cw_apply and cw_read are ordered after what is on the stream and return
 * when their copies are done. Refused (ARGUMENT) while the stream is being captured. `shared` may
 * be NULL. */
CW_API int cw_cuda_use(cw_handle* handle, const cw_cuda* cuda, int* shared);

/* Copies this trainer's values to the gateway, which uses them where the run is new. Gradient
 * averaging offers nothing: slices NULL, count 0. With world > 1 (gradients, too) the slices also
 * say which elements this rank provides from now on: disjoint from the other ranks' and with them
 * all of the tensors, or SCHEMA names what is missing. Returns after the copy. */
CW_API int cw_offer(cw_handle* handle, const cw_slice* slices, uint32_t slice_count);

/* Waits until the run has formed. CW_REPLACE_ALL: the run's values differ; cw_read and cw_applied
 * each fragment before its first submission. `members` (clusters in the run) may be NULL. */
CW_API int cw_ready(cw_handle* handle, int64_t timeout_ms, int* start, uint32_t* members);

/* Copies the slices to the gateway and starts the exchange. Returns after the copy (CUDA: after it
 * was enqueued); never waits for other clusters or ranks. The slices are the whole fragment, or
 * with world > 1 those of it that this rank offered. *op is valid until cw_applied of its round, or
 * its failure or abandonment was reported by cw_test or cw_wait. BUSY, REBASE, GATEWAY_LOST:
 * nothing was submitted. */
CW_API int cw_submit(cw_handle* handle, const cw_submission* submission, const cw_slice* slices,
                     uint32_t slice_count, uint64_t* op);

/* State of an operation, without waiting. A FAILED operation returns its error's code. */
CW_API int cw_test(cw_handle* handle, uint64_t op, cw_result* result);

/* Waits until the operation is COMMITTED, EXCLUDED or ABANDONED (CW_OK) or FAILED (its error's
 * code). TIMEOUT, STALLED, GATEWAY_LOST, INTERRUPTED leave it pending. `result` may be NULL, and is
 * filled in any case. */
CW_API int cw_wait(cw_handle* handle, uint64_t op, int64_t timeout_ms, cw_result* result);

/* A descriptor, the library's, the same as long as the handle lives: readable when cw_test may have
 * news. Poll it for reading, then call cw_test for each operation. -1 after fork. */
CW_API int cw_poll_fd(cw_handle* handle);

/* Merges an operation's result into the slices, in fp32, rounded once to the tensor's dtype:
 *   CW_CARRY    p = new + (now - ref);  ref: what was sent if COMMITTED, the base's value if
 * EXCLUDED CW_MIX      p = (1 - mix) new + mix now;  EXCLUDED: carry CW_REPLACE  p = new Everything
 * is checked before the first write: all slices are written, or none. */
CW_API int cw_apply(cw_handle* handle, uint64_t op, int mode, float mix, const cw_slice* slices,
                    uint32_t slice_count);

/* Writes the global value of `round` (a fragment's base_round or newest_round) into the slices. */
CW_API int cw_read(cw_handle* handle, uint32_t fragment, int64_t round, const cw_slice* slices,
                   uint32_t slice_count);

/* Tells the gateway that the parameters now stand on `round`; it becomes the base and frees the
 * operation. */
CW_API int cw_applied(cw_handle* handle, uint32_t fragment, int64_t round);

/* Asks to give an operation up. Its final state, waited for as usual, is ABANDONED, or COMMITTED or
 * EXCLUDED where its bytes had already counted. */
CW_API int cw_abandon(cw_handle* handle, uint64_t op);

/* Who and what is waited for, in words, zero-terminated. op 0: whatever the run waits for. Asks the
 * gateway, at most a second. */
CW_API int cw_await_text(cw_handle* handle, uint64_t op, char* text, size_t text_bytes);

/* Waits until the connection is up, the run can be used, and what became of each operation is
 * known. */
CW_API int cw_reconnect(cw_handle* handle, int64_t timeout_ms);

/* After all operations are applied: waits until every cluster is known to hold the same values, and
 * gives their SHA-256 (`values_hash`: 32 bytes or NULL). */
CW_API int cw_finish(cw_handle* handle, int64_t timeout_ms, uint8_t* values_hash);

/* Says goodbye: the run goes on without this process. Without it the gateway treats the end as a
 * death. */
CW_API int cw_leave(cw_handle* handle);

/* Frees everything. NULL is allowed. */
CW_API void cw_close(cw_handle* handle);

#ifdef __cplusplus
}
#endif

#endif /* CAUSEWAY_H_ */
