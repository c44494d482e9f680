//! A connection's subscriptions: a small number of channels, of topics on its own reactor or on
//! others.

use topics::ConsumerKey;

use crate::reactor::GuestKey;

/// Subscriptions of one connection at most; the next is refused.
pub const SUBSCRIPTIONS_MAX: usize = 64;

/// Names a subscription within its connection: in their order, from 0.
pub type SubscriptionNumber = u32;

/// One subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seat {
    /// Of a topic of the connection's reactor.
    Here(ConsumerKey),
    /// Of a topic of another reactor, where the connection is a guest.
    There(Away),
    /// Of a topic of another reactor, which has not answered yet.
    Asked,
}

/// A guest, and the reactor that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Away {
    /// The topic's reactor.
    pub home: u32,
    /// The connection, in that reactor's numbering.
    pub guest: GuestKey,
}

/// Those of one connection. Most have one at most, which takes no memory of its own.
#[derive(Debug, Default)]
pub struct Subscriptions {
    first: Option<Seat>,
    others: Option<Box<Others>>,
}

#[derive(Debug, Default)]
struct Others(Vec<Seat>);

impl Subscriptions {
    /// Whether there are none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// The number of the next one; none at [`SUBSCRIPTIONS_MAX`].
    #[must_use]
    pub fn next_number(&self) -> Option<SubscriptionNumber> {
        let len = usize::from(self.first.is_some()) + self.others().len();
        (len < SUBSCRIPTIONS_MAX).then_some(len as SubscriptionNumber)
    }

    /// Adds one, as [`Subscriptions::next_number`] said.
    pub fn add(&mut self, seat: Seat) {
        match self.first {
            None => self.first = Some(seat),
            Some(_) => self.others.get_or_insert_default().0.push(seat),
        }
    }

    /// The one of that number.
    #[inline]
    #[must_use]
    pub fn get(&self, number: SubscriptionNumber) -> Option<Seat> {
        match number {
            0 => self.first,
            number => self.others().get(number as usize - 1).copied(),
        }
    }

    /// Changes the one of that number.
    pub fn set(&mut self, number: SubscriptionNumber, seat: Seat) {
        let place = match number {
            0 => self.first.as_mut(),
            number => {
                let others = self.others.as_mut();
                others.and_then(|others| others.0.get_mut(number as usize - 1))
            }
        };
        if let Some(place) = place {
            *place = seat;
        }
    }

    /// All of them, in their order.
    pub fn iter(&self) -> impl Iterator<Item = Seat> {
        self.first.iter().chain(self.others()).copied()
    }

    fn others(&self) -> &[Seat] {
        self.others.as_ref().map_or(&[], |others| &others.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_count_up_to_the_bound() {
        let seat = |number: u32| Seat::Here(ConsumerKey::from_bits(u64::from(number)));
        let mut subscriptions = Subscriptions::default();
        assert!(subscriptions.is_empty() && subscriptions.get(0).is_none());
        for number in 0..SUBSCRIPTIONS_MAX as u32 {
            assert_eq!(subscriptions.next_number(), Some(number));
            subscriptions.add(Seat::Asked);
            subscriptions.set(number, seat(number));
        }
        assert_eq!(subscriptions.next_number(), None);
        let mut numbers = 0..SUBSCRIPTIONS_MAX as u32;
        assert!(subscriptions.iter().eq(numbers.clone().map(seat)));
        assert!(numbers.all(|number| subscriptions.get(number) == Some(seat(number))));
        assert_eq!(subscriptions.get(SUBSCRIPTIONS_MAX as u32), None);
    }
}
