//! A scenario: which workloads there are, and what happens to them, the repository, the cluster and belay, and when. All of
//! it follows from a seed; it is plain data, so that it can be printed, and made shorter where it fails.

use std::time::Duration;

use minicluster::{Part, Random};

use super::events::{Actor, Bomb, Edit, Event, Hand, Kill, Timed};
use super::fault_rates::FaultRates;

/// The fate of an image's pods. The image's tag says so, and a script tells the kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// Ready after a second.
    Ready,
    /// Ready after some seconds.
    Slow,
    /// Runs and is never ready.
    Never,
    /// Crashes at once, again and again.
    Crash,
    /// Can't be pulled.
    Pull,
    /// Is ready, and crashes much later.
    Late,
    /// Is ready, and crashes soon, again and again: complete at first, and not well after it.
    Loops,
    /// Is ready and stays so, and answers with errors, which only an analysis sees.
    Errs,
    /// Ends well after a moment.
    Done,
    /// Ends badly after a moment.
    Undone,
}

/// The necessary end of a rollout of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Will {
    /// It can only succeed.
    Succeed,
    /// It can only fail.
    Fail,
    /// Both may be seen.
    Either,
}

impl Fate {
    const ALL: [(Fate, &'static str, &'static str, Will); 10] = [
        (Fate::Ready, "fine", "ready", Will::Succeed),
        (Fate::Slow, "slow", "ready-after=8s", Will::Succeed),
        (Fate::Never, "deaf", "never-ready", Will::Fail),
        (Fate::Crash, "dead", "never-ready,crash-after=1s,log=\"no database\"", Will::Fail),
        (Fate::Pull, "gone", "image-pull-error", Will::Fail),
        (Fate::Late, "late", "ready,crash-after=90s", Will::Either),
        (Fate::Loops, "loops", "ready,crash-after=20s,log=\"no database\"", Will::Either),
        (Fate::Errs, "errs", "ready", Will::Either),
        (Fate::Done, "done", "exit-after=3s,code=0", Will::Succeed),
        (Fate::Undone, "undone", "exit-after=3s,code=1", Will::Fail),
    ];

    fn row(self) -> &'static (Fate, &'static str, &'static str, Will) {
        &Fate::ALL[self as usize]
    }

    /// Returns the last word of the image's tag.
    pub fn word(self) -> &'static str {
        self.row().1
    }

    /// Returns its necessary end. A bake time sees the crash that comes soon.
    pub fn will(self, bakes: bool) -> Will {
        if self == Fate::Loops && bakes { Will::Fail } else { self.row().3 }
    }

    /// Returns the fate that an image's tag tells.
    pub fn of_image(image: &str) -> Option<Fate> {
        let word = image.rsplit_once('-')?.1;
        Fate::ALL.iter().find(|row| row.1 == word).map(|row| row.0)
    }

    /// Returns the script that tells the kubelet.
    pub fn script() -> String {
        let rule = |row: &(Fate, &str, &str, Will)| format!("- {{image: '*-{}', fate: '{}'}}\n", row.1, row.2);
        format!("rules:\n{}", Fate::ALL.iter().map(rule).collect::<String>())
    }
}

/// The kind of a simulated workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Deployment,
    StatefulSet,
    DaemonSet,
}

/// A workload, as its manifest says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct App {
    pub name: String,
    pub kind: Kind,
    pub replicas: u64,
    /// Differs in every image that is ever written.
    pub version: u64,
    pub fate: Fate,
    /// A variable of its container.
    pub variable: u64,
    /// An annotation that no pod hears of.
    pub note: u64,
    /// The value in the ConfigMap that its pods take; `None` if it has none.
    pub config: Option<u64>,
    /// True when a HorizontalPodAutoscaler beside it has its replicas.
    pub scaled: bool,
    /// The workload, by its number, that must be complete before this one is applied.
    pub after: Option<usize>,
    /// The number of steps of its canary; 0 if it has none.
    pub steps: u64,
    /// The number of times that its file was renamed.
    pub renamed: u64,
    pub shape: Shape,
}

/// The shape of a workload's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// As it should be.
    Sound,
    /// Nobody can read it.
    Broken,
    /// Not there.
    Gone,
}

