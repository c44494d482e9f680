//! The messages between the kernel's packet filter and a program that judges its packets
//! (`nfnetlink_queue`).
//!
//! Bytes to values and back; sending is done elsewhere. Numbers in netlink's headers have the
//! machine's byte order, those of the packet filter the network's.

/// A configuration of a queue, as the kernel takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueSettings {
    pub(crate) number: u16,
    /// Bytes of each packet that are wanted.
    pub(crate) copied_bytes: u32,
    /// Packets that wait at most.
    pub(crate) packets: u32,
    /// What exceeds that passes, instead of being dropped.
    pub(crate) fail_open: bool,
}

/// A message of the kernel about a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueMessage<'a> {
    /// It asks about a packet.
    Packet {
        id: u32,
        /// The beginning of the packet, from its IP header.
        head: &'a [u8],
        /// Bytes of all of it.
        length: usize,
    },
    /// It answers a request: 0, or the number of an error.
    Answer(i32),
    /// Something else.
    Other,
}

const NETLINK_HEADER_BYTES: usize = 16;
const QUEUE_HEADER_BYTES: usize = 4;
const ATTRIBUTE_HEADER_BYTES: usize = 4;

const TYPE_ERROR: u16 = 2;
const SUBSYSTEM: u16 = 3 << 8;
const TYPE_PACKET: u16 = SUBSYSTEM;
const TYPE_VERDICT: u16 = SUBSYSTEM | 1;
const TYPE_CONFIG: u16 = SUBSYSTEM | 2;

const FLAG_REQUEST: u16 = 1;
const FLAG_ANSWER: u16 = 4;

const PACKET_HEADER: u16 = 1;
const PACKET_PAYLOAD: u16 = 10;
const PACKET_LENGTH: u16 = 13;
const VERDICT_HEADER: u16 = 2;

const CONFIG_COMMAND: u16 = 1;
const CONFIG_COPY: u16 = 2;
const CONFIG_PACKETS: u16 = 3;
const CONFIG_MASK: u16 = 4;
const CONFIG_FLAGS: u16 = 5;

const COMMAND_BIND: u8 = 1;
const COPY_PACKET: u8 = 2;
const FAIL_OPEN: u32 = 1;

const VERDICT_DROP: u32 = 0;
const VERDICT_ACCEPT: u32 = 1;

/// The request that takes a queue over. All in one: between two of them packets would come as the first one alone has it.
pub(crate) fn take_over(settings: QueueSettings) -> Vec<u8> {
    let copied = settings.copied_bytes.to_be_bytes();
    let flags = if settings.fail_open { FAIL_OPEN } else { 0 };
    let attributes: [(u16, &[u8]); 5] = [
        (CONFIG_COMMAND, &[COMMAND_BIND, 0, 0, 0]),
        (
            CONFIG_COPY,
            &[copied[0], copied[1], copied[2], copied[3], COPY_PACKET],
        ),
        (CONFIG_PACKETS, &settings.packets.to_be_bytes()),
        (CONFIG_MASK, &FAIL_OPEN.to_be_bytes()),
        (CONFIG_FLAGS, &flags.to_be_bytes()),
    ];
    let mut bytes = Vec::new();
    put_request(
        &mut bytes,
        TYPE_CONFIG,
        settings.number,
        FLAG_ANSWER,
        &attributes,
    );
    bytes
}

/// Appends what becomes of packet `id` to `requests`; many of them may be sent at once.
pub(crate) fn put_verdict(requests: &mut Vec<u8>, queue: u16, id: u32, forward: bool) {
    let verdict = if forward {
        VERDICT_ACCEPT
    } else {
        VERDICT_DROP
    };
    let mut header = [0; 8];
    header[..4].copy_from_slice(&verdict.to_be_bytes());
    header[4..].copy_from_slice(&id.to_be_bytes());
    put_request(
        requests,
        TYPE_VERDICT,
        queue,
        0,
        &[(VERDICT_HEADER, &header)],
    );
}

/// Calls `each` with everything that a datagram of the kernel says; what does not add up ends it.
pub(crate) fn read<'a>(mut datagram: &'a [u8], mut each: impl FnMut(QueueMessage<'a>)) {
    while let Some(header) = datagram.first_chunk::<NETLINK_HEADER_BYTES>() {
        let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let Some(message) = datagram.get(NETLINK_HEADER_BYTES..length) else {
            return;
        };
        each(match u16::from_ne_bytes([header[4], header[5]]) {
            TYPE_ERROR => answer(message),
            TYPE_PACKET => packet(message).unwrap_or(QueueMessage::Other),
            _ => QueueMessage::Other,
        });
        datagram = datagram.get(aligned(length)..).unwrap_or_default();
    }
}

fn answer(message: &[u8]) -> QueueMessage<'_> {
    let code = message.first_chunk().map(|code| i32::from_ne_bytes(*code));
    code.map_or(QueueMessage::Other, |code| {
        QueueMessage::Answer(code.saturating_neg())
    })
}

