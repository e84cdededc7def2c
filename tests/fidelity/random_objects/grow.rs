//! Growing random values of a type: mostly sound, now and then broken.

use belay::kinds::{Field, Scalar, Type, facts};
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::sample::select;
use proptest::strategy::{BoxedStrategy, Just, Strategy, Union};
use serde_json::{Map, Value, json};

use crate::objects::Step;

/// The kinds whose rules are all there.
pub const KINDS: &[&str] =
    &["Pod", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "PodTemplate"];

/// Fields that are not worth a random value: other servers' business, or long gone.
const LEFT_OUT: &[&str] = &[
    "managedFields",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
    "generateName",
    "namespace",
    "status",
    "apiVersion",
    "kind",
];

/// A creation and some changes.
pub fn history(seed: &Value) -> BoxedStrategy<Vec<Step>> {
    let (group, version) =
        seed["apiVersion"].as_str().unwrap().rsplit_once('/').unwrap_or(("", seed["apiVersion"].as_str().unwrap()));
    let ty = Type::Named(facts().type_name(group, version, seed["kind"].as_str().unwrap()).unwrap().to_owned());
    let born = value(&ty, "", Some(seed), 0);
    let kind = format!("{} {}", seed["apiVersion"].as_str().unwrap(), seed["kind"].as_str().unwrap());
    let name = seed["metadata"]["name"].as_str().unwrap().to_owned();
    let seed = seed.clone();
    let changes = vec(change(&ty), 0..4);
    (
        born,
        changes,
        vec(select(vec!["one", "two", "three"]), 5),
        vec(select(vec!["merge", "strategic", "apply", "put"]), 5),
    )
        .prop_map(move |(mut born, changes, managers, verbs)| {
            for fixed in ["apiVersion", "kind"] {
                born[fixed] = seed[fixed].clone();
            }
            born["metadata"]["name"] = json!(name);
            let mut steps = vec![step("create", managers[0], &kind, &name, born)];
            for (index, change) in changes.into_iter().enumerate() {
                let mut change = change;
                let verb = verbs[index];
                if let Some(metadata) = change["metadata"].as_object_mut() {
                    metadata.remove("name");
                }
                if verb == "apply" {
                    change["apiVersion"] = seed["apiVersion"].clone();
                    change["kind"] = seed["kind"].clone();
                    change["metadata"]["name"] = json!(name);
                }
                steps.push(step(verb, managers[index + 1], &kind, &name, change));
            }
            steps
        })
        .boxed()
}

fn step(verb: &str, manager: &str, kind: &str, name: &str, body: Value) -> Step {
    let force = verb == "apply" && manager == "two";
    let (body, change) = if verb == "put" { (Value::Null, Some(body)) } else { (body, None) };
    let value = json!({ "do": verb, "as": manager, "kind": kind, "name": name, "force": force, "body": body, "change": change });
    serde_json::from_value(value).unwrap()
}

/// Some fields of a type, and nothing else.
fn change(ty: &Type) -> BoxedStrategy<Value> {
    sparse(ty, 0)
}

fn sparse(ty: &Type, depth: usize) -> BoxedStrategy<Value> {
    let Type::Struct(inner) = ty.resolve() else { return Just(json!({})).boxed() };
    let fields: Vec<(String, BoxedStrategy<Value>)> = inner
        .fields
        .iter()
        .filter(|(name, _)| !LEFT_OUT.contains(&name.as_str()))
        .map(|(name, field)| {
            let nested = matches!(field.ty.resolve(), Type::Struct(_)) && depth < 4;
            let strategy = if nested { sparse(&field.ty, depth + 1) } else { of_field(name, field, None, depth + 2) };
            (name.clone(), strategy)
        })
        .collect();
    let chance = if depth == 0 { 0.6 } else { 1.5 / fields.len().max(2) as f64 };
    assemble(fields.into_iter().map(|(name, strategy)| (name, weighted(chance, strategy).boxed())).collect())
}

