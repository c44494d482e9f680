//! The default memory budget: half of the memory that the process can have.

use std::fs;

/// Where the machine does not tell.
const UNKNOWN_BYTES: u64 = 4 << 30;

/// Half of the machine's memory, or of what the process's control group may have where that is less.
#[must_use]
pub fn default_budget() -> u64 {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let groups = read("/proc/self/cgroup");
    let limits = group_files(&groups).into_iter().map(|path| read(&path));
    let all = limits.filter_map(|text| text.trim().parse().ok());
    let machine = memory_of_machine(&read("/proc/meminfo")).unwrap_or(UNKNOWN_BYTES);
    all.fold(machine, u64::min) / 2
}

/// `MemTotal` of `/proc/meminfo`, in bytes.
fn memory_of_machine(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}

/// The files with the limits of a process whose `/proc/self/cgroup` reads so, those of the groups above its own among them:
/// version 2's and version 1's. Within a container the own group is where the hierarchy is mounted.
fn group_files(groups: &str) -> Vec<String> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            "memory" => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        let mut path = path.trim_end_matches('/');
        loop {
            files.push(format!("{root}{path}/{file}"));
            match path.rfind('/') {
                Some(end) => path = &path[..end],
                None => break,
            }
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_and_its_groups_are_read() {
        let meminfo = "MemTotal:       24576000 kB\nMemFree: 1 kB\n";
        assert_eq!(memory_of_machine(meminfo), Some(24_576_000 * 1024));
        assert_eq!(memory_of_machine("MemFree: 1 kB\n"), None);
        let files = group_files("4:memory:/a/b\n3:cpu:/\n0::/\n");
        let expected = [
            "/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/a/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory.max",
        ];
        assert_eq!(files, expected);
        assert!(default_budget() > 0);
    }
}
