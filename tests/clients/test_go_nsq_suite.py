"""go-nsq's own tests, as its module ships them, against the broker: TLS, snappy, deflate, publishing, heartbeats.

They want a broker and a lookup at NSQ's own ports, so they run in a network of their own.
"""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

import lookup_service
from broker import REPOSITORY, command_line
from deadlines import GENEROUS_S

MODULE = "github.com/nsqio/go-nsq"

ABOUT_LAYERS = {
    f"TestConsumer{kind}" for kind in ("TLS", "Deflate", "Snappy", "TLSDeflate", "TLSSnappy", "TLSClientCert")
}

LEAST = 20
"""So many tests it has at least."""

IN_A_NETWORK_OF_ITS_OWN = """
ip link set lo up || exit 1
{lookup} -http-address=127.0.0.1:4161 -tcp-address=127.0.0.1:4160 & lookup=$!
{broker} -tcp-address=127.0.0.1:4150 -http-address=127.0.0.1:4151 -data-path={data} \
    -lookupd-tcp-address=127.0.0.1:4160 \
    -tls-cert=test/server.pem -tls-key=test/server.key -tls-root-ca-file=test/ca.pem & broker=$!
until curl -sf http://127.0.0.1:4151/ping && curl -sf http://127.0.0.1:4161/ping; do
    kill -0 $broker && kill -0 $lookup && sleep 0.1 || exit 1
done
{tests} -test.v -test.timeout={timeout_s}s >{data}/tests.log 2>&1
result=$?
kill $broker $lookup
exit $result
"""


def go(*words: str) -> str:
    """What go says in the folder of the modules that the suite uses."""
    command = ["go", "-C", str(REPOSITORY / "tests/clients/go"), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=5 * GENEROUS_S, check=False)
    if done.returncode:
        pytest.skip(f"go does not build {MODULE}'s tests: {done.stderr[-300:]}")
    return done.stdout.strip()


def enter() -> list[str]:
    """How to run something in a network of its own."""
    words = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--net", "--map-root-user"]
    if not shutil.which("unshare") or subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not make a network of its own")
    return words


@pytest.mark.timeout(360)
def test_go_nsq_passes_its_own_tests(tmp_path: Path) -> None:
    if not shutil.which("go") or not shutil.which("curl"):
        pytest.skip("go or curl is not installed")
    network = enter()
    binary = tmp_path / "go-nsq.test"
    go("test", "-c", "-trimpath", "-o", str(binary), MODULE)
    folder = go("list", "-m", "-f", "{{.Dir}}", MODULE)
    script = IN_A_NETWORK_OF_ITS_OWN.format(
        broker=shlex.join(command_line()),
        lookup=shlex.join(lookup_service.command_line()),
        tests=shlex.quote(str(binary)),
        data=shlex.quote(str(tmp_path)),
        timeout_s=int(2 * GENEROUS_S),
    )
    done = subprocess.run(
        [*network, "sh", "-c", script], cwd=folder, capture_output=True, text=True, timeout=5 * GENEROUS_S, check=False
    )
    log = tmp_path / "tests.log"
    said = log.read_text(errors="replace") if log.exists() else done.stderr
    passed = set(re.findall(r"^--- PASS: (\w+)", said, re.MULTILINE))
    failed = set(re.findall(r"^--- FAIL: (\w+)", said, re.MULTILINE))
    assert done.returncode == 0 and not failed, f"{failed}:\n{said[-6000:]}\n{done.stderr[-2000:]}"
    assert passed >= ABOUT_LAYERS and len(passed) >= LEAST, passed
