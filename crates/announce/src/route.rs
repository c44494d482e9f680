//! To whom a publisher sends: the broker, or its subscribers themselves.
//!
//! A publisher sees no difference in what it hears: a broker is a subscriber like any other, marked
//! as a proxy. Where both are heard a message must not arrive by both ways, so one of them is
//! chosen, topic by topic.
//!
//! The route is a function of what is believed at the moment. A dead broker is believed in until
//! its announcements expire; for so long, messages of a publisher that prefers it go to nobody.

use crate::Endpoint;

/// How messages of a topic get to its subscribers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Route {
    /// Through a broker only; without one, to nobody.
    Broker,
    /// To each subscriber itself; brokers are ignored.
    Peer,
    /// Through a broker while one is heard, otherwise to each subscriber itself. All subscribers must be within the
    /// broker's hearing, since those that are not get nothing while it lives.
    #[default]
    Auto,
}

impl Route {
    /// To whom a message goes, out of the topic's `subscribers`.
    ///
    /// Of several brokers it is the one with the least instance: each of them reaches all subscribers that it knows, and
    /// publishers choose alike.
    pub fn of(self, subscribers: impl IntoIterator<Item = Endpoint>) -> Vec<Endpoint> {
        let (proxies, peers): (Vec<Endpoint>, Vec<Endpoint>) = subscribers
            .into_iter()
            .partition(|endpoint| endpoint.is_proxy);
        let broker = proxies.into_iter().min_by_key(|endpoint| endpoint.instance);
        match (self, broker) {
            (Route::Broker, broker) => broker.into_iter().collect(),
            (Route::Auto, Some(broker)) => vec![broker],
            (Route::Peer, _) | (Route::Auto, None) => peers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::announce::{InstanceId, TopicId};

    fn endpoint(instance: u64, is_proxy: bool) -> Endpoint {
        let address = ([127, 0, 0, 1], 4000 + instance as u16).into();
        Endpoint {
            instance: InstanceId(instance),
            data: address,
            udp: false,
            is_proxy,
            id: TopicId(1),
            announces_from: address,
        }
    }

    #[test]
    fn each_mode_with_and_without_brokers() {
        let (peers, brokers): (&[u64], &[u64]) = (&[1, 2], &[9, 8]);
        type Row<'a> = (Route, &'a [u64], &'a [u64], &'a [u64]);
        #[rustfmt::skip]
        let rows: &[Row<'_>] = &[
            (Route::Broker, peers, brokers, &[8]),
            (Route::Broker, peers, &[],     &[]),
            (Route::Peer,   peers, brokers, &[1, 2]),
            (Route::Peer,   &[],   brokers, &[]),
            (Route::Auto,   peers, brokers, &[8]),
            (Route::Auto,   peers, &[],     &[1, 2]),
            (Route::Auto,   &[],   &[],     &[]),
        ];
        for &(route, peers, brokers, chosen) in rows {
            let peers = peers.iter().map(|&instance| endpoint(instance, false));
            let brokers = brokers.iter().map(|&instance| endpoint(instance, true));
            let found: Vec<u64> = route
                .of(brokers.chain(peers))
                .iter()
                .map(|endpoint| endpoint.instance.0)
                .collect();
            assert_eq!(found, chosen, "{route:?}");
        }
    }
}
