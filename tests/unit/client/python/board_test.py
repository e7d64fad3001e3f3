"""What ranks of one host share: the leader's bytes and words, and what happens when one of them dies."""

import multiprocessing
import os
import threading
import unittest

from causeway import board, errors

RANKS = 3


class Meeting:
    """``tell`` and ``gather`` of a process group, for processes that share pipes."""

    def __init__(self, context):
        self.told = [context.Pipe() for _ in range(RANKS)]
        self.numbers = [[context.Pipe() for _ in range(RANKS)] for _ in range(RANKS)]

    def make(self, rank, sizes):
        def tell(text):
            if text is None:
                return self.told[rank][0].recv()
            for other in range(1, RANKS):
                self.told[other][1].send(text)
            return text

        def gather(number):
            for other in range(RANKS):
                self.numbers[rank][other][1].send(number)
            return [self.numbers[other][rank][0].recv() for other in range(RANKS)]

        return board.make(rank, RANKS, sizes, tell, gather)


def follow(meeting, rank, sizes, rounds, results):
    shared = meeting.make(rank, sizes)
    seen = []
    try:
        for _ in range(rounds):
            kind, text = shared.hear()
            seen.append((kind, text, bytes(shared.areas[int(text)])))
            shared.copied()
    except errors.CommError as problem:
        seen.append(str(problem))
    results[rank][1].send(seen)


class Board(unittest.TestCase):
    def setUp(self):
        self.context = multiprocessing.get_context("fork")
        self.meeting = Meeting(self.context)
        self.results = [self.context.Pipe() for _ in range(RANKS)]

    def start(self, sizes, rounds):
        self.followers = [self.context.Process(target=follow,
                                               args=(self.meeting, rank, sizes, rounds, self.results))
                          for rank in range(1, RANKS)]
        for follower in self.followers:
            follower.start()
        return self.meeting.make(0, sizes)

    def seen(self, rank):
        self.assertTrue(self.results[rank][0].poll(60), "a rank hangs")
        return self.results[rank][0].recv()

    def test_every_rank_reads_what_the_leader_wrote_before_it_is_written_again(self):
        shared = self.start([5, 0, 3], 40)
        self.addCleanup(shared.close)
        for round in range(40):
            area = 2 * (round % 2)
            shared.claim([area])
            shared.areas[area][:] = bytes([round]) * len(shared.areas[area])
            shared.told([area])
            shared.say(7, str(area))
        expected = [(7, str(2 * (r % 2)), bytes([r]) * (3 if r % 2 else 5)) for r in range(40)]
        for rank in range(1, RANKS):
            self.assertEqual(self.seen(rank), expected)
        for follower in self.followers:
            follower.join(30)

    def test_a_rank_that_dies_is_an_error_on_the_leader(self):
        shared = self.start([4], 3)
        self.addCleanup(shared.close)
        self.followers[1].kill()
        self.followers[1].join(30)
        with self.assertRaisesRegex(errors.CommError, "rank 2 is gone"):
            shared.told([0])
            shared.say(1, "0")
            shared.claim([0])
        for follower in self.followers:
            follower.kill()

    def test_a_leader_that_dies_is_an_error_on_the_others(self):
        def lead():
            shared = self.meeting.make(0, [4])
            shared.areas[0][:] = b"last"
            shared.say(1, "0")
            os._exit(0)

        followers = [self.context.Process(target=follow, args=(self.meeting, rank, [4], 5, self.results))
                     for rank in range(1, RANKS)]
        leader = self.context.Process(target=lead)
        for process in followers + [leader]:
            process.start()
        for rank in range(1, RANKS):
            self.assertEqual(self.seen(rank), [(1, "0", b"last"),
                                               "the cluster's ranks lost each other: rank 0 is gone"])
        leader.join(30)
        for process in followers:
            process.join(30)

    def test_a_leader_that_has_left_with_everything_said_is_no_error(self):
        left = self.context.Event()

        def copy_late(rank):
            shared = self.meeting.make(rank, [4])
            seen = [shared.hear()]
            left.wait(60)
            seen.append(bytes(shared.areas[0]).decode())
            shared.copied()
            self.results[rank][1].send(seen + [shared.hear()])

        followers = [self.context.Process(target=copy_late, args=(rank,)) for rank in range(1, RANKS)]
        for follower in followers:
            follower.start()
        shared = self.meeting.make(0, [4])
        shared.areas[0][:] = b"last"
        shared.told([0])
        shared.say(1, "0")
        shared.say(1, "the end")
        shared.close()
        left.set()
        for rank in range(1, RANKS):
            self.assertEqual(self.seen(rank), [(1, "0"), "last", (1, "the end")])
        for follower in followers:
            follower.join(30)

    def test_where_one_rank_cannot_open_it_nobody_uses_it(self):
        boards = [None] * RANKS
        real = board._boot
        strange = threading.local()
        board._boot = lambda: getattr(strange, "boot", "ours")
        self.addCleanup(setattr, board, "_boot", real)

        def make(rank):
            strange.boot = "another host" if rank == 2 else "ours"
            boards[rank] = self.meeting.make(rank, [16])

        before = len(os.listdir("/proc/self/fd"))
        threads = [threading.Thread(target=make, args=(rank,)) for rank in range(RANKS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        self.assertEqual(boards, [None] * RANKS)
        self.assertLessEqual(len(os.listdir("/proc/self/fd")), before)


if __name__ == "__main__":
    unittest.main()
