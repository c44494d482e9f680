//! The kinds of work in turns of the controller's loop: the longest of each shows what keeps others
//! waiting.

use link::ToController;

use super::FromLink;
use crate::handle::Command;

/// A kind of step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A broker says hello.
    Hello,
    /// It reports.
    Report,
    /// It says what it has.
    Inventory,
    /// It reports changes to topics and channels.
    Change,
    /// It says anything else.
    Message,
    /// Its link is lost.
    Lost,
    /// Its address was asked for it.
    Probed,
    /// A fit was computed.
    Fitted,
    /// A contract is declared or removed.
    Contract,
    /// Publishers are declared or removed, or ask where to go.
    Publishers,
    /// Brokers are drained, resumed or removed.
    Brokers,
    /// Any other change.
    Other,
    /// A question that changes nothing.
    Question,
    /// A part of what takes long.
    Part,
    /// What time brings.
    Tick,
    /// Changes are written: what rests on them goes out, and what was asked comes into force.
    Store,
    /// Orders, answers and events go out.
    Effects,
}

impl Step {
    /// All of them, each at its own number.
    pub(super) const ALL: [Step; 17] = [
        Step::Hello,
        Step::Report,
        Step::Inventory,
        Step::Change,
        Step::Message,
        Step::Lost,
        Step::Probed,
        Step::Fitted,
        Step::Contract,
        Step::Publishers,
        Step::Brokers,
        Step::Other,
        Step::Question,
        Step::Part,
        Step::Tick,
        Step::Store,
        Step::Effects,
    ];
    /// How many there are.
    pub(super) const COUNT: usize = Step::ALL.len();

    /// As metrics and the log call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Step::Hello => "hello",
            Step::Report => "report",
            Step::Inventory => "inventory",
            Step::Change => "change",
            Step::Message => "word",
            Step::Lost => "lost",
            Step::Probed => "probed",
            Step::Fitted => "fitted",
            Step::Contract => "contract",
            Step::Publishers => "publishers",
            Step::Brokers => "brokers",
            Step::Other => "other",
            Step::Question => "question",
            Step::Part => "part",
            Step::Tick => "tick",
            Step::Store => "store",
            Step::Effects => "effects",
        }
    }
}

impl From<&FromLink> for Step {
    fn from(brought: &FromLink) -> Step {
        let said = match brought {
            FromLink::Hello { .. } => return Step::Hello,
            FromLink::Lost(_) => return Step::Lost,
            FromLink::Message(_, said, _) => &**said,
        };
        match said {
            ToController::Report(_) => Step::Report,
            ToController::Inventory { .. } => Step::Inventory,
            ToController::Changed { .. }
            | ToController::Followed { .. }
            | ToController::DeletionKept { .. }
            | ToController::TopicAsked { .. }
            | ToController::TopicReady { .. } => Step::Change,
            _ => Step::Message,
        }
    }
}

impl From<&Command> for Step {
    fn from(command: &Command) -> Step {
        match command {
            Command::PutTopic(..) | Command::DeleteTopic(..) => Step::Contract,
            Command::PutPublishers(..)
            | Command::Publisher { .. }
            | Command::DeletePublisher(..) => Step::Publishers,
            Command::DrainBroker(..) | Command::ResumeBroker(..) | Command::RemoveBroker(..) => {
                Step::Brokers
            }
            Command::PutName(..) | Command::ChangeTopic(..) | Command::PlaceTombstone { .. } => {
                Step::Other
            }
            _ => Step::Question,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_at_its_own_number() {
        for (number, step) in Step::ALL.into_iter().enumerate() {
            assert_eq!(step as usize, number, "{}", step.name());
        }
    }
}
