/* A whole trainer's life in C99 against a socket given as argument: causeway.h is C, and enough by itself. */
#include <stdio.h>
#include <string.h>

#include "client/include/causeway.h"

static int Fail(const char* step) {
  cw_error error;
  cw_last_error(&error);
  fprintf(stderr, "%s: code %d: %s\n", step, error.code, error.text);
  return 1;
}

int main(int argc, char** argv) {
  float weight[8], bias[3] = {1, 2, 3};
  int start = 0, round;
  uint64_t op = 0;
  cw_handle* handle = NULL;
  cw_options options;
  cw_join_options join;
  cw_tensor tensors[2];
  cw_slice slices[2];
  cw_submission submission;
  cw_result result;
  if (argc != 2) return 64;
  for (int i = 0; i < 8; ++i) weight[i] = (float)i;

  memset(&options, 0, sizeof(options));
  options.struct_bytes = sizeof(options);
  options.run = "demo";
  options.socket_path = argv[1];
  if (cw_open(&options, &handle) != CW_OK) return Fail("open");

  memset(tensors, 0, sizeof(tensors));
  tensors[0].name = "weight";
  tensors[0].alias_of = -1;
  tensors[0].dimensions = 1;
  tensors[0].shape[0] = 8;
  tensors[1].name = "bias";
  tensors[1].alias_of = -1;
  tensors[1].dimensions = 1;
  tensors[1].shape[0] = 3;
  memset(&join, 0, sizeof(join));
  join.struct_bytes = sizeof(join);
  join.outer = 1;
  if (cw_join(handle, &join, tensors, 2, NULL) != CW_OK) return Fail("join");

  memset(slices, 0, sizeof(slices));
  slices[0].count = CW_WHOLE;
  slices[0].data = weight;
  slices[1].tensor = 1;
  slices[1].count = CW_WHOLE;
  slices[1].data = bias;
  if (cw_offer(handle, slices, 2) != CW_OK) return Fail("offer");
  if (cw_ready(handle, CW_TIMEOUT_RUN, &start, NULL) != CW_OK) return Fail("ready");
  if (start != CW_MATCH) return Fail("start");

  memset(&submission, 0, sizeof(submission));
  submission.struct_bytes = sizeof(submission);
  submission.base_round = CW_BASE_CURRENT;
  submission.weight = 1;
  memset(&result, 0, sizeof(result));
  result.struct_bytes = sizeof(result);
  for (round = 1; round <= 5; ++round) {
    for (int i = 0; i < 8; ++i) weight[i] += 1;
    if (cw_submit(handle, &submission, slices, 2, &op) != CW_OK) return Fail("submit");
    if (cw_wait(handle, op, CW_TIMEOUT_RUN, &result) != CW_OK) return Fail("wait");
    if (result.state != CW_STATE_COMMITTED || result.round != round) return Fail("result");
    if (cw_apply(handle, op, CW_CARRY, 0, slices, 2) != CW_OK) return Fail("apply");
    if (cw_applied(handle, 0, result.round) != CW_OK) return Fail("applied");
  }
  if (weight[7] != 12 || bias[2] != 3) return Fail("values");
  if (cw_finish(handle, CW_TIMEOUT_RUN, NULL) != CW_OK) return Fail("finish");
  if (cw_leave(handle) != CW_OK) return Fail("leave");
  cw_close(handle);
  puts("done");
  return 0;
}
