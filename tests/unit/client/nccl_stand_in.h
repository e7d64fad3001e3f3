// NCCL for tests without it: ranks are threads of one process, collectives move host memory in the
// order of the CUDA stand-in's streams, and end only when all ranks have launched them.
//
// Built as libnccl.so.2. Any thread.
#pragma once

#include <string>
#include <vector>

namespace causeway::stand_in {

void ResetNccl();
// Fails the n-th call from now on of that entry point on that rank (-1: any) with `result`.
void FailNccl(const std::string& symbol, int rank, int n, int result);
// What ncclCommGetAsyncError says on that rank from now on.
void SetAsyncError(int rank, int result);
// "rank symbol(bytes)" in the order of the calls of one rank.
std::vector<std::string> NcclCalls(int rank);
int Communicators();  // that are still there

}  // namespace causeway::stand_in
