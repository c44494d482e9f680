//! A controller and brokers over real sockets: an announced address counts once the broker has
//! answered there.

use std::net::SocketAddr;
use std::time::Duration;

use api::view::BrokerView;
use broker::http::{HttpInfo, LogLevel};
use broker::sharing::{SharingConfig, SharingPort};
use broker::{Broker, Config, ControllerLink, agent, http};
use control::handle::Command;
use control::service::Service;
use control::store::MemoryStore;
use control::{ControlHandle, Settings, link_server};
use limit::{Limit, SharePolicy};
use link::{Door, Identity, LinkKey, probe_question};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

const LOOPBACK: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

fn key() -> LinkKey {
    LinkKey::new([7; 32])
}

async fn start_controller() -> (ControlHandle, SocketAddr) {
    let listener = TcpListener::bind(LOOPBACK).await.expect("free");
    let address = listener.local_addr().expect("bound");
    let store = Box::new(MemoryStore::default());
    let opened = Service::open(Settings::default(), store, key(), None);
    let (service, handle, from_links) = opened.expect("nothing is kept");
    tokio::spawn(service.run(std::future::pending()));
    let links = link_server::serve(
        listener,
        key(),
        handle.clone(),
        from_links,
        std::future::pending(),
    );
    tokio::spawn(links);
    (handle, address)
}

/// Where a broker is in truth.
struct Started {
    http: SocketAddr,
    gossip: SocketAddr,
    broker: Broker,
}

/// A broker that announces other addresses than it has, where these are given.
async fn start_broker(
    controller: SocketAddr,
    number: u8,
    http_elsewhere: Option<SocketAddr>,
    gossip_elsewhere: Option<SocketAddr>,
) -> Started {
    let mut link = ControllerLink::new(controller.to_string(), format!("b{number}"), key());
    link.identity = Identity([number; 16]);
    let config = Config {
        tcp_address: LOOPBACK,
        broadcast_address: String::from("127.0.0.1"),
        threads: 2,
        drain_timeout: Duration::ZERO,
        controller: Some(link.clone()),
        ..Config::default()
    };
    let broker = Broker::start(config.clone()).expect("starts");
    let (handle, tcp) = (broker.handle(), broker.tcp_address());
    let listener = TcpListener::bind(LOOPBACK).await.expect("free");
    let http = listener.local_addr().expect("bound");
    let level = LogLevel::parse("info").expect("a level");
    let info = HttpInfo::new(&config, tcp, http, level);
    tokio::spawn(http::serve(
        handle.clone(),
        [Some(listener), None],
        info,
        std::future::pending(),
    ));
    let sharing = SharingConfig {
        address: Some(LOOPBACK),
        ..SharingConfig::default()
    };
    let port = SharingPort::bind(sharing, tcp, "127.0.0.1", true).expect("free");
    let gossip = port.address().expect("bound");
    tokio::spawn(port.run(handle.clone(), std::future::pending()));
    link.gossip_address = Some(gossip_elsewhere.unwrap_or(gossip).to_string());
    link.advertised_http_address = Some(http_elsewhere.unwrap_or(http).to_string());
    let agent = agent::run(handle, link, tcp.to_string(), None, std::future::pending());
    tokio::spawn(agent);
    Started {
        http,
        gossip,
        broker,
    }
}

async fn views(controller: &ControlHandle) -> Vec<BrokerView> {
    controller.ask(Command::Brokers).await.expect("runs")
}

