//! Flags that every daemon with HTTP has.

use clap::Args;

/// By which names HTTP may be asked.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct HttpFlags {
    /// Further name by which HTTP may be asked to change something, beside IP addresses, names without a dot, the host's name and the
    /// broadcast address; may be given several times.
    #[arg(long = "http-host", value_name = "NAME", value_delimiter = ',')]
    pub(crate) hosts: Vec<String>,
}
