//! Flags that every daemon with HTTP has.

use clap::Args;

/// By which names HTTP may be asked.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct HttpFlags {
    /// Further host name that HTTP requests may use to change something. IP addresses, names
    /// without a dot, the host's name and the broadcast address always work. May be repeated.
    #[arg(
        long = "http-host",
        value_name = "NAME",
        value_delimiter = ',',
        value_parser = host_name
    )]
    pub(crate) hosts: Vec<String>,
}

fn host_name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.contains([':', '/', '@', ' ']) {
        return Err("write a name without scheme and port, as in srtm.example".to_owned());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Only {
        #[command(flatten)]
        flags: HttpFlags,
    }

    #[test]
    fn names_have_neither_scheme_nor_port() {
        let parse = |arguments: &[&str]| {
            let all = ["test"].iter().chain(arguments);
            Only::try_parse_from(all).map(|only| only.flags.hosts)
        };
        let several = parse(&[
            "--http-host=a.example,b.example",
            "--http-host",
            "c.example",
        ]);
        assert_eq!(
            several.expect("names"),
            ["a.example", "b.example", "c.example"]
        );
        for bad in ["http://a.example", "a.example:4151", "", "a b", "[::1]"] {
            let error = parse(&["--http-host", bad]).expect_err(bad).to_string();
            assert!(error.contains("without scheme and port"), "{error}");
        }
    }
}
