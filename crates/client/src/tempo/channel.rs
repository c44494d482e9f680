//! The sockets that announcements go through.
//!
//! A group has a socket bound to its address, shared with whoever else on this machine is in the
//! group; everybody hears every datagram to it, the sender included. A broker has one with a port
//! of its own, to which it answers. Nothing else distinguishes the modes of operation.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use socket2::{Domain, Protocol, Socket, Type};

use super::options::NodeOptions;
use crate::error::ClientError;

/// A socket and where announcements go through it.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) socket: UdpSocket,
    pub(super) towards: SocketAddr,
}

/// The ways of a channel: to the group, to the broker, or both.
///
/// # Errors
/// [`ClientError::Option`] for addresses that are of no use, [`ClientError::Io`] with the system's answer.
pub(super) fn ways(options: &NodeOptions) -> Result<Vec<Way>, ClientError> {
    let mut ways = Vec::new();
    if let Some(group) = options.channel.group() {
        check_port(group)?;
        let socket = group_socket(group, options.interface)
            .map_err(ClientError::io("join the group for announcements"))?;
        ways.push(Way {
            socket,
            towards: group,
        });
    }
    if let Some(broker) = options.channel.broker() {
        check_port(broker)?;
        if broker.ip().is_multicast() || broker.ip().is_unspecified() {
            return Err(ClientError::Option {
                option: "channel",
                reason: format!(
                    "{broker} is not the address of a broker: give the one that it takes announcements on, or use Channel::Group"
                ),
            });
        }
        let socket = broker_socket(broker, options)
            .map_err(ClientError::io("make a socket for announcements"))?;
        ways.push(Way {
            socket,
            towards: broker,
        });
    }
    Ok(ways)
}

fn check_port(address: SocketAddr) -> Result<(), ClientError> {
    if address.port() == 0 {
        return Err(ClientError::Option {
            option: "channel",
            reason: format!("{address} has no port: give the port that all endpoints use"),
        });
    }
    Ok(())
}

/// A socket that hears what is sent to the group and sends to it. Others on this machine may have one as well.
fn group_socket(group: SocketAddr, interface: Ipv4Addr) -> io::Result<UdpSocket> {
    let domain = Domain::for_address(group);
    let socket = Socket::new(domain, Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
    socket.set_reuse_address(true)?;
    match group {
        SocketAddr::V4(address) if address.ip().is_multicast() => {
            // Bound to the group's own address it hears nothing that is sent to another group on the same port.
            socket.bind(&group.into())?;
            socket.join_multicast_v4(address.ip(), &interface)?;
            if !interface.is_unspecified() {
                socket.set_multicast_if_v4(&interface)?;
            }
            // Other endpoints of this machine are in the group too.
            socket.set_multicast_loop_v4(true)?;
        }
        SocketAddr::V4(_) => {
            // What is sent to a broadcast address is delivered to sockets of any address.
            socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, group.port())).into())?;
            socket.set_broadcast(true)?;
        }
        SocketAddr::V6(address) => {
            socket.bind(&SocketAddr::from((Ipv6Addr::UNSPECIFIED, group.port())).into())?;
            socket.join_multicast_v6(address.ip(), address.scope_id())?;
            socket.set_multicast_loop_v6(true)?;
        }
    }
    Ok(socket.into())
}

fn broker_socket(broker: SocketAddr, options: &NodeOptions) -> io::Result<UdpSocket> {
    let any: SocketAddr = match broker {
        SocketAddr::V4(_) => (options.interface, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tempo::options::Channel;

    #[test]
    fn addresses_that_nobody_can_meet_at_are_refused() {
        let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
        for (channel, wanted) in [
            (Channel::Group(address("239.255.77.77:0")), "has no port"),
            (Channel::Broker(address("127.0.0.1:0")), "has no port"),
            (
                Channel::Broker(address("239.255.77.77:4177")),
                "is not the address of a broker",
            ),
            (
                Channel::Broker(address("0.0.0.0:4151")),
                "is not the address of a broker",
            ),
        ] {
            let options = NodeOptions {
                channel,
                ..NodeOptions::default()
            };
            let error = ways(&options).expect_err("of no use").to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
