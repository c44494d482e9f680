//! A controller, a broker and clients that speak nothing but TLS with one another, and prove themselves by certificates.

use std::io::Read as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use ::http::{Encryption, encrypted_address};
use broker::http::{HttpInfo, LogLevel};
use broker::tls::{ClientAuth, TlsConfig, TlsRequired, TlsVersion};
use broker::{Broker, Config, ControllerLink, agent, http};
use client::{
    Acknowledgement, ClientError, PlacedOptions, PlacedPublisher, Publisher, PublisherOptions,
    Subscriber, SubscriberOptions, Tls, Trust,
};
use control::handle::Command;
use control::service::Service;
use control::store::MemoryStore;
use control::{ControlHandle, LinkProof, Settings, link_server};
use credentials::{Credentials, TrustFiles};
use keys::{FilesOf, KeyFolder, Order, Usage, Validity};
use link::{Identity, LinkKey};
use tokio::net::TcpListener;

const LOOPBACK: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);
const TOPIC: &str = "readings";
const MESSAGES: usize = 400;
/// Together more than sockets hold, so that a publisher finds no room now and then.
const BODY_BYTES: usize = 20_000;

/// A folder of keys that vanishes with the test.
struct Keys(KeyFolder);

impl Keys {
    fn new(name: &str) -> Keys {
        let name = format!("srtm-encrypted-{}-{name}", std::process::id());
        let path: PathBuf = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        let random = [[1; 32], [2; 32], [3; 32]];
        Keys(KeyFolder::init(&path, random, UNIX_EPOCH).expect("made"))
    }

    fn files(&self, name: &str, usage: Usage) -> FilesOf {
        let order = Order {
            name,
            hosts: &[String::from("127.0.0.1")],
            usage,
            validity: Validity {
                from: UNIX_EPOCH,
                until: UNIX_EPOCH + Duration::from_secs(4_000_000_000),
            },
        };
        self.0.add(&order, false).expect("signed")
    }

    fn tls(&self, name: &str) -> TlsConfig {
        let files = self.files(name, Usage::Node);
        TlsConfig {
            certificate: files.certificate,
            key: files.key,
            authorities: Some(files.authorities),
            clients: ClientAuth::Verified,
            least_version: TlsVersion::Tls12,
        }
    }

    fn trust(&self, own: Option<&str>) -> Trust {
        let own = own.map(|name| self.files(name, Usage::Client));
        let files = TrustFiles {
            authorities: self.0.path().join("ca.pem"),
            own: own.map(|files| (files.certificate, files.key)),
        };
        Trust::load(&files).expect("of use")
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0.path());
    }
}

async fn bound() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind(LOOPBACK).await.expect("free");
    let address = listener.local_addr().expect("bound");
    (listener, address)
}

/// The way in, where brokers dial and where HTTPS is served.
async fn start_controller(keys: &Keys) -> (ControlHandle, SocketAddr, SocketAddr) {
    let credentials = Credentials::load(keys.tls("controller")).expect("of use");
    let credentials = Arc::new(credentials);
    let proof = LinkProof {
        key: LinkKey::new([7; 32]),
        credentials: Some(Arc::clone(&credentials)),
    };
    let store = Box::new(MemoryStore::default());
    let opened = Service::open(Settings::default(), store, proof.clone(), None);
    let (service, handle, from_links) = opened.expect("nothing is kept");
    tokio::spawn(service.run(std::future::pending()));
    let (links, link_address) = bound().await;
    let never = std::future::pending();
    tokio::spawn(link_server::serve(
        links,
        proof,
        handle.clone(),
        from_links,
        never,
    ));
    let (api, http_address) = bound().await;
    let encryption = Encryption::new(move || credentials.server()).expect("a thread");
    let (served, never) = (handle.clone(), std::future::pending());
    let serving = control::http::serve(
        served,
        api,
        control::http::Admission::default(),
        Some(encryption),
        never,
    );
    tokio::spawn(serving);
    (handle, link_address, http_address)
}

async fn start_broker(keys: &Keys, controller: SocketAddr) -> Broker {
    let mut link = ControllerLink::new(
        controller.to_string(),
        String::from("b1"),
        LinkKey::new([7; 32]),
    );
    link.identity = Identity([1; 16]);
    link.is_encrypted = true;
    let config = Config {
        tcp_address: LOOPBACK,
        http_address: None,
        broadcast_address: String::from("127.0.0.1"),
        threads: 2,
        drain_timeout: Duration::ZERO,
        tls: Some(keys.tls("b1")),
        tls_required: TlsRequired::Yes,
        controller: Some(link.clone()),
        ..Config::default()
    };
    let broker = Broker::start(config.clone()).expect("starts");
    let (handle, tcp) = (broker.handle(), broker.tcp_address());
    let (https, at) = bound().await;
    let info = HttpInfo::new(&config, tcp, at, LogLevel::parse("info").expect("a level"));
    let never = std::future::pending();
    tokio::spawn(http::serve(
        handle.clone(),
        [None, Some(https)],
        info,
        never,
    ));
    let https = Some(encrypted_address(&at.to_string()));
    let never = std::future::pending();
    tokio::spawn(agent::run(handle, link, tcp.to_string(), https, never));
    broker
}

