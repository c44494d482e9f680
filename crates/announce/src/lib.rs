//! Who publishes and who subscribes what: soft state, identifiers of topics, proxies; without sockets and clocks.
