//! The loop over socket pairs in place of devices.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::*;

/// The far ends of a pair of stand-ins for TUN devices: one packet per write and read.
struct Far {
    inner: OwnedFd,
    outer: OwnedFd,
}

fn stand_ins() -> ([OwnedFd; 2], Far) {
    let pair = || {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .expect("a pair of sockets")
    };
    let ((near_inner, inner), (near_outer, outer)) = (pair(), pair());
    ([near_inner, near_outer], Far { inner, outer })
}

fn config(text: &str) -> Config {
    const DEVICES: &str = "[[tun]]\ninner = { name = 'i0' }\nouter = { name = 'o0' }\n\
                           [[tun]]\ninner = { name = 'i1' }\nouter = { name = 'o1' }\n";
    Config::parse(&format!("{text}\n{DEVICES}[[site]]\nname = 'one'"), |_| {})
        .expect("a configuration")
}

/// An IPv4 packet that is told from others by its length.
fn packet(length: u16) -> Vec<u8> {
    let mut packet = vec![0; length.into()];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    packet
}

/// Waits until there is a packet, and gives its length.
fn receive(from: &OwnedFd) -> usize {
    let mut ready = [PollFd::new(from, PollFlags::IN)];
    let long = Timespec {
        tv_sec: 30,
        tv_nsec: 0,
    };
    assert_eq!(poll(&mut ready, Some(&long)), Ok(1), "no packet came");
    rustix::io::read(from, &mut [0u8; 2048]).expect("a packet")
}

fn send(to: &OwnedFd, packet: &[u8]) {
    assert_eq!(rustix::io::write(to, packet), Ok(packet.len()));
}

/// The lines that choose a way of moving packets.
const WAYS: [&str; 2] = ["io = 'plain'", "io = 'auto'"];

/// Runs a limiter of `text` between stand-ins while `meanwhile` runs.
fn run(text: &str, meanwhile: impl FnOnce(&mut Vec<Far>)) -> Result<(), LimiterError> {
    let stop = Stop::new()?;
    let (near, mut far): (Vec<_>, Vec<_>) = (0..2).map(|_| stand_ins()).unzip();
    let config = config(text);
    let devices = Devices::stand_ins(near, &config)?;
    let service = Service::with(&config, &stop, devices, Queues::default())?;
    std::thread::scope(|scope| {
        let running = scope.spawn(|| service.run());
        meanwhile(&mut far);
        stop.stop();
        running.join().expect("no panic")
    })
}

#[test]
fn packets_cross_their_own_pair_both_ways_and_odd_ones_do_not() {
    for way in WAYS {
        let ran = run(way, |far| {
            for (number, far) in far.iter().enumerate() {
                let length = 100 + number as u16;
                send(&far.inner, &[9, 9, 9]);
                send(&far.inner, &packet(length));
                send(&far.outer, &packet(length + 10));
                assert_eq!(receive(&far.outer), usize::from(length));
                assert_eq!(receive(&far.inner), usize::from(length + 10));
            }
        });
        ran.expect("stopped");
    }
}

#[test]
fn a_burst_crosses_in_order_whichever_way() {
    for way in WAYS {
        let delayed = format!("{way}\n[emulate]\ndelay_us = 1000");
        for text in [way, &delayed] {
            let ran = run(text, |far| {
                (0..200u16).for_each(|number| send(&far[1].inner, &packet(40 + number)));
                (0..200u16).for_each(|number| {
                    assert_eq!(receive(&far[1].outer), usize::from(40 + number), "{text}");
                });
            });
            ran.expect("stopped");
        }
    }
}

#[test]
fn a_device_that_goes_takes_only_its_pair_along_and_the_last_one_ends_all() {
    for way in WAYS {
        let ran = run(way, |far| {
            drop(far.remove(0));
            send(&far[0].inner, &packet(77));
            assert_eq!(receive(&far[0].outer), 77);
        });
        ran.expect("stopped, not given up");
        let stop = Stop::new().expect("a descriptor");
        let (near, far): (Vec<_>, Vec<_>) = (0..2).map(|_| stand_ins()).unzip();
        let config = config(way);
        let devices = Devices::stand_ins(near, &config).expect("devices");
        let service = Service::with(&config, &stop, devices, Queues::default());
        drop(far);
        let ended = service.expect("a service").run();
        assert!(matches!(ended, Err(LimiterError::AllGone)), "{ended:?}");
    }
}

