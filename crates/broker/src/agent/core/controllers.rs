//! Which of several controllers to dial next: each in turn, or first the one that is known to lead.
//!
//! After a lost link the same one comes first. When all have been tried in vain, there is a pause.

/// Controllers that a broker may be told of at most.
pub const CONTROLLERS_MAX: usize = 16;

/// Where controllers listen for brokers, and whose turn it is.
#[derive(Debug)]
pub(super) struct Controllers {
    addresses: Vec<String>,
    /// Index in `addresses` of the next one to try.
    next: usize,
    /// The one that was said to lead, before that.
    leader: Option<String>,
    /// So many were tried since the last pause.
    tried: usize,
}

impl Controllers {
    /// Those at `addresses`, of which there is at least one.
    pub(super) fn new(addresses: Vec<String>) -> Controllers {
        Controllers {
            addresses,
            next: 0,
            leader: None,
            tried: 0,
        }
    }

    /// The one to be dialled.
    pub(super) fn address(&self) -> &str {
        let of_list = self.addresses.get(self.next).map(String::as_str);
        self.leader.as_deref().or(of_list).unwrap_or_default()
    }

    /// The link to it stood, and is lost: it comes first again.
    pub(super) fn lost(&mut self) {
        self.tried = 0;
    }

    /// It does not answer, or does not want this broker. Says whether there is to be a pause before the next one.
    pub(super) fn failed(&mut self) -> bool {
        if self.leader.take().is_none() {
            self.next = (self.next + 1) % self.addresses.len().max(1);
        }
        self.is_round()
    }

    /// It does not lead; another one may be named that does, which need not be of the list. Says whether there is to be a pause before it
    /// is dialled.
    pub(super) fn does_not_lead(&mut self, leader: Option<String>) -> bool {
        let is_round = self.failed();
        let of_list = |leader: &String| self.addresses.iter().position(|each| each == leader);
        match leader.as_ref().and_then(of_list) {
            Some(place) => self.next = place,
            None => self.leader = leader,
        }
        is_round
    }

    /// One more was tried.
    fn is_round(&mut self) -> bool {
        self.tried += 1;
        let is_round = self.tried >= self.addresses.len();
        if is_round {
            self.tried = 0;
        }
        is_round
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn controllers(count: usize) -> Controllers {
        Controllers::new((0..count).map(|each| format!("c{each}")).collect())
    }

    #[test]
    fn all_are_tried_in_turn_and_then_there_is_a_pause() {
        let mut three = controllers(3);
        let mut dialled = Vec::new();
        for _ in 0..6 {
            let address = three.address().to_owned();
            dialled.push((address, three.failed()));
        }
        let expected = [
            ("c0", false),
            ("c1", false),
            ("c2", true),
            ("c0", false),
            ("c1", false),
            ("c2", true),
        ];
        let expected = expected.map(|(address, pauses)| (address.to_owned(), pauses));
        assert_eq!(dialled, expected);
        let mut one = controllers(1);
        assert!(one.failed() && one.failed());
        assert_eq!(one.address(), "c0");
    }

    #[test]
    fn the_one_whose_link_is_lost_comes_first() {
        let mut three = controllers(3);
        assert!(!three.failed());
        three.lost();
        assert_eq!(three.address(), "c1");
        assert!(!three.failed() && !three.failed());
        assert!(three.failed(), "all three were tried");
    }

    #[test]
    fn the_one_that_is_said_to_lead_is_next() {
        let mut three = controllers(3);
        assert!(!three.does_not_lead(Some(String::from("c2"))));
        assert_eq!(three.address(), "c2");
        assert!(!three.does_not_lead(Some(String::from("elsewhere"))));
        assert_eq!(three.address(), "elsewhere");
        assert!(three.failed());
        assert_eq!(three.address(), "c0", "behind c2");
        // Two that name each other are not dialled without a pause for ever.
        let mut two = controllers(2);
        let pauses = (0..10).filter(|round| {
            let other = format!("c{}", (round + 1) % 2);
            two.does_not_lead(Some(other))
        });
        assert_eq!(pauses.count(), 5);
        let mut knows_nothing = controllers(2);
        assert!(!knows_nothing.does_not_lead(None));
        assert_eq!(knows_nothing.address(), "c1");
    }
}
