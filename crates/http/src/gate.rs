//! Who may change something: programs may, web pages only if they come from here.
//!
//! A browser lets every page send requests to every address that it reaches, and says with each
//! change which page asks for it (`Origin`). A page whose name was turned to this address in the
//! meantime (DNS rebinding) has the right origin; the name by which it asks (`Host`) gives it away.

use std::net::IpAddr;

use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, header};

/// Longest piece of a foreign header that an answer repeats.
const TOLD_MAX_CHARS: usize = 80;

/// The names by which changes may be asked for.
#[derive(Clone, Debug)]
pub struct Gate {
    names: Vec<String>,
}

impl Gate {
    /// Beside IP addresses, `localhost` and names without a dot, which no stranger can own, these names are this server's.
    pub fn new(names: impl IntoIterator<Item = String>) -> Gate {
        let names = names.into_iter().map(|name| plain(&name)).collect();
        Gate { names }
    }

    /// Whether a request may go on.
    ///
    /// # Errors
    /// For a change that is asked for by a foreign name or by a page from elsewhere: why, and what to do.
    pub(crate) fn judge(&self, request: &Parts) -> Result<(), String> {
        if [Method::GET, Method::HEAD, Method::OPTIONS].contains(&request.method) {
            return Ok(());
        }
        let asked = asked(request)?;
        if let Some(asked) = &asked
            && !self.is_ours(asked.host())
        {
            let name = told(asked.host());
            return Err(format!(
                "`{name}` is not a name of this server, so nothing is changed; use its IP address, or start it with --http-host {name}"
            ));
        }
        for origin in request.headers.get_all(header::ORIGIN) {
            let origin = origin.to_str().unwrap_or("(no text)");
            if !asked.as_ref().is_some_and(|asked| is_same(origin, asked)) {
                return Err(format!(
                    "a web page from `{}` may not change anything here; ask from a program, which sends no Origin",
                    told(origin)
                ));
            }
        }
        Ok(())
    }

    fn is_ours(&self, host: &str) -> bool {
        let host = plain(host);
        let address = host
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        address.unwrap_or(&host).parse::<IpAddr>().is_ok()
            || !host.is_empty() && !host.contains('.') && address.is_none()
            || self.names.contains(&host)
    }
}

/// By which name the server was asked: `None` where HTTP/1.0 says none.
fn asked(request: &Parts) -> Result<Option<Authority>, String> {
    let text = match (
        request.uri.authority(),
        only(&request.headers, header::HOST)?,
    ) {
        (Some(authority), _) => authority.as_str().as_bytes(),
        (None, Some(host)) => host.as_bytes(),
        (None, None) => return Ok(None),
    };
    authority(text).map(Some).ok_or_else(|| {
        let host = told(&String::from_utf8_lossy(text));
        format!(
            "`{host}` is not a valid Host; send the address of the server, as in 127.0.0.1:4151"
        )
    })
}

/// A host, with or without a port, and nothing else.
fn authority(text: &[u8]) -> Option<Authority> {
    let authority = Authority::try_from(text).ok()?;
    let behind = authority.as_str().strip_prefix(authority.host())?;
    (behind.is_empty() || behind.starts_with(':')).then_some(authority)
}

fn only(
    headers: &HeaderMap,
    name: header::HeaderName,
) -> Result<Option<&header::HeaderValue>, String> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (_, Some(_)) => Err("the request has several Host headers; send one".to_owned()),
        (value, None) => Ok(value),
    }
}

/// Whether a page with this origin came from what was asked.
fn is_same(origin: &str, asked: &Authority) -> bool {
    let Some((scheme, place)) = origin.split_once("://") else {
        return false;
    };
    let port = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return false,
    };
    let parts = |authority: &Authority| {
        let port = authority.port_u16().unwrap_or(port);
        (plain(authority.host()), port)
    };
    authority(place.as_bytes()).is_some_and(|place| parts(&place) == parts(asked))
}

