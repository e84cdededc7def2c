//! Random histories: an object is made, changed by several managers, and deleted.

use kube_facts::{Kind, Type, facts};
use proptest::collection::vec;
use proptest::sample::{Index, select};
use proptest::strategy::{BoxedStrategy, Just, Strategy, Union};
use serde_json::{Value, json};

use super::grow::Mood;
use super::schemas;
use crate::objects::Step;

/// Kinds that change how the real server answers everybody, or that it changes by itself some time later: they are only
/// tried.
const TRIED: [&str; 10] = [
    "APIService",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "PriorityClass",
    "ResourceQuota",
    "ServiceCIDR",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
];

/// Names that are no good for most kinds.
const NAMES: [&str; 6] = ["A", "a b", "x.y", "-", "a_b", "a%"];

/// The writers.
const MANAGERS: [&str; 3] = ["one", "two", "three"];

/// A kind, as histories see it.
#[derive(Clone)]
struct Subject {
    kind: &'static Kind,
    ty: Type,
    seed: Value,
    title: String,
}

/// Returns a creation of an object like `seed`, and some changes of it.
pub fn history(seed: &Value) -> BoxedStrategy<Vec<Step>> {
    let api_version = seed["apiVersion"].as_str().unwrap();
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let name = seed["kind"].as_str().unwrap();
    let ty = Type::named(facts().type_name(group, version, name).unwrap());
    let kind = facts().kind(group, version, name).unwrap();
    let subject = Subject { kind, ty, seed: seed.clone(), title: format!("{api_version} {name}") };
    let ty = subject.ty.clone();
    let born = (Mood::any(), subject.seeds()).prop_flat_map(move |(mood, seed)| mood.object(&ty, &seed));
    let tried = TRIED.contains(&name);
    let usual = subject.seed["metadata"]["name"].as_str().unwrap().to_owned();
    let names =
        Union::new_weighted(vec![(40, Just(usual).boxed()), (1, select(&NAMES[..]).prop_map(str::to_owned).boxed())]);
    let strictness = Union::new_weighted(vec![(8, Just("Warn")), (1, Just("Strict")), (1, Just("Ignore"))]);
    let verbs = Union::new_weighted(vec![(6, Just("create")), (1, Just("apply"))]);
    (born, names, select(&MANAGERS[..]), strictness, verbs)
        .prop_flat_map(move |(born, name, manager, validation, verb)| {
            let mut subject = subject.clone();
            subject.seed["metadata"]["name"] = json!(name);
            let mut born = born;
            subject.identify(&mut born);
            let mut first = subject.step(verb, manager, None, born.clone());
            first.validation = validation.to_owned();
            first.dry = tried;
            let more = if tried { 0..1 } else { 0..5 };
            vec(subject.change(&born), more)
                .prop_map(move |rest| std::iter::once(first.clone()).chain(rest).collect::<Vec<Step>>())
        })
        .boxed()
}

impl Subject {
    fn defines(&self) -> bool {
        self.kind.kind == "CustomResourceDefinition"
    }

    /// Returns the seeds around which objects are grown.
    fn seeds(&self) -> BoxedStrategy<Value> {
        let seed = self.seed.clone();
        if !self.defines() {
            return Just(seed).boxed();
        }
        schemas::versions(&seed)
            .prop_map(move |versions| {
                let mut seed = seed.clone();
                seed["spec"]["versions"] = versions;
                seed
            })
            .boxed()
    }

