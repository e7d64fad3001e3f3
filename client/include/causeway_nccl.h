/* NCCL within a cluster: rank 0 talks to the gateway, the GPUs of all ranks get what it got. Part
 * of libcauseway; NCCL and CUDA are looked for in cw_nccl_open and nowhere else.
 *
 * Every rank of the cluster makes the same calls in the same order. Before anything is launched,
 * rank 0 tells the others READY, WAIT (about once a second while it waits for the wide area) or
 * ERROR over the trainer's own channel, so that no rank hangs in a collective that will not come,
 * and all return the same error. The communicator is the bridge's own and non-blocking; a
 * collective that fails or makes no progress is aborted (ncclCommAbort): the call and every later
 * one answers COMM, which is fatal. One thread at a time. */
#ifndef CAUSEWAY_NCCL_H_
#define CAUSEWAY_NCCL_H_

#include "causeway.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cw_nccl cw_nccl;

/* Gives rank 0's bytes to every rank, over the host: MPI_Bcast, gloo, a store. 0, or not: the ranks
 * lost each other. `bytes` is written on the other ranks. Called by cw_nccl_ functions alone. */
typedef int (*cw_broadcast)(void* context, void* bytes, size_t size);

typedef struct cw_nccl_options {
  uint32_t struct_bytes; /* sizeof(cw_nccl_options) */
  uint32_t rank;
  uint32_t ranks;
  int32_t device;           /* CUDA ordinal of this rank */
  void* stream;             /* cudaStream_t; the order of this rank's tensors */
  const cw_tensor* tensors; /* as given to cw_join, the same on all ranks */
  uint32_t tensor_count;
  uint32_t timeout_ms; /* a collective without end for so long is aborted; 0: 60000 */
  cw_broadcast broadcast;
  void* context; /* broadcast's */
} cw_nccl_options;

/* Collective. COMM: the ranks lost each other or NCCL failed; CUDA: no driver, no NCCL, no memory.
 */
CW_API int cw_nccl_open(const cw_nccl_options* options, cw_nccl** bridge);

/* Gradients, before rank 0 submits: the mean over the ranks, into rank 0's `data`; on the others
 * `data` is read. ncclReduce in schema order; returns when it has ended here. */
CW_API int cw_nccl_reduce(cw_nccl* bridge, const cw_slice* slices, uint32_t slice_count);

/* The end of an operation, on all ranks: rank 0 (which alone passes `handle` and `op`) waits for it
 * and applies it as cw_apply does, into staging memory; the others get it by ncclBroadcast, one for
 * each slice in schema order; once it has arrived on every rank each writes its `out` (or `data`)
 * and `cast`. On an error no rank has written anything. Rank 0 then calls cw_applied. `timeout_ms`
 * as in cw_wait; `result` may be NULL. The slices are CUDA memory, of one fragment, the same
 * elements on all ranks. */
CW_API int cw_nccl_collect(cw_nccl* bridge, cw_handle* handle, uint64_t op, int64_t timeout_ms,
                           int mode, float mix, const cw_slice* slices, uint32_t slice_count,
                           cw_result* result);

/* The same for a value: rank 0 reads it as cw_read does. */
CW_API int cw_nccl_read(cw_nccl* bridge, cw_handle* handle, uint32_t fragment, int64_t round,
                        const cw_slice* slices, uint32_t slice_count);

/* Collective unless a call failed before: what is aborted waits for nobody. NULL is allowed. */
CW_API void cw_nccl_close(cw_nccl* bridge);

#ifdef __cplusplus
}
#endif

#endif /* CAUSEWAY_NCCL_H_ */
