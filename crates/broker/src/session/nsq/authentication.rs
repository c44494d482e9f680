//! What is said and done about AUTH, and about what a server answers.

use access::{Authorizations, Permit};
use clock::Instant;
use wire::identify::Declaration;
use wire::{Command, ProtocolError};

use super::{Admitted, Judged, Nsq};
use crate::auth::{AuthTerms, Secret};
use crate::connection::Output;
use crate::session::{Act, Failure, Reading};

impl Nsq {
    #[inline]
    pub(super) fn judge(
        &mut self,
        command: &Command<'_>,
        terms: &AuthTerms,
        now: Instant,
    ) -> Result<Judged, Failure> {
        let judged = self.admission.judge(command, terms, now);
        judged.map_err(Failure::Nsq)
    }

    pub(super) fn auth<'a>(
        &mut self,
        body: &[u8],
        output: &mut Output,
        reading: &Reading<'_, 'a>,
    ) -> Result<Act<'a>, Failure> {
        let Some(terms) = reading.auth else {
            return Err(Failure::Nsq(ProtocolError::auth_disabled()));
        };
        match self.admission.auth(body, terms).map_err(Failure::Nsq)? {
            Admitted::Ask => Ok(Act::Authenticate),
            Admitted::Now => {
                let declaration = self.tell_admitted(output, reading.now)?;
                Ok(Act::Admit(declaration.map(Box::new)))
            }
        }
    }

    /// What an auth server is to be asked with.
    pub(in crate::session) fn secret(&self) -> Option<&Secret> {
        self.admission.secret()
    }

    /// A server has answered; gives what the client has declared itself as before.
    pub(in crate::session) fn hear_authorizations(
        &mut self,
        authorizations: Option<Authorizations>,
        output: &mut Output,
        now: Instant,
    ) -> Result<Option<Declaration>, Failure> {
        let ttl_s = authorizations.as_ref().map_or(0, |all| all.ttl_s);
        let permit = authorizations.map(|all| Permit::Server(all.into()));
        let heard = self.admission.hear(permit, ttl_s, now);
        match heard.map_err(Failure::Nsq)? {
            true => self.tell_admitted(output, now),
            false => Ok(None),
        }
    }

    fn tell_admitted(
        &mut self,
        output: &mut Output,
        now: Instant,
    ) -> Result<Option<Declaration>, Failure> {
        let identity = self.identity.as_deref_mut();
        let declaration = identity.and_then(|identity| identity.declaration.take());
        if let Some(declaration) = &declaration {
            let topic = declaration.topic.as_str();
            let judged = self.admission.judge_declaration(topic);
            judged.map_err(Failure::Nsq)?;
        }
        self.settle(output, now);
        if let Some(permit) = self.admission.permit() {
            wire::put_response(output.bytes(), &permit.to_json());
        }
        Ok(declaration)
    }
}
