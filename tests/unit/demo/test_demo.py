#!/usr/bin/python3
"""Tests of the demo's logic: charts, series, report, plans. No root, no gateways."""
import argparse
import os
import re
import sys
import unittest
import xml.etree.ElementTree as tree

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path[:0] = [os.path.join(ROOT, "deploy", "demo.d"), os.path.join(ROOT, "tests", "wan")]

import charts  # noqa: E402
import dashboard  # noqa: E402
import plan  # noqa: E402
import report  # noqa: E402
import session  # noqa: E402
import training  # noqa: E402
import wan_gateways  # noqa: E402
import wan_link  # noqa: E402


def record(name, steps, bytes_per_step, final, seed=1):
    samples = [{"step": i, "seconds": i * 0.05, "bytes": i * bytes_per_step, "loss_bits": 8 / i + 2}
               for i in range(1, steps + 1)]
    return {"name": name, "kind": name, "seed": seed, "final_bits_per_byte": final, "steps": steps, "wall_s": steps * 0.05, "training_s": steps * 0.05,
            "wire_bytes_per_cluster": steps * bytes_per_step, "seed_bytes": 100,
            "bytes_per_parameter_step": bytes_per_step / 1000, "compute_use": 0.8, "identical": True,
            "costs": {"stall": 0.02, "overhead": 0.01, "delay_steps": 4},
            "hashes": ["ab" * 32], "parameters": 1000, "encoding": "int4, direct", "step_s": 0.04, "samples": samples,
            "evaluations": [{"step": steps, "seconds": steps * 0.05, "bytes": steps * bytes_per_step,
                             "bits_per_byte": final}],
            "link_use": [{"seconds": i * 0.5, "mbit_per_s": 50} for i in range(steps // 10)]}


RECORDS = [record("sync-lan", 100, 4000, 1.9), record("sync-wan", 30, 4000, 3.1),
           record("causeway", 100, 50, 1.919)]


def options(**changed):
    given = {"rate": "100mbit", "rtt": "100ms", "seed": 1, "seeds": 1, "preset": "standard", "algorithm": None,
             "codec": None, "clusters": 2, "steps": 100, "longer": 1, "plain": True}
    return plan.choose(argparse.Namespace(**{**given, **changed}))


OPTIONS = options()


class Charts(unittest.TestCase):
    def test_scales(self):
        linear = charts.Scale(0, 10, 100, 200)
        self.assertEqual([linear(0), linear(5), linear(10)], [100, 150, 200])
        self.assertEqual(linear.ticks(), [0, 2, 4, 6, 8, 10])
        logarithmic = charts.Scale(1, 1000, 0, 300, logarithmic=True)
        self.assertAlmostEqual(logarithmic(10), 100)
        self.assertEqual(logarithmic.ticks(), [1, 10, 100, 1000])

    def test_nice_steps(self):
        self.assertEqual([charts.nice_step(x) for x in (1, 1.5, 3, 7, 0.03)], [1, 2, 5, 10, 0.05])

    def test_labels_do_not_overlap(self):
        moved = charts.spread([10, 12, 11, 300], 15, 0, 310)
        self.assertEqual(sorted(moved), [10, 25, 40, 300])
        low = charts.spread([305, 306, 307], 15, 0, 310)
        self.assertLessEqual(max(low), 310)
        self.assertTrue(all(b - a >= 15 for a, b in zip(sorted(low), sorted(low)[1:])))

    def test_thinning_keeps_the_last_point(self):
        points = [(i, i) for i in range(1001)]
        self.assertEqual(charts.thin(points)[-1], (1000, 1000))
        self.assertLessEqual(len(charts.thin(points)), charts.POINTS_MAX + 1)

    def test_a_chart_is_well_formed_and_escapes(self):
        svg = charts.line_chart("a <b>", [{"label": "x & y", "color": "--lan", "points": [(1, 2), (10, 3)]}],
                                "x", "y", x_logarithmic=True)
        tree.fromstring(svg)

    def test_units(self):
        self.assertEqual([charts.bytes_text(b) for b in (12, 3400, 2.26e9)], ["12 B", "3.4 kB", "2.26 GB"])


class Measurement(unittest.TestCase):
    def test_series_interpolates(self):
        series = training.Series()
        for moment, value in ((1.0, 0), (2.0, 100), (4.0, 100)):
            series.add(moment, value)
        self.assertEqual([series.at(t) for t in (0, 1.5, 3, 9)], [0, 50, 100, 100])

    def test_comparison(self):
        details = session.compare(RECORDS, OPTIONS)
        self.assertAlmostEqual(details["byte_ratio"], 80)
        self.assertAlmostEqual(details["gap"], 0.01)
        # H t / (H t + RTT + bytes / rate) with H = 10, t = 40 ms, 500 bytes a round
        self.assertAlmostEqual(details["compute_use_expected"], 0.4 / (0.4 + 0.1 + 500 * 8 / 1e8))

    def test_more_steps_count_with_all_their_bytes_and_time(self):
        records = [*RECORDS[:2], record("causeway", 300, 10, 1.881)]
        details = session.compare(records, options(longer=3))
        self.assertAlmostEqual(details["byte_ratio"], 100 * 4000 / (300 * 10))
        self.assertAlmostEqual(details["synchronous_s"], 100 * 0.05)
        self.assertAlmostEqual(details["time_ratio"], 3)
        self.assertIn("-1.00 %, after 3 times the steps", session.summary(records, options(longer=3), details, "/out"))
        self.assertEqual([run.steps for run in plan.runs(options(longer=3))], [100, 100, 300])

    def test_a_preset_gives_what_the_command_line_leaves_open(self):
        longer = options(preset="longer", longer=None)
        self.assertEqual((longer.algorithm, longer.codec, longer.longer), ("streaming", "int4:b256:zstd", 1.3))
        self.assertEqual([run.steps for run in plan.runs(longer)], [100, 100, 130])
        self.assertIn("error_feedback", plan.causeway(longer).codec)
        own = options(preset="longer", longer=2.0, codec="int8")
        self.assertEqual((own.codec, own.longer), ("int8", 2.0))
        self.assertEqual(options(preset="fast", longer=None).longer, 1)
        self.assertIsNone(options(preset="longer", algorithm="average", longer=None).codec)

    def test_seeds_are_paired_and_bounded(self):
        records = RECORDS + [record("sync-lan", 100, 4000, 2.0, seed=2), record("causeway", 100, 50, 2.06, seed=2)]
        found = session.gaps(records)
        self.assertEqual([row["seed"] for row in found["seeds"]], [1, 2])
        self.assertAlmostEqual(found["mean"], 0.02)
        self.assertAlmostEqual(found["bound"], 0.02 + 6.314 * 0.01)
        self.assertIsNone(session.gaps(RECORDS)["bound"])
        page = report.render(session.document(records, options(seeds=2), session.compare(RECORDS, OPTIONS)))
        self.assertIn("over 2 seeds: mean +2.00 %", page)

    def test_a_different_hash_is_shown(self):
        bad = [dict(RECORDS[0], identical=False), *RECORDS[1:]]
        details = session.compare(bad, OPTIONS)
        self.assertIn("NO", session.summary(bad, OPTIONS, details, "/out"))
        self.assertIn("different", report.render(session.document(bad, OPTIONS, details)))


class Report(unittest.TestCase):
    def test_self_contained_and_complete(self):
        page = report.render(session.document(RECORDS, OPTIONS, session.compare(RECORDS, OPTIONS)))
        self.assertIsNone(re.search(r"(src|href)=|https?://|@import|url\((?!#)", page))
        self.assertEqual(page.count("<svg"), 3)
        for text in ("80.0x", "+1.00 %", "identical", "ab" * 32):
            self.assertIn(text, page)

    def test_a_run_without_samples(self):
        bare = [dict(r, samples=[], evaluations=[], link_use=[]) for r in RECORDS]
        self.assertIn("No data.", report.render(
            session.document(bare, OPTIONS, session.compare(bare, OPTIONS))))


class Plans(unittest.TestCase):
    def test_a_codec_replaces_the_presets(self):
        self.assertEqual(plan.runs(options(preset="fast", codec="auto"))[2].codec, '{kind: "auto", error_feedback: true}')
        self.assertEqual(plan.runs(options(preset="fast", codec="nf4"))[2].codec, '{kind: "nf4", error_feedback: true}')
        self.assertEqual(plan.runs(options(preset="fast", codec="int8:ef:zstd"))[2].codec, '{kind: "int8:ef:zstd"}')
        self.assertEqual(plan.runs(options(preset="fast", codec="fp32"))[2].codec, '{kind: "fp32"}')
        self.assertEqual(plan.runs(options(preset="fast", codec="auto"))[0].codec, "{kind: fp32}")
        self.assertIn('{kind: "nf4", error_feedback: true}', plan.entries(options(codec="nf4"))[2])

    def test_three_runs_of_each_preset(self):
        for preset in ("standard", "fast"):
            self.assertEqual([run.name for run in plan.runs(options(preset=preset))],
                             ["sync-lan", "sync-wan", "causeway"])

    def test_more_seeds_are_runs_of_their_own(self):
        runs = plan.runs(options(seed=3, seeds=2))
        self.assertEqual([run.name for run in runs],
                         ["sync-lan", "sync-wan", "causeway", "sync-lan-4", "causeway-4"])
        self.assertEqual([run.seed for run in runs], [3, 3, 3, 4, 4])

    def test_every_algorithm_is_a_configuration_that_the_daemon_may_have(self):
        for name in plan.ALGORITHMS:
            run = plan.causeway(options(algorithm=name, clusters=4))
            self.assertEqual(run.mode == "every-step", name == "every-step")
            self.assertIn("rule: ", run.algorithm)
        entries = plan.entries(options(algorithm="co2", clusters=3))
        self.assertIn("clusters: [paris, tokyo, oslo]", entries[0])
        self.assertIn("rule: co2, learning_rate: 0.5, local_steps: 25", entries[2])

    def test_configuration_names_everything(self):
        text = wan_gateways.configuration("paris", {"paris": "10.77.0.1", "tokyo": "10.77.0.2"}, "/d", "/p",
                                          plan.entries(options(preset="fast")), "")
        for part in ("cluster: paris\n", 'listen: "10.77.0.1:7443"', 'tokyo, address: "10.77.0.2:7443"',
                     "local_steps: 20", "fragments: 4", "/p/gateway.key"):
            self.assertIn(part, text)

    def test_units(self):
        self.assertEqual(wan_link.rate_bits("1.5gbit"), 1.5e9)
        self.assertEqual(wan_link.duration_ms("2s"), 2000)
        for bad in ("fast", "1mb", ""):
            with self.assertRaises(wan_link.LinkError):
                wan_link.rate_bits(bad)


class Terminal(unittest.TestCase):
    def test_lines_are_cut_without_breaking_colours(self):
        self.assertEqual(dashboard.clip("\033[1mabcdef\033[0m", 3), "\033[1mabc\033[0m")


if __name__ == "__main__":
    unittest.main()
