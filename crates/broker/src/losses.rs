//! Messages lost by a stop.

use topics::Loss;

/// Lines of single topics and channels in the log at most.
const LINES_MAX: usize = 1000;

/// What topics and channels held when the broker ended: acknowledged, in memory only, and gone with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses(Vec<Loss>);

impl Losses {
    /// Of all reactors, in order of topic and channel.
    pub(crate) fn new(mut losses: Vec<Loss>) -> Losses {
        losses.sort_by(|a, b| (&a.topic, &a.channel).cmp(&(&b.topic, &b.channel)));
        Losses(losses)
    }

    /// Messages lost; one that several channels held counts for each.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.0.iter().map(Loss::messages).sum()
    }

    /// Logs each topic's and each channel's loss as an error, and the sum.
    pub(crate) fn log(&self) {
        for loss in self.0.iter().take(LINES_MAX) {
            tracing::error!("{}", line(loss));
        }
        let further = self.0.len().saturating_sub(LINES_MAX);
        if further > 0 {
            tracing::error!("{further} further topics and channels have lost messages");
        }
        if !self.0.is_empty() {
            let messages = self.messages();
            tracing::error!("{messages} messages in all are lost: they were in memory only");
        }
    }
}

fn line(loss: &Loss) -> String {
    let Loss {
        topic,
        channel,
        queued,
        deferred,
        in_flight,
    } = loss;
    let messages = loss.messages();
    match channel {
        None => format!("topic {topic}: {messages} messages are lost that no channel had yet"),
        Some(channel) => format!(
            "topic {topic}, channel {channel}: {messages} messages are lost ({queued} waited, {deferred} were deferred, \
             {in_flight} in flight)"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_told_in_order_and_summed_up() {
        let loss = |topic: &str, channel: Option<&str>, queued| Loss {
            topic: topic.parse().expect("valid"),
            channel: channel.map(|name| name.parse().expect("valid")),
            queued,
            deferred: 2,
            in_flight: 3,
        };
        let all = vec![
            loss("u", None, 5),
            loss("t", Some("c"), 1),
            loss("t", None, 7),
        ];
        let losses = Losses::new(all);
        assert_eq!((losses.messages(), Losses::default().messages()), (28, 0));
        let lines: Vec<String> = losses.0.iter().map(line).collect();
        assert_eq!(
            lines,
            [
                "topic t: 12 messages are lost that no channel had yet",
                "topic t, channel c: 6 messages are lost (1 waited, 2 were deferred, 3 in flight)",
                "topic u: 10 messages are lost that no channel had yet",
            ]
        );
    }
}
