//! A controller that no longer leads: it changes nothing, answers questions and names the leader.

use super::writing::{ask, made, world};
use super::*;
use crate::leadership::{Leader, Leadership, Standing};

/// What a test says.
#[derive(Clone)]
struct Said(Arc<Mutex<Standing>>);

impl Leadership for Said {
    fn standing(&self) -> Standing {
        self.0.lock().expect("whole").clone()
    }
}

fn leader() -> Leader {
    Leader {
        link: String::from("10.0.0.2:4170"),
        http: String::from("http://10.0.0.2:4180"),
    }
}

fn elsewhere<T: std::fmt::Debug>(
    answer: &mut oneshot::Receiver<Result<T, ControlError>>,
) -> String {
    match answer.try_recv() {
        Ok(Err(ControlError::Elsewhere { text, .. })) => text,
        other => panic!("{other:?} does not say who leads"),
    }
}

#[tokio::test]
async fn every_order_says_in_which_life_it_is_given() {
    let (mut service, _slow, mut orders) = world();
    made(&mut service, "t");
    service.finished();
    let epoch = service.core.epoch();
    let told: Vec<Order> = std::iter::from_fn(|| orders.try_recv().ok()).collect();
    assert!(matches!(told[0].order, ToBroker::Welcome { .. }));
    assert!(told.len() > 2 && told.iter().all(|order| order.epoch == epoch));
}

#[tokio::test]
async fn one_that_is_deposed_changes_nothing_and_says_who_leads() {
    for standing in [
        Standing::Follows {
            leader: Some(leader()),
        },
        // It leads again, in a life that is not this one.
        Standing::Leads { epoch: u64::MAX },
    ] {
        let (service, slow, mut orders) = world();
        let epoch = service.core.epoch();
        let said = Said(Arc::new(Mutex::new(Standing::Leads { epoch })));
        let mut service = service.led_by(Box::new(said.clone()));
        made(&mut service, "before");
        service.finished();
        while orders.try_recv().is_ok() {}
        slow.stop(true);
        slow.commits.lock().expect("whole").clear();
        let name = |topic: &str| topic.to_owned();
        let mut under_way = ask(&mut service, |reply| Command::PutName(name("a"), reply));
        let mut waits = ask(&mut service, |reply| Command::PutName(name("b"), reply));
        made(&mut service, "t");
        *said.0.lock().expect("whole") = standing.clone();
        service.turn(Next::Tick);
        slow.stop(false);
        service.finished();
        for _ in 0..3 {
            service.turn(Next::Tick);
            service.turn(Next::Part);
            made(&mut service, "u");
        }
        service.finished();
        assert!(orders.try_recv().is_err() && orders.is_closed());
        assert_eq!(
            slow.commits.lock().expect("whole").len(),
            1,
            "it was under way"
        );
        assert!(
            matches!(under_way.try_recv(), Err(TryRecvError::Closed)),
            "nobody knows"
        );
        let where_to = elsewhere(&mut waits);
        assert!(where_to.contains("does not lead"), "{where_to}");
        let mut asked = ask(&mut service, |reply| {
            Command::DeleteTopic(name("before"), reply)
        });
        assert_eq!(elsewhere(&mut asked), where_to);
        let mut known = ask(&mut service, |reply| {
            Command::Channels(name("before"), reply)
        });
        assert!(known.try_recv().expect("answered").is_ok());
        let mut later = ask(&mut service, |reply| Command::Channels(name("u"), reply));
        assert!(later.try_recv().expect("answered").is_err(), "not heard");

        let (orders, mut told) = mpsc::channel(1);
        service.turn(Next::FromLink(FromLink::Hello {
            link: 2,
            from: [127, 0, 0, 1].into(),
            hello: Box::new(hello()),
            orders,
        }));
        let is_known = standing
            == Standing::Follows {
                leader: Some(leader()),
            };
        let expected = ToBroker::NotLeading {
            leader: is_known.then(|| leader().link),
        };
        assert_eq!(told.try_recv().expect("answered").order, expected);
        assert_eq!(where_to.contains(&leader().http), is_known, "{where_to}");
    }
}
