#!/usr/bin/python3
"""Who may talk to a gateway: each refusal in the words that an operator reads, and a good run after it."""
import os
import shutil
import subprocess
import tempfile
import unittest
import unittest.mock

from gateways import DAEMON, DOMAIN, PATIENCE_S, Pair, authority, command, until
from trainers import both, join_both, main

OPENSSL_CA = """[ca]
default_ca = a
[a]
database = {directory}/index
new_certs_dir = {directory}
serial = {directory}/serial
default_md = sha256
policy = p
x509_extensions = x
unique_subject = no
[p]
commonName = optional
[x]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth, clientAuth
subjectAltName = URI:spiffe://{domain}/gateway/{cluster}
"""


def issue_dated(cluster, start, end):
    """A directory with a certificate of our authority for any dates, which `causeway pki` would not make."""
    out = tempfile.mkdtemp(prefix=f"causeway-dated-{os.getpid()}-")
    ours = authority()
    command("pki", "request", cluster, "--domain", DOMAIN, "--out", out)
    for name, text in (("ca.cnf", OPENSSL_CA.format(directory=out, domain=DOMAIN, cluster=cluster)),
                       ("index", ""), ("serial", "7001\n")):
        with open(os.path.join(out, name), "w") as file:
            file.write(text)
    subprocess.run(["openssl", "ca", "-batch", "-notext", "-config", f"{out}/ca.cnf",
                    "-cert", f"{ours.directory}/ca.pem", "-keyfile", f"{ours.directory}/ca.key",
                    "-in", f"{out}/gateway.csr", "-out", f"{out}/gateway.pem",
                    "-startdate", start, "-enddate", end, "-subj", f"/CN={cluster}"],
                   check=True, capture_output=True, timeout=PATIENCE_S)
    shutil.copy(f"{ours.directory}/ca.pem", out)
    return out


