//! A folder with everything that a cluster's daemons and clients prove themselves by.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::private::{self, Over};
use crate::{Authority, Issued, KeysError, Order, Seen, Usage, Validity};

/// The authority counts for ten years.
const AUTHORITY_DAYS: u32 = 3653;
/// A certificate that counts for less than this is renewed where it is made sure of.
const RENEWED_BEFORE: Duration = Duration::from_secs(30 * 86_400);
/// Longest name of a node or client.
const NAME_MAX: usize = 64;

const AUTHORITY: &str = "ca.pem";
const AUTHORITY_KEY: &str = "ca.key";

/// Permission bits of what everybody may read, and of secrets.
const PUBLIC: u32 = 0o644;
const PRIVATE: u32 = 0o600;

/// A secret that daemons share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secret {
    /// Controller and brokers prove it to each other.
    Link,
    /// Signs datagrams of brokers that share limits.
    Gossip,
    /// Signs Tempo's announcements.
    Announce,
}

/// A folder of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFolder(PathBuf);

/// The files that one node or client needs for TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilesOf {
    /// The certificate of the authority, whom it believes.
    pub authorities: PathBuf,
    /// Its own certificate.
    pub certificate: PathBuf,
    /// The key of that.
    pub key: PathBuf,
}

impl Secret {
    /// All of them.
    pub const ALL: [Secret; 3] = [Secret::Link, Secret::Gossip, Secret::Announce];

    fn file(self) -> &'static str {
        match self {
            Secret::Link => "link.key",
            Secret::Gossip => "gossip.key",
            Secret::Announce => "announce.key",
        }
    }
}

impl KeyFolder {
    /// Makes a folder with a new authority and new secrets of these random bytes, one for each of [`Secret::ALL`].
    ///
    /// # Errors
    /// [`KeysError::Exists`] where it holds keys already; [`KeysError::Io`].
    pub fn init(
        path: &Path,
        random: [[u8; 32]; 3],
        now: SystemTime,
    ) -> Result<KeyFolder, KeysError> {
        let folder = KeyFolder(path.to_owned());
        let secrets = Secret::ALL.map(|secret| folder.secret(secret));
        let own = [folder.authority(), folder.authority_key()];
        if let Some(there) = own.iter().chain(&secrets).find(|file| file.exists()) {
            return Err(KeysError::Exists {
                path: there.clone(),
                advice: "use another folder; `srtm keys node` adds a daemon to this one",
            });
        }
        private::folder(path)?;
        let (authority, key) =
            Authority::new("srtm authority", Validity::days(now, AUTHORITY_DAYS))?;
        private::write(&folder.authority_key(), &key, PRIVATE, Over::Nothing)?;
        for (file, random) in secrets.iter().zip(random) {
            let digits: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
            private::write(file, &format!("{digits}\n"), PRIVATE, Over::Nothing)?;
        }
        // Last: a folder with it is whole.
        let certificate = authority.certificate();
        private::write(&folder.authority(), certificate, PUBLIC, Over::Nothing)?;
        Ok(folder)
    }

