//! Name of this machine.

/// Name of this machine, `localhost` if the system does not tell.
#[must_use]
pub fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => String::from("localhost"),
        name => name.to_owned(),
    }
}