fn plain(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

fn told(text: &str) -> String {
    text.chars().take(TOLD_MAX_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn judge(method: &str, target: &str, headers: &[(&str, &str)]) -> Result<(), String> {
        let gate = Gate::new(["Broker-1.example.".to_owned(), "10.0.0.7".to_owned()]);
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        gate.judge(&request.body(()).expect("a request").into_parts().0)
    }

    #[test]
    fn changes_are_asked_for_by_a_name_of_the_server() {
        for (host, passes) in [
            ("127.0.0.1:4151", true),
            ("192.0.2.1", true),
            ("[::1]:4151", true),
            ("[2001:db8::1]", true),
            ("localhost:4151", true),
            ("LocalHost", true),
            ("nsqd:4151", true),
            ("broker-1.example:4151", true),
            ("BROKER-1.EXAMPLE.", true),
            ("broker-2.example:4151", false),
            ("evil.example", false),
            ("evil.example:4151", false),
            ("127.0.0.1.evil.example", false),
            ("localhost.evil.example:4151", false),
            ("[::1].evil.example", false),
            ("127.0.0.1@evil.example", false),
            ("evil.example@127.0.0.1", false),
            ("127.0.0.1/", false),
            ("", false),
            (":4151", false),
        ] {
            for method in ["POST", "PUT", "DELETE", "PATCH"] {
                let judged = judge(method, "/pub", &[("host", host)]);
                assert_eq!(judged.is_ok(), passes, "{method} {host}: {judged:?}");
            }
            assert_eq!(judge("GET", "/stats", &[("host", host)]), Ok(()), "{host}");
            assert_eq!(judge("HEAD", "/stats", &[("host", host)]), Ok(()), "{host}");
        }
        assert_eq!(judge("POST", "/pub", &[]), Ok(()), "HTTP/1.0 names nobody");
        let twice = [("host", "127.0.0.1"), ("host", "127.0.0.1")];
        assert!(judge("POST", "/pub", &twice).is_err());
    }

    #[test]
    fn the_target_says_whom_the_request_means_before_the_header_does() {
        let header = [("host", "127.0.0.1")];
        assert!(judge("POST", "http://evil.example/pub", &header).is_err());
        assert_eq!(judge("POST", "http://127.0.0.1:4151/pub", &header), Ok(()));
    }

    #[test]
    fn pages_change_what_they_came_from() {
        for (host, origin, passes) in [
            ("127.0.0.1:4151", "http://127.0.0.1:4151", true),
            ("localhost:4151", "http://LOCALHOST:4151", true),
            ("[::1]:4151", "http://[::1]:4151", true),
            ("10.0.0.7", "http://10.0.0.7:80", true),
            ("10.0.0.7:443", "https://10.0.0.7", true),
            ("10.0.0.7", "https://10.0.0.7", true),
            ("127.0.0.1:4151", "http://127.0.0.1", false),
            ("127.0.0.1:4151", "http://127.0.0.1:8080", false),
            ("127.0.0.1:4151", "http://localhost:4151", false),
            ("127.0.0.1:4151", "http://evil.example", false),
            ("127.0.0.1:4151", "http://evil.example:4151", false),
            (
                "127.0.0.1:4151",
                "http://127.0.0.1:4151.evil.example",
                false,
            ),
            ("127.0.0.1:4151", "null", false),
            ("127.0.0.1:4151", "", false),
            ("127.0.0.1:4151", "file://", false),
            ("127.0.0.1:4151", "chrome-extension://127.0.0.1:4151", false),
            // A name that was turned to this address.
            ("evil.example:4151", "http://evil.example:4151", false),
        ] {
            let judged = judge("POST", "/pub", &[("host", host), ("origin", origin)]);
            assert_eq!(judged.is_ok(), passes, "{host} {origin}: {judged:?}");
        }
        let two = ["http://127.0.0.1", "http://evil.example"].map(|origin| ("origin", origin));
        assert!(judge("POST", "/pub", &[("host", "127.0.0.1"), two[0], two[1]]).is_err());
        assert!(
            judge("POST", "/pub", &[two[0]]).is_err(),
            "an origin of nothing"
        );
    }

    #[test]
    fn refusals_say_what_to_do_and_bound_what_they_repeat() {
        let name = judge("PUT", "/", &[("host", "evil.example:1")]).expect_err("foreign");
        assert!(
            name.ends_with("start it with --http-host evil.example"),
            "{name}"
        );
        let long = format!("http://{}", "x".repeat(5000));
        let page = judge("PUT", "/", &[("host", "a"), ("origin", &long)]).expect_err("foreign");
        assert!(
            page.len() < 200 && page.contains("from a program"),
            "{page}"
        );
    }
}