#[test]
fn a_record_tells_of_every_packet() {
    let folder = std::env::temp_dir().join(format!("srtm-limiter-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path: PathBuf = folder.join("record.jsonl");
    let text = format!(
        "record = {path:?}\nrecord_interval_ms = 1\n[[class]]\nname = 'all'\n\
         limit = {{ rate = 1, burst_bytes = 50, policy = 'ctb' }}\n[emulate]\ndelay_us = 1000"
    );
    let ran = run(&text, |far| {
        for _ in 0..5 {
            send(&far[0].inner, &packet(100));
        }
        send(&far[0].outer, &packet(40));
        assert_eq!(receive(&far[0].inner), 40);
    });
    ran.expect("stopped");
    let record = std::fs::read_to_string(&path).expect("a record");
    std::fs::remove_dir_all(&folder).expect("the folder goes");
    let lines = record
        .lines()
        .map(serde_json::from_str::<serde_json::Value>);
    let lines: Vec<_> = lines.collect::<Result<_, _>>().expect("JSON");
    let sum = |field: &str| {
        lines
            .iter()
            .filter_map(|line| line[field][0].as_u64())
            .sum::<u64>()
    };
    assert_eq!(
        (
            sum("dropped_packets"),
            sum("dropped_bytes"),
            sum("forwarded_bytes")
        ),
        (5, 500, 0)
    );
    let of = |kind: &str| {
        lines
            .iter()
            .filter(|line| line["kind"] == kind)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (of("start").len(), of("flow").len(), of("end").len()),
        (1, 1, 1)
    );
    assert_eq!(of("flow")[0]["passed"]["dropped_bytes"], 500);
    assert_eq!(of("end")[0]["returned_bytes"], 40);
}

#[test]
fn sites_find_each_other_by_gossip_over_udp() {
    let port = |socket: &std::net::UdpSocket| socket.local_addr().expect("an address");
    let bound = [0, 1].map(|_| std::net::UdpSocket::bind("127.0.0.1:0").expect("a port"));
    let [one, two] = [port(&bound[0]), port(&bound[1])];
    drop(bound);
    let text = format!(
        "intake = 'tun'\n[[tun]]\ninner = {{ name = 'i' }}\nouter = {{ name = 'o' }}\n\
         [[site]]\nname = 'one'\ngossip = '{one}'\ndestinations = ['10.0.0.1']\n\
         [[site]]\nname = 'two'\ngossip = '{two}'\ndestinations = ['10.0.0.2']\n\
         [[class]]\nname = 'all'\nlimit = {{ rate = 1000, burst_bytes = 500, policy = 'fps' }}\n\
         [emulate]\ngossip_delay_us = 1000"
    );
    let config = Config::parse(&text, |_| {}).expect("a configuration");
    let start = Instant::ZERO;
    let mut gossip = GossipTransport::open(&config, start).expect("two sockets");
    let mut router = Router::new(&config, start, false).expect("a router");
    // Time is virtual, the sockets are not: each step takes in whatever has come.
    let connected = (0..2_000_000u64).any(|step| {
        let now = start + Duration::from_millis(step);
        gossip.wake(now);
        for site in 0..2 {
            gossip.receive(now, site);
            if step % 50 == 0 {
                router.estimate_site(now, site, gossip.fabric());
            }
        }
        (0..2).all(|site| router.standing(site, 0).connected() == 2)
    });
    assert!(connected);
    assert!(
        gossip
            .counters(0)
            .is_some_and(|counters| counters.updates_received > 0)
    );
}

#[test]
fn no_packet_waits_for_more_of_a_snapshot_than_a_slice() {
    const SITES: usize = 200;
    const CLASSES: usize = 100;
    let sites = (0..SITES).map(|site| format!("[[site]]\nname = 's{site}'\n"));
    let classes = (0..CLASSES).map(|class| {
        let limit = "limit = { rate = 1000000, burst_bytes = 500000, policy = 'gtb' }";
        let port = 1000 + class;
        format!("[[class]]\nname = 'c{class}'\nmatch = {{ protocol = 'tcp', ports = [{port}] }}\n{limit}\n")
    });
    let gossip = "[gossip]\ntransport = 'memory'\n".to_owned();
    let text: String = std::iter::once(gossip)
        .chain(classes)
        .chain(sites)
        .collect();
    let stop = Stop::new().expect("a descriptor");
    let (near, far): (Vec<_>, Vec<_>) = (0..2).map(|_| stand_ins()).unzip();
    let config = config(&text);
    let devices = Devices::stand_ins(near, &config).expect("devices");
    let service = Service::with(&config, &stop, devices, Queues::default());
    let mut service = service.expect("a service");
    let mut events = Vec::with_capacity(EVENTS_MAX);
    let mut turn = |service: &mut Service| {
        let turned = service.turn(&mut events);
        assert!(
            matches!(turned, Ok(ControlFlow::Continue(()))),
            "{turned:?}"
        );
    };
    let (answer, mut answered) = tokio::sync::oneshot::channel();
    service.survey.begin(answer);
    let (mut turns, mut before) = (0, 0);
    let snapshot = loop {
        send(&far[0].inner, &packet(100));
        turn(&mut service);
        turns += 1;
        assert_eq!(receive(&far[0].outer), 100);
        if let Ok(snapshot) = answered.try_recv() {
            break snapshot;
        }
        let gathered = service.survey.gathered() - before;
        assert!(
            gathered <= answers::STEPS_MAX * answers::STEP_NUMBERS,
            "{gathered} in a turn"
        );
        before += gathered;
    };
    let all = (SITES + 1) * CLASSES;
    assert_eq!(
        (snapshot.standings.len(), snapshot.limits.len()),
        (all, CLASSES)
    );
    assert_eq!(snapshot.gossip.len(), SITES + 1);
    assert!(
        turns >= all / (answers::STEPS_MAX * answers::STEP_NUMBERS),
        "{turns} turns"
    );
    // Whoever asked has gone: nothing is gathered.
    let (answer, answered) = tokio::sync::oneshot::channel();
    drop(answered);
    service.survey.begin(answer);
    turn(&mut service);
    assert_eq!((service.survey.gathered(), service.survey.due()), (0, None));
}
