"""The fault matrix: disks that are full, memory that is refused."""
import errno
import os
import resource
import subprocess

from matrix import THREE, Matrix

DISK = "48m"
ROOM_BYTES = 8 << 20  # above what the gateway has mapped; a round of this run needs more


class Scarcity(Matrix):
    def test_a_full_disk(self):
        def on_a_small_disk(group):
            directory = group.tokyo.state_directory
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=700", "tmpfs", directory], check=True)
            group.at_end(lambda: subprocess.run(["umount", "-l", directory], check=True))
        group = self.begin(before_start=on_a_small_disk)
        filler = os.path.join(group.tokyo.state_directory, "filler")
        with open(filler, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1 << 16))
            except OSError as full:
                self.assertEqual(full.errno, errno.ENOSPC)
        self.exchange(3)
        run = group.tokyo.until_run(lambda run: run["checkpoint"]["failure"], "it says that checkpoints fail")
        self.assertIn("No space left", run["checkpoint"]["failure"])
        os.remove(filler)
        group.tokyo.until_run(lambda run: not run["checkpoint"]["failure"], "they are written again")
        # What is on disk is whole: with it all come back.
        for gateway in group.gateways.values():
            gateway.kill()
        for gateway in group.gateways.values():
            gateway.start(wait=False)
        self.exchange()  # two may go on before the third is back, whose round is then void
        self.end_equal()
        self.assertTrue(group.tokyo.events("state.checkpoint-loaded"))
        self.assertFalse(group.tokyo.events("state.checkpoint-refused"))

    def test_memory_is_refused(self):
        """Of a gateway that may map no more the others' bytes stay right, whether it waits or dies; then it is back."""
        group = self.begin()
        tokyo = group.tokyo
        limit = tokyo.mapped_bytes() + ROOM_BYTES
        resource.prlimit(tokyo.process.pid, resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
        self.tell(count=2)
        self.answers("oslo", "paris")
        code = tokyo.process.poll()
        print("it went on" if code is None else f"it ended with {code}")
        if code is None:
            resource.prlimit(tokyo.process.pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        else:
            tokyo.start()
        self.answers("tokyo")
        self.until_back(group)
        self.end_equal()
