//! Lines of statsd in packets: as many as fit, none cut.

/// Lines as they are sent.
#[derive(Debug)]
pub(super) struct Packets {
    prefix: String,
    bytes_max: usize,
    all: Vec<Vec<u8>>,
}

impl Packets {
    /// None yet; every name will begin with `prefix`.
    pub(super) fn new(prefix: String, bytes_max: usize) -> Packets {
        Packets {
            prefix,
            bytes_max,
            all: Vec::new(),
        }
    }

    /// Adds a counter: by how much it has grown.
    pub(super) fn count(&mut self, name: &str, more: u64) {
        self.put(format!("{}{name}:{more}|c\n", self.prefix));
    }

    /// Adds a gauge.
    pub(super) fn gauge(&mut self, name: &str, value: u64) {
        self.put(format!("{}{name}:{value}|g\n", self.prefix));
    }

    /// All of them; only one with a single line is larger than was asked for.
    pub(super) fn all(&self) -> &[Vec<u8>] {
        &self.all
    }

    fn put(&mut self, line: String) {
        let bytes_max = self.bytes_max;
        match self.all.last_mut() {
            Some(last) if last.len() + line.len() <= bytes_max => {
                last.extend_from_slice(line.as_bytes());
            }
            _ => self.all.push(line.into_bytes()),
        }
    }
}
