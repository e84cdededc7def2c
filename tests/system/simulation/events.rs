//! The events of a scenario.

use std::time::Duration;

use minicluster::{Part, Random};

use super::fault_rates::FaultRates;
use super::scenario::Fate;

/// Something that happens, and when, from the start.
#[derive(Clone, Debug)]
pub struct Timed {
    pub at: Duration,
    pub what: Event,
}

/// Something that happens. Workloads are named by a number that is taken modulo how many there are, and commits by how
/// many pushes ago they were the head, so that a scenario from which something was taken away is still one.
#[derive(Clone, Debug)]
pub enum Event {
    /// A commit, pushed.
    Push(Vec<Edit>),
    /// Two commits in one push.
    PushTwo(Edit, Edit),
    /// A commit that changes nothing.
    PushEmpty,
    /// A commit that makes everything what it was so many pushes ago.
    Revert(usize),
    /// The branch is thrown back by so many pushes, and goes on from there.
    Force(usize, Edit),
    /// A merge of a branch into another that went on meanwhile.
    Merge(Edit, Edit),
    /// Somebody does something to a workload by hand.
    Hand(usize, Hand),
    /// The way between belay and the API server is bad for so long.
    Storm(FaultRates, Duration),
    /// Nobody reaches the Git server for so long: what is committed meanwhile is pushed afterwards.
    Outage(Duration),
    /// belay is killed, and starts again after so long.
    Kill(Kill, Duration),
    /// belay is killed, its state is lost, and it starts again elsewhere.
    Move(Kill),
    /// The clock of belay's machine is set, by so many seconds.
    Jump(i64),
    /// By mistake a second belay follows the same source for so long.
    Twin(Duration),
    /// Somebody else of the cluster has to do with a workload for so long.
    Actor(usize, Actor, Duration),
    /// A snapshot of etcd is taken.
    Snapshot,
    /// The API server is away for so long, and comes back with etcd as it was at the last snapshot.
    Restore(Duration),
    /// The controllers, or the nodes, are away for so long.
    PartStops(Part, Duration),
    /// Nothing can be written into belay's state folder for so long.
    FullDisk(Duration),
}

/// Somebody else of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    /// A webhook that fails: nobody can write the workload.
    Webhook,
    /// A controller that writes an annotation of the workload whenever it has another value.
    Controller,
    /// A quota that is used up: the API server refuses the workload.
    Quota,
}

/// An edit of a commit.
#[derive(Clone, Copy, Debug)]
pub enum Edit {
    /// Another image.
    Image(usize, Fate),
    /// Another image, and another value in the ConfigMap.
    ImageAndConfig(usize, Fate),
    /// Another value in the ConfigMap alone.
    Config(usize),
    /// Another variable: the same image in a new pod template.
    Variable(usize),
    /// An annotation of the workload alone.
    Note(usize),
    /// The number of pods.
    Replicas(usize, u64),
    /// The Secret.
    Secret,
    /// The file can't be read any more, or can again.
    Break(usize),
    /// The file goes, or comes back.
    Remove(usize),
    /// The file gets another name.
    Rename(usize),
    /// A file that is made to break whoever reads it, or its end.
    Bomb(Option<Bomb>),
    /// Another image in the Deployment of the second source.
    Side,
    /// Another image in its ReplicationController.
    Controller(Fate),
    /// Another Job in the place of the last.
    Job(Fate),
}

/// A file that is made to break whoever reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bomb {
    /// Larger than any manifest, and nothing in a pack.
    Zeros,
    /// A few lines whose aliases stand for millions.
    Aliases,
    /// Lists inside lists, deeper than any stack.
    Deep,
    /// An API version that no address can hold.
    Version,
    /// Bytes that are no text.
    Bytes,
}

impl Bomb {
    /// Every one.
    pub const ALL: [Bomb; 5] = [Bomb::Zeros, Bomb::Aliases, Bomb::Deep, Bomb::Version, Bomb::Bytes];

    /// Returns the content of the file.
    pub fn bytes(self) -> Vec<u8> {
        match self {
            Bomb::Zeros => vec![0; 20 << 20],
            Bomb::Aliases => {
                let line = |(below, above): (char, char)| {
                    format!("{above}: &{above} [{}]\n", vec![format!("*{below}"); 10].join(", "))
                };
                let lines: String = ('a'..='h').zip('b'..='i').map(line).collect();
                format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: bomb}}\na: &a [x, x]\n{lines}").into_bytes()
            }
            Bomb::Deep => "[".repeat(200_000).into_bytes(),
            Bomb::Version => b"apiVersion: \"ex.ample com/v1\"\nkind: Bomb\nmetadata: {name: bomb}\n".to_vec(),
            Bomb::Bytes => vec![0xff; 4096],
        }
    }
}