/// What the controller says of a broker once `seen`.
async fn until(
    controller: &ControlHandle,
    broker: &str,
    seen: impl Fn(&BrokerView) -> bool,
) -> BrokerView {
    let mut last = None;
    for _ in 0..600 {
        let found = views(controller).await.into_iter();
        last = found.into_iter().find(|view| view.broker == broker);
        if let Some(view) = last.take_if(|view| seen(view)) {
            return view;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("not seen of {broker} within half a minute: {last:?}");
}

fn is_whole(view: &BrokerView) -> bool {
    view.state == "up" && view.not_counted.is_none()
}

fn lacks(word: &'static str) -> impl Fn(&BrokerView) -> bool {
    move |view| {
        view.state == "up"
            && view
                .not_counted
                .as_ref()
                .is_some_and(|text| text.contains(word))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_address_counts_once_its_broker_has_answered_there() {
    let (controller, address) = start_controller().await;
    let first = start_broker(address, 1, None, None).await;
    until(&controller, "b1", is_whole).await;
    // Nobody is at these: bound by the test, which answers nothing.
    let silent_http = TcpListener::bind(LOOPBACK).await.expect("free");
    let silent_gossip = UdpSocket::bind(LOOPBACK).await.expect("free");
    let at = silent_http.local_addr().expect("bound");
    let _second = start_broker(address, 2, Some(at), None).await;
    let at = silent_gossip.local_addr().expect("bound");
    let _third = start_broker(address, 3, None, Some(at)).await;
    // Somebody else's addresses cannot be borrowed: another broker of the same key answers there.
    let _fourth = start_broker(address, 4, Some(first.http), None).await;
    let fifth = start_broker(address, 5, None, Some(first.gossip)).await;
    until(&controller, "b2", lacks("proves nothing")).await;
    until(&controller, "b3", lacks("by UDP")).await;
    until(&controller, "b4", lacks("another broker answers")).await;
    until(&controller, "b5", lacks("another broker answers")).await;
    let spec = api::view::TopicSpec::of_limit(Limit {
        sharing: SharePolicy::Fps,
        ..Limit::messages(300.0, 30.0).expect("in range")
    });
    let put = controller.ask(|reply| Command::PutTopic(String::from("t"), spec, reply));
    put.await.expect("good");
    let holdings = controller
        .ask(|reply| Command::Holdings(None, usize::MAX, reply))
        .await
        .expect("runs");
    let found = holdings.brokers.iter();
    let found: Vec<_> = found
        .map(|holds| (holds.broker.as_str(), holds.http_address.is_some()))
        .collect();
    let expected = [
        ("b1", true),
        ("b2", false),
        ("b3", true),
        ("b4", false),
        ("b5", true),
    ];
    assert_eq!(found, expected);
    let sharers = async || first.broker.handle().sharing.figures().brokers;
    for _ in 0..600 {
        if sharers().await == 3 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(sharers().await, 3, "b1, b2 and b4 share the limit");
    assert_ne!(fifth.gossip, first.gossip);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_is_told_nothing_at_any_port() {
    let (controller, address) = start_controller().await;
    let broker = start_broker(address, 1, None, None).await;
    until(&controller, "b1", is_whole).await;
    let stranger = LinkKey::new([8; 32]);
    let question = probe_question(&stranger, Door::Http, &[1; 32]);
    let (status, body) = post(broker.http, &question).await;
    assert_eq!(status, 403, "{body:?}");
    let wrong_door = probe_question(&key(), Door::Gossip, &[1; 32]);
    assert_eq!(post(broker.http, &wrong_door).await.0, 403);
    let right = probe_question(&key(), Door::Http, &[1; 32]);
    let (status, body) = post(broker.http, &right).await;
    let present = link::probed(&key(), &right, &body).expect("the key");
    assert_eq!((status, present.broker.as_str()), (200, "b1"));
    let number = present.life & u64::from(u32::MAX);
    assert!(
        present.life > 0 && number == 0,
        "the first life of the controller's epoch, not {}",
        present.life
    );
    // By UDP one that is asked rightly answers, and by then the others before it would have been.
    let socket = UdpSocket::bind(LOOPBACK).await.expect("free");
    let questions = [
        probe_question(&stranger, Door::Gossip, &[1; 32]),
        probe_question(&key(), Door::Http, &[1; 32]),
        probe_question(&key(), Door::Gossip, &[1; 32]),
    ];
    for question in &questions {
        socket.send_to(question, broker.gossip).await.expect("sent");
    }
    let mut answer = [0; 512];
    let bytes = socket.recv(&mut answer).await.expect("answered");
    let present = link::probed(&key(), &questions[2], &answer[..bytes]).expect("the last one's");
    assert_eq!(present.identity, Identity([1; 16]));
}

async fn post(to: SocketAddr, body: &[u8]) -> (u16, Vec<u8>) {
    let mut stream = TcpStream::connect(to).await.expect("listens");
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: {to}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        link::PROBE_PATH,
        body.len()
    );
    stream.write_all(head.as_bytes()).await.expect("sent");
    stream.write_all(body).await.expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("answered");
    let head = answer
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .expect("a head");
    let status = String::from_utf8_lossy(&answer[9..12])
        .parse()
        .expect("a status");
    (status, answer[head + 4..].to_vec())
}
