//! Traces that are cut, damaged or something else.

use super::*;

#[test]
fn every_cut_is_noticed() {
    for format in [Format::Binary, Format::Csv] {
        let bytes = written(&trace(), format);
        for end in 0..bytes.len() {
            let said = error(&bytes[..end]);
            let expected = if end == 0 {
                "the file is empty"
            } else {
                "ends in the middle of"
            };
            // The columns of CSV, cut, are not the columns; cut behind their line they are still ours, without an end.
            assert!(said.contains(expected), "{end} of {}: {said}", bytes.len());
        }
    }
}

#[test]
fn a_cut_says_in_the_middle_of_what() {
    let bytes = written(&trace(), Format::Binary);
    // From the end: 8 bytes of checksum, 2 of the end mark, 7 of the last arrival, 4 of the one before.
    for (cut, within) in [
        (1, "the end mark"),
        (9, "the end mark"),
        (10, "arrival 5"),
        (11, "arrival 4"),
        (17, "arrival 4"),
        (18, "arrival 3"),
    ] {
        let said = error(&bytes[..bytes.len() - cut]);
        assert!(
            said.contains(&format!("in the middle of {within}: ")),
            "{cut}: {said}"
        );
    }
    assert!(error(&bytes[..30]).contains("in the middle of the header: "));
    let text = String::from_utf8(written(&trace(), Format::Csv)).expect("text");
    let lines = text.lines().count();
    let without_end = text
        .trim_end()
        .rsplit_once('\n')
        .map_or("", |(head, _)| head);
    let said = error(without_end.as_bytes());
    assert!(
        said.contains(&format!("in the middle of line {}: ", lines - 1)),
        "{said}"
    );
    let said = error(format!("{without_end}\n").as_bytes());
    assert!(
        said.contains(&format!(
            "in the middle of the arrivals, after line {}: ",
            lines - 1
        )),
        "{said}"
    );
    let said = error(b"at_ns,publisher,messages\n1,a,1\n2,a,1");
    assert!(said.contains("in the middle of line 3: "), "{said}");
}

#[test]
fn every_changed_byte_is_noticed() {
    let bytes = written(&trace(), Format::Binary);
    for place in 0..bytes.len() {
        for change in [0x01, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[place] ^= change;
            assert!(read_all(damaged.as_slice()).is_err(), "byte {place}");
        }
    }
}

#[test]
fn other_files_are_not_traces() {
    for (bytes, expected) in [
        (&b""[..], "not a trace: the file is empty"),
        (
            b"PK\x03\x04zip file",
            "not a trace: it begins with \"PK\\x03\\x04zip \"",
        ),
        (b"\x7fELF", "not a trace: it begins with \"\\x7fELF\""),
        (
            b"{\"a\":1}",
            "not a trace: it begins with \"{\\\"a\\\":1}\"",
        ),
        (
            b"SRTMTRC2....",
            "not a trace: it is of another version, \"SRTMTRC2\"",
        ),
        (b"SRTMTRAC", "not a trace: it begins with \"SRTMTRAC\""),
        (
            b"time,who\n1,2\n",
            "not a trace: it begins with \"time,who\"",
        ),
        (b"SRT", "the trace ends in the middle of the header"),
        (
            b"# srtm trace 2\n",
            "not a trace: it is of another version, \"srtm trace 2\"",
        ),
        (
            b"#!/bin/sh\necho\n",
            "the trace is damaged at line 2: not the columns \"at_ns,publisher,messages\"",
        ),
        (
            b"at_ns,publisher\n",
            "the trace is damaged at line 1: not the columns",
        ),
        (
            b"# nothing but remarks\n",
            "the trace ends in the middle of the header",
        ),
    ] {
        let said = error(bytes);
        assert!(said.starts_with(expected), "{said}");
    }
}

const OURS: &str = "# srtm trace 1\n# publisher 0\nat_ns,publisher,messages\n";
const OTHERS: &str = "at_ns,publisher,messages\n";

