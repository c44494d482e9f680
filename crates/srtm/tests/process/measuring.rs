//! What loads a broker: nothing of what it sends gets lost or comes twice.

use serde_json::Value;

use super::{Folder, SRTM, srtm, text};

#[test]
fn a_broker_is_loaded_within_tls_and_without() {
    let folder = Folder::new("measuring");
    let (work, results) = (folder.0.join("work"), folder.0.join("results.jsonl"));
    let (work, results) = (work.display().to_string(), results.display().to_string());
    let peers = "srtm,srtm-acks,srtm-tls,srtm-acks-tls";
    let programs = ["--srtm", SRTM, "--work-dir", &work, "--results", &results];
    let cores = ["--broker-core", "0", "--generator-core", "0"];
    let load = "--publishers 20 --rate-per-publisher 100 --warmup-ms 50 --measure-ms 300 --batch-messages 3";
    let mut arguments = vec!["bench", "compare", "--rounds", "1", "--peers", peers];
    arguments.extend(programs.into_iter().chain(cores));
    arguments.extend(load.split(' '));
    let output = srtm(&arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let kept = std::fs::read_to_string(&results).expect("results");
    let lines = kept
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    let mut measured = Vec::new();
    for line in lines.collect::<Vec<Value>>() {
        let counts = &line["result"]["counts"];
        assert!(counts["sent"].as_u64() > Some(500), "{line}");
        for none in [
            "missing",
            "duplicates",
            "foreign",
            "out_of_order",
            "refused",
        ] {
            assert_eq!(counts[none], 0, "{none}: {line}");
        }
        measured.push(line["peer"].as_str().expect("a name").to_owned());
    }
    assert_eq!(measured.join(","), peers, "{}", text(&output.stdout));
}
