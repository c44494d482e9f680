//! Flags by which a broker asks auth servers; nsqd's.

use broker::Config;
use broker::auth::AuthMethod;
use clap::{Args, ValueEnum};

/// How auth servers are asked about NSQ's clients.
#[derive(Args, Clone, Debug)]
pub(crate) struct AuthFlags {
    /// Auth server that is asked what NSQ clients may do, as nsqd asks it: HOST:PORT, or a whole URL.
    /// May be repeated; one that answers is enough [default: none].
    #[arg(long, value_name = "HOST:PORT|URL")]
    auth_http_address: Vec<String>,
    /// How it is asked: `get` puts everything into the query, `post` into a form.
    #[arg(long, value_name = "METHOD", value_enum, default_value_t = Method::Get)]
    auth_http_request_method: Method,
}

/// How an auth server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Method {
    /// GET.
    Get,
    /// POST.
    Post,
}

impl AuthFlags {
    /// Puts what these flags describe into a broker's settings. It waits for auth servers as long as for nsqlookupds.
    pub(crate) fn put(self, config: &mut Config) {
        config.auth.addresses = self.auth_http_address;
        config.auth.method = match self.auth_http_request_method {
            Method::Get => AuthMethod::Get,
            Method::Post => AuthMethod::Post,
        };
        config.auth.connect_timeout = config.lookupd.connect_timeout;
        config.auth.request_timeout = config.lookupd.request_timeout;
    }
}
