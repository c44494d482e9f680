//! Announcements over HTTP, on a broker that takes part in them and on one that does not.

use std::time::Duration;

use tokio::net::UdpSocket;

use super::*;
use crate::announce::{AnnounceConfig, AnnouncePort};

const OF_ANNOUNCEMENTS: [&str; 3] = ["srtm_announce", "srtm_identifier", "srtm_tempo"];

#[tokio::test]
async fn a_broker_without_an_announce_port_says_so_and_shows_no_zeros() {
    let fixture = Fixture::start();
    let answer = fixture.ask("GET", "/v1/announcements", "").await;
    assert_eq!(answer.status, 409, "{}", answer.body);
    assert!(
        answer.body.contains("--announce-address"),
        "{}",
        answer.body
    );
    let page = fixture.ok("GET", "/metrics", "").await;
    for name in OF_ANNOUNCEMENTS {
        assert!(!page.contains(name), "{name} in\n{page}");
    }
    fixture.broker.stop();
}

#[tokio::test]
async fn what_becomes_of_datagrams_is_counted_and_shown() {
    let config = AnnounceConfig {
        address: ([127, 0, 0, 1], 0).into(),
        group: None,
        key: None,
        interval: Duration::from_millis(200),
    };
    let fixture = Fixture::with(|of_broker| of_broker.announce = Some(config.clone()));
    let port = AnnouncePort::bind(config).await.expect("a free port");
    let to = port.address().expect("bound");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let data = fixture.broker.tcp_address();
    let serving = tokio::spawn(port.run(fixture.broker.handle(), data, async {
        let _ = stopped.await;
    }));
    let stranger = UdpSocket::bind("127.0.0.1:0").await.expect("a free port");
    let nonsense = [0xff; 64];
    stranger.send_to(&nonsense, to).await.expect("sent");
    let shown = loop {
        let body = fixture.ok("GET", "/v1/announcements", "").await;
        let shown: Value = serde_json::from_str(&body).expect("JSON");
        if shown["datagrams"]["received"] == 1 {
            break shown;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(shown["datagrams"]["accepted"], 0, "{shown}");
    assert_eq!(shown["instances"]["known"], 0, "{shown}");
    assert_eq!(shown["signed"], false, "{shown}");
    let page = fixture.ok("GET", "/metrics", "").await;
    let line = r#"srtm_announcements_total{outcome="accepted"} 0.0"#;
    assert!(page.contains(line), "{page}");
    let line = r#"srtm_announcements_total{outcome="malformed"} 1.0"#;
    assert!(page.contains(line), "{page}");
    for name in OF_ANNOUNCEMENTS {
        assert!(page.contains(name), "no {name} in\n{page}");
    }
    stop.send(()).expect("still serving");
    serving.await.expect("ends");
    fixture.broker.stop();
}