def foreign_client(gateway, pki, *options, until_said=None):
    """What `openssl s_client` prints until the gateway hangs up, or until it said something."""
    process = subprocess.Popen(
        ["openssl", "s_client", "-connect", f"127.0.0.1:{gateway.port}", "-CAfile", f"{pki}/ca.pem",
         "-cert", f"{pki}/gateway.pem", "-key", f"{pki}/gateway.key", "-alpn", "h2", *options],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace")
    said = ""
    try:
        for line in process.stdout:
            said += line
            if until_said and until_said in line:
                break
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
    return said


class Identity(unittest.TestCase):
    def good_run(self, pair):
        trainers = join_both(pair)
        both(trainers, "steps", count=5)
        ends = both(trainers, "finish")
        self.assertEqual(ends[0]["sha256"], ends[1]["sha256"])

    def test_another_authority(self):
        strangers = authority("strangers").issue("tokyo")
        with Pair(pki={"tokyo": strangers}) as pair:
            for gateway, other in ((pair.paris, "tokyo"), (pair.tokyo, "paris")):
                event = gateway.until_event("tls.handshake-rejected", "unknown CA")
                self.assertEqual(event["level"], "warning")
                self.assertIn("certificates of one authority: compare their ca.pem", event["text"])
                until(lambda: "certificate verify failed" in gateway.peer(other)["last_error"],
                      f"the status of {gateway.cluster} says what is wrong with {other}")
                self.assertNotEqual(gateway.peer(other)["state"], "up")
            pair.tokyo.stop()
            with open(pair.tokyo.configuration_path) as file:
                text = file.read().replace(strangers, authority().issue("tokyo"))
            with open(pair.tokyo.configuration_path, "w") as file:
                file.write(text)
            pair.tokyo.start()
            pair.until_linked()
            self.good_run(pair)

    def test_a_foreign_client_by_its_version_and_certificate(self):
        with Pair() as pair:
            pair.until_linked()
            good = authority().issue("tokyo")
            old = foreign_client(pair.paris, good, "-tls1_2")
            self.assertIn("Cipher is (NONE)", old)
            event = pair.paris.until_event("tls.handshake-rejected", "protocol version")
            self.assertEqual(event["level"], "warning")
            # The same client with TLS 1.3 passes: it was the version.
            now = foreign_client(pair.paris, good, "-tls1_3", until_said="New Session Ticket arrived")
            self.assertRegex(now, "Cipher is TLS_AES|TLS_CHACHA20")

            expired = issue_dated("tokyo", "20250101000000Z", "20250201000000Z")
            self.addCleanup(shutil.rmtree, expired)
            foreign_client(pair.paris, expired)
            pair.paris.until_event("tls.handshake-rejected", "certificate expired")

            # A certificate of our authority, for a cluster that the configuration does not name.
            foreign_client(pair.paris, authority().issue("osaka"))
            event = pair.paris.until_event("tls.handshake-rejected", "osaka")
            self.assertIn("osaka", event["identity"])
            self.assertRegex(event["text"], "not.*(peer|configur)")
            self.good_run(pair)  # all the while the honest link stands

    def start_failing(self, gateway, code):
        with open(gateway.log_path, "ab") as log:
            done = subprocess.run([DAEMON, "--config", gateway.configuration_path], stdout=log, stderr=log,
                                  timeout=PATIENCE_S)
        self.assertEqual(done.returncode, code, gateway.log_text())
        return gateway.log_text()

    def test_an_expired_certificate_of_its_own(self):
        expired = issue_dated("paris", "20250101000000Z", "20250201000000Z")
        self.addCleanup(shutil.rmtree, expired)
        with Pair(start=False, pki={"paris": expired}) as pair:
            said = self.start_failing(pair.paris, 78)
            self.assertIn("expired on 2025-02-01", said)
            self.assertIn("gateway.pem", said)

    def test_a_key_that_others_can_read(self):
        pki = tempfile.mkdtemp(prefix=f"causeway-open-{os.getpid()}-")
        self.addCleanup(shutil.rmtree, pki)
        for name in ("gateway.pem", "gateway.key", "ca.pem"):
            shutil.copy(os.path.join(authority().issue("paris"), name), pki)
        key = os.path.join(pki, "gateway.key")
        os.chmod(key, 0o644)
        with Pair(start=False, pki={"paris": pki}) as pair:
            said = self.start_failing(pair.paris, 78)
            self.assertIn("tls.key", said)
            self.assertIn(f"has mode 0644, so others than its owner can reach the private key; mend it with: "
                          f"chmod 0600 {key}", said)
            os.chmod(key, 0o600)  # the remedy is one
            pair.paris.start()
            pair.paris.stop()

    def test_a_state_directory_has_one_gateway(self):
        with Pair(start=False) as pair:
            pair.paris.start()
            # Another configuration of the same gateway: every door is free, the state is not.
            other = Pair(start=False)
            with other:
                with open(other.paris.configuration_path) as file:
                    text = file.read().replace(other.paris.state_directory, pair.paris.state_directory)
                with open(other.paris.configuration_path, "w") as file:
                    file.write(text)
                said = self.start_failing(other.paris, 69)
                self.assertIn(f"state_directory {pair.paris.state_directory} is in use by another process", said)
                # Nor may an operator put a snapshot there under it, who asks at a socket where nobody answers.
                said = command("run", "rollback", "demo", "--to", "any", "--config", other.paris.configuration_path,
                               expect=69)
                self.assertIn("is in use by another process", said)
                pair.paris.kill()
                other.paris.start()
                other.paris.stop()

    def test_a_gpu_that_is_required_and_not_there(self):
        with Pair(start=False) as pair:
            with open(pair.paris.configuration_path, "a") as file:
                file.write("gpu: required\n")
            with unittest.mock.patch.dict(os.environ, CUDA_VISIBLE_DEVICES=""):  # as on a machine without one
                said = self.start_failing(pair.paris, 78)
            self.assertIn("gpu: required, but there is no usable one: ", said)
            self.assertIn("gpu: auto", said)

    def test_unknown_and_duplicate_keys_in_the_configuration(self):
        with Pair(start=False) as pair:
            with open(pair.paris.configuration_path) as file:
                good = file.read()
            lines = good.splitlines()
            end = len(lines)
            with open(pair.paris.configuration_path, "w") as file:
                file.write(good + "peer_timout: 3s\ncluster: oslo\n")
            said = self.start_failing(pair.paris, 78)
            path = pair.paris.configuration_path
            self.assertIn(f"{path}:{end + 1}:1: peer_timout: unknown key; did you mean 'peer_timeout'?", said)
            self.assertIn(f"{path}:{end + 2}:1: cluster: duplicate key; first on line 1; remove one of them",
                          said)  # all errors in one go
            checked = command("check-config", path, expect=78)
            self.assertIn("peer_timout: unknown key", checked)
            self.assertIn("cluster: duplicate key", checked)
            with open(path, "w") as file:
                file.write(good)
            pair.paris.start()
            pair.paris.stop()


if __name__ == "__main__":
    main()
