"""Files of settings: nsqd's own at both brokers, SRTM's at its daemons."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from broker import REPOSITORY, Broker, command_line
from controller_with_brokers import Cluster, program
from deadlines import GENEROUS_S

StartBroker = Callable[..., Broker]

NSQD_FILE = """
log_level = "debug"
id = 77
msg_timeout = "45s"
max_rdy_count = 123
sync_timeout = "1500ms"
tls_cert = ""
tls_required = false
snappy = false
statsd_prefix = "x.%s"
e2e_processing_latency_percentiles = [1.0, 0.95]
"""


def ask(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What a command of `srtm` says."""
    return subprocess.run(
        [program(), *words], capture_output=True, text=True, timeout=GENEROUS_S, check=False, env=environment
    )


def test_a_broker_reads_nsqds_file(start_broker: StartBroker, tmp_path: Path) -> None:
    file = tmp_path / "nsqd.cfg"
    file.write_text(NSQD_FILE)
    broker = start_broker(f"-config={file}", "-max-rdy-count=7")
    for option, expected in {
        "id": "77",
        "msg_timeout": "45000000000",
        "max_rdy_count": "7",
        "sync_timeout": "1500000000",
        "log_level": "1",
        "snappy": "false",
        "e2e_processing_latency_percentiles": "[1,0.95]",
    }.items():
        assert broker.get(f"/config/{option}").body.decode().replace("1.0", "1") == expected, option


def test_nsqd_lists_the_flags_of_the_table() -> None:
    nsqd = REPOSITORY / "build" / "bin"
    for name, folder in {"nsqd": "nsqd/flags", "nsqlookupd": "nsqlookupd"}.items():
        usage = subprocess.run([nsqd / name, "-h"], capture_output=True, text=True, timeout=GENEROUS_S, check=False)
        listed = re.findall(r"^  -(\S+)(.*)$", usage.stderr, re.MULTILINE)
        fixture = REPOSITORY / "crates/srtm/src/commands" / folder / f"{name}-1.3.0.txt"
        assert sorted(flag for flag, _ in listed) == [line.split()[0] for line in fixture.read_text().splitlines()]


@pytest.mark.srtm_only
def test_a_wrong_file_ends_the_start_and_says_where(tmp_path: Path) -> None:
    file = tmp_path / "nsqd.cfg"
    file.write_text("\nmsg_timeout = [1]\n")
    ended = subprocess.run(
        [*command_line(), f"-config={file}"], capture_output=True, text=True, timeout=GENEROUS_S, check=False
    )
    assert ended.returncode == 2
    assert f"{file}:2: `msg_timeout` takes one value, not a list" in ended.stderr


@pytest.mark.srtm_only
def test_files_are_checked_for_each_daemon(tmp_path: Path) -> None:
    for daemon, text, expected in [
        ("broker", 'threads = 2\nmsg_timeout = "9s"\n', None),
        ("broker", "thread = 2\n", ":1: `thread` is no setting; did you mean `threads`?"),
        ("broker", "threads = 99\n", "--threads: 99 is not within 1..=64"),
        ("broker", 'tls_cert = "c"\n', "--tls-key <FILE>"),
        ("controller", 'lease = "20s"\n', None),
        ("controller", "fit_band = 2\n", "--fit-band 2 is out of range"),
        ("up", "brokers = 3\nmax_brokers = 2\n", "is out of range"),
        ("nsqd", NSQD_FILE, None),
        ("nsqd", "max_rdy_cuont = 1\n", ":1: `max_rdy_cuont` is no setting; did you mean `max_rdy_count`?"),
        ("nsqlookupd", 'tombstone_lifetime = "1m"\n', None),
        ("limiter", "", "`limiter` is no daemon with a file of this kind"),
    ]:
        file = tmp_path / "settings.toml"
        file.write_text(text)
        said = ask("config", "check", str(file), "--for", daemon)
        if expected is None:
            assert (said.returncode, said.stderr) == (0, ""), said
            assert f"good for srtm {daemon}" in said.stdout
        else:
            assert said.returncode == 2, said
            assert expected in said.stderr, said


@pytest.mark.srtm_only
def test_settings_are_shown_with_their_origin(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text("\nmax_topics = 5\n")
    said = ask("config", "show", "broker", "--config", str(file), "--threads", "2", SRTM_MSG_TIMEOUT="9s")
    shown = {line.split()[0]: " ".join(line.split()[1:]) for line in said.stdout.splitlines()}
    assert shown["max_topics"] == f"5 {file}:2"
    assert shown["threads"] == "2 flag"
    assert shown["msg_timeout"] == "9s SRTM_MSG_TIMEOUT in the environment"
    assert shown["max_channels"] == "1024 default"


@pytest.mark.srtm_only
def test_a_sample_is_a_good_file(tmp_path: Path) -> None:
    for daemon in ("broker", "controller", "up"):
        sample = ask("config", "sample", daemon)
        file = tmp_path / f"{daemon}.toml"
        file.write_text(sample.stdout)
        said = ask("config", "check", str(file), "--for", daemon)
        assert said.stdout == f"{file}: good for srtm {daemon}, 0 settings\n", said


@pytest.mark.srtm_only
def test_a_broker_starts_with_a_file_and_variables(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text('tcp_address = "127.0.0.1:0"\nhttp_address = "127.0.0.1:0"\nthreads = "none"\n')
    ended = ask("broker", SRTM_CONFIG=str(file))
    assert ended.returncode == 2
    assert f"{file}:3: `threads` cannot be that" in ended.stderr
    ended = ask("broker", SRTM_CONFIG=str(file), SRTM_THREADS="0")
    assert ended.returncode == 2
    assert "--threads: 0 is not within 1..=64" in ended.stderr


@pytest.mark.srtm_only
def test_brokers_of_up_do_not_read_its_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A setting that brokers have and `srtm up` has not: a broker that read it would not start.
    monkeypatch.setenv("SRTM_MSG_TIMEOUT", "nonsense")
    cluster = Cluster(tmp_path / "up", brokers=1)
    assert cluster.stop() == 0
