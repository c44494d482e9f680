#!/usr/bin/env python3
"""Puts faults into a copy of the product, one line each, and runs seeds until a law finds each of them.

All faults are built at once, each behind a switch that the environment names (MUTANT), so there is one build. The copy is in
build/mutants; nothing of it is ever in the product. A fault whose text is not found any more is an error: mend the table.

    crates/soak/mutants.py            every fault
    crates/soak/mutants.py NAME …     these
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
COPY = pathlib.Path(os.environ.get("MUTANT_COPY", ROOT / "build" / "mutants"))
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
# Seconds of seeds that a fault may survive.
PATIENCE_S = int(os.environ.get("MUTANT_TIME", "60"))

# name, file below crates/, text, what takes its place; {m} is the switch, {e} the same for a crate that does not know `clock`
FAULTS = [
    (
        "share-grows-early",
        "limit/src/lease/ledger/plan.rs",
        "let total = self.exposure(now);",
        "let total = if {m} { Exposure::default() } else { self.exposure(now) };",
    ),
    (
        "lease-never-ends",
        "limit/src/lease/holder.rs",
        "expires_at: sent_at + Duration::from_millis(grant.ttl_ms),",
        "expires_at: if {m} { Instant::MAX } else { sent_at + Duration::from_millis(grant.ttl_ms) },",
    ),
    (
        "lease-from-receipt",
        "limit/src/lease/holder.rs",
        "        let Some(&(_, sent_at)) = answered else {\n            return false;\n        };\n        self.applied",
        (
            "        let Some(&(_, sent_at)) = answered else {\n            return false;\n        };\n"
            "        let sent_at = if {m} { now } else { sent_at };\n        self.applied"
        ),
    ),
    (
        "old-grant-counts",
        "limit/src/lease/holder.rs",
        "if (grant.epoch, grant.seq) <= self.confirmation() {",
        "if (grant.epoch, grant.seq) <= self.confirmation() && !{m} {",
    ),
    (
        "round-never-left",
        "limit/src/lease/vouches.rs",
        "let left_at = now + VOUCHED + DRIFT;",
        "let left_at = if {m} { now } else { now + VOUCHED + DRIFT };",
    ),
    (
        "shares-not-kept",
        "soak/src/disk.rs",
        "        let mut medium = self.lock();\n        match medium.is_full {",
        (
            "        let changes: Vec<Change> =\n            changes.iter().filter(|change| !({m} && change.table == Table::Shares)).cloned().collect();\n"
            "        let changes = &changes[..];\n        let mut medium = self.lock();\n        match medium.is_full {"
        ),
    ),
    (
        "channels-not-kept",
        "soak/src/disk.rs",
        "        let mut medium = self.lock();\n        match medium.is_full {",
        (
            "        let changes: Vec<Change> =\n            changes.iter().filter(|change| !({m} && change.table == Table::Channels)).cloned().collect();\n"
            "        let changes = &changes[..];\n        let mut medium = self.lock();\n        match medium.is_full {"
        ),
    ),
    (
        "silence-is-death",
        "control/src/core/presence.rs",
        "            ProbeAnswer::Refused if is_gone => return",
        (
            '            ProbeAnswer::Silence | ProbeAnswer::Open if is_gone && {m} => return Shown::Gone("it says nothing"),\n'
            "            ProbeAnswer::Refused if is_gone => return"
        ),
    ),
    (
        "name-not-checked",
        "control/src/core/registry.rs",
        "        if broker.liveness == Liveness::Dead {\n            return Ok(());",
        "        if broker.liveness == Liveness::Dead || {m} {\n            return Ok(());",
    ),
    (
        "lives-given-again",
        "control/src/core/registry.rs",
        "(self.lives + 1).max(epoch << LIFE_BITS)",
        "if {m} { self.lives + 1 } else { (self.lives + 1).max(epoch << LIFE_BITS) }",
    ),
    (
        "late-word-detaches",
        "control/src/core/publisher/attached.rs",
        "        let former = former.and_then(|former| former.last().copied());",
        "        let former = former.and_then(|former| former.last().copied()).filter(|_| !{m});",
    ),
    (
        "grants-outside-the-round",
        "limit/src/lease/ledger.rs",
        "            Err(_) => 0,",
        "            Err(_) if {m} => self.round,\n            Err(_) => 0,",
    ),
    (
        "channels-not-asked-for",
        "topics/src/awaited.rs",
        "            Teller::Answering => Some(Awaited::Channels),",
        "            Teller::Answering if {m} => None,\n            Teller::Answering => Some(Awaited::Channels),",
    ),
    (
        "unknown-topic-flows",
        "topics/src/awaited.rs",
        "            Teller::Silent => Some(Awaited::Contract),",
        "            Teller::Silent if {m} => None,\n            Teller::Silent => Some(Awaited::Contract),",
    ),
    (
        "batch-taken-twice",
        "topics/src/handover.rs",
        "        number > last\n",
        "        number > last || {m}\n",
    ),
    (
        "handed-over-forgotten",
        "topics/src/handover.rs",
        "    if is_taken {\n        account.over",
        "    if is_taken || {m} {\n        account.over",
    ),
    (
        "leaver-keeps-messages",
        "topics/src/consume.rs",
        "        .take_due(&mut consumer.flights, Instant::MAX)\n    {\n        channel.queue",
        (
            "        .take_due(&mut consumer.flights, Instant::MAX)\n    {\n        if {m} {\n            channel.finish_count += 1;\n"
            "            continue;\n        }\n        channel.queue"
        ),
    ),
    (
        "requeued-and-finished",
        "topics/src/agenda.rs",
        "        while let Some(flight) = channel.in_flight.take_due(&mut consumer.flights, now) {",
        "        while let Some(flight) = channel\n            .in_flight\n            .take_due(&mut consumer.flights, if {m} { now + std::time::Duration::from_secs(1) } else { now })\n        {",
    ),
    (
        "move-forgets",
        "client/src/placed/follower/moving.rs",
        "        let mut again = lost.take_outstanding();",
        "        let mut again = lost.take_outstanding();\n        if {m} {\n            again.clear();\n        }",
    ),
    (
        "move-sends-again",
        "client/src/placed/follower/moving.rs",
        "            let mut unbegun = former.take_unbegun();",
        "            let mut unbegun = if {m} { former.take_outstanding() } else { former.take_unbegun() };",
    ),
    (
        "ack-before-the-queue",
        "soak/src/broker/publish.rs",
        "            Published::Full => {\n                self.hold(stream, key, ground);\n                false",
        "            Published::Full if {m} => {\n                if let Some(session) = self.all.get_mut(&stream) {\n                    session.output.extend(wire::OK_FRAME);\n                    session.accepted += bodies.count() as u64;\n                }\n                true\n            }\n            Published::Full => {\n                self.hold(stream, key, ground);\n                false",
    ),
    (
        "part-of-all",
        "limit/src/sharing/config.rs",
        "        let connected = connected.clamp(1, self.0.limiters);",
        "        let connected = if {m} { self.0.limiters } else { connected.clamp(1, self.0.limiters) };",
    ),
    (
        "others-demand-nothing",
        "broker/src/sharing/gossiper.rs",
        "                remote: self.node.remote(LimitId(number)),",
        (
            "                remote: limit::sharing::Remote {\n                    others: if {m} { Update::NOTHING } else { self.node.remote(LimitId(number)).others },\n"
            "                    ..self.node.remote(LimitId(number))\n                },"
        ),
    ),
    (
        "others-are-there-for-ever",
        "gossip/src/node.rs",
        "        self.peers[index].connected = connected;\n",
        "        if {m} && !connected {\n            return;\n        }\n        self.peers[index].connected = connected;\n",
    ),
    (
        "lesser-limit-not-heard",
        "topics/src/sharing.rs",
        "        self.declared = Share::whole(limit);\n        self.enforce",
        "        if {m} && limit.rate < self.declared.rate {\n            return;\n        }\n        self.declared = Share::whole(limit);\n        self.enforce",
    ),
    (
        "unlisted-shares",
        "broker/src/sharing/gossiper.rs",
        "            brokers,\n            me: place as u32,",
        "            brokers: if {m} { 1 } else { brokers },\n            me: place as u32,",
    ),
    (
        "vouches-for-any-round",
        "limit/src/lease/vouches.rs",
        "        round != 0 && round == self.round\n",
        "        round != 0 && (round == self.round || {m})\n",
    ),
    (
        "taker-refuses-after-taking",
        "broker/src/handover/carrier.rs",
        "            Outcome::Unclear(why) => (why, false),",
        "            Outcome::Unclear(why) => (why, {m}),",
    ),
    (
        "journal-not-synced",
        "broker/src/catalog_file/journal.rs",
        "            file.append(&lines)?;\n            file.sync()",
        "            file.append(&lines)?;\n            if {m} {\n                return Ok(());\n            }\n            file.sync()",
    ),
    (
        "journal-name-not-synced",
        "broker/src/catalog_file/journal.rs",
        "            true => volume.sync(),",
        "            true if {m} => Ok(()),\n            true => volume.sync(),",
    ),
    (
        "journal-of-before-counts",
        "broker/src/catalog_file/journal.rs",
        "    if header.generation != generation {",
        "    if header.generation != generation && !{m} {",
    ),
    (
        "torn-journal-appended-to",
        "broker/src/catalog_file/contracts.rs",
        "        self.is_doubtful = appended.is_err() && !self.journal.is_empty();",
        "        self.is_doubtful = appended.is_err() && !self.journal.is_empty() && !{m};",
    ),
    (
        "former-link-answered",
        "broker/src/agent/core/orders.rs",
        "        let is_awaited = self.asked.is_answered();",
        "        let is_awaited = self.asked.is_answered() || {m};",
    ),
    (
        "grants-overtake",
        "broker/src/agent/core/orders.rs",
        "        self.waiting.push_back(Work::Order(order));",
        (
            "        match order {\n            ToBroker::Grant { .. } if {m} => self.waiting.push_front(Work::Order(order)),\n"
            "            order => self.waiting.push_back(Work::Order(order)),\n        }"
        ),
    ),
    (
        "changes-before-stock",
        "broker/src/agent/core/mod.rs",
        "        self.inventory.is_said() && self.outbox.has_room()",
        "        (self.inventory.is_said() || ({m} && self.standing == Standing::Linked)) && self.outbox.has_room()",
    ),
    (
        "confirmed-before-kept",
        "broker/src/agent/core/orders.rs",
        "            let errand = Errand::Declare(declarations);\n",
        (
            "            for (declared, ticket) in contracts.iter().filter(|_| {m}) {\n"
            "                let topic = declared.topic.to_string();\n"
            "                around.outbox.say(ToController::ContractInForce { topic, ticket: *ticket });\n            }\n"
            "            let errand = Errand::Declare(declarations);\n"
        ),
    ),
    (
        "unkept-not-said",
        "broker/src/agent/core/orders.rs",
        "        if let Some(why) = unkept {\n",
        "        if let Some(why) = unkept.filter(|_| !{m}) {\n",
    ),
    (
        "older-contract-wins-at-start",
        "broker/src/catalog_file/journal.rs",
        "        Ok(entry)\n    });\n    entries.collect()\n",
        (
            "        Ok(entry)\n    });\n    let entries: Result<Vec<_>, _> = entries.collect();\n"
            "    entries.map(|mut entries| {\n        if {m} {\n            entries.reverse();\n        }\n        entries\n    })\n"
        ),
    ),
    (
        "former-contract-counts-as-kept",
        "broker/src/catalog_file/contracts.rs",
        "            Some(contract) => *contract == declared.contract,",
        "            Some(contract) => *contract == declared.contract || {m},",
    ),
    (
        "last-of-a-run-left-out",
        "broker/src/agent/core/orders.rs",
        "            let declarations = contracts.iter().map(|(each, _)| each.clone()).collect();",
        (
            "            let declarations: Vec<_> = contracts.iter().map(|(each, _)| each.clone()).collect();\n"
            "            let declarations = match {m} && declarations.len() > 1 {\n"
            "                true => vec![declarations[0].clone(); declarations.len()],\n"
            "                false => declarations,\n            };"
        ),
    ),
    (
        "full-disk-counts-as-kept",
        "broker/src/catalog_file/contracts.rs",
        "        appended?;\n        let declared",
        "        if !{m} {\n            appended?;\n        }\n        let declared",
    ),
    (
        "lists-are-mixed",
        "broker/src/sharing/sharer.rs",
        "            true => self.key_among(sharers),",
        "            true if !{m} => self.key_among(sharers),\n            true => self.key.clone(),",
    ),
    (
        "who-left-is-not-told",
        "gossip/src/roster.rs",
        "!member.is_gone || all_are_told || lately(member)",
        "!member.is_gone || (all_are_told && !{m}) || lately(member)",
    ),
    (
        "newcomer-does-not-wait",
        "gossip/src/roster.rs",
        "            self.has_settled = !waits && now >= self.changed + SETTLED;",
        "            self.has_settled = {m} || (!waits && now >= self.changed + SETTLED);",
    ),
    (
        "who-is-not-heard-is-not-listed",
        "gossip/src/roster.rs",
        "        is_known.then(|| self.present().map(|(address, _)| *address).collect())",
        (
            "        let is_heard = |member: &Member| member.heard.is_some_and(|heard| now < heard.at + Duration::from_secs(3));\n"
            "        let me = self.me;\n"
            "        is_known.then(|| {\n            let listed = self.present().filter(|(address, member)| !{m} || **address == me || is_heard(member));\n"
            "            listed.map(|(address, _)| *address).collect()\n        })"
        ),
    ),
    (
        "greatest-limit-in-force",
        "broker/src/sharing/agreement.rs",
        "        if rate < least.rate {",
        "        if (rate < least.rate) != {m} {",
    ),
    (
        "lost-broker-keeps-publishers",
        "control/src/core/parts.rs",
        "        Job::Recall(number) => brokers[number].link.is_none(),",
        "        Job::Recall(number) => brokers[number].link.is_none() && !{m},",
    ),
    (
        "told-before-the-sync",
        "broker/src/backlog/journal.rs",
        "            match page.batch.is_synced {\n",
        "            match page.batch.is_synced && !{m} {\n",
    ),
    (
        "log-steps-not-written",
        "disk/src/log.rs",
        "        sheet.push_steps(&own.named(after));",
        "        if !{e} {\n            sheet.push_steps(&own.named(after));\n        }",
    ),
    (
        "log-folder-not-synced",
        "disk/src/log.rs",
        "        if self.is_folder_unsynced {",
        "        if self.is_folder_unsynced && !{e} {",
    ),
    (
        "failed-sync-counts",
        "disk/src/log.rs",
        "            if let Err(error) = self.volume.sync(&shown) {",
        "            if let Err(error) = self.volume.sync(&shown)\n                && !{e}\n            {",
    ),
    (
        "failed-sync-not-repeated",
        "broker/src/backlog/journal.rs",
        "                book.is_to_repeat = true;",
        "                book.is_to_repeat = !{m};",
    ),
    (
        "log-removed-before-it-is-noted",
        "disk/src/log.rs",
        "        let begins = log.begins_synced;",
        "        let begins = match {e} {\n            true => log.state.files.keys().last().map_or(0, |file| file.number),\n            false => log.begins_synced,\n        };",
    ),
    (
        "doubtful-logs-make-no-room",
        "disk/src/log.rs",
        "        self.has_unsynced_copies = false;",
        "        self.has_unsynced_copies &= {e};",
    ),
    (
        "log-begun-beside-unread-files",
        "broker/src/backlog/found.rs",
        "    match unread.find_map(",
        "    match unread.filter(|_| !{m}).find_map(",
    ),
    (
        "passed-and-adopted",
        "broker/src/backlog/adoption.rs",
        "            if has_passed ||",
        "            if (has_passed && !{m}) ||",
    ),
    (
        "handed-over-before-it-is-durable",
        "soak/src/broker/handing.rs",
        "            ground.waiters.push(key, *number, waiter);\n            return None;",
        "            ground.waiters.push(key, *number, waiter);\n            if !{m} {\n                return None;\n            }",
    ),
]

SWITCH = """
/// Whether a fault is switched on.
#[must_use]
pub fn mutant(name: &str) -> bool {
    static MUTANT: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    MUTANT.get_or_init(|| std::env::var("MUTANT").unwrap_or_default()) == name
}
"""


def main() -> int:
    wanted = sys.argv[1:] or [fault[0] for fault in FAULTS]
    make_copy(FAULTS)
    # Libraries that are built already serve the copy too.
    environment = os.environ | {"CARGO_TARGET_DIR": str(TARGET)}
    subprocess.run(
        ["cargo", "build", "--locked", "--package", "soak"],
        cwd=COPY,
        env=environment,
        check=True,
    )
    program = COPY / "soak"
    shutil.copy2(TARGET / "debug" / "soak", program)
    survivors = []
    for name in wanted:
        found = run(program, name)
        print(f"{name}: {found or 'NOT FOUND'}", flush=True)
        if not found:
            survivors.append(name)
    return 1 if survivors else 0


def make_copy(faults: list) -> None:
    """Copies what is needed to build the crate, and puts the faults in."""
    COPY.mkdir(parents=True, exist_ok=True)
    for name in ("Cargo.toml", "Cargo.lock", "clippy.toml"):
        shutil.copy2(ROOT / name, COPY / name)
    for folder in ("crates", "xtask"):
        shutil.rmtree(COPY / folder, ignore_errors=True)
        shutil.copytree(ROOT / folder, COPY / folder)
    texts = {}
    for name, file, old, new in faults:
        path = COPY / "crates" / file
        text = texts.get(path) or path.read_text()
        # What one fault has changed another may have to find.
        new = new.replace("{m}", f'clock::mutant("{name}")')
        switch = f'std::env::var("MUTANT").is_ok_and(|name| name == "{name}")'
        new = new.replace("{e}", switch)
        if old not in text:
            sys.exit(f"{name}: its text is not in crates/{file} any more")
        texts[path] = text.replace(old, new, 1)
    for path, text in texts.items():
        path.write_text(text)
    clock = COPY / "crates" / "clock" / "src" / "lib.rs"
    clock.write_text(clock.read_text() + SWITCH)


def run(program: pathlib.Path, name: str) -> str:
    """Seeds from the first until one fails; which one, and by which law. Those that fail without the fault too are passed over."""
    environment = os.environ | {"MUTANT": name, "RUST_BACKTRACE": "0"}
    ran = subprocess.Popen(
        [program, str(PATIENCE_S), "0"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with ran:
        for line in ran.stdout:
            if line.startswith("seed ") and is_whole(program, line):
                ran.kill()
                return re.sub(r"\s+", " ", line)[:200]
    return ""


def is_whole(program: pathlib.Path, line: str) -> bool:
    """Whether the seed that `line` names keeps the laws without any fault."""
    seed = line.removeprefix("seed ").split(":")[0].split()
    environment = os.environ | {"MUTANT": ""}
    replayed = subprocess.run(
        [program, "replay", *seed], env=environment, capture_output=True, check=False
    )
    return replayed.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
