//! Real TUN devices in network namespaces of their own. Needs root and says so otherwise.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::thread::JoinHandle;
use std::time::Duration;

use limiter::{Config, LimiterError, Service, Stop};

/// A network namespace that goes when it is dropped.
struct Namespace(String);

impl Namespace {
    fn new(side: &str) -> Option<Namespace> {
        let name = format!("srtm-test-{}-{side}", std::process::id());
        ip(&["netns", "add", &name]).then_some(Namespace(name))
    }

    fn ip(&self, arguments: &str) {
        let all = ["-n", &self.0].into_iter().chain(arguments.split(' '));
        assert!(ip(&all.collect::<Vec<_>>()), "ip {arguments}");
    }

    /// Does `what` in a thread that belongs to the namespace.
    fn within<T: Send + 'static>(
        &self,
        what: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let path = format!("/run/netns/{}", self.0);
        std::thread::spawn(move || {
            let namespace = std::fs::File::open(path).expect("the namespace");
            let network = Some(rustix::thread::LinkNameSpaceType::Network);
            rustix::thread::move_into_link_name_space(
                std::os::fd::AsFd::as_fd(&namespace),
                network,
            )
            .expect("entering it");
            what()
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        ip(&["netns", "del", &self.0]);
    }
}

fn ip(arguments: &[&str]) -> bool {
    Command::new("ip")
        .args(arguments)
        .output()
        .is_ok_and(|output| output.status.success())
}

/// Two namespaces, or a word about why there are none.
fn namespaces() -> Option<(Namespace, Namespace)> {
    let root = rustix::process::geteuid().is_root();
    let tun = std::path::Path::new("/dev/net/tun").exists();
    let made = (root && tun).then(|| Some((Namespace::new("a")?, Namespace::new("b")?)));
    let made = made.flatten();
    if made.is_none() {
        println!("skipped: needs root, /dev/net/tun and `ip netns`");
    }
    made
}

/// Runs a limiter between `sources` and `sinks` that limits TCP, with packets moved as `io` says.
fn start(io: &str, sources: &Namespace, sinks: &Namespace) -> JoinHandle<Result<(), LimiterError>> {
    let text = format!(
        "io = '{io}'\n\
         [[tun]]\ninner = {{ name = 'inner', netns = '{}' }}\nouter = {{ name = 'outer', netns = '{}' }}\n\
         [[site]]\nname = 'one'\n[[class]]\nname = 'tcp'\nmatch = {{ protocol = 'tcp' }}\n\
         limit = {{ rate = '80 Mbps', burst_bytes = 75000, policy = 'ctb' }}\n[emulate]\ndelay_us = 500",
        sources.0, sinks.0
    );
    let config = Config::parse(&text, |_| {}).expect("a configuration");
    let stop = Stop::new().expect("a descriptor");
    let service = Service::open(&config, &stop).expect("two devices");
    let running = std::thread::spawn(move || service.run());
    for (namespace, own, other, device) in [
        (sources, "10.1.0.1", "10.2.0.0/16", "inner"),
        (sinks, "10.2.0.1", "10.1.0.0/16", "outer"),
    ] {
        namespace.ip(&format!("addr add {own}/32 dev {device}"));
        namespace.ip(&format!("route add {other} dev {device}"));
    }
    running
}

fn assert_tcp_crosses(sources: &Namespace, sinks: &Namespace) {
    const BYTES: usize = 1_000_000;
    let listener = sinks
        .within(|| TcpListener::bind("10.2.0.1:5001"))
        .join()
        .expect("no panic");
    let listener = listener.expect("a port");
    let sent = sources.within(|| {
        let sink = "10.2.0.1:5001".parse().expect("an address");
        let mut stream =
            TcpStream::connect_timeout(&sink, Duration::from_secs(20)).expect("the sink");
        stream.write_all(&[7; BYTES]).expect("all of it");
    });
    let mut received = Vec::new();
    let (mut stream, _) = listener.accept().expect("a connection");
    stream.read_to_end(&mut received).expect("all of it");
    sent.join().expect("no panic");
    assert_eq!(received.len(), BYTES);
}

/// Packets as large as IP has them cross once the devices let them, whatever the configuration said.
fn assert_largest_crosses(sources: &Namespace, sinks: &Namespace) {
    sources.ip("link set inner mtu 65535");
    sinks.ip("link set outer mtu 65535");
    let sink = sinks.within(|| UdpSocket::bind("10.2.0.1:5002"));
    let sink = sink.join().expect("no panic").expect("a port");
    let long = Some(Duration::from_secs(30));
    sink.set_read_timeout(long).expect("a deadline");
    // With headers of IP and UDP that makes 65,535 bytes.
    let sent: Vec<u8> = (0..65_507u32).map(|number| number as u8).collect();
    let datagram = sent.clone();
    let source = sources.within(move || {
        let source = UdpSocket::bind("10.1.0.1:0")?;
        source.send_to(&datagram, "10.2.0.1:5002")
    });
    assert_eq!(source.join().expect("no panic").expect("room"), sent.len());
    let mut received = vec![0; 65_536];
    let bytes = sink.recv(&mut received).expect("it came");
    assert!(received[..bytes] == sent, "{bytes} bytes");
}

#[test]
fn packets_cross_a_limiter_between_two_namespaces_and_it_notices_their_end() {
    for io in ["plain", "auto"] {
        let Some((sources, sinks)) = namespaces() else {
            return;
        };
        let running = start(io, &sources, &sinks);
        assert_tcp_crosses(&sources, &sinks);
        assert_largest_crosses(&sources, &sinks);
        sinks.ip("link del outer");
        let ended = running.join().expect("no panic");
        assert!(ended.is_err_and(|error| error.to_string().contains("every TUN device is gone")));
    }
}
