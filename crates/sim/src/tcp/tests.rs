//! A sender and a receiver with nothing but a path of 40 ms and chosen losses between them.

use std::time::Duration;

use clock::{Instant, stream, uniform};
use proptest::prelude::*;

use super::{Ack, Content, MSS_BYTES, Receiver, Segment, Sender};

const ONE_WAY: Duration = Duration::from_millis(20);

/// Everything that was sent, with its fate.
struct Path {
    sender: Sender,
    receiver: Receiver,
    segments: Vec<(Instant, Segment)>,
    acks: Vec<(Instant, Ack)>,
    sent: Vec<(Instant, Segment)>,
    now: Instant,
}

impl Path {
    fn new(transfer_bytes: Option<u64>) -> Self {
        Path {
            sender: Sender::new(transfer_bytes),
            receiver: Receiver::default(),
            segments: Vec::new(),
            acks: Vec::new(),
            sent: Vec::new(),
            now: Instant::ZERO,
        }
    }

    /// Until `end`, or until all is done; drops the segments for which `drops` holds, which is told how many were sent
    /// before.
    fn run(&mut self, end: Instant, mut drops: impl FnMut(usize, Segment) -> bool) {
        if self.sent.is_empty() {
            self.sender.open(self.now);
        }
        loop {
            while let Some(segment) = self.sender.next_segment(self.now) {
                if !drops(self.sent.len(), segment) {
                    // One packet after the other, as a link would have it.
                    let nth = Duration::from_micros(self.segments.len() as u64);
                    self.segments.push((self.now + ONE_WAY + nth, segment));
                }
                self.sent.push((self.now, segment));
            }
            let deadlines = self.sender.deadline().min(self.receiver.deadline());
            let arrivals = self.segments.iter().map(|&(at, _)| at);
            let answers = self.acks.iter().map(|&(at, _)| at);
            let next = arrivals.chain(answers).fold(deadlines, Instant::min);
            if next > end || self.sender.is_done() {
                return;
            }
            self.now = next;
            self.take_arrivals();
            self.sender.expire(self.now);
            let late = self.receiver.expire(self.now);
            self.answer(late);
        }
    }

    fn take_arrivals(&mut self) {
        let now = self.now;
        let due = |at: Instant| at <= now;
        let segments: Vec<_> = self
            .segments
            .extract_if(.., |&mut (at, _)| due(at))
            .collect();
        for (_, segment) in segments {
            let answer = self.receiver.receive(now, segment);
            self.answer(answer);
        }
        let acks: Vec<_> = self.acks.extract_if(.., |&mut (at, _)| due(at)).collect();
        for (_, ack) in acks {
            self.sender.acknowledged(now, ack);
        }
    }

    fn answer(&mut self, answer: Option<Ack>) {
        if let Some(ack) = answer {
            self.acks.push((self.now + ONE_WAY, ack));
        }
    }

    /// When segments were sent, milliseconds.
    fn sent_ms(&self) -> Vec<u64> {
        let times = self.sent.iter().map(|(at, _)| at.as_nanos() / 1_000_000);
        times.collect()
    }
}

