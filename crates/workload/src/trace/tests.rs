//! Traces there and back, and everything that may have happened to one on its way.

mod damage;

use std::io::{self, Read};
use std::time::Duration;

use clock::WallTime;
use proptest::prelude::*;

use super::*;
use crate::{PublisherProfile, Spec};

fn publisher(name: Option<&str>, rate: f64, group: Option<u32>) -> TracePublisher {
    TracePublisher {
        name: name.map(str::to_owned),
        profile: PublisherProfile {
            class: 1,
            rate,
            batch_messages: 2,
            body_bytes: 100,
            group,
        },
    }
}

fn trace() -> Trace {
    let arrival = |at_ns, publisher, messages| Arrival {
        at_ns,
        publisher,
        messages,
    };
    Trace {
        header: TraceHeader {
            begin: Some(WallTime::from_nanos(1_763_738_826_000_000_000)),
            length: Some(Duration::from_secs(2)),
            source: String::from("seed = 1\n\n[[publishers]] # µ\n\tcount = 2\n"),
            publishers: vec![
                publisher(Some("hall 3, sensor \"1\""), 10.5, Some(3)),
                publisher(None, 0.1, None),
            ],
        },
        arrivals: vec![
            arrival(0, 1, 1),
            arrival(0, 0, 65_535),
            arrival(300, 1, 2),
            arrival(2_000_000_000, 0, 7),
        ],
    }
}

fn written(trace: &Trace, format: Format) -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), format, &trace.header).expect("a good header");
    for arrival in &trace.arrivals {
        writer.write(*arrival).expect("a good arrival");
    }
    assert_eq!(writer.arrivals(), trace.arrivals.len() as u64);
    writer.finish().expect("memory takes everything")
}

fn error(bytes: &[u8]) -> String {
    read_all(bytes).expect_err("not a whole trace").to_string()
}

/// Hands out a byte at a time, and an interruption before each.
struct Dripping<'a>(&'a [u8], bool);

impl Read for Dripping<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        if self.1 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let bytes = buffer.len().min(1);
        self.0.read(&mut buffer[..bytes])
    }
}

#[test]
fn a_trace_reads_as_it_was_written() {
    for format in [Format::Binary, Format::Csv] {
        let bytes = written(&trace(), format);
        assert_eq!(read_all(bytes.as_slice()).expect("whole"), trace());
        assert_eq!(read_all(Dripping(&bytes, false)).expect("whole"), trace());
        let empty = Trace::default();
        let bytes = written(&empty, format);
        assert_eq!(read_all(bytes.as_slice()).expect("whole"), empty);
    }
}

#[test]
fn the_bytes_are_those_of_the_documentation() {
    let mut trace = trace();
    trace.header.source = String::from("a\nb");
    let expected = "\
# srtm trace 1
# begin_ns 1763738826000000000
# length_ns 2000000000
# source a
# source b
# publisher 0 class=1 rate=10.5 batch=2 bytes=100 group=3 name=hall 3, sensor \"1\"
# publisher 1 class=1 rate=0.1 batch=2 bytes=100
at_ns,publisher,messages
0,1,1
0,0,65535
300,1,2
2000000000,0,7
# end 4
";
    let text = String::from_utf8(written(&trace, Format::Csv)).expect("text");
    assert_eq!(text, expected);
    trace.header = TraceHeader {
        publishers: vec![
            publisher(Some("s"), 1.0, None),
            publisher(None, 1.0, Some(0)),
        ],
        ..TraceHeader::default()
    };
    let bytes = written(&trace, Format::Binary);
    let (body, checksum) = bytes.split_at(bytes.len() - 8);
    let one = [0, 0, 0, 0, 0, 0, 0xf0, 0x3f];
    let mut expected = b"SRTMTRC1\0\0\0\x02".to_vec();
    expected.extend([&b"\x01s\x01"[..], &one, b"\x02\x64\0"].concat());
    expected.extend([&b"\0\x01"[..], &one, b"\x02\x64\x01"].concat());
    expected.extend([1, 1, 1, 1, 0, 0xff, 0xff, 3, 0xad, 2, 1, 2]);
    // 1,999,999,700 ns on, one higher.
    expected.extend([0xd5, 0xa5, 0xd6, 0xb9, 7, 0, 7]);
    expected.extend([0, 4]);
    assert_eq!(body, expected);
    let fnv = expected
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
    assert_eq!(checksum, fnv.to_le_bytes());
}