    fn name(&self) -> &str {
        self.seed["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// Writes into an object what and which one it is.
    fn identify(&self, object: &mut Value) {
        object["apiVersion"] = self.seed["apiVersion"].clone();
        object["kind"] = self.seed["kind"].clone();
        object["metadata"]["name"] = json!(self.name());
    }

    fn step(&self, verb: &str, manager: &str, sub: Option<&str>, body: Value) -> Step {
        let force = verb == "apply" && manager == "two";
        let (body, change) = if verb == "put" { (Value::Null, Some(body)) } else { (body, None) };
        let value = json!({
            "do": verb, "as": manager, "kind": self.title, "name": self.name(), "force": force, "sub": sub, "body": body,
            "change": change,
        });
        serde_json::from_value(value).unwrap()
    }

    /// Returns one write of what is there.
    fn change(&self, born: &Value) -> BoxedStrategy<Step> {
        let mut ways = vec![
            (12, self.merged(None, self.some(|mood, ty| mood.change(ty)))),
            (4, self.operations(born)),
            (1, self.again(born.clone())),
            (2, self.deletion()),
        ];
        if self.defines() {
            ways.push((16, self.merged(None, schemas::change(born))));
        }
        let has = |name: &str| self.kind.subresources.iter().any(|sub| sub.name == name);
        if has("status") && Mood::Careful.part(&self.ty, "status").is_some() {
            let status = self.some(|mood, ty| mood.part(ty, "status").expect("there is one"));
            let written = self.merged(Some("status"), status.prop_map(|status| json!({ "status": status })).boxed());
            // The real server itself goes by the status of a definition, and one that it can't make sense of stays for ever.
            let dry = self.defines();
            ways.push((4, written.prop_map(move |step| Step { dry, ..step }).boxed()));
        }
        if has("scale") {
            ways.push((2, self.scale()));
        }
        Union::new_weighted(ways).boxed()
    }

    /// Returns a strategy that grows in any mood.
    fn some(&self, grow: impl Fn(Mood, &Type) -> BoxedStrategy<Value> + 'static) -> BoxedStrategy<Value> {
        let ty = self.ty.clone();
        Mood::any().prop_flat_map(move |mood| grow(mood, &ty)).boxed()
    }

    /// Some fields, laid over what is there in any of the ways that there are.
    fn merged(&self, sub: Option<&'static str>, change: BoxedStrategy<Value>) -> BoxedStrategy<Step> {
        let subject = self.clone();
        (change, select(&MANAGERS[..]), select(&["merge", "strategic", "apply", "put"][..]))
            .prop_map(move |(mut change, manager, verb)| {
                if let Some(metadata) = change["metadata"].as_object_mut() {
                    metadata.remove("name");
                }
                if verb == "apply" {
                    subject.identify(&mut change);
                }
                subject.step(verb, manager, sub, change)
            })
            .boxed()
    }

    /// Returns a JSON patch of places that the object had when it was made, and of one that it may not have had.
    fn operations(&self, born: &Value) -> BoxedStrategy<Step> {
        let mut places = Vec::new();
        pointers(born, &mut Vec::new(), &mut places);
        let (subject, ty) = (self.clone(), self.ty.clone());
        let ops = select(&["add", "replace", "remove", "test"][..]);
        let operation = (Just(places), proptest::arbitrary::any::<Index>(), ops, Mood::any()).prop_flat_map(
            move |(places, index, op, mood)| {
                let place = index.get(&places).clone();
                let path: Vec<&str> = place.iter().map(String::as_str).collect();
                let pointer: String =
                    path.iter().map(|part| format!("/{}", part.replace('~', "~0").replace('/', "~1"))).collect();
                mood.at(&ty, &path).prop_map(move |value| {
                    if op == "remove" {
                        json!({ "op": op, "path": pointer })
                    } else {
                        json!({ "op": op, "path": pointer, "value": value })
                    }
                })
            },
        );
        (vec(operation, 1..3), select(&MANAGERS[..]))
            .prop_map(move |(operations, manager)| subject.step("json", manager, None, Value::Array(operations)))
            .boxed()
    }

    /// Returns a second creation of the same.
    fn again(&self, born: Value) -> BoxedStrategy<Step> {
        Just(self.step("create", "one", None, born)).boxed()
    }

    fn scale(&self) -> BoxedStrategy<Step> {
        let subject = self.clone();
        let count = select(vec![json!(0), json!(3), json!(7), json!(-1), json!("x")]);
        (count, select(&["merge", "json"][..]), select(&MANAGERS[..]))
            .prop_map(move |(count, verb, manager)| {
                let body = if verb == "json" {
                    json!([{ "op": "replace", "path": "/spec/replicas", "value": count }])
                } else {
                    json!({ "spec": { "replicas": count } })
                };
                subject.step(verb, manager, Some("scale"), body)
            })
            .boxed()
    }

    /// Returns a deletion, with all that can be asked of one.
    fn deletion(&self) -> BoxedStrategy<Step> {
        let subject = self.clone();
        let options = select(vec![
            json!({}),
            json!({ "preconditions": { "uid": "{uid}" } }),
            json!({ "preconditions": { "uid": "other" } }),
            json!({ "preconditions": { "resourceVersion": "{rv}" } }),
            json!({ "preconditions": { "resourceVersion": "1" } }),
            json!({ "dryRun": ["All"] }),
            json!({ "propagationPolicy": "Foreground" }),
            json!({ "propagationPolicy": "Orphan" }),
            json!({ "propagationPolicy": "Background", "gracePeriodSeconds": 0 }),
            json!({ "propagationPolicy": "Nonsense" }),
            json!({ "gracePeriodSeconds": 5 }),
            json!({ "gracePeriodSeconds": -1 }),
            json!({ "orphanDependents": true, "propagationPolicy": "Orphan" }),
        ]);
        options
            .prop_map(move |mut options| {
                options["apiVersion"] = json!("v1");
                options["kind"] = json!("DeleteOptions");
                subject.step("delete", "one", None, options)
            })
            .boxed()
    }
}

/// The places of an object, as paths; what identifies it is left alone.
fn pointers(value: &Value, path: &mut Vec<String>, out: &mut Vec<Vec<String>>) {
    if !path.is_empty() && !matches!(path[0].as_str(), "apiVersion" | "kind") && path.join(".") != "metadata.name" {
        out.push(path.clone());
    }
    let below: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(index, item)| (index.to_string(), item)).collect(),
        _ => return,
    };
    for (name, value) in below {
        path.push(name);
        pointers(value, path, out);
        path.pop();
    }
}
