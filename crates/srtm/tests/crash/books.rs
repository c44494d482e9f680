//! What was published, accepted, delivered and finished, and what follows from it.

use std::collections::BTreeMap;
use std::fmt;

use crate::body::{Name, name_of};

/// Names of lost messages and of strangers that are kept to be told.
const TOLD_MAX: usize = 8;

/// Everything that is known of one run.
#[derive(Debug)]
pub(crate) struct Books {
    seed: u64,
    /// The broker's present life, counted from 0.
    life: usize,
    topics: Vec<TopicBook>,
    /// Bodies that nobody published.
    strangers: Vec<String>,
    /// Deferred messages that came before they were due.
    early: Vec<String>,
    lives: Vec<LifeBook>,
}

#[derive(Debug)]
struct TopicBook {
    messages: Vec<MessageBook>,
    /// By channel and message.
    channels: Vec<Vec<ChannelBook>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct MessageBook {
    is_accepted: bool,
    /// When it is due, in nanoseconds since 1970; 0: at once.
    due_ns: i64,
}

#[derive(Clone, Copy, Debug, Default)]
struct ChannelBook {
    deliveries: u32,
    /// The life in which FIN was sent last, counted from 1.
    finished_in: u32,
    /// The place of that among all FINs of the channel in that life.
    finished_at: u32,
}

/// What came again of what was finished in a life.
#[derive(Clone, Debug, Default)]
struct LifeBook {
    /// By topic and channel, whether what a FIN was for came again in a later life; in the order in which FINs were sent.
    again_later: BTreeMap<(usize, usize), Vec<Fin>>,
    /// In the same life.
    again: usize,
    /// So many may: their FIN came too late or was not read.
    may_come_again: usize,
}

/// A FIN that was sent.
#[derive(Clone, Copy, Debug)]
struct Fin {
    message: usize,
    came_again: bool,
}

/// What a run came to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) published: usize,
    pub(crate) accepted: usize,
    /// Deliveries on all channels.
    pub(crate) deliveries: usize,
    /// Messages with a FIN, summed over channels.
    pub(crate) finished: usize,
    /// Accepted, and on some channel never finished.
    pub(crate) lost: usize,
    pub(crate) lost_told: Vec<String>,
    /// Most messages of a channel that were finished in one life and came again in a later one.
    pub(crate) again_later_max: usize,
    /// The same beside as many as may have been in flight.
    pub(crate) again_finished_max: usize,
    /// FINs that outlived a kill although earlier ones did not: at most of one life and channel.
    pub(crate) out_of_order_max: usize,
    /// Where that was.
    pub(crate) out_of_order_told: Vec<String>,
    /// The same summed over all lives and channels.
    pub(crate) again_later: usize,
    /// Messages that came again in the life in which they were finished, without a reason.
    pub(crate) again_without_reason: usize,
    pub(crate) strangers: Vec<String>,
    pub(crate) early: Vec<String>,
}

impl Books {
    /// Of topics with so many channels each.
    pub(crate) fn new(seed: u64, channels: &[usize]) -> Books {
        let topics = channels.iter().map(|&channels| TopicBook {
            messages: Vec::new(),
            channels: vec![Vec::new(); channels],
        });
        Books {
            seed,
            life: 0,
            topics: topics.collect(),
            strangers: Vec::new(),
            early: Vec::new(),
            lives: vec![LifeBook::default()],
        }
    }

    /// The broker begins another life.
    pub(crate) fn next_life(&mut self) {
        self.life += 1;
        self.lives.push(LifeBook::default());
    }

    /// Names for `count` messages that are about to be published, due at such a time.
    pub(crate) fn publish(&mut self, topic: usize, count: usize, due_ns: i64) -> Vec<Name> {
        let book = &mut self.topics[topic];
        let first = book.messages.len();
        let message = MessageBook {
            is_accepted: false,
            due_ns,
        };
        book.messages.resize(first + count, message);
        for channel in &mut book.channels {
            channel.resize(first + count, ChannelBook::default());
        }
        let names = (first..first + count).map(|number| Name { topic, number });
        names.collect()
    }

    /// The broker said that it has them.
    pub(crate) fn accepted(&mut self, names: &[Name]) {
        for name in names {
            self.topics[name.topic].messages[name.number].is_accepted = true;
        }
    }