fn assemble(fields: Vec<(String, BoxedStrategy<Option<Value>>)>) -> BoxedStrategy<Value> {
    let (names, strategies): (Vec<String>, Vec<BoxedStrategy<Option<Value>>>) = fields.into_iter().unzip();
    strategies
        .prop_map(move |values| {
            let fields = names.iter().cloned().zip(values);
            Value::Object(fields.filter_map(|(name, value)| Some((name, value?))).collect::<Map<_, _>>())
        })
        .boxed()
}

/// A value of a type around what is there already.
fn value(ty: &Type, name: &str, seed: Option<&Value>, depth: usize) -> BoxedStrategy<Value> {
    match ty.resolve() {
        Type::Struct(inner) => {
            let fields = inner.fields.iter().filter(|(name, _)| !LEFT_OUT.contains(&name.as_str()));
            let optional = fields.clone().count().max(3) as f64;
            let fields = fields.map(|(name, field)| {
                let seed = seed.and_then(|seed| seed.get(name));
                let chance = match seed {
                    Some(_) => 0.97,
                    None if inner.required.contains(name) => 0.95,
                    None if depth > 9 => 0.05,
                    None => (1.6 / optional).min(0.4),
                };
                (name.clone(), weighted(chance, of_field(name, field, seed, depth + 1)).boxed())
            });
            assemble(fields.collect())
        }
        Type::List(list) => match seed {
            Some(Value::Array(items)) => {
                let first = value(&list.items, name, items.first(), depth + 1);
                let more = vec(value(&list.items, name, items.first(), depth + 1), 0..2);
                (first, more).prop_map(|(first, more)| std::iter::once(first).chain(more).collect()).boxed()
            }
            _ => vec(value(&list.items, name, None, depth + 1), 1..3).prop_map(Value::Array).boxed(),
        },
        Type::Map(map) => {
            let base = seed.cloned().unwrap_or_else(|| json!({}));
            // Explicitly empty maps and lists are for the written cases.
            let entries = vec((keys(name), value(&map.values, name, None, depth + 1)), 1..3);
            entries
                .prop_map(move |entries| {
                    let mut map = base.clone();
                    for (key, value) in entries {
                        map[key] = value;
                    }
                    map
                })
                .boxed()
        }
        Type::Scalar(scalar) => leaf(*scalar, name, seed),
        _ => Just(json!({ "x": 1 })).boxed(),
    }
}

fn of_field(name: &str, field: &Field, seed: Option<&Value>, depth: usize) -> BoxedStrategy<Value> {
    if let Some(seed) = seed.filter(|seed| !seed.is_object() && !seed.is_array()) {
        let other = value(&field.ty, name, None, depth);
        return Union::new_weighted(vec![(12, Just(seed.clone()).boxed()), (1, other)]).boxed();
    }
    if !field.one_of.is_empty() && matches!(field.ty, Type::Scalar(Scalar::String)) {
        let known = select(field.one_of.clone()).boxed();
        let other = select(vec![json!("Nonsense"), json!("")]).boxed();
        return Union::new_weighted(vec![(15, known), (1, other)]).boxed();
    }
    value(&field.ty, name, seed, depth)
}

fn keys(name: &str) -> BoxedStrategy<String> {
    let (sound, broken): (&[&str], &[&str]) = match name {
        "limits" | "requests" | "overhead" | "capacity" | "hard" | "allocatable" => (
            &["cpu", "memory", "ephemeral-storage", "a.b/gpu", "hugepages-2Mi", "pods"],
            &["storage", "x", "A B", "kubernetes.io/x"],
        ),
        _ => (&["a", "b", "app", "x.y/z"], &["A B", "", "-x", "a/b/c"]),
    };
    choose(sound, broken).boxed()
}

fn choose(sound: &[&str], broken: &[&str]) -> impl Strategy<Value = String> + use<> {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<String>>();
    Union::new_weighted(vec![(14, select(owned(sound)).boxed()), (1, select(owned(broken)).boxed())])
}

