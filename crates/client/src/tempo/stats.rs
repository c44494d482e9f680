//! An endpoint's statistics: each task's CPU share and use, and the traffic of the channel.

use announce::{Counters, NameCounts};
use clock::Instant;
use kernel::{KernelStats, TaskStats};

use super::control::ControlCounts;
use super::node::Shared;
use super::publication::PublicationCounts;
use super::subscription::SubscriptionCounts;
use super::timer::TimerCounts;

/// An endpoint at one instant.
#[derive(Clone, Debug)]
pub struct NodeStats {
    /// Every task that exists, the control task first.
    pub tasks: Vec<TaskReport>,
    /// The kernel as a whole.
    pub kernel: KernelStats,
    /// Announcements by outcome.
    pub announcements: Counters,
    /// Troubles with identifiers.
    pub names: NameCounts,
    /// Everything else that the control task counts.
    pub control: ControlCounts,
    /// Other endpoints that are believed to be there.
    pub endpoints: usize,
}

/// One task.
#[derive(Clone, Debug)]
pub struct TaskReport {
    /// The topic, or the purpose of a task without one.
    pub name: String,
    /// Its activity, with its own counts.
    pub activity: Activity,
    /// Its share, what it used and waited, its overruns, whether it is unstable.
    pub task: TaskStats,
}

/// The activity of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// The protocol.
    Control,
    /// Publishes a topic.
    Publication(PublicationCounts),
    /// Subscribes a topic.
    Subscription(SubscriptionCounts),
    /// Calls the program at intervals.
    Timer(TimerCounts),
}

impl NodeStats {
    pub(super) fn of(shared: &Shared, now: Instant) -> NodeStats {
        let kernel = &shared.kernel;
        let report = |name: &str, task, activity| {
            let task = kernel.stats_of(task?, now)?;
            let name = name.to_owned();
            Some(TaskReport {
                name,
                activity,
                task,
            })
        };
        let mut tasks = Vec::new();
        let task = shared.control.inbox.task();
        tasks.extend(report("control", task, Activity::Control));
        let state = shared.control.state();
        for (topic, inbox, outbox) in state.publications() {
            let activity = Activity::Publication(outbox.counts());
            tasks.extend(report(topic.as_str(), inbox.task(), activity));
        }
        for (topic, inbox, tally) in state.subscriptions() {
            let activity = Activity::Subscription(tally.counts());
            tasks.extend(report(topic.as_str(), inbox.task(), activity));
        }
        let (announcements, names, endpoints) = state.heard();
        let control = state.counts();
        drop(state);
        for (number, timer) in shared.timers().iter() {
            let activity = Activity::Timer(timer.tally.counts());
            let name = format!("timer {number}");
            tasks.extend(report(&name, timer.inbox.task(), activity));
        }
        NodeStats {
            tasks,
            kernel: kernel.stats(),
            announcements,
            names,
            control,
            endpoints,
        }
    }
}
