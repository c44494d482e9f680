//! TUN devices: making or opening one, and bringing it up.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, socket};

use super::netns::within;
use super::outcome;
use crate::config::Device;
use crate::error::LimiterError;

/// An open TUN device: each read and each write is one packet.
#[derive(Debug)]
pub(crate) struct Tun {
    file: File,
}

impl Tun {
    /// Opens `device`, makes it if there is none, and brings it up with an MTU of `mtu_bytes`.
    ///
    /// # Errors
    /// [`LimiterError::Tun`], with what was tried.
    pub(crate) fn open(device: &Device, mtu_bytes: u16) -> Result<Tun, LimiterError> {
        let mut what = "entering the namespace";
        let opened = within(device.netns.as_deref(), || {
            what = "opening /dev/net/tun";
            let mut options = OpenOptions::new();
            options
                .read(true)
                .write(true)
                .custom_flags(libc::O_NONBLOCK);
            let file = options.open("/dev/net/tun")?;
            what = "attaching to the device";
            attach(&file, &device.name)?;
            what = "bringing it up";
            bring_up(&device.name, mtu_bytes)?;
            Ok(Tun { file })
        });
        opened.map_err(|source| LimiterError::Tun {
            name: device.name.clone(),
            netns: device.netns.clone(),
            what,
            source,
        })
    }

    /// Something that behaves as a device does, such as one end of a pair of SOCK_SEQPACKET sockets.
    #[cfg(test)]
    pub(crate) fn from_descriptor(descriptor: OwnedFd) -> Tun {
        Tun {
            file: descriptor.into(),
        }
    }

    /// Reads one packet into `buffer`.
    pub(super) fn read(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        rustix::io::read(&self.file, buffer)
    }

    /// Writes one packet.
    pub(super) fn write(&self, packet: &[u8]) -> Result<usize, Errno> {
        rustix::io::write(&self.file, packet)
    }
}

impl AsRawFd for Tun {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// A request about the device `name`.
fn request(name: &str) -> libc::ifreq {
    // SAFETY: `ifreq` is a name and a union of plain numbers; all of them may be zero.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero: names end with one.
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name[..room].iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    request
}

fn attach(file: &File, name: &str) -> io::Result<()> {
    let mut request = request(name);
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: TUNSETIFF takes a pointer to an `ifreq`, which outlives the call.
    outcome(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) })
}

fn bring_up(name: &str, mtu_bytes: u16) -> io::Result<()> {
    let socket: OwnedFd = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let mut request = request(name);
    request.ifr_ifru.ifru_mtu = mtu_bytes.into();
    // SAFETY: SIOCSIFMTU takes a pointer to an `ifreq` with an MTU, which outlives the call.
    outcome(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFMTU as _, &raw mut request) })?;
    // SAFETY: SIOCGIFFLAGS takes a pointer to an `ifreq` and fills in its flags.
    outcome(unsafe {
        libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCGIFFLAGS as _,
            &raw mut request,
        )
    })?;
    // SAFETY: the call before filled in the flags of the union, which are a plain number anyway.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    request.ifr_ifru.ifru_flags = flags | (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: SIOCSIFFLAGS takes a pointer to an `ifreq` with flags, which outlives the call.
    outcome(unsafe {
        libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCSIFFLAGS as _,
            &raw mut request,
        )
    })
}
