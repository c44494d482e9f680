//! Slots with generations: keys are cheap to copy, and a stale one is noticed and never mistaken.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

/// Names one value in one [`Arena`]. A key outlives its value and then finds nothing.
pub struct Key<T> {
    index: u32,
    generation: u32,
    of: PhantomData<fn() -> T>,
}

/// A growing table of values; freed slots are used again under a new generation.
#[derive(Debug)]
pub struct Arena<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

/// The place of one value.
///
/// Generation and tag stand before the value, in the cache line that its first fields are in: with
/// thousands of values each line looked at is a miss.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Slot<T> {
    generation: u32,
    entry: Entry<T>,
}

#[derive(Debug)]
#[repr(u32)]
enum Entry<T> {
    Vacant,
    Occupied(T),
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Arena {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Arena<T> {
    /// Puts `value` in and names it.
    pub fn insert(&mut self, value: T) -> Key<T> {
        let entry = Entry::Occupied(value);
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index as usize];
            slot.entry = entry;
            return Key {
                index,
                generation: slot.generation,
                of: PhantomData,
            };
        }
        let index =
            u32::try_from(self.slots.len()).expect("fewer than 2^32 slots: every arena is bounded");
        self.slots.push(Slot {
            generation: 0,
            entry,
        });
        Key {
            index,
            generation: 0,
            of: PhantomData,
        }
    }

    /// Takes the value out; its key is stale from then on.
    pub fn remove(&mut self, key: Key<T>) -> Option<T> {
        let slot = self.slots.get_mut(key.index as usize)?;
        if slot.generation != key.generation {
            return None;
        }
        match std::mem::replace(&mut slot.entry, Entry::Vacant) {
            Entry::Vacant => None,
            Entry::Occupied(value) => {
                slot.generation = slot.generation.wrapping_add(1);
                self.free.push(key.index);
                Some(value)
            }
        }
    }

    /// The value named by `key`, if it is still there.
    #[inline]
    #[must_use]
    pub fn get(&self, key: Key<T>) -> Option<&T> {
        match self.slots.get(key.index as usize) {
            Some(Slot {
                generation,
                entry: Entry::Occupied(value),
            }) if *generation == key.generation => Some(value),
            _ => None,
        }
    }

    /// The value named by `key`, to change, if it is still there.
    #[inline]
    pub fn get_mut(&mut self, key: Key<T>) -> Option<&mut T> {
        match self.slots.get_mut(key.index as usize) {
            Some(Slot {
                generation,
                entry: Entry::Occupied(value),
            }) if *generation == key.generation => Some(value),
            _ => None,
        }
    }

    /// Where the value named by `key` would be, without a look at it.
    #[inline]
    #[must_use]
    pub fn place(&self, key: Key<T>) -> Option<&Slot<T>> {
        self.slots.get(key.index as usize)
    }

    /// All values, in slot order, to change.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots
            .iter_mut()
            .filter_map(|slot| match &mut slot.entry {
                Entry::Vacant => None,
                Entry::Occupied(value) => Some(value),
            })
    }

    /// All values with their keys, in slot order.
    pub fn iter(&self) -> impl Iterator<Item = (Key<T>, &T)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(index, slot)| match &slot.entry {
                Entry::Vacant => None,
                Entry::Occupied(value) => {
                    let (index, generation) = (index as u32, slot.generation);
                    Some((
                        Key {
                            index,
                            generation,
                            of: PhantomData,
                        },
                        value,
                    ))
                }
            })
    }

    /// Slots, free ones included: values stay in theirs, so who goes through all of them, with whatever pauses, meets each value
    /// that is there all the while.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Names the value in a slot, if there is one.
    #[must_use]
    pub fn key_at(&self, slot: usize) -> Option<Key<T>> {
        let Slot { generation, entry } = self.slots.get(slot)?;
        matches!(entry, Entry::Occupied(_)).then_some(Key {
            index: slot as u32,
            generation: *generation,
            of: PhantomData,
        })
    }

    /// Number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Key<T> {
    /// The key as one number, for epoll's token.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// Number of the slot: that of no other present value, and small.
    #[must_use]
    pub fn slot(self) -> usize {
        self.index as usize
    }

    /// Tells it from keys of values that had the slot before.
    #[must_use]
    pub fn generation(self) -> u32 {
        self.generation
    }

    /// The key that [`Key::to_bits`] made a number of.
    #[must_use]
    pub fn from_bits(bits: u64) -> Self {
        Key {
            index: bits as u32,
            generation: (bits >> 32) as u32,
            of: PhantomData,
        }
    }
}

impl<T> Copy for Key<T> {}

impl<T> Clone for Key<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> PartialEq for Key<T> {
    fn eq(&self, other: &Self) -> bool {
        self.to_bits() == other.to_bits()
    }
}

impl<T> Eq for Key<T> {}

impl<T> PartialOrd for Key<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Key<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.to_bits().cmp(&other.to_bits())
    }
}

impl<T> Hash for Key<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.to_bits());
    }
}

impl<T> fmt::Debug for Key<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.index, self.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_key_finds_nothing_even_when_its_slot_is_used_again() {
        let mut arena = Arena::default();
        let first = arena.insert("first");
        assert_eq!(arena.remove(first), Some("first"));
        let second = arena.insert("second");
        assert_ne!(first, second);
        assert_eq!(
            (arena.get(first), arena.get(second)),
            (None, Some(&"second"))
        );
        assert_eq!((arena.remove(first), arena.len()), (None, 1));
        assert_eq!(Key::from_bits(second.to_bits()), second);
    }
}