    /// A consumer of a channel got a body; whose it is, unless nobody published that.
    pub(crate) fn delivered(
        &mut self,
        (topic, channel): (usize, usize),
        bytes: &[u8],
        now_ns: i64,
    ) -> Option<Name> {
        let name = match name_of(self.seed, bytes) {
            Ok(name) if name.topic == topic => name,
            Ok(name) => {
                self.strangers
                    .push(format!("{name} came from topic {topic}"));
                return None;
            }
            Err(why) => {
                self.strangers.push(why);
                return None;
            }
        };
        let book = &mut self.topics[topic];
        let Some(message) = book.messages.get(name.number) else {
            self.strangers.push(format!("{name} was never published"));
            return None;
        };
        if now_ns < message.due_ns {
            let early_ms = (message.due_ns - now_ns) / 1_000_000;
            self.early.push(format!("{name} came {early_ms} ms early"));
        }
        let entry = &mut book.channels[channel][name.number];
        entry.deliveries += 1;
        match (entry.finished_in as usize).checked_sub(1) {
            None => {}
            Some(life) if life == self.life => self.lives[life].again += 1,
            Some(life) => {
                let fins = self.lives[life].again_later.get_mut(&(topic, channel));
                fins.expect("a FIN was sent")[entry.finished_at as usize].came_again = true;
            }
        }
        Some(name)
    }

    /// A FIN was sent.
    pub(crate) fn finished(&mut self, channel: usize, name: Name) {
        let entry = &mut self.topics[name.topic].channels[channel][name.number];
        let fins = &mut self.lives[self.life].again_later;
        let fins = fins.entry((name.topic, channel)).or_default();
        entry.finished_in = self.life as u32 + 1;
        entry.finished_at = fins.len() as u32;
        fins.push(Fin {
            message: name.number,
            came_again: false,
        });
    }

    /// So many FINs of this life were refused, or perhaps not read.
    pub(crate) fn finished_in_vain(&mut self, count: usize) {
        self.lives[self.life].may_come_again += count;
    }

    /// Accepted messages so far.
    pub(crate) fn accepted_count(&self) -> usize {
        let messages = self.topics.iter().flat_map(|topic| &topic.messages);
        messages.filter(|message| message.is_accepted).count()
    }

    /// Messages that were given a number so far.
    pub(crate) fn published_count(&self) -> usize {
        self.topics.iter().map(|topic| topic.messages.len()).sum()
    }

    /// What it came to, where consumers of a channel had so many messages in flight at most.
    pub(crate) fn verdict(&self, in_flight_max: usize) -> Verdict {
        let mut verdict = Verdict {
            published: self.published_count(),
            accepted: self.accepted_count(),
            strangers: told(&self.strangers),
            early: told(&self.early),
            ..Verdict::default()
        };
        for (index, topic) in self.topics.iter().enumerate() {
            for (channel, entries) in topic.channels.iter().enumerate() {
                verdict.count(&topic.messages, entries, (index, channel));
            }
        }
        for (number, life) in self.lives.iter().enumerate() {
            for (channel, fins) in &life.again_later {
                let again = fins.iter().filter(|fin| fin.came_again).count();
                verdict.again_later_max = verdict.again_later_max.max(again);
                verdict.again_later += again;
                let skew = in_flight_max + life.may_come_again;
                let finished = again.saturating_sub(skew);
                verdict.again_finished_max = verdict.again_finished_max.max(finished);
                // What was not accepted and does not come again may be lost itself, and says nothing of its FIN.
                let messages = &self.topics[channel.0].messages;
                let told = fins.iter();
                let told = told.filter(|fin| fin.came_again || messages[fin.message].is_accepted);
                let fins: Vec<bool> = told.map(|fin| fin.came_again).collect();
                let out_of_order = out_of_order(&fins, skew);
                if out_of_order > verdict.out_of_order_max {
                    let (life, runs) = (number, runs(&fins));
                    let told = format!("FINs of life {life} on {channel:?}, x lost: {runs}");
                    verdict.out_of_order_told = vec![told];
                }
                verdict.out_of_order_max = verdict.out_of_order_max.max(out_of_order);
            }
            verdict.again_without_reason += life.again.saturating_sub(life.may_come_again);
        }
        verdict
    }
}

