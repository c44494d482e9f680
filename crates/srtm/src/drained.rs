//! When a broker that an operator takes out may end: once it holds nothing and nobody publishes
//! there, or when its time is up.

use std::collections::BTreeMap;
use std::time::Duration;

use api::view::BrokerView;
use tokio::time::Instant;

/// What a broker says is of after its drain began from so long on, and consumers that look for it have found it.
const SETTLE: Duration = Duration::from_secs(3);

/// Brokers that are being taken out.
#[derive(Debug)]
pub(crate) struct Drained {
    longest: Duration,
    since: BTreeMap<String, Instant>,
}

/// What is to become of a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It goes on.
    Stay,
    /// It ends.
    End,
}

impl Drained {
    /// A broker has `longest` for what it holds to be consumed.
    pub(crate) fn new(longest: Duration) -> Drained {
        Drained {
            longest,
            since: BTreeMap::new(),
        }
    }

    /// Looks at a broker.
    pub(crate) fn look(&mut self, view: &BrokerView, now: Instant) -> Verdict {
        let name = &view.broker;
        if !view.is_draining {
            self.since.remove(name);
            return Verdict::Stay;
        }
        let since = *self.since.entry(name.clone()).or_insert_with(|| {
            tracing::info!(
                "broker {name} is drained: it ends when its {} messages are consumed, after {:?} at the latest",
                view.holds,
                self.longest
            );
            now
        });
        let waited = now - since;
        let is_empty = view.holds == 0 && view.attached == 0 && view.measured_rate == 0.0;
        if is_empty && waited >= SETTLE && view.state == "draining" {
            tracing::info!("broker {name} is empty and ends");
        } else if waited >= self.longest {
            tracing::warn!(
                "broker {name} ends after {waited:.0?} although it holds {} messages, {} publishers are connected and {:.1} \
                 messages arrive per second; those that its connected consumers do not finish are lost",
                view.holds,
                view.attached,
                view.measured_rate
            );
        } else {
            return Verdict::Stay;
        }
        self.since.remove(name);
        Verdict::End
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(is_draining: bool, holds: u64, attached: usize) -> BrokerView {
        BrokerView {
            broker: String::from("b1"),
            state: String::from(if is_draining { "draining" } else { "up" }),
            is_draining,
            holds,
            attached,
            ..BrokerView::default()
        }
    }

    #[test]
    fn a_broker_ends_once_it_holds_nothing_and_at_the_latest_when_its_time_is_over() {
        let (empty, full, busy) = (view(true, 0, 0), view(true, 7, 0), view(true, 0, 1));
        let running = view(false, 0, 0);
        let unheard = BrokerView {
            state: String::from("silent"),
            ..empty.clone()
        };
        type Look<'a> = (u64, &'a BrokerView);
        let cases: [(&[Look<'_>], Option<u64>); 6] = [
            (&[(0, &running), (10, &running)], None),
            (&[(0, &empty), (2, &empty), (3, &empty)], Some(3)),
            (&[(0, &full), (29, &full), (30, &full)], Some(30)),
            (&[(0, &busy), (5, &busy), (6, &empty)], Some(6)),
            (
                &[
                    (0, &full),
                    (5, &running),
                    (6, &empty),
                    (8, &empty),
                    (9, &empty),
                ],
                Some(9),
            ),
            (&[(0, &empty), (10, &unheard), (30, &unheard)], Some(30)),
        ];
        let begin = Instant::now();
        for (looks, expected) in cases {
            let mut drained = Drained::new(Duration::from_secs(30));
            let ends = looks.iter().find(|(at, view)| {
                let now = begin + Duration::from_secs(*at);
                drained.look(view, now) == Verdict::End
            });
            assert_eq!(ends.map(|(at, _)| *at), expected);
        }
    }
}