/// The properties of the whole run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Style {
    pub prune: bool,
    pub fail_fast: bool,
    pub reports_drift: bool,
    /// True when everything of a commit goes back when one of it fails.
    pub whole_commit: bool,
    /// True when it writes only while it holds a Lease.
    pub leads: bool,
    /// The order of a second source, if there is one: after the first, or beside it.
    pub second: Option<Order>,
    /// True when each workload is rendered, from a folder of its own with a kustomization.
    pub rendered: bool,
    /// True when complete workloads have a bake time.
    pub bakes: bool,
    /// True when Prometheus is asked within the bake time.
    pub analyses: bool,
    /// The most workloads that are rolled out at a time; 0 is no limit.
    pub max_rollouts: usize,
    /// The minutes from the start between which new commits wait; `None` if they never do.
    pub closed: Option<(u64, u64)>,
}

impl Style {
    /// Returns the longest time for which a commit waits, in milliseconds.
    pub fn longest_wait(&self) -> u64 {
        self.closed.map_or(0, |(from, to)| (to - from) * 60_000)
    }
}

/// When a source is rolled out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By itself.
    Apart,
    /// When the first is complete.
    After,
}

/// A scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub seed: u64,
    pub style: Style,
    pub apps: Vec<App>,
    pub events: Vec<Timed>,
}

impl Scenario {
    /// Returns the scenario of a seed.
    pub fn of(seed: u64) -> Scenario {
        let random = Random::new(seed);
        // The additions of some worlds are drawn apart, so that the others stay as they were.
        let beside = Random::new(seed ^ 0xbe51de);
        let bakes = Random::new(seed ^ 0xba_0e5).below(4) == 0;
        let style = Style {
            prune: random.below(2) == 0,
            fail_fast: random.below(3) == 0,
            reports_drift: random.below(8) == 0,
            whole_commit: beside.below(6) == 0,
            leads: beside.below(4) == 0,
            second: match beside.below(8) {
                0 => Some(Order::Apart),
                1 => Some(Order::After),
                _ => None,
            },
            // Drawn apart once more, for the same reason.
            rendered: Random::new(seed ^ 0x0e0d_e2ed).below(5) == 0,
            bakes,
            analyses: bakes && Random::new(seed ^ 0xa0_a175).below(2) == 0,
            max_rollouts: usize::from(Random::new(seed ^ 0x0510_7500).below(6) == 0),
            closed: closed(&Random::new(seed ^ 0x0c10_5ed0)),
        };
        let count = 1 + random.below(3);
        let mut apps: Vec<App> = (0..count).map(|index| app(&random, index)).collect();
        for (index, app) in apps.iter_mut().enumerate() {
            app.scaled = beside.below(5) == 0 && app.kind != Kind::DaemonSet;
            app.after = (index > 0 && beside.below(4) == 0).then(|| index - 1);
        }
        let canaries = Random::new(seed ^ 0x0ca_4a27);
        for app in apps.iter_mut().filter(|app| app.kind == Kind::Deployment) {
            app.steps = u64::from(canaries.below(5) == 0);
        }
        let canaries = Random::new(seed ^ 0x05e7_ca4a);
        for app in apps.iter_mut().filter(|app| app.kind != Kind::Deployment && canaries.below(3) == 0) {
            app.steps = 1 + canaries.below(2);
            // One pod alone has no steps.
            app.replicas += 1;
        }
        let mut at = Duration::ZERO;
        let mut events: Vec<Timed> = (0..3 + random.below(5))
            .map(|_| {
                at += pause(&random);
                Timed { at, what: Event::random(&random) }
            })
            .collect();
        for what in more(&beside, &style, &apps) {
            events.push(Timed { at: at.mul_f64(0.01) * u32::try_from(beside.below(100)).unwrap_or_default(), what });
        }
        events.extend(in_the_middle(&Random::new(seed ^ 0x0b1a5), at));
        events.extend(outage(&Random::new(seed ^ 0x6_1700), at));
        events.extend(replaced(&Random::new(seed ^ 0x9e9_1ace), at));
        events.extend(unwell(&Random::new(seed ^ 0x10_0955), at));
        events.extend(bombs(&Random::new(seed ^ 0xb0_3b5), at));
        events.extend(people(&Random::new(seed ^ 0x9e0_91e), at));
        events.extend(flapping(&Random::new(seed ^ 0xf1a9), at));
        events.extend(webhook(&Random::new(seed ^ 0x3eb_0000), at));
        events.extend(controller(&Random::new(seed ^ 0xc_0117), at));
        events.extend(restored(&Random::new(seed ^ 0xe7cd), at));
        events.extend(part_away(&Random::new(seed ^ 0x9a_47a1), at));
        events.extend(quota(&Random::new(seed ^ 0x900_7a00), at));
        events.extend(full_disk(&Random::new(seed ^ 0xd15c_f011), at));
        // A webhook that fails would keep most such versions from being applied.
        let is_webhook = |timed: &Timed| matches!(timed.what, Event::Actor(_, Actor::Webhook, _));
        if style.analyses && !events.iter().any(is_webhook) {
            events.extend(errors(&Random::new(seed ^ 0xe4_4025), at));
        }
        events.sort_by_key(|timed| timed.at);
        Scenario { seed, style, apps, events }
    }
}

