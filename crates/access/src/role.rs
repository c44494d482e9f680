//! What a token is for.

use std::fmt;
use std::str::FromStr;

/// One thing that a token may be for, over the topics that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// To look: contracts, placements, figures. Each of the others includes it.
    Read,
    /// To publish, and to be a publisher that is placed.
    Publish,
    /// To subscribe.
    Subscribe,
    /// To create, change and delete; includes all others.
    Admin,
}

/// A set of roles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roles(u8);

/// A word that is no role.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a role; use read, publish, subscribe or admin")]
pub struct UnknownRole(String);

impl Role {
    /// All of them.
    pub const ALL: [Role; 4] = [Role::Read, Role::Publish, Role::Subscribe, Role::Admin];

    /// As files and flags have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Role::Read => "read",
            Role::Publish => "publish",
            Role::Subscribe => "subscribe",
            Role::Admin => "admin",
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl Roles {
    /// Whether what takes `role` is permitted.
    #[must_use]
    pub fn permit(self, role: Role) -> bool {
        let by_another = match role {
            Role::Read => self.0 != 0,
            _ => self.0 & Role::Admin.bit() != 0,
        };
        by_another || self.names(role)
    }

    /// Whether this one was given, rather than included in another.
    #[must_use]
    pub fn names(self, role: Role) -> bool {
        self.0 & role.bit() != 0
    }
}

impl FromIterator<Role> for Roles {
    fn from_iter<I: IntoIterator<Item = Role>>(roles: I) -> Roles {
        Roles(roles.into_iter().fold(0, |set, role| set | role.bit()))
    }
}

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(text: &str) -> Result<Role, UnknownRole> {
        let found = Role::ALL.into_iter().find(|role| role.name() == text);
        found.ok_or_else(|| UnknownRole(text.chars().take(64).collect()))
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_include_what_they_cannot_do_without() {
        use Role::{Admin, Publish, Read, Subscribe};
        for (given, permitted) in [
            (&[][..], &[][..]),
            (&[Read], &[Read]),
            (&[Publish], &[Read, Publish]),
            (&[Subscribe], &[Read, Subscribe]),
            (&[Publish, Subscribe], &[Read, Publish, Subscribe]),
            (&[Admin], &[Read, Publish, Subscribe, Admin]),
        ] {
            let roles: Roles = given.iter().copied().collect();
            for role in Role::ALL {
                let expected = permitted.contains(&role);
                assert_eq!(roles.permit(role), expected, "{given:?}: {role}");
            }
        }
        assert!("root".parse::<Role>().is_err());
        assert_eq!("admin".parse(), Ok(Admin));
    }
}
