//! Flags of daemons about who may do what, and the file with the tokens.

use std::io::Read;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use access::{AccessList, FILE_MAX_BYTES, InForce};
use broker::Config;
use broker::tls::{ClientAuth, TlsRequired};
use clap::{ArgAction, Args};

use crate::error::Failure;

/// The file is looked at so often.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Permission bit of everybody who is neither the owner nor of the group to write.
const OTHERS_WRITE: u32 = 0o002;

/// Who may do what.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct AccessFlags {
    /// File with tokens, and which roles each has over which topics; `srtm access token` makes its
    /// lines. With it, nobody may do anything without a token. Read again when it changes.
    #[arg(long, value_name = "FILE", value_parser = AccessFile::open)]
    access: Option<AccessFile>,
    /// Lets other machines in although nobody has to say who he is.
    #[arg(
        long,
        value_name = "true|false",
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_value_t = false,
        default_missing_value = "true"
    )]
    insecure: bool,
}

/// An access file, as it was read last.
#[derive(Clone, Debug)]
pub(crate) struct AccessFile {
    path: PathBuf,
    in_force: InForce,
    seen: Option<Seen>,
}

/// How a file looked.
type Seen = (u64, u64, i64, i64, u64);

/// An address to listen on, and the flag that names it.
pub(crate) type Door = (&'static str, SocketAddr);

impl AccessFlags {
    /// The tokens that there are; from now on the file is read again when it changes.
    pub(crate) fn in_force(&self) -> Option<InForce> {
        let file = self.access.clone()?;
        let in_force = file.in_force.clone();
        let watching = std::thread::Builder::new().name(String::from("access"));
        if let Err(error) = watching.spawn(move || watch(file)) {
            tracing::error!("access: the file will not be read again: {error}");
        }
        Some(in_force)
    }

    /// The file, for another process of this command.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.access.as_ref().map(|file| file.path.as_path())
    }

    /// Whether other machines are let in without a word of who they are.
    pub(crate) fn is_insecure(&self) -> bool {
        self.insecure
    }

    /// Lets no other machine in by `doors` at which nobody has to say who he is, unless that is meant.
    ///
    /// # Errors
    /// [`Failure::Usage`] naming the first such door, and what to do.
    pub(crate) fn check(&self, doors: impl IntoIterator<Item = Door>) -> Result<(), Failure> {
        match self.open_door(doors) {
            Some((flag, address)) if !self.insecure => Err(Failure::Usage(format!(
                "{flag} {address} lets other machines in, and nobody would have to say who he is; give --access FILE (`srtm access token` makes its lines), a loopback address, or --insecure if that is what you want"
            ))),
            _ => Ok(()),
        }
    }

    /// Says once that other machines are let in who do not have to say who they are, if so.
    pub(crate) fn warn(&self, doors: impl IntoIterator<Item = Door>) {
        if let Some((flag, address)) = self.open_door(doors)
            && !self.insecure
        {
            let flag = flag.trim_start_matches('-');
            tracing::warn!(
                "-{flag} {address} lets other machines in, and nobody has to say who he is; -access=FILE asks for tokens (`srtm access token` makes them), -insecure leaves out this line"
            );
        }
    }

    fn open_door(&self, doors: impl IntoIterator<Item = Door>) -> Option<Door> {
        let mut open = doors
            .into_iter()
            .filter(|(_, address)| !address.ip().is_loopback());
        open.next().filter(|_| self.access.is_none())
    }
}

/// Where a broker lets in other machines that do not have to say who they are, by tokens, an auth server or certificates.
pub(crate) fn unguarded(config: &Config) -> Vec<Door> {
    let tls = config.tls.as_ref();
    let has_certificates = tls.is_some_and(|tls| tls.clients == ClientAuth::Verified);
    let required = config.tls_required;
    let is_asked = !config.auth.addresses.is_empty();
    let mut doors = Vec::new();
    let is_guarded = is_asked || has_certificates && required.is_for_clients();
    if !is_guarded {
        doors.push(("--tcp-address", config.tcp_address));
    }
    if !(has_certificates && required == TlsRequired::Yes) {
        doors.extend(
            config
                .http_address
                .map(|address| ("--http-address", address)),
        );
        let https = config.https_address.filter(|_| !has_certificates);
        doors.extend(https.map(|address| ("--https-address", address)));
    }
    doors
}

impl AccessFile {
    /// Reads a file.
    pub(crate) fn open(path: &str) -> Result<AccessFile, String> {
        let path = PathBuf::from(path);
        // Looked at first: what changes from here on is read again.
        let seen = look(&path);
        let list = read(&path)?;
        Ok(AccessFile {
            in_force: InForce::new(list),
            path,
            seen,
        })
    }

