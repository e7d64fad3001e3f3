"""The fault matrix: lines that go dark, are cut, lose, delay or swallow what is large."""
import time

from matrix import ABSENCE_S, LONG, OUTAGE_S, Matrix, absent_for, row

MTU_PEER_TIMEOUT_S = 10  # the kernel takes some 4 s to suspect a path's packet size
CUTS = 20 if LONG else 4
MTU_HOLES = (1400, 1000, 600) if LONG else (1200,)


class Lines(Matrix):
    """Lines that go dark, wholly or one way, for a while or for long."""

    def test_a_short_outage_changes_nobodys_membership(self):
        group = self.begin()
        epoch = group.oslo.run()["epoch"]
        self.tell()
        self.until_busy(group)
        began = time.monotonic()
        group.down_for("tokyo", OUTAGE_S)
        self.assert_all_counted(self.answers())
        row(fault=f"line dark for {OUTAGE_S} s", round_s=round(time.monotonic() - began, 2))
        self.assertEqual(group.oslo.run()["epoch"], epoch)
        self.end_equal()

    def test_a_long_outage_is_survived_and_the_absent_comes_back(self):
        group = self.begin()
        group.link.down("tokyo")
        began = time.monotonic()
        self.tell("oslo", "paris")
        self.answers("oslo", "paris")
        absent_for(ABSENCE_S, began)
        group.link.down("tokyo", dark=False)
        self.let_return(group, "tokyo")
        self.end_equal()

    def test_dark_one_way(self):
        group = self.begin()
        for cluster in ("oslo", "paris"):
            group.link.set(f"tokyo>{cluster}", dark=1)
        self.tell("oslo", "paris")
        self.answers("oslo", "paris")
        for cluster in ("oslo", "paris"):
            group.link.set(f"tokyo>{cluster}", dark=0)
        self.let_return(group, "tokyo")
        self.end_equal()

    def test_every_connection_cut_again_and_again(self):
        group = self.begin()
        for _ in range(CUTS):
            self.tell()
            self.until_busy(group)
            if not group.cut_connections("tokyo"):
                self.skipTest("this kernel does not let ss end connections (CONFIG_INET_DIAG_DESTROY)")
            self.assert_all_counted(self.answers())
        self.end_equal()


class Weather(Matrix):
    """Lines that lose, delay, slow down, or take small packets only."""

    def test_loss_with_jitter(self):
        for loss in ("0.1%", "2%") if LONG else ("1%",):
            with self.subTest(loss=loss):
                group = self.begin()
                group.link.set("*", loss=loss, jitter="10ms")
                self.exchange(3)
                self.end_equal()

    def test_the_rate_drops(self):
        group = self.begin()
        self.tell()
        self.until_busy(group)
        group.link.set("tokyo>*", rate="20mbit")
        self.answers()
        self.assertEqual(len(group.oslo.run()["members"]), 3)  # slow is not dead
        group.link.set("tokyo>*", rate="100mbit")
        self.end_equal()

    def test_large_packets_vanish(self):
        """A path whose routers drop what is too large and do not say so. Heartbeats fit through it."""
        for size in MTU_HOLES:
            with self.subTest(size=size):
                group = self.begin(peer_timeout_s=MTU_PEER_TIMEOUT_S)
                self.tell()
                self.until_busy(group)
                began = time.monotonic()
                group.link.set("tokyo>*", mtu_hole=size)
                self.assert_all_counted(self.answers())
                row(fault=f"packets above {size} bytes vanish", round_s=round(time.monotonic() - began, 2))
                # Connections that are made now begin with packets that are too large.
                self.assertTrue(group.cut_connections("tokyo"))
                self.assert_all_counted(self.exchange())
                group.link.set("*", mtu_hole=0)
                self.end_equal()