#[test]
fn a_spec_s_arrivals_make_a_trace() {
    let text = "duration = \"2s\"\n[[publishers]]\ncount = 50\nrate = 20\ngroup = 5\nbatch = 2\n";
    let spec = Spec::parse(text).expect("valid");
    let end_ns = spec.length().as_nanos() as u64;
    let arrivals: Vec<Arrival> = spec
        .arrivals()
        .take_while(|arrival| arrival.at_ns < end_ns)
        .collect();
    let trace = Trace {
        header: TraceHeader::of_spec(&spec, text.to_owned()),
        arrivals,
    };
    for (format, bytes_per_arrival) in [(Format::Binary, 5.0), (Format::Csv, 18.0)] {
        let bytes = written(&trace, format);
        let header = written(
            &Trace {
                arrivals: Vec::new(),
                ..trace.clone()
            },
            format,
        );
        let per_arrival = (bytes.len() - header.len()) as f64 / trace.arrivals.len() as f64;
        assert!(per_arrival < bytes_per_arrival, "{format:?}: {per_arrival}");
        assert_eq!(read_all(bytes.as_slice()).expect("whole"), trace);
    }
    let mut summary = Summary::default();
    for arrival in &trace.arrivals {
        summary.add(*arrival, &trace.header);
    }
    assert_eq!(summary.arrivals, trace.arrivals.len() as u64);
    assert_eq!(summary.messages, 2 * summary.arrivals);
    assert_eq!(summary.body_bytes, 100 * summary.messages);
    assert_eq!(
        (summary.min_batch_messages, summary.max_batch_messages),
        (2, 2)
    );
    assert_eq!(summary.mean_batch_messages(), 2.0);
    assert_eq!(
        (summary.active_publishers(), summary.seconds(&trace.header)),
        (50, 2.0)
    );
    assert_eq!(
        summary.messages_per_second(&trace.header),
        summary.messages as f64 / 2.0
    );
    assert_eq!(summary.first_ns, trace.arrivals[0].at_ns);
}

#[test]
fn nothing_amounts_to_nothing() {
    let summary = Summary::default();
    assert_eq!(summary.messages_per_second(&TraceHeader::default()), 0.0);
    assert_eq!(
        (summary.mean_batch_messages(), summary.active_publishers()),
        (0.0, 0)
    );
}

#[test]
fn csv_of_others_names_its_publishers() {
    let text = "at_ns, publisher, messages\r\n# a remark\r\n10,s7,2\r\n\r\n500000000, hall 3 ,1\r\n1000000000,s7,5\r\n";
    let trace = read_all(text.as_bytes()).expect("whole");
    let names: Vec<Option<&str>> = trace
        .header
        .publishers
        .iter()
        .map(|publisher| publisher.name.as_deref())
        .collect();
    assert_eq!(names, [Some("s7"), Some("hall 3")]);
    let publishers: Vec<u32> = trace
        .arrivals
        .iter()
        .map(|arrival| arrival.publisher)
        .collect();
    assert_eq!(publishers, [0, 1, 0]);
    // Measured over the second up to the last send.
    let profile = trace.header.publishers[0].profile;
    assert_eq!((profile.rate, profile.batch_messages), (7.0, 5));
    assert_eq!(trace.header.publishers[1].profile.rate, 1.0);
    assert!(
        read_all(&b"at_ns,publisher,messages\n"[..])
            .expect("whole")
            .arrivals
            .is_empty()
    );
}

#[test]
fn a_reader_streams_and_ends_with_its_error() {
    let bytes = written(&trace(), Format::Binary);
    let mut reader = TraceReader::open(&bytes[..bytes.len() - 1]).expect("the header is whole");
    assert_eq!(*reader.header(), trace().header);
    let items: Vec<_> = reader.by_ref().collect();
    assert_eq!(items.len(), 5);
    let read: Vec<Arrival> = items.into_iter().filter_map(Result::ok).collect();
    assert_eq!(read, trace().arrivals);
    assert!(reader.next().is_none());
}