/// An action by hand.
#[derive(Clone, Copy, Debug)]
pub enum Hand {
    /// `kubectl rollout undo`
    Undo,
    /// `kubectl scale`
    Scale,
    /// `kubectl set image`
    Image,
    /// `kubectl delete`
    Delete,
    /// `kubectl replace --force`
    Replace,
    /// `kubectl rollout pause`, and `resume` after so many seconds.
    Pause(u64),
    /// The annotation that says to leave it alone, taken off again after so many seconds.
    Suspend(u64),
    /// The hold is taken off.
    Retry,
    /// A label of somebody else's.
    Label,
    /// `kubectl rollout restart`
    Restart,
    /// `kubectl edit`: a finalizer that keeps the object, taken off again after so many seconds.
    Finalizer(u64),
}

/// When belay is killed.
#[derive(Clone, Copy, Debug)]
pub enum Kill {
    /// At once.
    Now,
    /// When so many more requests have been made, before the server sees the last one.
    BeforeRequest(u64),
    /// When so many more requests have been made and the last one has been done, before belay hears of it.
    AfterRequest(u64),
    /// When so many more lines were logged: at the first await after.
    ApiProxy(u64),
}

impl Event {
    /// Any event.
    pub fn random(random: &Random) -> Event {
        let seconds = |least: u64, more: u64| Duration::from_secs(least + random.below(more));
        match random.below(100) {
            0..46 => Event::Push((0..1 + random.below(3)).map(|_| Edit::random(random)).collect()),
            46..50 => Event::PushTwo(Edit::random(random), Edit::random(random)),
            50..52 => Event::PushEmpty,
            52..56 => Event::Revert(1 + index(random) % 3),
            56..59 => Event::Force(1 + index(random) % 2, Edit::random(random)),
            59..62 => Event::Merge(Edit::random(random), Edit::random(random)),
            62..74 => Event::Hand(index(random), Hand::random(random)),
            74..84 => Event::Storm(FaultRates::random(random), seconds(5, 200)),
            84..92 => Event::Kill(Kill::random(random), seconds(0, 40)),
            92..95 => Event::Move(Kill::random(random)),
            95..98 => Event::Jump([-7200, -30, 20, 600, 86_400][index(random) % 5]),
            _ => Event::Twin(seconds(10, 120)),
        }
    }
}

impl Edit {
    fn random(random: &Random) -> Edit {
        let app = index(random);
        match random.below(100) {
            0..50 => Edit::Image(app, fate(random)),
            50..62 => Edit::ImageAndConfig(app, fate(random)),
            62..68 => Edit::Config(app),
            68..74 => Edit::Variable(app),
            74..78 => Edit::Note(app),
            78..84 => Edit::Replicas(app, 1 + random.below(3)),
            84..87 => Edit::Secret,
            87..92 => Edit::Break(app),
            92..97 => Edit::Remove(app),
            _ => Edit::Rename(app),
        }
    }
}

impl Hand {
    fn random(random: &Random) -> Hand {
        match random.below(8) {
            0 => Hand::Undo,
            1 => Hand::Scale,
            2 => Hand::Image,
            3 => Hand::Delete,
            4 => Hand::Pause(5 + random.below(60)),
            5 => Hand::Suspend(5 + random.below(60)),
            6 => Hand::Retry,
            _ => Hand::Label,
        }
    }
}

impl Kill {
    /// Any way of it.
    pub fn random(random: &Random) -> Kill {
        match random.below(4) {
            0 => Kill::Now,
            1 => Kill::BeforeRequest(random.below(25)),
            2 => Kill::AfterRequest(random.below(25)),
            _ => Kill::ApiProxy(random.below(15)),
        }
    }
}

fn fate(random: &Random) -> Fate {
    match random.below(10) {
        0..4 => Fate::Ready,
        4 => Fate::Slow,
        5..7 => Fate::Never,
        7 => Fate::Crash,
        8 => Fate::Pull,
        _ => Fate::Late,
    }
}

fn index(random: &Random) -> usize {
    usize::try_from(random.below(12)).unwrap_or_default()
}