fn packet(message: &[u8]) -> Option<QueueMessage<'_>> {
    let mut attributes = message.get(QUEUE_HEADER_BYTES..)?;
    let (mut id, mut head, mut length) = (None, None, None);
    while let Some(header) = attributes.first_chunk::<ATTRIBUTE_HEADER_BYTES>() {
        let bytes = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let value = attributes.get(ATTRIBUTE_HEADER_BYTES..bytes)?;
        // The two highest bits say how the value is encoded.
        match u16::from_ne_bytes([header[2], header[3]]) & 0x3fff {
            PACKET_HEADER => id = value.first_chunk().map(|id| u32::from_be_bytes(*id)),
            PACKET_PAYLOAD => head = Some(value),
            PACKET_LENGTH => length = value.first_chunk().map(|bytes| u32::from_be_bytes(*bytes)),
            _ => {}
        }
        attributes = attributes.get(aligned(bytes)..).unwrap_or_default();
    }
    let head = head?;
    Some(QueueMessage::Packet {
        id: id?,
        head,
        length: length.map_or(head.len(), |length| length as usize),
    })
}

fn put_request(
    bytes: &mut Vec<u8>,
    kind: u16,
    queue: u16,
    flags: u16,
    attributes: &[(u16, &[u8])],
) {
    let length = NETLINK_HEADER_BYTES
        + QUEUE_HEADER_BYTES
        + attributes
            .iter()
            .map(|(_, value)| aligned(ATTRIBUTE_HEADER_BYTES + value.len()))
            .sum::<usize>();
    bytes.extend((length as u32).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend((FLAG_REQUEST | flags).to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([0, 0]);
    bytes.extend(queue.to_be_bytes());
    for (kind, value) in attributes {
        let length = ATTRIBUTE_HEADER_BYTES + value.len();
        bytes.extend((length as u16).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(*value);
        bytes.resize(bytes.len() + aligned(length) - length, 0);
    }
}

/// What the kernel says when it asks about the packet `id`, which begins with `head`.
#[cfg(test)]
pub(crate) fn question(queue: u16, id: u32, head: &[u8]) -> Vec<u8> {
    let mut header = [0, 0, 0, 0, 8, 0, 3];
    header[..4].copy_from_slice(&id.to_be_bytes());
    let attributes = [(PACKET_HEADER, &header[..]), (PACKET_PAYLOAD, head)];
    let mut bytes = Vec::new();
    put_request(&mut bytes, TYPE_PACKET, queue, 0, &attributes);
    bytes
}

/// Messages and attributes begin at multiples of four bytes.
const fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(4)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn request(kind: u16, attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_request(&mut bytes, kind, 5, 0, attributes);
        bytes
    }

    fn messages(datagram: &[u8]) -> Vec<QueueMessage<'_>> {
        let mut all = Vec::new();
        read(datagram, |message| all.push(message));
        all
    }

    #[test]
    fn packets_are_read_one_after_the_other() {
        let head = [7u8; 21];
        let header = [0, 0, 1, 2, 8, 0, 3];
        let whole = request(
            TYPE_PACKET,
            &[(PACKET_HEADER, &header), (PACKET_PAYLOAD, &head)],
        );
        let length = 1500u32.to_be_bytes();
        let cut = [
            (PACKET_LENGTH, &length[..]),
            (PACKET_HEADER, &header),
            (PACKET_PAYLOAD, &head),
        ];
        let mut datagram = whole.clone();
        datagram.extend(request(TYPE_PACKET, &cut));
        let packet = |length| QueueMessage::Packet {
            id: 0x102,
            head: &head,
            length,
        };
        assert_eq!(messages(&datagram), [packet(21), packet(1500)]);
        assert_eq!(
            messages(&datagram[..whole.len() + 9]),
            [packet(21)],
            "cut short"
        );
        let without_id = request(TYPE_PACKET, &[(PACKET_PAYLOAD, &head)]);
        assert_eq!(messages(&without_id), [QueueMessage::Other]);
    }

    #[test]
    fn answers_are_errors_or_none() {
        for (code, error_code) in [(0i32, 0), (-1, 1), (i32::MIN, i32::MAX)] {
            let mut datagram = 20u32.to_ne_bytes().to_vec();
            datagram.extend(TYPE_ERROR.to_ne_bytes());
            datagram.extend([0; 10]);
            datagram.extend(code.to_ne_bytes());
            assert_eq!(messages(&datagram), [QueueMessage::Answer(error_code)]);
        }
    }

    #[test]
    fn verdicts_are_whole_requests_one_after_the_other() {
        let mut requests = Vec::new();
        put_verdict(&mut requests, 0x0102, 9, true);
        put_verdict(&mut requests, 0x0102, 10, false);
        let (first, second) = requests.split_at(32);
        assert_eq!(first[..4], 32u32.to_ne_bytes());
        assert_eq!(first[18..20], [1, 2]);
        assert_eq!(first[24..32], [0, 0, 0, 1, 0, 0, 0, 9]);
        assert_eq!(second[24..32], [0, 0, 0, 0, 0, 0, 0, 10]);
    }

    proptest! {
        #[test]
        fn no_bytes_disturb_it(mut bytes in proptest::collection::vec(any::<u8>(), 0..120), fit: bool) {
            if fit && bytes.len() > 6 {
                let length = (bytes.len() as u32).to_ne_bytes();
                bytes[..4].copy_from_slice(&length);
                bytes[4..6].copy_from_slice(&TYPE_PACKET.to_ne_bytes());
            }
            read(&bytes, |_| ());
        }
    }
}