    /// Reads it again if it has changed. If it is of no use then, what was read before stays, and the log says so.
    fn look_again(&mut self) {
        let now = look(&self.path);
        if now == self.seen {
            return;
        }
        self.seen = now;
        match read(&self.path) {
            Ok(list) => {
                let tokens = list.tokens();
                self.in_force.replace(list);
                let path = self.path.display();
                tracing::info!("access: {path} has changed; {tokens} tokens count from now on");
            }
            Err(error) => tracing::error!(
                "access: what was read before stays in use, because the file has changed and is of no use: {error}"
            ),
        }
    }
}

/// Looks at a file again and again, as long as the process runs.
fn watch(mut file: AccessFile) {
    let (_never, tick) = channel::<()>();
    while tick.recv_timeout(LOOK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        file.look_again();
    }
}

fn look(path: &Path) -> Option<Seen> {
    let found = std::fs::metadata(path).ok()?;
    let changed = (found.mtime(), found.mtime_nsec());
    Some((found.dev(), found.ino(), changed.0, changed.1, found.len()))
}

fn read(path: &Path) -> Result<AccessList, String> {
    let shown = path.display();
    let failed = |error: std::io::Error| format!("{shown}: {error}");
    let file = std::fs::File::open(path).map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    if about.mode() & OTHERS_WRITE != 0 {
        return Err(format!(
            "{shown}: everybody on this machine can change who may do what; run chmod o-w {shown}"
        ));
    }
    let mut text = String::new();
    let read = file.take(FILE_MAX_BYTES + 1).read_to_string(&mut text);
    if read.map_err(failed)? as u64 > FILE_MAX_BYTES {
        return Err(format!("{shown}: it is longer than {FILE_MAX_BYTES} bytes"));
    }
    AccessList::parse(&text).map_err(|error| format!("{shown}: {error}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use access::{Token, TokenHash};
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Only {
        #[command(flatten)]
        flags: AccessFlags,
    }

    fn flags(arguments: &[&str]) -> AccessFlags {
        let all = ["test"].iter().chain(arguments);
        Only::try_parse_from(all).expect("flags").flags
    }

    fn file(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("srtm-access-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        path
    }

    fn entry(number: u8) -> String {
        let hash = TokenHash::of(Token::new([number; 32]).secret().as_bytes());
        format!(
            "[[token]]\nname = \"n{number}\"\nhash = \"{hash}\"\nroles = [\"read\"]\ntopics = [\"*\"]\n"
        )
    }

    #[test]
    fn a_door_to_other_machines_needs_tokens_or_a_word() {
        let path = file("door");
        std::fs::write(&path, entry(1)).expect("written");
        let named = path.display().to_string();
        let at = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let (here, there) = (
            ("--http", at("127.0.0.1:1")),
            ("--tcp-address", at("0.0.0.0:2")),
        );
        assert!(flags(&[]).check([here]).is_ok());
        let refused = flags(&[])
            .check([here, there])
            .expect_err("open")
            .to_string();
        for said in ["--tcp-address 0.0.0.0:2", "--access FILE", "--insecure"] {
            assert!(refused.contains(said), "{refused}");
        }
        assert!(flags(&["--insecure"]).check([there]).is_ok());
        assert!(flags(&["--access", &named]).check([there]).is_ok());
        std::fs::remove_file(&path).expect("removed");
    }

    #[test]
    fn a_file_that_changes_counts_unless_it_is_of_no_use() {
        let path = file("changes");
        std::fs::write(&path, entry(1)).expect("written");
        let mut file = AccessFile::open(&path.display().to_string()).expect("valid");
        let tokens = |file: &AccessFile| file.in_force.list().tokens();
        assert_eq!(tokens(&file), 1);
        let replace = |text: &str| {
            // Another file in its place: no clock has to tell the two apart.
            let new = path.with_extension("new");
            std::fs::write(&new, text).expect("written");
            std::fs::rename(&new, &path).expect("in place");
        };
        let edition = file.in_force.edition();
        file.look_again();
        assert_eq!(file.in_force.edition(), edition);
        replace(&(entry(1) + &entry(2)));
        file.look_again();
        assert_eq!(tokens(&file), 2);
        for bad in ["[[token]]", "no toml ["] {
            replace(bad);
            file.look_again();
            assert_eq!(tokens(&file), 2, "{bad}");
        }
        std::fs::remove_file(&path).expect("removed");
        file.look_again();
        assert_eq!(tokens(&file), 2, "gone");
        std::fs::write(&path, "").expect("written");
        file.look_again();
        assert_eq!(tokens(&file), 0, "nobody any more");
        std::fs::remove_file(&path).expect("removed");
    }

    #[test]
    fn a_file_that_others_can_change_is_refused() {
        let path = file("others");
        std::fs::write(&path, entry(1)).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).expect("ours");
        let error = AccessFile::open(&path.display().to_string()).expect_err("open to all");
        assert!(error.contains("chmod o-w"), "{error}");
        std::fs::remove_file(&path).expect("removed");
        assert!(AccessFile::open("/nowhere/access.toml").is_err());
    }
}
