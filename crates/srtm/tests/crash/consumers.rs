//! Consumers that finish in no order, requeue, forget until the timeout, touch, and leave.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clock::{Xoshiro256PlusPlus, below};
use wire::MessageId;

use crate::body::Name;
use crate::books::Books;
use crate::clocks::{End, wall_ns};
use crate::connection::{Connection, Said};

/// How long it waits for more before it finishes what it holds.
const MORE: Duration = Duration::from_millis(5);

/// A consumer of one life of a broker.
#[derive(Debug)]
pub(crate) struct Consumer {
    /// Topic and channel, by number and by name.
    pub(crate) channel: (usize, usize),
    pub(crate) names: (String, String),
    pub(crate) ready: u32,
    /// Finishes everything at once.
    pub(crate) is_plain: bool,
    pub(crate) random: Xoshiro256PlusPlus,
    pub(crate) books: Arc<Mutex<Books>>,
    pub(crate) end: Arc<End>,
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Finished,
    Touched,
    Requeued { delay_ms: u64 },
    Forgotten,
}

impl Consumer {
    /// Consumes until the end is told.
    ///
    /// # Errors
    /// Those of the connection: the broker is gone.
    pub(crate) fn run(mut self, address: &str) -> io::Result<()> {
        while !self.end.is_told() {
            self.visit(address)?;
        }
        Ok(())
    }

    /// One connection.
    fn visit(&mut self, address: &str) -> io::Result<()> {
        // What is forgotten comes again after this; what is to be finished is in far less.
        let mut connection = Connection::open(address, r#","msg_timeout":1000"#)?;
        wire::command::put_sub(&mut connection.output, &self.names.0, &self.names.1);
        wire::command::put_rdy(&mut connection.output, self.ready);
        connection.flush()?;
        let mut held: Vec<(MessageId, Name)> = Vec::new();
        // Plain ones stay.
        let mut visits = if self.is_plain {
            u32::MAX
        } else {
            200 + below(&mut self.random, 2000)
        };
        while !self.end.is_told() && visits > 0 {
            visits -= 1;
            match connection.next(MORE)? {
                Said::Message { id, body } => {
                    let told = self.lock().delivered(self.channel, &body, wall_ns());
                    held.extend(told.map(|name| (id, name)));
                    if held.len() < self.held_max() {
                        continue;
                    }
                }
                Said::Error(text) if is_late(&text) => self.lock().finished_in_vain(1),
                Said::Error(text) => return Err(io::Error::other(text)),
                Said::Response(_) | Said::Nothing | Said::Ack(_) => {}
            }
            self.decide(&mut held, &mut connection)?;
        }
        match below(&mut self.random, 2) {
            // What it has said may stay unread then.
            0 if !self.is_plain => {
                self.lock().finished_in_vain(self.ready as usize);
                connection.cut();
            }
            _ => {
                let refused = connection.close()?;
                self.lock().finished_in_vain(refused);
            }
        }
        Ok(())
    }

    /// Holds no more than it is given at once.
    fn held_max(&self) -> usize {
        match self.is_plain {
            true => 1,
            false => (self.ready as usize / 2).max(1),
        }
    }

    /// Decides on all that is held, in no order.
    fn decide(
        &mut self,
        held: &mut Vec<(MessageId, Name)>,
        connection: &mut Connection,
    ) -> io::Result<()> {
        while !held.is_empty() {
            let at = below(&mut self.random, held.len() as u32) as usize;
            let (id, name) = held.swap_remove(at);
            let out = &mut connection.output;
            match self.fate() {
                Fate::Finished => {
                    self.lock().finished(self.channel.1, name);
                    wire::command::put_fin(out, id);
                }
                Fate::Touched => {
                    wire::command::put_touch(out, id);
                    self.lock().finished(self.channel.1, name);
                    wire::command::put_fin(out, id);
                }
                Fate::Requeued { delay_ms } => wire::command::put_req(out, id, delay_ms),
                Fate::Forgotten => {}
            }
        }
        connection.flush()
    }

    fn fate(&mut self) -> Fate {
        if self.is_plain {
            return Fate::Finished;
        }
        match below(&mut self.random, 100) {
            0..4 => Fate::Requeued { delay_ms: 0 },
            4..8 => Fate::Requeued {
                delay_ms: u64::from(below(&mut self.random, 400)),
            },
            8..10 => Fate::Forgotten,
            10..13 => Fate::Touched,
            _ => Fate::Finished,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Books> {
        self.books.lock().expect("no panic")
    }
}

/// Whether the broker refused FIN, REQ or TOUCH of a message that has timed out.
fn is_late(error: &str) -> bool {
    let codes = ["E_FIN_FAILED", "E_REQ_FAILED", "E_TOUCH_FAILED"];
    codes.iter().any(|code| error.starts_with(code))
}