#[test]
fn headers_that_no_reader_takes_are_not_written() {
    let good = trace().header;
    let header = |change: fn(&mut TraceHeader)| {
        let mut header = good.clone();
        change(&mut header);
        TraceWriter::new(Vec::new(), Format::Csv, &header)
            .expect_err("a bad header")
            .to_string()
    };
    for (said, expected) in [
        (
            header(|h| h.source = String::from("a\r\nb")),
            "the header: a source with control characters",
        ),
        (
            header(|h| h.source = "x".repeat(MAX_SOURCE_BYTES + 1)),
            "the header: a source of more than 1048576 bytes",
        ),
        (
            header(|h| h.source = "x".repeat(MAX_LINE_BYTES)),
            "the header: a source with a line of about 65536 bytes",
        ),
        (
            header(|h| h.length = Some(Duration::MAX)),
            "the header: it is longer than five centuries",
        ),
        (
            header(|h| h.begin = Some(WallTime::from_nanos(u64::MAX))),
            "the header: its beginning is out of range",
        ),
        (
            header(|h| h.publishers[1].profile.rate = f64::NAN),
            "the header: publisher 1: NaN is not a rate",
        ),
        (
            header(|h| h.publishers[1].profile.rate = -1.0),
            "the header: publisher 1: -1 is not a rate",
        ),
        (
            header(|h| h.publishers[1].profile.batch_messages = 0),
            "the header: publisher 1: a batch of 0",
        ),
        (
            header(|h| h.publishers[1].name = Some(String::new())),
            "the header: publisher 1: a name of 0 bytes",
        ),
        (
            header(|h| h.publishers[0].name = Some("x".repeat(256))),
            "the header: publisher 0: a name of 256 bytes",
        ),
        (
            header(|h| h.publishers[0].name = Some(String::from("a\nb"))),
            "the header: publisher 0: a name with control",
        ),
        (
            header(|h| h.publishers = vec![h.publishers[1].clone(); MAX_PUBLISHERS + 1]),
            "the header: more than 1000000 publishers",
        ),
    ] {
        assert!(said.starts_with(expected), "{said}");
    }
}

#[test]
fn an_arrival_that_is_refused_leaves_the_trace_whole() {
    let good = trace().header;
    for (at_ns, publisher, messages, expected) in [
        (9, 0, 1, "arrival 2: it goes back in time, from 10 to 9 ns"),
        (
            10,
            2,
            1,
            "arrival 2: publisher 2 is out of range: there are 2, counted from 0",
        ),
        (10, 0, 0, "arrival 2: it has no messages"),
        (
            2_000_000_001,
            0,
            1,
            "arrival 2: at 2000000001 ns it is later than the end, 2000000000 ns",
        ),
    ] {
        let mut writer = TraceWriter::new(Vec::new(), Format::Binary, &good).expect("good");
        let first = Arrival {
            at_ns: 10,
            publisher: 0,
            messages: 1,
        };
        writer.write(first).expect("good");
        let error = writer
            .write(Arrival {
                at_ns,
                publisher,
                messages,
            })
            .expect_err("bad");
        assert_eq!(error.to_string(), expected);
        // The refused one is not in it; the trace is as good as before.
        let bytes = writer.finish().expect("memory");
        assert_eq!(read_all(bytes.as_slice()).expect("whole").arrivals, [first]);
    }
}

prop_compose! {
    fn any_publisher()(
        name in proptest::option::of("[^\\p{C}\n\r]{1,20}"), class: u32, rate in 0.0f64..1e9,
        batch_messages in 1u16.., body_bytes: u32, group in proptest::option::of(0..u32::MAX)
    ) -> TracePublisher {
        let profile = PublisherProfile { class, rate, batch_messages, body_bytes, group };
        TracePublisher { name, profile }
    }
}

prop_compose! {
    fn any_trace()(
        begin in proptest::option::of(0..u64::MAX), source in "[^\\p{C}]{0,30}(\n[^\\p{C}]{0,9}){0,3}",
        publishers in proptest::collection::vec(any_publisher(), 1..6),
        steps in proptest::collection::vec((prop_oneof![Just(0), 0u64..1000, 0..1u64 << 50], any::<u32>(), 1u16..), 0..200),
        spare in proptest::option::of(0u64..1000)
    ) -> Trace {
        let count = publishers.len() as u32;
        let mut now_ns = 0;
        let mut arrivals = Vec::new();
        for (step_ns, publisher, messages) in steps {
            now_ns += step_ns;
            arrivals.push(Arrival { at_ns: now_ns, publisher: publisher % count, messages });
        }
        let header = TraceHeader {
            begin: begin.map(WallTime::from_nanos),
            length: spare.map(|spare_ns| Duration::from_nanos(now_ns + spare_ns)),
            source,
            publishers,
        };
        Trace { header, arrivals }
    }
}

proptest! {
    #[test]
    fn every_trace_reads_as_it_was_written(trace in any_trace()) {
        for format in [Format::Binary, Format::Csv] {
            let bytes = written(&trace, format);
            let mut reader = TraceReader::open(bytes.as_slice()).map_err(|e| TestCaseError::fail(e.to_string()))?;
            let arrivals: Result<Vec<Arrival>, _> = reader.by_ref().collect();
            prop_assert_eq!(arrivals.map_err(|e| TestCaseError::fail(e.to_string()))?, trace.arrivals.clone());
            prop_assert_eq!(reader.into_header(), trace.header.clone());
        }
    }
}
