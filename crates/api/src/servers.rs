//! Which of several equivalent servers is asked: each in turn, or first the one that is known to
//! lead.
//!
//! The rule, for every client of a controller: the server that answered last is asked first. One
//! that is out of reach, or says that it does not lead (421), is not asked again for this question;
//! the leader that it names is next, on the list or not, otherwise the next of the list.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Leaders outside of the list that one question is led to at most.
const STRANGERS_MAX: usize = 4;

/// Servers of which any may be asked. Clones share who answered last.
#[derive(Clone, Debug)]
pub(crate) struct Servers {
    bases: Arc<[String]>,
    /// The server that answered last.
    last: Arc<Mutex<String>>,
    scheme: Scheme,
}

/// What a server's address begins with where it does not say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

/// One question's way through them.
#[derive(Debug)]
pub(crate) struct Turn {
    to_ask: VecDeque<String>,
    asked: Vec<String>,
    strangers: usize,
    scheme: Scheme,
}

impl Servers {
    /// Those of a list with commas between them; schemes may be left out.
    pub(crate) fn new(list: &str, scheme: Scheme) -> Servers {
        let parts = list.split(',').map(str::trim);
        let named = parts.filter(|part| !part.is_empty());
        let mut bases: Vec<String> = named.map(|base| scheme.put(base)).collect();
        if bases.is_empty() {
            bases.push(scheme.put(list));
        }
        Servers {
            last: Arc::new(Mutex::new(bases[0].clone())),
            bases: bases.into(),
            scheme,
        }
    }

    /// The server to ask first.
    pub(crate) fn first(&self) -> String {
        let last = self.last.lock();
        last.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A question begins.
    pub(crate) fn turn(&self) -> Turn {
        let first = self.first();
        let place = self.bases.iter().position(|base| *base == first);
        let (before, from) = self.bases.split_at(place.unwrap_or(0));
        let behind = from.iter().chain(before).filter(|base| **base != first);
        let behind: Vec<String> = behind.cloned().collect();
        Turn {
            to_ask: std::iter::once(first).chain(behind).collect(),
            asked: Vec::new(),
            strangers: 0,
            scheme: self.scheme,
        }
    }

    /// This one has answered.
    pub(crate) fn answered(&self, base: &str) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if *last != base {
            base.clone_into(&mut last);
        }
    }
}

impl Turn {
    /// The next to be asked.
    pub(crate) fn next(&mut self) -> Option<String> {
        let base = self.to_ask.pop_front()?;
        self.asked.push(base.clone());
        Some(base)
    }

    /// The one that was asked last does not lead, and says that this one does.
    pub(crate) fn led_to(&mut self, leader: &str) {
        let leader = self.scheme.put(leader);
        if self.asked.contains(&leader) {
            return;
        }
        match self.to_ask.iter().position(|base| *base == leader) {
            Some(place) => drop(self.to_ask.remove(place)),
            None if self.strangers >= STRANGERS_MAX => return,
            None => self.strangers += 1,
        }
        self.to_ask.push_front(leader);
    }
}

impl Scheme {
    fn put(self, base: &str) -> String {
        let base = base.trim_end_matches('/');
        match self {
            _ if base.contains("://") => base.to_owned(),
            Scheme::Http => format!("http://{base}"),
            Scheme::Https => format!("https://{base}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest(mut turn: Turn) -> Vec<String> {
        std::iter::from_fn(|| turn.next()).collect()
    }

    #[test]
    fn all_are_asked_in_turn_from_the_one_that_answered_last() {
        let servers = Servers::new("a:1, http://b:2/,c:3,", Scheme::Http);
        assert_eq!(
            rest(servers.turn()),
            ["http://a:1", "http://b:2", "http://c:3"]
        );
        servers.clone().answered("http://b:2");
        assert_eq!(
            rest(servers.turn()),
            ["http://b:2", "http://c:3", "http://a:1"]
        );
        assert_eq!(rest(Servers::new("", Scheme::Http).turn()), ["http://"]);
        let secure = Servers::new("a:1,http://b:2", Scheme::Https);
        assert_eq!(rest(secure.turn()), ["https://a:1", "http://b:2"]);
    }

    #[test]
    fn the_leader_is_next_and_nobody_is_asked_twice() {
        let servers = Servers::new("a,b,c", Scheme::Http);
        let mut turn = servers.turn();
        assert_eq!(turn.next().as_deref(), Some("http://a"));
        turn.led_to("c");
        assert_eq!(turn.next().as_deref(), Some("http://c"));
        turn.led_to("http://a/");
        turn.led_to("http://d");
        assert_eq!(rest(turn), ["http://d", "http://b"]);
        // One that was led to stays first as long as it answers, and the list is behind it.
        servers.answered("http://d");
        assert_eq!(
            rest(servers.turn()),
            ["http://d", "http://a", "http://b", "http://c"]
        );
    }

    #[test]
    fn servers_that_name_ever_others_end() {
        let mut turn = Servers::new("a", Scheme::Http).turn();
        let mut asked = 0;
        while turn.next().is_some() {
            asked += 1;
            turn.led_to(&format!("x{asked}"));
        }
        assert_eq!(asked, 1 + STRANGERS_MAX);
    }
}
