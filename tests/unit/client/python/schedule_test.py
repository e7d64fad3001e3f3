"""When fragments are launched, and how the delay follows measured times."""

import unittest

from causeway import pace, schedule


class Launches(unittest.TestCase):
    def test_every_fragment_once_in_each_H_steps_evenly_apart(self):
        for fragments in (1, 2, 3, 4, 7):
            for local_steps in (fragments, fragments + 1, 10, 20, 53):
                if local_steps < fragments:
                    continue
                seen = {f: [] for f in range(fragments)}
                for step in range(1, 5 * local_steps + 1):
                    for fragment in schedule.launches(step, fragments, local_steps):
                        seen[fragment].append(step)
                for fragment, steps in seen.items():
                    gaps = {b - a for a, b in zip(steps, steps[1:])}
                    self.assertEqual(gaps, {local_steps})
                    self.assertEqual(steps[0] % local_steps, fragment * local_steps // fragments)
                self.assertEqual(seen[0][0], local_steps)

    def test_more_fragments_than_steps_share_steps(self):
        launched = [f for step in range(1, 4) for f in schedule.launches(step, 5, 3)]
        self.assertEqual(sorted(launched), [0, 1, 2, 3, 4])

    def test_the_next_launch_is_the_first_after_now(self):
        for local_steps, fragments in ((5, 2), (4, 2), (8, 4), (3, 5), (1, 1)):
            for fragment in range(fragments):
                for step in range(12):
                    next_step = schedule.next_launch(step, fragment, fragments, local_steps)
                    between = range(step + 1, next_step + 1)
                    launched = [s for s in between if fragment in schedule.launches(s, fragments, local_steps)]
                    self.assertEqual(launched, [next_step])


class Delay(unittest.TestCase):
    def test_the_least_that_hides_the_exchange(self):
        self.assertEqual(schedule.automatic_delay(0.25, 0.1, 20), 3)
        self.assertEqual(schedule.automatic_delay(0.30, 0.1, 20), 3)
        self.assertEqual(schedule.automatic_delay(0.01, 0.1, 20), 1)

    def test_bounded_by_H_and_defined_without_measurements(self):
        self.assertEqual(schedule.automatic_delay(100.0, 0.1, 20), 19)
        self.assertEqual(schedule.automatic_delay(100.0, 0.1, 1), 0)
        self.assertEqual(schedule.automatic_delay(None, None, 20), 5)
        self.assertEqual(schedule.automatic_delay(1.0, 0.0, 20), 5)

    def test_the_pace_forgets_old_exchanges_and_takes_the_median_step(self):
        measured = pace.Pace()
        self.assertIsNone(measured.step_s())
        for seconds in (0.1, 0.1, 9.0):  # one step that loaded data
            measured.add_step(seconds)
        self.assertEqual(measured.step_s(), 0.1)
        for seconds in (5.0, 0.2, 0.3, 0.1):
            measured.add_exchange(seconds, fragments=3)
        self.assertEqual(measured.exchange_s(), 0.3)


class FirstDelay(unittest.TestCase):
    def test_a_number_is_the_runs(self):
        self.assertEqual([schedule.first_delay(delay, 20) for delay in (0, 3)], [0, 3])

    def test_automatic_begins_with_a_quarter_of_the_local_steps(self):
        # The same for ranks that measure for themselves, and enough for the first results to be there when due.
        self.assertEqual([schedule.first_delay(schedule.DELAY_AUTO, h) for h in (1, 2, 3, 4, 8, 20)],
                         [0, 1, 1, 1, 2, 5])


if __name__ == "__main__":
    unittest.main()