fn at_ms(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

fn number(segment: Segment) -> Option<u32> {
    match segment.content {
        Content::Syn => None,
        Content::Data { number, .. } => Some(number),
    }
}

#[test]
fn without_loss_the_window_doubles_per_round_trip() {
    let mut path = Path::new(None);
    // The handshake ends at 40 ms, rounds begin every 40 ms from then on.
    for (round, window) in [(0, 10), (1, 20), (2, 40), (3, 80)] {
        path.run(at_ms(75 + 40 * round), |_, _| false);
        let begin = 35 + 40 * round;
        let in_round = path.sent_ms().into_iter().filter(|&ms| ms >= begin);
        let sent = in_round.count();
        // The answer to an odd segment may come in the next round only.
        assert!(
            (window - window / 20..=window).contains(&sent),
            "round {round}: {sent}"
        );
    }
    let counts = path.sender.counts();
    assert_eq!((counts.repeated, counts.timeouts, counts.probes), (0, 0, 0));
}

#[test]
fn a_transfer_has_its_length() {
    let mss = u64::from(MSS_BYTES);
    for bytes in [1, 100, mss, mss + 1, 10 * mss, 100 * mss + 7] {
        let mut path = Path::new(Some(bytes));
        path.run(at_ms(10_000), |_, _| false);
        assert!(path.sender.is_done(), "{bytes} bytes");
        assert_eq!(path.receiver.received_bytes(), bytes);
        assert_eq!(path.sender.counts().segments, bytes.div_ceil(mss));
        assert_eq!(path.sender.deadline(), Instant::MAX);
    }
    // Ten segments fit into the first window: handshake and one round trip, and a delay that is none at first.
    let mut path = Path::new(Some(10 * mss));
    path.run(at_ms(10_000), |_, _| false);
    assert_eq!(path.now.as_nanos() / 1_000_000, 80);
}

#[test]
fn a_single_loss_costs_half_of_the_window_and_no_timeout() {
    let mut path = Path::new(Some(200 * u64::from(MSS_BYTES)));
    path.run(at_ms(10_000), |nth, _| nth == 25);
    let counts = path.sender.counts();
    assert!(path.sender.is_done());
    assert_eq!((counts.repeated, counts.timeouts, counts.probes), (1, 0, 0));
    let repeated = path
        .sent
        .iter()
        .filter(|(_, segment)| number(*segment) == Some(24));
    let times: Vec<u64> = repeated.map(|(at, _)| at.as_nanos() / 1_000_000).collect();
    assert_eq!(times, [80, 120], "when three others have overtaken it");
}

#[test]
fn few_segments_beyond_a_loss_take_a_quarter_of_a_round_trip_longer() {
    // The last but one of four is lost; only one overtakes it.
    let mut path = Path::new(Some(4 * u64::from(MSS_BYTES)));
    path.run(at_ms(10_000), |nth, _| nth == 3);
    let times = path.sent_ms();
    assert_eq!(times, [0, 40, 40, 40, 40, 92], "10 ms, and 2 of the timer");
    assert_eq!(path.sender.counts().timeouts, 0);
}

#[test]
fn a_lost_end_is_probed_for() {
    let mut path = Path::new(Some(10 * u64::from(MSS_BYTES)));
    path.run(at_ms(10_000), |nth, _| nth == 10);
    let counts = path.sender.counts();
    assert_eq!((counts.probes, counts.timeouts, counts.repeated), (1, 0, 1));
    assert!(path.sender.is_done());
    // One segment is open; its probe would come 280 ms after the answers to the others, but a timeout is not waited past.
    assert_eq!(path.sent_ms().last(), Some(&320));
    assert_eq!(
        path.sender.window(),
        9,
        "half of the ten and nine that were"
    );
}

#[test]
fn timeouts_back_off_and_begin_anew_once_something_arrives() {
    let mut path = Path::new(None);
    path.run(at_ms(8_000), |nth, _| nth > 0);
    let later: Vec<u64> = path.sent_ms().into_iter().filter(|&ms| ms > 40).collect();
    // Two round trips and 4 ms: a probe; then timeouts of 240 ms, doubled each time.
    assert_eq!(later, [124, 364, 844, 1804, 3724, 7564]);
    assert_eq!(path.sender.window(), 1);
    path.run(at_ms(15_250), |_, _| false);
    let counts = path.sender.counts();
    assert_eq!(counts.timeouts, 6, "the last one at 15,244 ms");
    path.run(at_ms(20_000), |_, _| false);
    assert_eq!(path.sender.counts().timeouts, 6);
    assert!(path.receiver.received_bytes() > 100 * u64::from(MSS_BYTES));
}

#[test]
fn syns_come_every_second_and_then_ever_slower() {
    let mut path = Path::new(None);
    path.run(at_ms(40_000), |_, _| true);
    assert_eq!(
        path.sent_ms(),
        [
            0, 1000, 2000, 3000, 4000, 5000, 7000, 11_000, 19_000, 35_000
        ]
    );
    path.run(at_ms(1_000_000), |_, _| true);
    assert_eq!(path.sent.len(), 11, "then it is given up");
    assert_eq!(path.sender.deadline(), Instant::MAX);
}

#[test]
fn a_repeated_syn_makes_for_a_careful_start() {
    for (lost, window) in [(0, 10), (1, 10), (2, 1)] {
        let mut path = Path::new(None);
        path.run(at_ms(1_000 * lost as u64 + 45), |nth, _| nth < lost);
        let counts = path.sender.counts();
        assert_eq!((counts.segments, counts.syns), (window, lost as u32 + 1));
    }
}

#[test]
fn acknowledgements_are_delayed_once_a_transfer_runs() {
    let mut receiver = Receiver::default();
    let segment = |number| Segment {
        content: Content::Data {
            number,
            bytes: MSS_BYTES,
        },
        sent_at: Instant::ZERO,
    };
    let at = |number: u32| at_ms(u64::from(number));
    for number in 0..16 {
        assert!(receiver.receive(at(number), segment(number)).is_some());
    }
    assert_eq!(receiver.receive(at(16), segment(16)), None);
    assert_eq!(receiver.deadline(), at_ms(56));
    let ack = receiver.receive(at(17), segment(17)).expect("the second");
    assert_eq!((ack.cumulative, ack.sacked), (18, None));
    assert_eq!(receiver.receive(at(18), segment(18)), None);
    assert_eq!(receiver.expire(at_ms(57)), None);
    let ack = receiver.expire(at_ms(58)).expect("late");
    assert_eq!(ack.cumulative, 19);
    // Out of order, filling a gap, and again: at once.
    let ack = receiver.receive(at_ms(60), segment(21)).expect("a gap");
    assert_eq!((ack.cumulative, ack.sacked), (19, Some(21)));
    let ack = receiver
        .receive(at_ms(61), segment(19))
        .expect("half of it");
    assert_eq!((ack.cumulative, ack.sacked), (20, None));
    let ack = receiver.receive(at_ms(62), segment(20)).expect("the other");
    assert_eq!((ack.cumulative, ack.duplicate), (22, false));
    let ack = receiver.receive(at_ms(63), segment(20)).expect("twice");
    assert_eq!((ack.cumulative, ack.duplicate), (22, true));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_is_lost_all_of_it_arrives_once(
        segments in 1_u64..120,
        loss in 0.0..0.5_f64,
        seed in any::<u64>(),
    ) {
        let bytes = segments * u64::from(MSS_BYTES) - seed % u64::from(MSS_BYTES);
        let mut random = stream(seed, "loss");
        let mut path = Path::new(Some(bytes));
        path.run(at_ms(100_000_000), |_, segment| {
            segment.content != Content::Syn && uniform(&mut random) < loss
        });
        prop_assert!(path.sender.is_done());
        prop_assert_eq!(path.receiver.received_bytes(), bytes);
        let counts = path.sender.counts();
        prop_assert_eq!(counts.segments - counts.repeated, segments);
    }
}
