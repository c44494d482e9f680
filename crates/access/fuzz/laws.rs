//! What must hold for any bytes as an auth server's answer and as an access file, shared by the fuzz targets and the smoke test on
//! stable Rust: no panic; what counts gives a time above zero; and the lines of each token read as what they say.
#![allow(dead_code, reason = "each fuzz target uses one side")]

use access::{AccessList, Authorizations, Need, Role, TokenHash};

/// Any bytes as an answer.
pub fn check_answer(input: &[u8]) {
    let Ok(all) = Authorizations::parse(input) else {
        return;
    };
    assert!(all.ttl_s > 0);
    let may = all.may_publish("t") || all.may_subscribe("t", "c");
    assert!(!may || all.count() > 0, "permitted by nobody");
}

/// Any bytes as a file.
pub fn check_file(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let Ok(list) = AccessList::parse(text) else {
        return;
    };
    for need in [
        Need::Token,
        Need::Topic(Role::Read),
        Need::Everything(Role::Admin),
    ] {
        assert!(
            list.judge(need, Some("t"), None).is_err(),
            "nobody may {need:?}"
        );
        assert!(
            list.judge(need, Some("t"), Some(b"guess")).is_err(),
            "a guess may {need:?}"
        );
    }
    for quoted in text.split('"') {
        let Ok(hash) = quoted.parse::<TokenHash>() else {
            continue;
        };
        if let Some(holder) = list.holder(&hash) {
            let again = AccessList::parse(&holder.lines(hash)).expect("its own lines");
            assert_eq!(again.holder(&hash), Some(holder));
        }
    }
}
