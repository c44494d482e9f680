//! Messages put aside for a subscriber that is behind.

use proptest::prelude::*;
use wire::announce::TopicId;
use wire::tempo::put_message_header;

use super::*;

fn delivery() -> Delivery {
    Delivery::new(Subscriber {
        instance: InstanceId(1),
        data: SocketAddr::from(([127, 0, 0, 1], 1)),
        udp: false,
    })
}

/// Messages of these lengths, back to back, and where each ends.
fn batch(lengths: &[usize]) -> (Vec<u8>, Vec<usize>) {
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    for (number, &length) in lengths.iter().enumerate() {
        put_message_header(&mut bytes, TopicId(7), length as u32);
        bytes.resize(bytes.len() + length, number as u8);
        ends.push(bytes.len());
    }
    (bytes, ends)
}

#[test]
fn what_does_not_fit_is_dropped_by_whole_messages() {
    // Three messages of 10 bytes each, framed 18.
    let (bytes, _) = batch(&[10, 10, 10]);
    for (has, bytes_max, kept, dropped) in [
        (0, 1000, 54, 0),
        (0, 54, 54, 0),
        (0, 53, 36, 1),
        (0, 0, 0, 3),
        // Of the second, four bytes are on their way: the rest of it follows whatever the bound.
        (22, 0, 14, 1),
        (22, 1000, 32, 0),
        (18, 0, 0, 2),
        (54, 0, 0, 0),
    ] {
        let mut delivery = delivery();
        delivery.has = Some(has);
        let case = format!("{has} of {bytes_max}");
        assert_eq!(delivery.put_aside(&bytes, bytes_max), dropped, "{case}");
        assert_eq!(delivery.aside.len(), kept, "{case}");
        assert_eq!(
            delivery.has,
            Some(bytes.len()),
            "{case}: the batch is dealt with"
        );
    }
}

#[test]
fn a_batch_that_is_not_for_it_is_not_put_aside() {
    let (bytes, _) = batch(&[10]);
    let mut delivery = delivery();
    assert_eq!(delivery.put_aside(&bytes, 1000), 0);
    assert!(delivery.aside.is_empty() && delivery.has.is_none());
}

proptest! {
    /// What was written before and what is put aside are whole messages, all of them or a beginning.
    #[test]
    fn nothing_is_cut(
        lengths in prop::collection::vec(0..40_usize, 1..20),
        part in 0.0..=1.0_f64,
        bytes_max in 0..600_usize,
    ) {
        let (bytes, ends) = batch(&lengths);
        let has = (part * bytes.len() as f64) as usize;
        let mut delivery = delivery();
        delivery.has = Some(has);
        let dropped = delivery.put_aside(&bytes, bytes_max);
        let mut sent = bytes[..has].to_vec();
        sent.extend_from_slice(&delivery.aside);
        let (mut at, mut messages) = (0, 0);
        while at < sent.len() {
            at += message_bytes(&sent[at..]);
            messages += 1;
        }
        prop_assert_eq!(at, sent.len());
        prop_assert_eq!(messages + dropped, ends.len() as u64);
    }
}
