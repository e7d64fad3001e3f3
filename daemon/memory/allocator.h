// How this process's malloc deals with memory that was freed.
#ifndef CAUSEWAY_DAEMON_MEMORY_ALLOCATOR_H_
#define CAUSEWAY_DAEMON_MEMORY_ALLOCATOR_H_

namespace causeway::memory {

// Keeps it for the next allocation instead of giving it to the kernel at once, up to 64 MiB, which
// is what a gateway may take beyond its budget: gRPC reads into fresh blocks of 256 KiB, each of
// which cost 64 page faults, a sixth of the processor time of receiving. All threads share one
// heap, as heaps beside the first are given back whatever else is said. Once, before a second
// thread starts.
void KeepFreedMemory();

}  // namespace causeway::memory

#endif  // CAUSEWAY_DAEMON_MEMORY_ALLOCATOR_H_