/// In some worlds, new commits wait for some minutes.
fn closed(apart: &Random) -> Option<(u64, u64)> {
    let (draw, from, lasts) = (apart.below(6), 1 + apart.below(4), 1 + apart.below(3));
    (draw == 0).then_some((from, from + lasts))
}

/// In some worlds, a commit that leaves a template alone while a rollout of it is under way that will fail.
fn in_the_middle(apart: &Random, end: Duration) -> Vec<Timed> {
    if apart.below(5) != 0 {
        return Vec::new();
    }
    let at = end.mul_f64(0.01) * u32::try_from(apart.below(100)).unwrap_or_default();
    let app = usize::try_from(apart.below(3)).unwrap_or_default();
    let fate = if apart.below(2) == 0 { Fate::Never } else { Fate::Pull };
    let leaves_alone = if apart.below(2) == 0 { Edit::Replicas(app, 1 + apart.below(3)) } else { Edit::Note(app) };
    let later = at + Duration::from_secs(2 + apart.below(20));
    vec![
        Timed { at, what: Event::Push(vec![Edit::Image(app, fate)]) },
        Timed { at: later, what: Event::Push(vec![leaves_alone]) },
    ]
}

/// In some worlds, the Git server goes away, and belay is killed meanwhile.
fn outage(apart: &Random, end: Duration) -> Vec<Timed> {
    if apart.below(4) != 0 {
        return Vec::new();
    }
    let at = end.mul_f64(0.01) * u32::try_from(apart.below(100)).unwrap_or_default();
    let lasts = Duration::from_secs(20 + apart.below(280));
    let killed = at + lasts.mul_f64(0.01) * u32::try_from(apart.below(60)).unwrap_or_default();
    let kill = Event::Kill(Kill::random(apart), Duration::from_secs(apart.below(10)));
    vec![Timed { at, what: Event::Outage(lasts) }, Timed { at: killed, what: kill }]
}

/// In some worlds, somebody replaces a workload by force while it is rolled out, and belay may not be there.
fn replaced(apart: &Random, end: Duration) -> Vec<Timed> {
    if apart.below(5) != 0 {
        return Vec::new();
    }
    let at = end.mul_f64(0.01) * u32::try_from(apart.below(100)).unwrap_or_default();
    let app = usize::try_from(apart.below(3)).unwrap_or_default();
    let fate = [Fate::Ready, Fate::Slow, Fate::Never][usize::try_from(apart.below(3)).unwrap_or_default()];
    let push = Timed { at, what: Event::Push(vec![Edit::Image(app, fate)]) };
    let later = at + Duration::from_millis(500 + apart.below(20_000));
    let hand = Timed { at: later, what: Event::Hand(app, Hand::Replace) };
    let kill = Event::Kill(Kill::Now, Duration::from_secs(1 + apart.below(10)));
    let killed = Timed { at: later.saturating_sub(Duration::from_millis(1 + apart.below(400))), what: kill };
    if apart.below(2) == 0 { vec![push, hand] } else { vec![push, killed, hand] }
}

