//! A small model of the API server, the controllers and the nodes, for the tests of this room: one step of each is
//! taken when a test says so.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::names::{Controller, labels, owner};
use super::{Ask, Left, Live, Refused, RollingUpdate, Step, Write};

/// One namespace.
pub(super) struct ModelCluster {
    pub controllers: BTreeMap<String, Value>,
    pub pods: BTreeMap<String, Value>,
    /// Returns true when pods of an image become ready.
    pub ready: fn(&str) -> bool,
    /// The number of pods that become ready at one step; the rest waits.
    pub pace: usize,
    count: u64,
    /// The number of turns that a deleted controller stays for, because of a finalizer.
    pub lingers: usize,
    /// Everything that was said.
    pub said: Vec<String>,
    /// The most pods, and the fewest ready ones, that there were.
    pub most: usize,
    pub fewest: usize,
}

/// The end of a run.
#[derive(Debug, PartialEq)]
pub(super) enum Ended {
    Done(String),
    Killed,
    /// Nothing moved for a long time.
    Stuck,
}

impl ModelCluster {
    /// Returns a controller `foo` with `size` pods of image v1, all ready.
    pub(super) fn with(size: i64) -> ModelCluster {
        let mut world = ModelCluster {
            controllers: BTreeMap::new(),
            pods: BTreeMap::new(),
            ready: |_| true,
            pace: usize::MAX,
            count: 0,
            lingers: 0,
            said: Vec::new(),
            most: 0,
            fewest: usize::MAX,
        };
        world.create(&json!({"metadata": {"name": "foo", "namespace": "default"}, "spec": {"replicas": size,
            "selector": {"app": "foo"}, "template": {"metadata": {"labels": {"app": "foo"}},
            "spec": {"containers": [{"name": "app", "image": "v1"}]}}}}));
        world.turn();
        world.most = 0;
        world.fewest = usize::MAX;
        world
    }

    pub(super) fn live(&self) -> Live {
        Live { controllers: self.controllers.values().cloned().collect(), pods: self.pods.values().cloned().collect() }
    }

    /// Carries an update through, up to `writes` writes.
    pub(super) fn run(&mut self, ask: &Ask, writes: usize) -> Result<Ended, Refused> {
        let mut update = RollingUpdate::new(ask.clone())?;
        let (mut left, mut idle) = (writes, 0);
        loop {
            self.turn();
            match update.step(&self.live())? {
                Step::Write { write, says } => {
                    if left == 0 {
                        return Ok(Ended::Killed);
                    }
                    left -= 1;
                    idle = 0;
                    self.said.extend(says);
                    self.carry_out(&write);
                }
                Step::Wait { says, .. } => {
                    self.said.extend(says);
                    idle += 1;
                }
                Step::Rest { says, .. } => {
                    self.said.extend(says);
                    update.rested();
                    idle += 1;
                }
                Step::Done(last) => return Ok(Ended::Done(last)),
            }
            if idle > 200 {
                return Ok(Ended::Stuck);
            }
        }
    }

    /// Returns the sizes that were said: `up 1`, `down 2`.
    pub(super) fn scalings(&self) -> Vec<String> {
        let scaling = |line: &String| {
            let words: Vec<&str> = line.split(' ').collect();
            (words.len() == 5 && words[0] == "Scaling" && words[3] == "to")
                .then(|| format!("{} {}", words[2], words[4]))
        };
        self.said.iter().filter_map(scaling).collect()
    }

    fn carry_out(&mut self, write: &Write) {
        match write {
            Write::Create(body) => {
                assert!(!self.controllers.contains_key(&name(body)), "created twice: {body}");
                self.create(body);
            }
            Write::Change { name, patch, .. } => {
                let mut object = self.controllers.get(name).expect("it is there").clone();
                let metadata = &object["metadata"];
                assert_eq!(
                    (&patch["metadata"]["uid"], &patch["metadata"]["resourceVersion"]),
                    (&metadata["uid"], &metadata["resourceVersion"])
                );
                let spec = object["spec"].clone();
                merge(&mut object, patch);
                let selector = labels(&object["spec"]["selector"]);
                let template = labels(&object["spec"]["template"]["metadata"]["labels"]);
                assert!(selector.iter().all(|(key, value)| template.get(key) == Some(value)), "refused: {object}");
                if object["spec"] != spec {
                    object["metadata"]["generation"] = json!(object["metadata"]["generation"].as_i64().unwrap() + 1);
                }
                self.store(object);
            }
            Write::Delete { name, uid, pods } => {
                let mut gone = self.controllers.remove(name).expect("it is there");
                assert_eq!(gone["metadata"]["uid"], uid.as_str());
                if self.lingers > 0 {
                    gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
                    self.store(gone.clone());
                }
                for pod in self.pods.values_mut().filter(|pod| Controller(&gone).owns(pod)) {
                    assert_eq!(*pods, Left::Orphaned, "a pod would be deleted");
                    pod["metadata"]["ownerReferences"] = json!([]);
                }
            }
            Write::ChangePod { name, patch } => merge(self.pods.get_mut(name).expect("it is there"), patch),
            Write::DeletePod { name, .. } => drop(self.pods.remove(name).expect("it is there")),
        }
        self.measure();
    }