/// A beginning, what follows it, and the error that they give.
const WRONG_CSV: &[(&str, &str, &str)] = &[
    (
        OURS,
        "5,0,1\n4,0,1\n# end 2\n",
        "line 5: it goes back in time, from 5 to 4 ns",
    ),
    (
        OURS,
        "5,1,1\n# end 1\n",
        "line 4: publisher 1 is out of range: there are 1, counted from 0",
    ),
    (OURS, "5,0,0\n# end 1\n", "line 4: it has no messages"),
    (
        OURS,
        "5,0,65536\n# end 1\n",
        "line 4: \"65536\" is not a number of messages, 1 to 65535",
    ),
    (
        OURS,
        "5,s,1\n# end 1\n",
        "line 4: \"s\" is not a publisher's index",
    ),
    (
        OURS,
        "-5,0,1\n# end 1\n",
        "line 4: \"-5\" is not a time in nanoseconds",
    ),
    (
        OURS,
        "1.5,0,1\n# end 1\n",
        "line 4: \"1.5\" is not a time in nanoseconds",
    ),
    (OURS, "5,0\n# end 1\n", "line 4: not three columns"),
    (OURS, "5,0,1,2\n# end 1\n", "line 4: not three columns"),
    (OURS, "\n# end 0\n", "line 4: not three columns"),
    (
        OURS,
        "5,0,1\n# end 2\n",
        "line 5: it says 2 arrivals, there are 1",
    ),
    (
        OURS,
        "5,0,1\n# remark\n",
        "line 5: \"# remark\" between arrivals",
    ),
    (
        OURS,
        "5,0,1\n# end 1\n6,0,1\n",
        "line 5: the file continues after the end",
    ),
    (OTHERS, "5,a,1\n4,a,1\n", "line 3: it goes back in time"),
    (
        OTHERS,
        "5,\"a\",1\n",
        "line 2: quotes: write names without quotes and commas",
    ),
    (OTHERS, "5,,1\n", "line 2: a name of 0 bytes"),
    (
        OTHERS,
        "18446744073709551615,a,1\n",
        "line 2: at 18446744073709551615 ns it is later than the end",
    ),
    (
        "# srtm trace 1\n# colour red\n",
        "",
        "line 2: \"colour\" is unknown",
    ),
    (
        "# srtm trace 1\n# publisher 1\n",
        "",
        "line 2: publisher 0 is due here",
    ),
    (
        "# srtm trace 1\n# publisher 0 rate=x\n",
        "",
        "line 2: \"x\" is not a rate",
    ),
    (
        "# srtm trace 1\n# publisher 0 colour=x\n",
        "",
        "line 2: \"colour=x\" is unknown",
    ),
    (
        "# srtm trace 1\n# publisher 0 rate=-1\n",
        OTHERS,
        "the header: publisher 0: -1 is not a rate",
    ),
    (
        "# srtm trace 1\n# length_ns -1\n",
        "",
        "line 2: \"-1\" is not a time",
    ),
];

#[test]
fn wrong_csv_says_the_line() {
    for (begin, rest, expected) in WRONG_CSV {
        let said = error(format!("{begin}{rest}").as_bytes());
        let expected = format!("the trace is damaged at {expected}");
        assert!(said.starts_with(&expected), "{rest:?} gave {said}");
    }
    let odd = [OTHERS.as_bytes(), b"5,\xff,1\n"].concat();
    assert_eq!(error(&odd), "the trace is damaged at line 2: not UTF-8");
    let long = format!("{OTHERS}{}", "7".repeat(MAX_LINE_BYTES + 1));
    assert_eq!(
        error(long.as_bytes()),
        "the trace is damaged at line 2: longer than 65536 bytes"
    );
}

#[test]
fn what_is_promised_takes_no_memory() {
    // A header that promises a text, publishers or names of gigabytes, and then ends.
    for promise in [
        &b"SRTMTRC1\0\0\xff\xff\xff\xff\x0f"[..],
        b"SRTMTRC1\0\0\0\xff\xff\xff\xff\x0f",
        b"SRTMTRC1\0\0\0\x01\xff\xff\xff\xff\x0f",
        b"SRTMTRC1\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    ] {
        let said = error(promise);
        assert!(said.contains("damaged at the header"), "{said}");
    }
    // A million publishers are allowed, but must come.
    assert!(error(b"SRTMTRC1\0\0\0\xc0\x84\x3d\0").contains("in the middle of the header"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_bytes_are_too_odd(head in 0usize..5, bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let heads = [&b""[..], b"SRTMTRC1", b"SRTMTRC1\0\0\0\0", b"# srtm trace 1\n", b"at_ns,publisher,messages\n"];
        let input = [heads[head], &bytes].concat();
        if let Ok(trace) = read_all(input.as_slice()) {
            prop_assert!(trace.arrivals.is_sorted_by_key(|arrival| arrival.at_ns));
            prop_assert!(trace.arrivals.len() <= input.len());
        }
    }

    #[test]
    fn no_line_is_too_odd(lines in proptest::collection::vec("(# )?[a-z0-9,=\" -]{0,20}\r?", 0..20)) {
        for head in ["# srtm trace 1\n# publisher 0\n", "at_ns,publisher,messages\n"] {
            if let Ok(trace) = read_all(format!("{head}{}", lines.join("\n")).as_bytes()) {
                prop_assert!(trace.arrivals.is_sorted_by_key(|arrival| arrival.at_ns));
            }
        }
    }

    #[test]
    fn spliced_traces_are_noticed(at in 0usize..200, skip in 1usize..50) {
        let bytes = written(&trace(), Format::Binary);
        let at = at % bytes.len();
        let spliced = [&bytes[..at], &bytes[(at + skip).min(bytes.len())..]].concat();
        prop_assert!(read_all(spliced.as_slice()).is_err());
    }
}