/// In some worlds, what was complete stops being well, and some minutes later what fails takes its place.
fn unwell(apart: &Random, end: Duration) -> Vec<Timed> {
    if apart.below(6) != 0 {
        return Vec::new();
    }
    let at = end.mul_f64(0.01) * u32::try_from(apart.below(100)).unwrap_or_default();
    let app = usize::try_from(apart.below(3)).unwrap_or_default();
    let fate = [Fate::Never, Fate::Pull, Fate::Crash][usize::try_from(apart.below(3)).unwrap_or_default()];
    let later = at + Duration::from_secs(200 + apart.below(200));
    vec![
        Timed { at, what: Event::Push(vec![Edit::Image(app, Fate::Loops)]) },
        Timed { at: later, what: Event::Push(vec![Edit::Image(app, fate)]) },
    ]
}

/// In some worlds, a commit fails and people do something about it while it is rolled out, taken back or held; belay may be killed, and
/// a bad commit may follow.
fn people(apart: &Random, end: Duration) -> Vec<Timed> {
    if apart.below(3) != 0 {
        return Vec::new();
    }
    let index = |below: u64| usize::try_from(apart.below(below)).unwrap_or_default();
    let at = end.mul_f64(0.01) * u32::try_from(apart.below(100)).unwrap_or_default();
    let app = index(3);
    let fate = [Fate::Never, Fate::Pull, Fate::Crash][index(3)];
    let seconds = 5 + apart.below(120);
    let hand = [
        Hand::Delete,
        Hand::Restart,
        Hand::Suspend(seconds),
        Hand::Undo,
        Hand::Finalizer(5 + seconds / 4),
        Hand::Scale,
        Hand::Image,
    ][index(7)];
    let later = at + Duration::from_secs(1 + apart.below(110));
    let bad = [Edit::Image(app, fate), Edit::ImageAndConfig(app, fate)][index(2)];
    let mut events =
        vec![Timed { at, what: Event::Push(vec![bad]) }, Timed { at: later, what: Event::Hand(app, hand) }];
    if apart.below(3) == 0 {
        let kill = Event::Kill(Kill::random(apart), Duration::from_secs(apart.below(30)));
        let killed = later.saturating_sub(Duration::from_secs(apart.below(6)));
        events.push(Timed { at: killed, what: kill });
    }
    if apart.below(3) == 0 {
        let again = later + Duration::from_secs(apart.below(60));
        events.push(Timed { at: again, what: Event::Push(vec![Edit::ImageAndConfig(app, fate)]) });
    }
    events
}

/// In some worlds, the API server comes and goes for a while.
fn flapping(apart: &Random, end: Duration) -> Vec<Timed> {
    if apart.below(10) != 0 {
        return Vec::new();
    }
    let at = end.mul_f64(0.01) * u32::try_from(apart.below(100)).unwrap_or_default();
    let away = FaultRates { silent: 60, fails: 30, ..FaultRates::fair() };
    let each = |number: u64| Timed {
        at: at + Duration::from_secs(number * 20),
        what: Event::Storm(away, Duration::from_secs(1 + apart.below(8))),
    };
    (0..3 + apart.below(8)).map(each).collect()
}

/// In some worlds, a webhook fails for one workload, while a commit changes this and others; half of the time when all else is over.
fn webhook(apart: &Random, end: Duration) -> Vec<Timed> {
    /// The time after all other events.
    const QUIET: Duration = Duration::from_secs(90);
    if apart.below(6) != 0 {
        return Vec::new();
    }
    let index = |below: u64| usize::try_from(apart.below(below)).unwrap_or_default();
    let at = end.mul_f64(0.01) * u32::try_from(apart.below(100)).unwrap_or_default();
    let app = index(3);
    let fate = [Fate::Ready, Fate::Never, Fate::Slow][index(3)];
    let edits = vec![Edit::Image(app, fate), Edit::Image(app + 1, Fate::Ready), Edit::Image(app + 2, Fate::Ready)];
    let lasts = Duration::from_secs(20 + apart.below(200));
    let pushed = Duration::from_secs(apart.below(20));
    let at = if apart.below(2) == 0 { end + QUIET } else { at };
    vec![
        Timed { at, what: Event::Actor(app, Actor::Webhook, lasts) },
        Timed { at: at + pushed, what: Event::Push(edits) },
    ]
}

/// In some worlds, a controller disagrees with the repository about a workload.
fn controller(apart: &Random, end: Duration) -> Vec<Timed> {
    if apart.below(6) != 0 {
        return Vec::new();
    }
    let at = end.mul_f64(0.01) * u32::try_from(apart.below(100)).unwrap_or_default();
    let app = usize::try_from(apart.below(3)).unwrap_or_default();
    let lasts = Duration::from_secs(60 + apart.below(300));
    vec![Timed { at, what: Event::Actor(app, Actor::Controller, lasts) }]
}

