//! Carries out the agent's errands at the broker, through the [`Handle`] like any other caller.

use std::future::Future;
use std::time::Duration;

use limit::Grant;
use limit::adaptor::HistoryLength;
use link::MemoryReport;
use wire::TopicName;

use super::core::{Answer, Errand, Figures};
use crate::{BrokerError, Handle};

/// A reactor whose inbox is full is asked again after so long.
const BUSY_PAUSE: Duration = Duration::from_millis(5);
/// Most grants that a reactor takes in at once, while messages wait.
const GRANTS_AT_ONCE: usize = 64;

/// Does one. Changes are logged from here on where stock is taken, before the first wait.
pub(super) fn run(handle: Handle, errand: Errand) -> impl Future<Output = Answer> + Send {
    if let Errand::TakeStock = errand {
        // In this order: what becomes meanwhile is said twice rather than never.
        handle.changes.open();
    }
    async move {
        match errand {
            Errand::BeginLink { epoch, history } => {
                handle.link.keep_epoch(epoch).await;
                Answer::Done(begin_link(&handle, history).await)
            }
            Errand::TakeStock => Answer::Stock(persist(|| handle.told().inventory()).await),
            Errand::Report { number, is_first } => {
                Answer::Reported(report(&handle, number, is_first).await)
            }
            Errand::Declare(contracts) => {
                let (outcomes, unkept) = handle.obey(contracts).await;
                Answer::Declared(outcomes, unkept)
            }
            Errand::Grant(grants) => hand_out(&handle, grants).await,
            Errand::Learn(known) => {
                Answer::Learned(persist(|| handle.told().learn(known.clone())).await)
            }
            Errand::EndWindow(topic) => {
                let shown = persist(|| handle.end_window(topic.clone())).await;
                Answer::Window(topic, shown)
            }
            Errand::Keep => Answer::Kept(handle.kept.wait_until_written(&handle.changed).await),
            errand => Answer::Done(persist(|| plain(&handle, errand.clone())).await),
        }
    }
}

/// Those of which only says whether they are done.
async fn plain(handle: &Handle, errand: Errand) -> Result<(), BrokerError> {
    match errand {
        Errand::Renew(report) => handle.shared_limits().renew_leases(report).await,
        Errand::Hear(teller) => handle.told().hear(teller).await,
        Errand::Follow(topic, channel, operation) => {
            handle.told().follow(topic, channel, operation).await
        }
        Errand::Migrate(topic, moves) => handle.migrate(topic, moves).await,
        Errand::BeginWindow(topic, order) => handle.begin_window(topic, order).await,
        _ => Ok(()),
    }
}

async fn begin_link(handle: &Handle, history: Option<HistoryLength>) -> Result<(), BrokerError> {
    handle.handing.begin_link();
    match history {
        Some(length) => handle.remember_traffic(length).await,
        None => Ok(()),
    }
}

async fn report(handle: &Handle, number: u64, is_first: bool) -> Result<Figures, BrokerError> {
    Ok(Figures {
        report: handle.report(number, is_first).await?,
        left_rounds: handle.sharing.left_rounds(),
        memory: Some(MemoryReport {
            used_bytes: handle.memory.used_all(),
            budget_bytes: handle.memory.bytes(),
        }),
    })
}

/// Each reactor gets those of its topics, some at a time.
async fn hand_out(handle: &Handle, grants: Vec<(TopicName, Grant)>) -> Answer {
    let mut by_home: Vec<Vec<(TopicName, Grant)>> = Vec::new();
    for (topic, grant) in grants {
        let home = handle.home_of(&topic);
        by_home.resize_with(by_home.len().max(home + 1), Vec::new);
        by_home[home].push((topic, grant));
    }
    let (mut unknown, mut errors) = (Vec::new(), Vec::new());
    for (home, grants) in by_home.iter().enumerate() {
        for part in grants.chunks(GRANTS_AT_ONCE) {
            match persist(|| handle.grant(home, part.to_vec())).await {
                Ok(without) => unknown.extend(without),
                Err(error) => errors.push(error),
            }
        }
    }
    Answer::Granted(unknown, errors)
}

/// Asks again while the reactor is too busy; a stopping broker is never busy for long.
pub(crate) async fn persist<T, F: Future<Output = Result<T, BrokerError>>>(
    ask: impl Fn() -> F,
) -> Result<T, BrokerError> {
    loop {
        match ask().await {
            Err(BrokerError::Busy(_)) => tokio::time::sleep(BUSY_PAUSE).await,
            answer => return answer,
        }
    }
}