/// Returns once the broker has answered at all its addresses.
async fn until_up(controller: &ControlHandle) {
    let mut last = None;
    for _ in 0..1200 {
        let views = controller.ask(Command::Brokers).await.expect("runs");
        if views
            .iter()
            .any(|view| view.state == "up" && view.not_counted.is_none())
        {
            return;
        }
        last = Some(views);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("never up: {last:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_a_certificate_is_served_and_nobody_else() {
    let keys = Keys::new("served");
    let (controller, link, http) = start_controller(&keys).await;
    let broker = start_broker(&keys, link).await;
    until_up(&controller).await;
    let tcp = broker.tcp_address().to_string();
    let (known, stranger) = (keys.trust(Some("sensor")), keys.trust(None));
    let served = tokio::task::spawn_blocking(move || {
        publish_placed(&http.to_string(), &known);
        publish_plainly(&tcp, &known);
        assert_eq!(receive(&tcp, &known), MESSAGES + 1);
        for trust in [None, Some(stranger)] {
            let options = PublisherOptions {
                tls: trust.map(|trust| Tls::new(trust, &tcp)),
                ..PublisherOptions::default()
            };
            let refused = Publisher::connect(tcp.as_str(), options).and_then(|mut publisher| {
                publisher.publish(TOPIC, b"of a stranger")?;
                publisher.flush()
            });
            assert!(refused.is_err(), "a stranger was served");
        }
    });
    served.await.expect("the clients are content");
    tokio::task::block_in_place(|| drop(broker.stop()));
}

fn publish_placed(controller: &str, trust: &Trust) {
    let publisher = PlacedPublisher::start(PlacedOptions {
        trust: Some(trust.clone()),
        patience: Some(Duration::from_secs(120)),
        acknowledgement: Acknowledgement::Cumulative {
            every_messages: 64,
            interval_ms: 5,
        },
        ..PlacedOptions::new(controller, TOPIC, "sensor")
    });
    let publisher = publisher.expect("starts");
    let body = vec![b'x'; BODY_BYTES];
    for _ in 0..MESSAGES {
        publisher.publish(&body).expect("taken");
    }
    publisher.flush().expect("acknowledged");
}

fn publish_plainly(tcp: &str, trust: &Trust) {
    let options = PublisherOptions {
        tls: Some(Tls::new(trust.clone(), tcp)),
        ..PublisherOptions::default()
    };
    let mut publisher = Publisher::connect(tcp, options).expect("served");
    publisher.publish(TOPIC, b"one more").expect("taken");
    publisher.flush().expect("acknowledged");
}

/// How many messages wait for a subscriber.
fn receive(tcp: &str, trust: &Trust) -> usize {
    let options = SubscriberOptions {
        tls: Some(Tls::new(trust.clone(), tcp)),
        ..SubscriberOptions::default()
    };
    let connected = Subscriber::connect(tcp, TOPIC, "archive", options);
    let mut subscriber = connected.expect("served");
    let mut messages = 0;
    while messages < MESSAGES + 1 {
        let message = match subscriber.next_message_within(Duration::from_secs(60)) {
            Ok(message) => message.expect("more wait"),
            Err(error) => panic!("{error} after {messages} messages"),
        };
        let id = message.id;
        subscriber.finish(id).expect("heard");
        messages += 1;
    }
    subscriber.close().expect("in order");
    messages
}

#[test]
fn a_broker_without_tls_is_told_nothing_but_the_wish_for_it() {
    let keys = Keys::new("without");
    let config = Config {
        tcp_address: LOOPBACK,
        http_address: None,
        threads: 1,
        drain_timeout: Duration::ZERO,
        ..Config::default()
    };
    let broker = Broker::start(config).expect("starts");
    let tcp = broker.tcp_address().to_string();
    let options = PublisherOptions {
        tls: Some(Tls::new(keys.trust(None), &tcp)),
        ..PublisherOptions::default()
    };
    let refused = Publisher::connect(tcp.as_str(), options);
    assert!(matches!(refused, Err(ClientError::NoTls)));
    broker.stop();
}

/// nsqd that is told within TLS how to buffer goes on in plaintext.
#[test]
fn how_output_is_buffered_is_said_before_tls() {
    let keys = Keys::new("buffer");
    let listener = std::net::TcpListener::bind(LOOPBACK).expect("a free port");
    let tcp = listener.local_addr().expect("bound").to_string();
    let heard = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut beginning = [0; wire::MAGIC_V2.len() + b"IDENTIFY\n".len() + 4];
        stream.read_exact(&mut beginning).expect("a command");
        let length = beginning.last_chunk().copied().map(u32::from_be_bytes);
        let mut body = vec![0; length.expect("it is long enough") as usize];
        stream.read_exact(&mut body).expect("its body");
        serde_json::from_slice::<serde_json::Value>(&body).expect("JSON")
    });
    let options = SubscriberOptions {
        tls: Some(Tls::new(keys.trust(None), &tcp)),
        output_buffer_timeout: Some(Duration::ZERO),
        ..SubscriberOptions::default()
    };
    let nobody = Subscriber::connect(tcp.as_str(), TOPIC, "archive", options);
    assert!(nobody.is_err(), "the connection ends");
    let heard = heard.join().expect("it heard a command");
    assert_eq!(heard["tls_v1"], true, "{heard}");
    assert_eq!(heard["output_buffer_size"], -1, "{heard}");
    assert_eq!(heard["output_buffer_timeout"], -1, "{heard}");
}