impl Verdict {
    fn count(
        &mut self,
        messages: &[MessageBook],
        entries: &[ChannelBook],
        (topic, channel): (usize, usize),
    ) {
        for (number, (message, entry)) in messages.iter().zip(entries).enumerate() {
            self.deliveries += entry.deliveries as usize;
            self.finished += usize::from(entry.finished_in > 0);
            if message.is_accepted && entry.finished_in == 0 {
                self.lost += 1;
                if self.lost_told.len() < TOLD_MAX {
                    let name = Name { topic, number };
                    let came = entry.deliveries;
                    self.lost_told.push(format!(
                        "{name} on channel {channel}, delivered {came} times"
                    ));
                }
            }
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} published, {} accepted, {} deliveries, {} finished; {} lost; {} came again in a later life, {} at most of one life \
             and channel, {} beside what was in flight, {} out of order; {} again without reason; {} strangers; {} early",
            self.published,
            self.accepted,
            self.deliveries,
            self.finished,
            self.lost,
            self.again_later,
            self.again_later_max,
            self.again_finished_max,
            self.out_of_order_max,
            self.again_without_reason,
            self.strangers.len(),
            self.early.len()
        )?;
        let told = [
            &self.lost_told,
            &self.strangers,
            &self.early,
            &self.out_of_order_told,
        ];
        for line in told.into_iter().flatten() {
            write!(f, "\n  {line}")?;
        }
        Ok(())
    }
}

/// What a kill takes of the FINs of a channel is the last of them. The broker may have come upon as many as are in flight in another
/// order; so of those behind so many that were lost, how many were not?
fn out_of_order(fins: &[bool], skew: usize) -> usize {
    let lost = fins.iter().enumerate().filter(|&(_, &lost)| lost);
    let first = lost.map(|(at, _)| at).nth(skew);
    let behind = first.map_or(&[][..], |first| &fins[first..]);
    behind.iter().filter(|&&lost| !lost).count()
}

/// FINs in short: how many in a row were lost (x) or not (o).
fn runs(fins: &[bool]) -> String {
    let runs = fins.chunk_by(|one, other| one == other);
    let runs = runs.map(|run| format!("{}{}", run.len(), if run[0] { "x" } else { "o" }));
    runs.collect::<Vec<_>>().join(" ")
}

fn told(lines: &[String]) -> Vec<String> {
    lines.iter().take(TOLD_MAX).cloned().collect()
}

#[test]
fn books_find_what_is_lost_repeated_strange_or_early() {
    let seed = 5;
    let mut books = Books::new(seed, &[2]);
    let names = books.publish(0, 3, 0);
    books.accepted(&names[..2]);
    let bodies: Vec<Vec<u8>> = names
        .iter()
        .map(|&name| crate::body::body(seed, name))
        .collect();
    // The first is finished on both channels, and comes again in this life and in the next.
    for channel in [0, 1] {
        assert_eq!(books.delivered((0, channel), &bodies[0], 9), Some(names[0]));
        books.finished(channel, names[0]);
    }
    books.delivered((0, 0), &bodies[0], 9);
    books.next_life();
    books.delivered((0, 1), &bodies[0], 9);
    // The second is delivered and not finished, the third was not accepted and may be missing.
    books.delivered((0, 0), &bodies[1], 9);
    books.delivered((0, 0), b"of nobody", 9);
    let late = books.publish(0, 1, 20);
    books.delivered((0, 0), &crate::body::body(seed, late[0]), 9);
    let verdict = books.verdict(0);
    assert_eq!((verdict.published, verdict.accepted), (4, 2));
    assert_eq!((verdict.lost, verdict.finished), (2, 2), "{verdict}");
    assert_eq!((verdict.again_later, verdict.again_later_max), (1, 1));
    assert_eq!(verdict.again_finished_max, 1);
    assert_eq!(books.verdict(1).again_finished_max, 0);
    assert_eq!(verdict.again_without_reason, 1);
    assert_eq!((verdict.strangers.len(), verdict.early.len()), (1, 1));
}

#[test]
fn a_kill_takes_the_last_fins() {
    let fins = |text: &str| text.bytes().map(|byte| byte == b'x').collect::<Vec<bool>>();
    for (text, skew, expected) in [
        ("", 0, 0),
        ("......", 0, 0),
        ("....xx", 0, 0),
        ("..x.xx", 0, 1),
        ("..x.xx", 1, 0),
        ("x..x..xx", 1, 2),
    ] {
        assert_eq!(out_of_order(&fins(text), skew), expected, "{text} {skew}");
    }
}