    fn create(&mut self, body: &Value) {
        let mut object = body.clone();
        self.count += 1;
        object["metadata"]["uid"] = format!("uid-{}", self.count).into();
        object["metadata"]["generation"] = json!(1);
        self.store(object);
    }

    fn store(&mut self, mut object: Value) {
        self.count += 1;
        object["metadata"]["resourceVersion"] = self.count.to_string().into();
        self.controllers.insert(name(&object), object);
    }

    /// Takes a turn: the controllers make, take, release and delete pods; some pods become ready.
    pub(super) fn turn(&mut self) {
        let is_going = |one: &Value| Controller(one).is_being_deleted();
        if self.controllers.values().any(is_going) {
            self.lingers -= 1;
            let is_kept = self.lingers > 0;
            self.controllers.retain(|_, one| is_kept || !is_going(one));
        }
        for name in self.controllers.keys().cloned().collect::<Vec<_>>() {
            let controller = self.controllers[&name].clone();
            self.sync(&controller);
        }
        let waiting: Vec<String> =
            self.pods.iter().filter(|(_, pod)| pod["status"] == json!({})).map(|(name, _)| name.clone()).collect();
        for name in waiting.into_iter().take(self.pace) {
            let pod = self.pods.get_mut(&name).unwrap();
            if (self.ready)(pod["spec"]["containers"][0]["image"].as_str().unwrap()) {
                pod["status"] = json!({"conditions": [{"type": "Ready", "status": "True"}]});
            }
        }
        self.measure();
    }

    fn sync(&mut self, value: &Value) {
        let controller = Controller(value);
        let selector = controller.selector();
        let chosen = |pod: &Value| {
            let present = labels(&pod["metadata"]["labels"]);
            selector.iter().all(|(key, value)| present.get(key) == Some(value))
        };
        let reference = json!([{"uid": controller.uid(), "controller": true}]);
        for pod in self.pods.values_mut() {
            if controller.owns(pod) && !chosen(pod) {
                pod["metadata"]["ownerReferences"] = json!([]);
            } else if owner(pod).is_none() && chosen(pod) {
                pod["metadata"]["ownerReferences"] = reference.clone();
            }
        }
        let mut own: Vec<String> =
            self.pods.iter().filter(|(_, pod)| controller.owns(pod)).map(|(name, _)| name.clone()).collect();
        // Those that are not ready go first.
        own.sort_by_key(|name| self.pods[name]["status"] != json!({}));
        let size = usize::try_from(controller.size()).unwrap();
        for name in own.iter().take(own.len().saturating_sub(size)) {
            self.pods.remove(name);
        }
        for _ in own.len()..size {
            self.count += 1;
            let name = format!("{}-{:05}", controller.name(), self.count);
            let template = &value["spec"]["template"];
            self.pods.insert(
                name.clone(),
                json!({"metadata": {"name": name, "uid": name, "generateName": format!("{}-", controller.name()),
                    "labels": template["metadata"]["labels"], "ownerReferences": reference},
                    "spec": template["spec"], "status": {}}),
            );
        }
        let status = json!({"replicas": size, "observedGeneration": value["metadata"]["generation"]});
        if value["status"] != status {
            let mut object = value.clone();
            object["status"] = status;
            self.store(object);
        }
    }

    fn measure(&mut self) {
        let ready = self.pods.values().filter(|pod| pod["status"] != json!({})).count();
        self.most = self.most.max(self.pods.len());
        self.fewest = self.fewest.min(ready);
    }
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

fn merge(value: &mut Value, patch: &Value) {
    let Some(changes) = patch.as_object() else {
        *value = patch.clone();
        return;
    };
    if !value.is_object() {
        *value = Map::new().into();
    }
    for (key, change) in changes {
        if change.is_null() {
            value.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut value[key.as_str()], change);
        }
    }
}
