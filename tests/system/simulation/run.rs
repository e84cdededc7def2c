//! The traces of a run, for the checkers. Nothing here is belay's: raw requests, raw objects, rows, lines.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use serde_json::Value;

use super::api_proxy::Exchange;
use super::events::{Actor, Hand};
use super::findings::{Finding, key_of_path};
use super::history_rows::HistoryRows;
use super::repository::{Key, Pushed, PushedCommit};
use super::scenario::{Fate, Scenario, Will};

/// Something that a person did.
#[derive(Clone, Debug)]
pub struct Handled {
    pub at: u64,
    pub key: Key,
    pub hand: Hand,
    /// The hold that the object had then, as its annotation says it.
    pub held: Option<String>,
}

/// Somebody else of the cluster who had to do with a workload for a time.
#[derive(Clone, Debug)]
pub struct ActorPeriod {
    pub actor: Actor,
    pub key: Key,
    pub from: u64,
    pub to: u64,
}

/// One process of belay.
#[derive(Clone, Debug)]
pub struct Life {
    /// The number of its state folder.
    pub state: usize,
    pub from: u64,
    pub to: Option<u64>,
    /// True when it was a second one beside another.
    pub twin: bool,
}

/// A report of a watch about a workload.
#[derive(Clone, Debug)]
pub struct WatchReport {
    /// The process that heard it.
    pub process: usize,
    pub at: u64,
    pub key: Key,
    pub version: String,
    pub is_unwell: bool,
}

/// All that a run leaves behind.
pub struct Run {
    pub scenario: Scenario,
    /// Every commit that was ever made, pushed or not.
    pub commits: BTreeMap<String, PushedCommit>,
    pub pushed: Vec<Pushed>,
    pub wire: Vec<Exchange>,
    pub heard: Vec<WatchReport>,
    pub hands: Vec<Handled>,
    pub acting: Vec<ActorPeriod>,
    pub lives: Vec<Life>,
    /// One history for each state folder.
    pub books: Vec<HistoryRows>,
    pub log: Vec<(u64, String)>,
    /// The status of belay at the end.
    pub status: Value,
    /// The state of the first source, as belay says it.
    pub state: String,
    /// True when it settled within the time that it has after the last disturbance.
    pub settled: bool,
    /// When it had settled.
    pub still: u64,
    /// Every object of the kinds that matter, at the end.
    pub live: BTreeMap<Key, Value>,
    /// The objects that are none of belay's business, before and at the end.
    pub strangers: Vec<(Key, Value, Option<Value>)>,
    /// When storms were: from and to.
    pub storms: Vec<(u64, u64)>,
    /// When the clock was set, and by how many seconds.
    pub jumps: Vec<(u64, i64)>,
    /// The times of etcd's restores.
    pub restores: Vec<u64>,
    /// The times when the disk of a state folder was full: from and to.
    pub full: Vec<(u64, u64)>,
    /// The requests, in lines that are the same for the same seed.
    pub print: String,
}

impl Run {
    /// Returns the necessary end of a rollout of an image with this fate; of an image without one both may be seen.
    pub fn will(&self, fate: Option<Fate>) -> Will {
        fate.map_or(Will::Either, |fate| fate.will(self.scenario.style.bakes))
    }

    /// Returns the last head.
    pub fn head(&self) -> &Pushed {
        self.pushed.last().expect("a first commit")
    }

    /// Returns every write of belay to an object by name that the server has done, in order.
    pub fn writes(&self) -> impl Iterator<Item = (Key, &Exchange)> {
        self.wire.iter().filter(|exchange| exchange.is_write()).filter_map(|exchange| {
            let key = key_of_path(&exchange.path)?;
            exchange.succeeded().then_some((key, exchange))
        })
    }

    /// Returns every apply that the server has done.
    pub fn applies(&self) -> impl Iterator<Item = (Key, &Exchange)> {
        self.writes().filter(|(_, exchange)| exchange.is_apply())
    }

    /// Returns the records of all histories.
    pub fn records(&self) -> impl Iterator<Item = &super::history_rows::Record> {
        self.books.iter().flat_map(|books| &books.records)
    }

    /// Returns what a process had heard of a workload last before a moment.
    pub fn heard_of(&self, process: usize, key: &Key, before: u64) -> Option<&WatchReport> {
        let mut heard = self.heard.iter().filter(|heard| heard.at < before).rev();
        heard.find(|heard| heard.process == process && heard.key == *key)
    }

    /// Returns the history of the belay that ran last.
    pub fn main_books(&self) -> Option<&HistoryRows> {
        let life = self.lives.iter().rev().find(|life| !life.twin)?;
        self.books.get(life.state)
    }

    /// Returns the actions by hand on an object.
    pub fn hands_on(&self, key: &Key) -> impl Iterator<Item = &Handled> {
        self.hands.iter().filter(move |handled| handled.key == *key)
    }

    /// When an actor had to do with which workloads.
    pub fn acting(&self, actor: Actor) -> impl Iterator<Item = &ActorPeriod> {
        self.acting.iter().filter(move |acting| acting.actor == actor)
    }

    /// Returns the head of a moment.
    pub fn head_at(&self, at: u64) -> &Pushed {
        self.pushed.iter().rev().find(|pushed| pushed.at <= at).unwrap_or(&self.pushed[0])
    }

    /// Returns true when belay lost its state at any time.
    pub fn has_moved(&self) -> bool {
        self.lives.iter().filter(|life| !life.twin).any(|life| life.state != self.lives[0].state)
    }

    /// Returns true when two belays ran at once at any time.
    pub fn had_twin(&self) -> bool {
        self.lives.iter().any(|life| life.twin)
    }

    /// Returns true when two belays wrote at once at any time: two ran, and nothing decided which may write.
    pub fn had_rival(&self) -> bool {
        self.had_twin() && !self.scenario.style.leads
    }

    /// Returns true when two belays wrote an object within a time, and nothing decided which of them may.
    pub fn met_rival(&self, key: &Key, within: &RangeInclusive<u64>) -> bool {
        let written = self.writes().filter(|(of, exchange)| of == key && within.contains(&exchange.begun));
        let states: BTreeSet<usize> = written.map(|(_, exchange)| self.lives[exchange.process].state).collect();
        self.had_rival() && states.len() > 1
    }

    /// Returns everything that the checkers find.
    pub fn findings(&self) -> Vec<Finding> {
        super::checks::all(self)
    }
}

impl Exchange {
    /// Returns true when it is meant to change anything.
    pub fn is_write(&self) -> bool {
        self.method != "GET" && !self.path.contains("dryRun=All")
    }

    /// Returns true when it is a server-side apply.
    pub fn is_apply(&self) -> bool {
        self.media == "application/apply-patch+yaml"
    }

    /// Returns true when the server has done it.
    pub fn succeeded(&self) -> bool {
        self.done.as_ref().is_some_and(|(code, _)| (200..300).contains(code))
    }
}