/// In some worlds, etcd is restored from a snapshot that was taken before a commit, or in the middle of its rollout.
fn restored(apart: &Random, end: Duration) -> Vec<Timed> {
    if apart.below(6) != 0 {
        return Vec::new();
    }
    let index = |below: u64| usize::try_from(apart.below(below)).unwrap_or_default();
    let at = end.mul_f64(0.01) * u32::try_from(apart.below(100)).unwrap_or_default();
    let app = index(3);
    let fate = [Fate::Ready, Fate::Slow, Fate::Never, Fate::Pull][index(4)];
    let pushed = at + Duration::from_secs(apart.below(20));
    let taken = at + Duration::from_secs(apart.below(60));
    let away = Duration::from_secs(5 + apart.below(40));
    let back = taken + Duration::from_secs(1 + apart.below(150));
    let mut events = vec![
        Timed { at: taken, what: Event::Snapshot },
        Timed { at: pushed, what: Event::Push(vec![Edit::ImageAndConfig(app, fate)]) },
        Timed { at: back, what: Event::Restore(away) },
    ];
    if apart.below(3) == 0 {
        let kill = Event::Kill(Kill::random(apart), Duration::from_secs(apart.below(60)));
        events.push(Timed { at: back, what: kill });
    }
    events
}

/// In some worlds, the controllers are away for a while, around a commit, and not for as long as belay waits for them.
fn part_away(apart: &Random, end: Duration) -> Vec<Timed> {
    if apart.below(7) != 0 {
        return Vec::new();
    }
    let index = |below: u64| usize::try_from(apart.below(below)).unwrap_or_default();
    let at = end.mul_f64(0.01) * u32::try_from(apart.below(100)).unwrap_or_default();
    let fate = [Fate::Ready, Fate::Slow, Fate::Never][index(3)];
    let lasts = Duration::from_secs(10 + apart.below(300));
    let pushed = at + Duration::from_secs(apart.below(40));
    let away = (at + Duration::from_secs(apart.below(40)), Event::PartStops(Part::Controllers, lasts));
    vec![Timed { at: pushed, what: Event::Push(vec![Edit::Image(index(3), fate)]) }, Timed { at: away.0, what: away.1 }]
}

/// In some worlds, a quota is used up for a while, and refuses one workload of a commit.
fn quota(apart: &Random, end: Duration) -> Vec<Timed> {
    if apart.below(7) != 0 {
        return Vec::new();
    }
    let index = |below: u64| usize::try_from(apart.below(below)).unwrap_or_default();
    let at = end.mul_f64(0.01) * u32::try_from(apart.below(100)).unwrap_or_default();
    let app = index(3);
    let fate = [Fate::Ready, Fate::Never, Fate::Slow][index(3)];
    let edits = vec![Edit::ImageAndConfig(app, fate), Edit::Image(app + 1, Fate::Ready)];
    let lasts = Duration::from_secs(20 + apart.below(300));
    vec![
        Timed { at, what: Event::Actor(app, Actor::Quota, lasts) },
        Timed { at: at + Duration::from_secs(apart.below(20)), what: Event::Push(edits) },
    ]
}

/// In some worlds, belay's disk is full for a while, when a commit comes or while it is rolled out.
fn full_disk(apart: &Random, end: Duration) -> Vec<Timed> {
    if apart.below(8) != 0 {
        return Vec::new();
    }
    let index = |below: u64| usize::try_from(apart.below(below)).unwrap_or_default();
    let at = end.mul_f64(0.01) * u32::try_from(apart.below(100)).unwrap_or_default();
    let fate = [Fate::Ready, Fate::Slow, Fate::Never][index(3)];
    let lasts = Duration::from_secs(10 + apart.below(200));
    let mut events = vec![
        Timed { at, what: Event::Push(vec![Edit::Image(index(3), fate)]) },
        Timed {
            at: (at + Duration::from_secs(apart.below(60))).saturating_sub(Duration::from_secs(20)),
            what: Event::FullDisk(lasts),
        },
    ];
    if apart.below(3) == 0 {
        let killed = at + Duration::from_secs(apart.below(120));
        events.push(Timed { at: killed, what: Event::Kill(Kill::random(apart), Duration::from_secs(apart.below(30))) });
    }
    events
}

