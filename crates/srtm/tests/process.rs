//! The program as operators see it: exit codes, log lines, signals, what survives a restart.

#[path = "process/gathering.rs"]
mod gathering;
#[path = "process/measuring.rs"]
mod measuring;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Output, Stdio};

const SRTM: &str = env!("CARGO_BIN_EXE_srtm");

/// A broker process that ends with the test.
struct Process {
    child: Child,
    log: BufReader<ChildStderr>,
    tcp: String,
    http: String,
}

impl Process {
    /// Starts `srtm` with `arguments` and waits until it listens.
    fn start(arguments: &[&str]) -> Process {
        let mut command = Command::new(SRTM);
        command
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("starts");
        let mut log = BufReader::new(child.stderr.take().expect("piped"));
        let tcp = address_behind(&mut log, "INFO: TCP: listening on ");
        let http = address_behind(&mut log, "INFO: HTTP: listening on ");
        Process {
            child,
            log,
            tcp,
            http,
        }
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args([name, &self.child.id().to_string()])
            .status();
        assert!(status.expect("kill runs").success());
    }

    /// Waits for the end; the exit code and the rest of the log.
    fn end(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.log.read_to_string(&mut rest).expect("UTF-8");
        (self.child.wait().expect("ends").code(), rest)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails when the process has ended, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn address_behind(log: &mut impl BufRead, text: &str) -> String {
    let mut line = String::new();
    while log.read_line(&mut line).expect("UTF-8") > 0 {
        if let Some((_, address)) = line.split_once(text) {
            return address.trim().to_owned();
        }
        line.clear();
    }
    panic!("the log ended before {text:?}");
}

fn srtm(arguments: &[&str]) -> Output {
    Command::new(SRTM)
        .args(arguments)
        // Whatever it takes for its data folder does not land in the source.
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .stdin(Stdio::null())
        .output()
        .expect("runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A folder that vanishes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("srtm-process-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("folder");
        Folder(path)
    }

    fn as_str(&self) -> &str {
        self.0.to_str().expect("UTF-8")
    }

    /// A file with a key that a broker proves.
    fn key(&self) -> String {
        let path = self.0.join("link.key");
        std::fs::write(&path, "5a".repeat(32)).expect("written");
        let owner = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&path, owner).expect("set");
        path.to_str().expect("UTF-8").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const PORTS: [&str; 4] = [
    "--tcp-address",
    "127.0.0.1:0",
    "--http-address",
    "127.0.0.1:0",
];

#[test]
fn a_signal_ends_a_broker_with_success() {
    for (command, signal) in [("broker", "-TERM"), ("broker", "-INT"), ("nsqd", "-TERM")] {
        let folder = Folder::new(&format!("signal-{command}{signal}"));
        let data_path = format!("--data-path={}", folder.as_str());
        let process = Process::start(&[&[command], &PORTS[..], &[&data_path]].concat());
        process.signal(signal);
        let (code, log) = process.end();
        assert_eq!(code, Some(0), "{command} {signal}: {log}");
        assert!(log.contains("INFO: bye"), "{log}");
    }
}

#[test]
fn a_second_signal_cuts_the_drain_short() {
    let process = Process::start(&[&["broker", "--drain-timeout", "1h"], &PORTS[..]].concat());
    // One message per 1000 s: the second of two cannot leave before the test ends.
    let limited = srtm(&[
        "topic",
        "set",
        "t",
        "--rate",
        "0.001",
        "--burst",
        "1",
        "--broker",
        &process.http,
    ]);
    assert!(limited.status.success(), "{}", text(&limited.stderr));
    let mut consumer = Command::new(SRTM);
    consumer
        .args(["sub", "t", "c", "--tcp", &process.tcp])
        .stderr(Stdio::null());
    let mut consumer = consumer.spawn().expect("starts");
    let published = srtm(&[
        "pub",
        "t",
        "--message",
        "x",
        "--count",
        "2",
        "--tcp",
        &process.tcp,
    ]);
    assert!(published.status.success(), "{}", text(&published.stderr));
    let consumes = || {
        let shown = srtm(&["topic", "show", "t", "--broker", &process.http]);
        text(&shown.stdout).contains("1 consumers")
    };
    assert!(
        (0..2000).any(|_| consumes()),
        "the consumer never subscribed"
    );
    process.signal("-INT");
    let mut process = process;
    let mut line = String::new();
    while !line.contains("a second signal stops at once") {
        line.clear();
        assert!(
            process.log.read_line(&mut line).expect("UTF-8") > 0,
            "the log ended early"
        );
    }
    process.signal("-INT");
    let (code, log) = process.end();
    assert_eq!(code, Some(130), "{log}");
    consumer.kill().expect("killed");
    consumer.wait().expect("ended");
}

#[test]
fn topics_and_limits_outlive_a_restart() {
    let folder = Folder::new("restart");
    let arguments = [&["broker", "--data-path", folder.as_str()], &PORTS[..]].concat();
    let first = Process::start(&arguments);
    let set = srtm(&[
        "topic",
        "set",
        "t",
        "--rate",
        "5",
        "--burst",
        "2",
        "--cpu-share",
        "0.25",
        "--broker",
        &first.http,
    ]);
    let contract = "5 messages/s, burst 2, delay; cpu share 0.25";
    assert_eq!(text(&set.stdout), format!("t: {contract}\n"));
    let second = srtm(&[&["broker", "--data-path", folder.as_str()], &PORTS[..]].concat());
    assert_eq!(second.status.code(), Some(1));
    assert!(text(&second.stderr).contains("another broker uses this data folder"));
    first.signal("-TERM");
    assert_eq!(first.end().0, Some(0));

    let again = Process::start(&arguments);
    let list = srtm(&["topic", "ls", "--broker", &again.http]);
    assert!(
        text(&list.stdout).contains(contract),
        "{}",
        text(&list.stdout)
    );
    let shown = srtm(&["topic", "show", "t", "--broker", &again.http]);
    assert!(
        text(&shown.stdout).contains("share      0.25: "),
        "{}",
        text(&shown.stdout)
    );
    let given_up = srtm(&[
        "topic",
        "set",
        "t",
        "--cpu-share",
        "none",
        "--broker",
        &again.http,
    ]);
    assert_eq!(
        text(&given_up.stdout),
        "t: none\n",
        "and no limit was declared"
    );
    let removed = srtm(&["topic", "rm", "t", "--broker", &again.http]);
    assert!(text(&removed.stdout).contains("the topic and its messages stay"));
    again.signal("-TERM");
    assert_eq!(again.end().0, Some(0));
}

/// What `GET` answers at `path`.
fn get(http: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(http).expect("listens");
    let request = format!("GET {path} HTTP/1.0\r\nHost: srtm\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("UTF-8");
    answer
}

/// The sample of a series of topic `t`.
fn sample(process: &Process, series: &str) -> f64 {
    let page = get(&process.http, "/metrics");
    let name = format!("{series}{{topic=\"t\"}} ");
    let line = page.lines().find_map(|line| line.strip_prefix(&name));
    line.and_then(|value| value.parse().ok())
        .unwrap_or_else(|| panic!("no {series} in {page}"))
}

fn publish_500(process: &Process) {
    let flags = ["pub", "t", "--message", "x", "--count", "500"];
    let published = srtm(&[&flags[..], &["--tcp", &process.tcp]].concat());
    assert!(published.status.success(), "{}", text(&published.stderr));
}

#[test]
fn a_confirmed_limit_is_in_force_after_kill_9() {
    let folder = Folder::new("kill-9");
    let arguments = [&["broker", "--data-path", folder.as_str()], &PORTS[..]].concat();
    let first = Process::start(&arguments);
    let limit = ["--rate", "10", "--burst", "5", "--on-exceed", "drop"];
    let set = [
        &["topic", "set", "t"],
        &limit[..],
        &["--broker", &first.http],
    ]
    .concat();
    assert!(srtm(&set).status.success());
    // At once: nothing is left to be written by and by.
    first.signal("-KILL");
    assert_eq!(first.end().0, None);

    let again = Process::start(&arguments);
    publish_500(&again);
    let dropped = sample(&again, "srtm_topic_dropped_total");
    assert!(
        (400.0..=500.0).contains(&dropped),
        "{dropped} of 500 dropped"
    );
    again.signal("-KILL");
    again.end();

    // Under a controller that stays away it is in force with no share: nothing passes.
    let key = folder.key();
    let away = ["--controller", "127.0.0.1:1", "--link-key", &key];
    let again = Process::start(&[&arguments[..], &away].concat());
    publish_500(&again);
    assert_eq!(sample(&again, "srtm_topic_dropped_total"), 500.0);
}

/// The processes that `parent` has started.
fn children_of(parent: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").expect("Linux");
    let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_child = |&pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // State and parent stand behind the name, which may hold anything.
        let rest = stat.rsplit_once(')').map(|(_, rest)| rest);
        let ppid = rest.and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok());
        ppid == Some(parent)
    };
    pids.filter(is_child).collect()
}

#[test]
fn a_broker_of_up_that_is_killed_lets_nothing_pass_its_limits() {
    let folder = Folder::new("up-kill-9");
    let ports = [
        "--http=127.0.0.1:0",
        "--link-address=127.0.0.1:0",
        "--lookup-tcp-address=127.0.0.1:0",
        "--lookup-http-address=127.0.0.1:0",
        "--tcp-base-port=0",
    ];
    for kept in [&[][..], &["--data-dir", folder.as_str()]] {
        let mut command = Command::new(SRTM);
        command.arg("up").args(ports).args(kept);
        // Its broker has it for its log as well.
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("starts");
        let mut log = BufReader::new(child.stderr.take().expect("piped"));
        let controller = address_behind(&mut log, "controller: HTTP on ");
        let (controller, _) = controller.split_once(',').expect("more stands behind it");
        let first = address_behind(&mut log, "INFO: TCP: listening on ");
        address_behind(&mut log, "linked to the controller");
        let mut up = Process {
            child,
            log,
            tcp: first,
            http: String::new(),
        };
        let limit = ["--rate", "10", "--burst", "5", "--on-exceed", "drop"];
        let to = ["--controller", controller];
        let set = srtm(&[&["topic", "set", "t"], &limit[..], &to].concat());
        assert!(set.status.success(), "{}", text(&set.stderr));
        for pid in children_of(up.child.id()) {
            let killed = Command::new("kill")
                .args(["-KILL", &pid.to_string()])
                .status();
            assert!(killed.expect("kill runs").success());
        }
        up.tcp = address_behind(&mut up.log, "INFO: TCP: listening on ");
        up.http = address_behind(&mut up.log, "INFO: HTTP: listening on ");
        publish_500(&up);
        let [accepted, dropped, waiting] = [
            "srtm_topic_messages_total",
            "srtm_topic_dropped_total",
            "srtm_topic_depth",
        ]
        .map(|series| sample(&up, series));
        let passed = accepted - dropped - waiting;
        assert_eq!(accepted, 500.0);
        assert!(passed <= 50.0, "{passed} of 500 passed");
    }
}

#[test]
fn what_a_broker_without_its_controller_knows_nothing_of_is_held() {
    let folder = Folder::new("held");
    let key = folder.key();
    let controller = ["--controller", "127.0.0.1:1", "--link-key", &key];
    let away = [&["broker"], &controller[..], &PORTS].concat();
    let process = Process::start(&away);
    publish_500(&process);
    let made = srtm(&["sub", "t", "c", "--count", "0", "--tcp", &process.tcp]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    assert_eq!(sample(&process, "srtm_topic_held"), 1.0);
    assert_eq!(sample(&process, "srtm_topic_depth"), 500.0);
    let topics = get(&process.http, "/v1/topics");
    assert!(
        topics.contains(r#""held":"no word from the controller""#),
        "{topics}"
    );
    let shown = srtm(&["topic", "show", "t", "--broker", &process.http]);
    let shown = text(&shown.stdout);
    assert!(
        shown.contains("\nheld       no word from the controller\n"),
        "{shown}"
    );
    process.signal("-KILL");
    process.end();

    let choice = ["--without-controller", "pass=1ms"];
    let process = Process::start(&[&away[..], &choice].concat());
    publish_500(&process);
    let received = srtm(&["sub", "t", "c", "--count", "500", "--tcp", &process.tcp]);
    assert!(received.status.success(), "{}", text(&received.stderr));
    let page = get(&process.http, "/metrics");
    assert!(page.contains("\nsrtm_controller_given_up 1.0\n"), "{page}");
    process.signal("-KILL");
    let (_, log) = process.end();
    assert!(
        log.contains("topics unknown to this broker flow without a limit"),
        "{log}"
    );
}

#[test]
fn messages_go_from_pub_to_sub() {
    let process = Process::start(&[&["broker"], &PORTS[..]].concat());
    let published = srtm(&[
        "pub",
        "t",
        "--message",
        "hello",
        "--count",
        "3",
        "--tcp",
        &process.tcp,
    ]);
    assert_eq!(text(&published.stderr), "3 messages accepted on t\n");
    let received = srtm(&["sub", "t", "c", "--count", "3", "--tcp", &process.tcp]);
    assert_eq!(
        text(&received.stdout),
        "hello\nhello\nhello\n",
        "{}",
        text(&received.stderr)
    );
}

/// Exit code, a part of the error, the command line. `TCP` and `HTTP` are addresses in use.
const MISTAKES: &str = "
    1 | choose another port               | broker --tcp-address TCP --http-address none
    1 | choose another port               | broker --tcp-address 127.0.0.1:0 --http-address HTTP
    2 | --threads: 0 is not within 1..=64 | broker --threads 0 --http-address none
    2 | is not a duration                 | broker --msg-timeout 60
    2 | write host:port                   | broker --tcp-address 4150
    2 | is not a level                    | broker --log-level loud
    2 | use hold, or pass=30s             | broker --controller 127.0.0.1:1 --without-controller flow
    2 | is not a duration                 | broker --controller 127.0.0.1:1 --without-controller pass=60
    2 | --controller <HOST:PORT,…>          | broker --without-controller hold
    2 | --link-key <FILE>                 | broker --controller 127.0.0.1:1
    2 | nowhere: No such file             | broker --controller 127.0.0.1:1 --link-key nowhere
    2 | start 1 to 64                     | up --brokers 0
    2 | no more than --max-brokers        | up --brokers 3 --max-brokers 2
    2 | a period of 0ns                   | up --share-period 0s
    2 | possible values: report, penalise | up --on-overrun ignore
    2 | not in 1..=65535                  | up --announce-base-port 0
    2 | 65535 leaves no port for broker 2 | up --brokers 2 --announce-base-port 65535
    2 | --announce-interval: 0ns          | up --announce-base-port 23001 --announce-interval 0s
    2 | --announce-base-port <PORT>       | up --announce-interval 2s
    2 | --announce-base-port <PORT>       | up --announce-key x
    2 | reading the key from nowhere      | up --announce-base-port 23001 --announce-key @nowhere
    2 | reading the key from nowhere      | broker --announce-address 127.0.0.1:0 --announce-key @nowhere
    2 | without a certificate nobody could| nsqd -tls-required
    2 | --tls-key <FILE>                  | broker --tls-cert a.pem
    2 | --tls-cert: nowhere: I/O error    | broker --tls-cert nowhere --tls-key nowhere
    2 | flag provided but not defined     | nsqd -no-such-flag
    2 | is not a level                    | nsqd -log-level=loud
    2 | is not a duration                 | nsqd -msg-timeout=60
    2 | rate 0 is out of range            | topic set t --rate 0 --burst 1
    2 | burst 0.5 is out of range         | topic set t --rate 1 --burst 0.5
    2 | a/b                               | topic set a/b --rate 1 --burst 1
    2 | cannot place publishers           | topic set t --rate 1 --burst 1 --slo-p99 1ms --broker HTTP
    2 | more than 0 and at most 1         | topic set t --rate 1 --burst 1 --cpu-share 1.5
    2 | more than 0 and at most 1         | topic set t --cpu-share 20%
    1 | 409 a share of 0.9 does not fit   | topic set t --cpu-share 0.9 --broker HTTP
    2 | --cpu-share, --on-full or --durab | topic set t --broker HTTP
    2 | one of block, drop_oldest         | topic set t --on-full disk
    2 | one of memory, disk, fsync        | topic set t --durability raid
    2 | a period of 0ns                   | broker --share-period 0s --http-address none
    2 | 1 CPUs for 2 reactor threads      | broker --threads 2 --realtime --cpus 0 --http-address none
    2 | CPU 1 is named twice              | broker --realtime --cpus 1,1
    2 | give 1 to 99                      | broker --realtime --realtime-priority 0
    2 | --realtime                        | broker --cpus 1
    2 | 1 CPUs for 2 brokers              | up --brokers 2 --realtime --cpus 0
    2 | drops at random                   | topic set t --rate 1 --burst 1 --share-policy grd
    1 | an HTTP port of SRTM is there     | where t --controller 127.0.0.1:1
    1 | an HTTP port of SRTM is there     | publisher ls t --controller 127.0.0.1:1
    2 | lease, gtb, grd, fps              | topic set t --rate 1 --burst 1 --share-policy ctb --broker HTTP
    1 | no topic none                     | topic show none --broker HTTP
    1 | topic none does not exist         | topic rm none --broker HTTP
    1 | an HTTP port of SRTM is there     | topic ls --broker 127.0.0.1:1
    1 | 127.0.0.1:1                       | pub t --message x --tcp 127.0.0.1:1
    1 | 127.0.0.1:1                       | sub t c --tcp 127.0.0.1:1
    2 | is not a rate                     | pub t --message x --rate 0
";

#[test]
fn mistakes_are_told_with_an_exit_code() {
    let taken = Process::start(&[&["broker", "--threads", "1"], &PORTS[..]].concat());
    let held = srtm(&[
        "topic",
        "set",
        "held",
        "--cpu-share",
        "0.5",
        "--broker",
        &taken.http,
    ]);
    assert!(held.status.success(), "{}", text(&held.stderr));
    for row in MISTAKES.lines().filter(|row| !row.is_empty()) {
        let columns: Vec<_> = row.split('|').map(str::trim).collect();
        let [code, expected, line] = columns[..] else {
            panic!("columns of {row}")
        };
        let line = line.replace("TCP", &taken.tcp).replace("HTTP", &taken.http);
        let arguments: Vec<_> = line.split_whitespace().collect();
        let output = srtm(&arguments);
        let error = text(&output.stderr);
        assert_eq!(
            output.status.code().map(|code| code.to_string()),
            Some(code.to_owned()),
            "{row}: {error}"
        );
        assert!(error.contains(expected), "{row}: {error}");
    }
}

#[test]
fn nsqd_answers_as_nsqd() {
    let folder = Folder::new("as-nsqd");
    let linked = folder.0.join("nsqd");
    std::os::unix::fs::symlink(SRTM, &linked).expect("linked");
    for mut command in [Command::new(&linked), Command::new(SRTM)] {
        if command.get_program() == SRTM {
            command.arg("nsqd");
        }
        let output = command.arg("-version").output().expect("runs");
        let line = text(&output.stdout);
        assert!(line.starts_with("nsqd v1.3.0 (built w/srtm "), "{line}");
        assert_eq!(output.status.code(), Some(0));
    }
}