    /// The folder at `path`, which holds keys.
    ///
    /// # Errors
    /// [`KeysError::Unread`] where it has no authority.
    pub fn open(path: &Path) -> Result<KeyFolder, KeysError> {
        let folder = KeyFolder(path.to_owned());
        match folder.authority().exists() {
            true => Ok(folder),
            false => Err(KeysError::Unread {
                path: path.to_owned(),
                reason: format!(
                    "there are no keys in it; run srtm keys init {}",
                    path.display()
                ),
            }),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// File with a secret.
    #[must_use]
    pub fn secret(&self, secret: Secret) -> PathBuf {
        self.0.join(secret.file())
    }

    /// What is in the file of a secret.
    ///
    /// # Errors
    /// [`KeysError::Io`]; [`KeysError::Open`] where everybody on the machine can read it.
    pub fn read(&self, secret: Secret) -> Result<String, KeysError> {
        private::secret(&self.secret(secret))
    }

    /// The files of a node or client; whether they are there is not asked.
    ///
    /// # Errors
    /// [`KeysError::Name`].
    pub fn files_of(&self, name: &str, usage: Usage) -> Result<FilesOf, KeysError> {
        check_name(name)?;
        let folder = self.0.join(kept_in(usage));
        Ok(FilesOf {
            authorities: self.authority(),
            certificate: folder.join(format!("{name}.pem")),
            key: folder.join(format!("{name}.key")),
        })
    }

    /// Signs a certificate and keeps it with its key; one that is there is written over only to renew it.
    ///
    /// # Errors
    /// Any [`KeysError`]; [`KeysError::Exists`] where there is one and it is not `renewed`.
    pub fn add(&self, order: &Order<'_>, renewed: bool) -> Result<FilesOf, KeysError> {
        let files = self.files_of(order.name, order.usage)?;
        let there = [&files.certificate, &files.key];
        if let Some(there) = there.into_iter().find(|file| !renewed && file.exists()) {
            return Err(KeysError::Exists {
                path: there.clone(),
                advice: "--renew replaces a certificate and its key",
            });
        }
        let key = private::secret(&self.authority_key())?;
        let authority = Authority::of(&private::read(&self.authority())?, &key)?;
        let Issued { certificate, key } = authority.issue(order)?;
        private::folder(&self.0.join(kept_in(order.usage)))?;
        let over = match renewed {
            true => Over::Former,
            false => Over::Nothing,
        };
        private::write(&files.key, &key, PRIVATE, over)?;
        private::write(&files.certificate, &certificate, PUBLIC, over)?;
        Ok(files)
    }

    /// As [`KeyFolder::add`], unless there is a certificate that is for all of these hosts and counts for a month yet.
    ///
    /// # Errors
    /// Any [`KeysError`].
    pub fn ensure(&self, order: &Order<'_>, now: SystemTime) -> Result<FilesOf, KeysError> {
        let files = self.files_of(order.name, order.usage)?;
        let is_there = files.certificate.exists() && files.key.exists();
        if is_there {
            let seen = Seen::at(&files.certificate)?;
            let is_for_all = order.hosts.iter().all(|host| seen.hosts.contains(host));
            if is_for_all && seen.until > now + RENEWED_BEFORE {
                return Ok(files);
            }
        }
        self.add(order, is_there)
    }

    /// All certificates by their files, the authority's first, then by name.
    ///
    /// # Errors
    /// [`KeysError::Io`], [`KeysError::Unread`].
    pub fn certificates(&self) -> Result<Vec<(PathBuf, Seen)>, KeysError> {
        let mut files = vec![self.authority()];
        for usage in [Usage::Node, Usage::Client] {
            let folder = self.0.join(kept_in(usage));
            let entries = match std::fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(KeysError::io(&folder)(error)),
            };
            let mut own = Vec::new();
            for entry in entries {
                own.push(entry.map_err(KeysError::io(&folder))?.path());
            }
            own.retain(|file| file.extension().is_some_and(|ending| ending == "pem"));
            own.sort();
            files.extend(own);
        }
        let seen = files
            .into_iter()
            .map(|file| Ok((file.clone(), Seen::at(&file)?)));
        seen.collect()
    }

    fn authority(&self) -> PathBuf {
        self.0.join(AUTHORITY)
    }

    fn authority_key(&self) -> PathBuf {
        self.0.join(AUTHORITY_KEY)
    }
}

fn kept_in(usage: Usage) -> &'static str {
    match usage {
        Usage::Node => "nodes",
        Usage::Client => "clients",
    }
}

/// It becomes a file's name.
fn check_name(name: &str) -> Result<(), KeysError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let begins_well = name.starts_with(|first: char| first.is_ascii_alphanumeric());
    match begins_well && name.len() <= NAME_MAX && name.bytes().all(is_plain) {
        true => Ok(()),
        false => Err(KeysError::Name(name.to_owned())),
    }
}

#[cfg(test)]
mod tests;