fn leaf(scalar: Scalar, name: &str, seed: Option<&Value>) -> BoxedStrategy<Value> {
    if let Some(seed) = seed {
        return Just(seed.clone()).boxed();
    }
    let pick = |sound: Vec<Value>, broken: Vec<Value>| {
        Union::new_weighted(vec![(14, select(sound).boxed()), (1, select(broken).boxed())]).boxed()
    };
    match scalar {
        Scalar::Boolean => select(vec![json!(true), json!(false)]).boxed(),
        Scalar::Int32 | Scalar::Int64 => match name {
            "mode" | "defaultMode" => pick(vec![json!(420), json!(0), json!(511)], vec![json!(-1), json!(512)]),
            _ if name.ends_with("ort") => {
                pick(vec![json!(80), json!(443), json!(8080)], vec![json!(0), json!(-1), json!(65536)])
            }
            "weight" => pick(vec![json!(1), json!(100)], vec![json!(0), json!(101)]),
            _ => pick(vec![json!(0), json!(1), json!(2), json!(30), json!(700)], vec![json!(-1), json!(2_147_483_647)]),
        },
        Scalar::Number => select(vec![json!(1), json!(0.5)]).boxed(),
        Scalar::IntOrString => match name {
            "port" | "targetPort" => {
                pick(vec![json!(80), json!("http")], vec![json!(0), json!("A"), json!("-a"), json!(70000)])
            }
            _ => pick(
                vec![json!(1), json!("25%"), json!(0), json!("0%"), json!("100%")],
                vec![json!(-1), json!("x"), json!("101%"), json!("5")],
            ),
        },
        Scalar::Quantity => pick(
            vec![json!("1"), json!("100m"), json!("1Gi"), json!("0"), json!("1.5"), json!("2")],
            vec![json!("-1"), json!("1000m"), json!("0.0001")],
        ),
        Scalar::Time => Just(json!("2026-01-01T00:00:00Z")).boxed(),
        Scalar::MicroTime => Just(json!("2026-01-01T00:00:00.000000Z")).boxed(),
        Scalar::Bytes => pick(vec![json!("aGk="), json!("")], vec![json!("x")]),
        Scalar::String => text(name).prop_map(Value::String).boxed(),
    }
}

fn text(name: &str) -> BoxedStrategy<String> {
    let (sound, broken): (&[&str], &[&str]) = match name {
        "protocol" => (&["TCP", "UDP", "SCTP"], &["tcp", ""]),
        "scheme" => (&["HTTP", "HTTPS"], &["http"]),
        "image" => (
            &["web:1", "web", "a.b/c@sha256:0123456789012345678901234567890123456789012345678901234567890123"],
            &["", " x", "UP"],
        ),
        "path" | "mountPath" | "devicePath" => (&["/x", "x/y", "/"], &["", "../x", "..x", "/a/../b"]),
        "subPath" | "subPathExpr" => (&["x", "x/y"], &["/x", "../x"]),
        "ip" | "hostIP" | "nameservers" => (&["10.0.0.1", "fd00::1"], &["x", ""]),
        "operator" => (&["In", "NotIn", "Exists", "DoesNotExist", "Equal", "Gt", "Lt"], &["", "Nonsense"]),
        "resource" => (&["limits.cpu", "requests.memory", "limits.ephemeral-storage"], &["", "cpu"]),
        "fieldPath" => (
            &["metadata.name", "metadata.labels['a']", "spec.nodeName", "status.podIP"],
            &["", "x", "metadata.labels['A B']", "spec.x['a']"],
        ),
        "finalizers" => (&["a.b/c", "a.b/d"], &["x", ""]),
        "apiVersion" => (&["v1"], &["", "v2"]),
        "effect" => (&["NoSchedule", "NoExecute", "PreferNoSchedule", ""], &["x"]),
        "labels" | "matchLabels" | "nodeSelector" | "values" => (&["b", "c", "1"], &["A B", "-"]),
        "type" => (&["a", "b"], &["", "x"]),
        _ => (&["a", "b", "c", "x-1"], &["A", "", "a_b", "a.b/c", "-", "é"]),
    };
    choose(sound, broken).boxed()
}
