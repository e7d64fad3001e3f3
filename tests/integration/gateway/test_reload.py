#!/usr/bin/python3
"""SIGHUP: what a running gateway takes up from its files, what it refuses, and what that does to live links."""
import json
import os
import shutil
import signal
import tempfile
import unittest

from gateways import Pair, authority, command, until


def key_hash(directory):
    shown = json.loads(command("pki", "show", "--json", os.path.join(directory, "gateway.pem")))
    found = []

    def collect(value):
        if isinstance(value, dict):
            found.extend(v for k, v in value.items() if k == "spki_sha256")
            value = list(value.values())
        if isinstance(value, list):
            for item in value:
                collect(item)
    collect(shown)
    return found[0]


class Reload(unittest.TestCase):
    def reload(self, gateway, event):
        before = len(gateway.events(event))
        gateway.process.send_signal(signal.SIGHUP)
        until(lambda: len(gateway.events(event)) > before, f"{gateway.cluster} logs {event}")
        return gateway.events(event)[-1]

    def rewrite(self, gateway, change):
        with open(gateway.configuration_path) as file:
            text = file.read()
        with open(gateway.configuration_path, "w") as file:
            file.write(change(text))
        return text

    def test_what_changes_and_what_does_not(self):
        pki = tempfile.mkdtemp(prefix=f"causeway-reload-{os.getpid()}-")
        self.addCleanup(shutil.rmtree, pki)
        for name in ("gateway.pem", "gateway.key", "ca.pem"):
            shutil.copy(os.path.join(authority().issue("paris"), name), pki)
        with Pair(pki={"paris": pki}) as pair:
            pair.until_linked()
            paris = pair.paris
            incarnation = paris.status()["incarnation"]

            # A broken file changes nothing and is named with line and column.
            good = self.rewrite(paris, lambda text: text + "peer_timout: 3s\n")
            refused = self.reload(paris, "config.refused")
            self.assertIn("peer_timout: unknown key; did you mean 'peer_timeout'?", refused["text"])
            self.assertEqual(paris.peer("tokyo")["state"], "up")
            self.rewrite(paris, lambda _: good)

            # A certificate that does not fit its key changes nothing either.
            shutil.copy(os.path.join(authority().issue("tokyo"), "gateway.key"), pki)
            self.assertIn("gateway.key", json.dumps(self.reload(paris, "config.refused")))
            shutil.copy(os.path.join(authority().issue("paris"), "gateway.key"), pki)

            # A key on the deny list ends the live link; taken off, the peer returns.
            denied = key_hash(authority().issue("tokyo"))
            self.rewrite(paris, lambda text: text.replace("ca.pem}", f"ca.pem, deny: [{denied}]}}"))
            self.reload(paris, "config.reloaded")
            paris.until_event("peer.down", "den")
            until(lambda: paris.peer("tokyo")["state"] != "up", "the denied peer stays out")
            self.rewrite(paris, lambda _: good)
            self.reload(paris, "config.reloaded")
            pair.until_linked()

            # What needs a restart is named and left alone.
            self.rewrite(paris, lambda text: text.replace("workers: 2", "workers: 1") +
                         "gpu: off\ncheckpoint: {rounds: 7}\n")
            self.reload(paris, "config.reloaded")
            self.assertEqual(paris.until_event("config.warning", "next start")["keys"], "workers gpu checkpoint")
            self.assertEqual(paris.status()["incarnation"], incarnation)
            self.assertEqual(paris.peer("tokyo")["state"], "up")


if __name__ == "__main__":
    unittest.main(verbosity=2)