/// A version that answers with errors, and most often a good one some time later; belay may be killed meanwhile.
fn errors(apart: &Random, end: Duration) -> Vec<Timed> {
    let at = end.mul_f64(0.01) * u32::try_from(apart.below(100)).unwrap_or_default();
    let app = usize::try_from(apart.below(3)).unwrap_or_default();
    let mut events = vec![Timed { at, what: Event::Push(vec![Edit::Image(app, Fate::Errs)]) }];
    if apart.below(2) == 0 {
        let kill = Event::Kill(Kill::random(apart), Duration::from_secs(apart.below(90)));
        events.push(Timed { at: at + Duration::from_secs(apart.below(60)), what: kill });
    }
    if apart.below(4) != 0 {
        let good = Event::Push(vec![Edit::Image(app, Fate::Ready)]);
        events.push(Timed { at: at + Duration::from_secs(20 + apart.below(300)), what: good });
    }
    events
}

/// In some worlds, a file is committed that is made to break its reader, and most often goes again.
fn bombs(apart: &Random, end: Duration) -> Vec<Timed> {
    if apart.below(4) != 0 {
        return Vec::new();
    }
    let moment = || end.mul_f64(0.01) * u32::try_from(apart.below(100)).unwrap_or_default();
    let (one, other) = (moment(), moment());
    let bomb = Bomb::ALL[usize::try_from(apart.below(5)).unwrap_or_default() % Bomb::ALL.len()];
    let good = Edit::Image(usize::try_from(apart.below(3)).unwrap_or_default(), Fate::Ready);
    let comes = Timed { at: one.min(other), what: Event::Push(vec![Edit::Bomb(Some(bomb)), good]) };
    let goes = Timed { at: one.max(other), what: Event::Push(vec![Edit::Bomb(None)]) };
    if apart.below(3) == 0 { vec![comes] } else { vec![comes, goes] }
}

/// Returns further events, if there is something for them to happen to.
fn more(beside: &Random, style: &Style, apps: &[App]) -> Vec<Event> {
    let mut more = Vec::new();
    if style.leads && beside.below(2) == 0 {
        more.push(Event::Twin(Duration::from_secs(20 + beside.below(400))));
    }
    if style.second.is_some() {
        let fates = [Fate::Ready, Fate::Slow, Fate::Never, Fate::Crash];
        let fate = fates[usize::try_from(beside.below(4)).unwrap_or_default()];
        let job = if beside.below(3) == 0 { Fate::Undone } else { Fate::Done };
        more.push(Event::Push(vec![Edit::Controller(fate), Edit::Image(0, Fate::Ready)]));
        more.push(Event::Push(vec![Edit::Side, Edit::Job(job)]));
    }
    if let Some(first) = apps.iter().find_map(|app| app.after) {
        more.push(Event::Push(vec![Edit::Image(first, Fate::Slow), Edit::Image(first + 1, Fate::Ready)]));
    }
    more.extend(apps.iter().position(|app| app.scaled).map(|app| Event::Hand(app, Hand::Scale)));
    more
}

fn app(random: &Random, index: u64) -> App {
    let kind = match random.below(6) {
        0 => Kind::StatefulSet,
        1 => Kind::DaemonSet,
        _ => Kind::Deployment,
    };
    App {
        name: ["web", "api", "shop", "mail"][usize::try_from(index).unwrap_or_default()].to_owned(),
        kind,
        replicas: 1 + random.below(2),
        version: 1,
        fate: if random.below(10) == 0 { Fate::Crash } else { Fate::Ready },
        variable: 0,
        note: 0,
        config: (random.below(2) == 0).then_some(0),
        scaled: false,
        after: None,
        steps: 0,
        renamed: 0,
        shape: Shape::Sound,
    }
}

/// Returns the length of a pause: a moment, a part of a rollout, or longer than one.
fn pause(random: &Random) -> Duration {
    Duration::from_millis(match random.below(10) {
        0..3 => random.below(3000),
        3..7 => 3000 + random.below(30_000),
        _ => 30_000 + random.below(90_000),
    })
}
