//! Random definitions of kinds: schemas and versions, mostly sound ones.
//!
//! A schema is a type with some more words laid over it, each word from a list: sound ones, and broken ones.

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::sample::select;
use proptest::strategy::{BoxedStrategy, Just, Strategy, Union};
use serde_json::{Map, Value, json};

use super::grow::Mood;

/// The depth to which schemas hold each other.
const DEEPEST: usize = 3;
const NAMES: [&str; 5] = ["a", "b", "c", "kind", "metadata"];

/// Returns the schema of a kind.
pub fn root(mood: Mood) -> BoxedStrategy<Value> {
    let spec = object(mood, 1);
    let status = weighted(0.6, object(mood, 1));
    let metadata = weighted(0.1, metadata());
    (spec, status, metadata, overlays(mood, ROOT, BROKEN_ROOT))
        .prop_map(|(spec, status, metadata, over)| {
            let mut properties = Map::from_iter([("spec".to_owned(), spec)]);
            properties.extend(status.map(|status| ("status".to_owned(), status)));
            properties.extend(metadata.map(|metadata| ("metadata".to_owned(), metadata)));
            laid_over(json!({ "type": "object", "properties": properties }), over)
        })
        .boxed()
}

/// Returns a kind's versions, around one that is there.
pub fn versions(seed: &Value) -> BoxedStrategy<Value> {
    let first = seed["spec"]["versions"][0].clone();
    let version = move |name: &'static str, storage: bool| {
        let first = first.clone();
        let columns = weighted(0.4, vec(column(), 1..3));
        let fields = weighted(0.1, vec(path(), 1..3));
        let subresources = select(vec![
            json!(null),
            json!({ "status": {} }),
            json!({ "status": {}, "scale": { "specReplicasPath": ".spec.a", "statusReplicasPath": ".status.a" } }),
        ]);
        (root(Mood::Careful), columns, fields, subresources, select(vec![true, true, true, false]))
            .prop_map(move |(schema, columns, fields, subresources, served)| {
                let mut version = first.clone();
                version["name"] = json!(name);
                version["storage"] = json!(storage);
                version["served"] = json!(served);
                version["schema"] = json!({ "openAPIV3Schema": schema });
                if !subresources.is_null() {
                    version["subresources"] = subresources;
                }
                if let Some(columns) = columns {
                    version["additionalPrinterColumns"] = json!(columns);
                }
                if let Some(fields) = fields {
                    let fields: Vec<Value> = fields.iter().map(|path| json!({ "jsonPath": path })).collect();
                    version["selectableFields"] = json!(fields);
                }
                version
            })
            .boxed()
    };
    let one = version("v1", true).prop_map(|one| json!([one]));
    let two = (version("v1", true), version("v1beta1", false)).prop_map(|(one, other)| json!([one, other]));
    let moved = (version("v1", false), version("v2", true)).prop_map(|(one, other)| json!([one, other]));
    let alike = version("v1", true).prop_map(|one| {
        let mut other = one.clone();
        other["name"] = json!("v2");
        other["storage"] = json!(false);
        json!([one, other])
    });
    Union::new_weighted(vec![(4, one.boxed()), (2, two.boxed()), (1, moved.boxed()), (2, alike.boxed())]).boxed()
}

/// Returns a change of a kind's versions, as a part of the definition.
pub fn change(born: &Value) -> BoxedStrategy<Value> {
    let mut flipped = born["spec"]["versions"].clone();
    for version in flipped.as_array_mut().into_iter().flatten() {
        version["served"] = json!(version["served"] != true);
    }
    let conversions = vec![
        json!({ "strategy": "None" }),
        json!({ "strategy": "Webhook", "webhook": {
            "clientConfig": { "url": "https://a.b/c" }, "conversionReviewVersions": ["v1"] } }),
        json!({ "strategy": "Webhook", "webhook": {
            "clientConfig": { "service": { "namespace": "a", "name": "b" } }, "conversionReviewVersions": ["v2", "v1beta1"] } }),
        json!({ "strategy": "Webhook" }),
    ];
    Union::new_weighted(vec![
        (4, versions(born).prop_map(|versions| json!({ "spec": { "versions": versions } })).boxed()),
        (1, Just(json!({ "spec": { "versions": flipped } })).boxed()),
        (1, select(conversions).prop_map(|conversion| json!({ "spec": { "conversion": conversion } })).boxed()),
        (
            1,
            Just(json!({ "spec": { "names": { "shortNames": ["q"], "categories": ["all"], "singular": "foo" } } }))
                .boxed(),
        ),
    ])
    .boxed()
}

/// Returns a path of a field that may be asked for.
pub fn path() -> BoxedStrategy<String> {
    select(vec![".spec.a", ".spec.b", ".spec.c", ".status.a", ".spec.a.b"]).prop_map(str::to_owned).boxed()
}

fn column() -> BoxedStrategy<Value> {
    (select(vec!["integer", "string", "date", "boolean", "number"]), path(), select(vec![json!(null), json!("int32")]))
        .prop_map(|(ty, path, format)| {
            let mut column = json!({ "name": "A", "type": ty, "jsonPath": path });
            if !format.is_null() {
                column["format"] = format;
            }
            column
        })
        .boxed()
}

/// Returns schemas of metadata.
fn metadata() -> BoxedStrategy<Value> {
    select(vec![
        json!({ "type": "object" }),
        json!({ "type": "object", "properties": { "name": { "type": "string", "maxLength": 9 } } }),
        json!({ "type": "object", "properties": { "labels": { "type": "object" } } }),
        json!({ "type": "object", "description": "x" }),
        json!({ "type": "object", "default": {} }),
        json!({ "type": "object", "properties": { "generateName": { "type": "string", "default": "a" } } }),
        json!({ "type": "string" }),
    ])
    .boxed()
}

fn schema(mood: Mood, depth: usize) -> BoxedStrategy<Value> {
    let leaf = Union::new_weighted(vec![
        (4, typed(mood, "string", TEXTS, BROKEN_TEXTS)),
        (3, typed(mood, "integer", NUMBERS, BROKEN_NUMBERS)),
        (1, typed(mood, "number", FRACTIONS, BROKEN_NUMBERS)),
        (1, typed(mood, "boolean", FLAGS, BROKEN_TEXTS)),
        (
            1,
            overlays(mood, EITHER, BROKEN_TEXTS).prop_map(|over| laid_over(json!({ EITHER_WORD: true }), over)).boxed(),
        ),
        (1, overlays(mood, ALL, BROKEN_TEXTS).prop_map(|over| laid_over(json!({ OPEN_WORD: true }), over)).boxed()),
    ]);
    if depth >= DEEPEST {
        return leaf.boxed();
    }
    let (inner, items) = (later(mood, depth), later(mood, depth));
    let map = (inner, overlays(mood, ALL, BROKEN_OBJECTS))
        .prop_map(|(inner, over)| laid_over(json!({ "type": "object", "additionalProperties": inner }), over));
    let list = (items, overlays(mood, LISTS, BROKEN_LISTS))
        .prop_map(|(items, over)| laid_over(json!({ "type": "array", "items": items }), over));
    let keyed = (object(mood, depth + 1), overlays(mood, ALL, BROKEN_LISTS)).prop_map(|(mut items, over)| {
        items["properties"]["k"] = json!({ "type": "string" });
        items["required"] = json!(["k"]);
        let list = json!({ "type": "array", "items": items, LIST_WORD: "map", KEYS_WORD: ["k"] });
        laid_over(list, over)
    });
    let deep = Just(()).prop_flat_map(move |()| object(mood, depth + 1));
    Union::new_weighted(vec![
        (5, leaf.boxed()),
        (3, deep.boxed()),
        (1, map.boxed()),
        (2, list.boxed()),
        (1, keyed.boxed()),
    ])
    .boxed()
}

/// Grows a schema only if it is wanted.
fn later(mood: Mood, depth: usize) -> BoxedStrategy<Value> {
    Just(()).prop_flat_map(move |()| schema(mood, depth + 1)).boxed()
}

fn object(mood: Mood, depth: usize) -> BoxedStrategy<Value> {
    let names = match mood {
        Mood::Careful => select(&NAMES[..3]).boxed(),
        Mood::Careless => select(&NAMES[..]).boxed(),
    };
    let fields = vec((names, later(mood, depth)), 0..4);
    let required = weighted(0.2, select(vec![json!(["a"]), json!(["b", "a"]), json!(["z"])]));
    (fields, required, overlays(mood, OBJECTS, BROKEN_OBJECTS))
        .prop_map(|(fields, required, over)| {
            let fields: Map<String, Value> = fields.into_iter().map(|(name, field)| (name.to_owned(), field)).collect();
            let mut object = json!({ "type": "object", "properties": fields });
            if let Some(required) = required {
                object["required"] = required;
            }
            laid_over(object, over)
        })
        .boxed()
}

fn typed(
    mood: Mood,
    ty: &'static str,
    sound: &'static [&'static str],
    broken: &'static [&'static str],
) -> BoxedStrategy<Value> {
    overlays(mood, sound, broken).prop_map(move |over| laid_over(json!({ "type": ty }), over)).boxed()
}

/// Some words.
fn overlays(mood: Mood, sound: &'static [&'static str], broken: &'static [&'static str]) -> BoxedStrategy<Vec<Value>> {
    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let sound = weighted(0.5, select(sound)).prop_map(move |text| text.map(read));
    let also = weighted(0.15, select(ALL)).prop_map(move |text| text.map(read));
    let chance = if mood == Mood::Careful { 0.002 } else { 0.08 };
    let broken =
        weighted(chance, Union::new(vec![select(broken), select(BROKEN)])).prop_map(move |text| text.map(read));
    (sound, also, broken).prop_map(|(one, other, broken)| [one, other, broken].into_iter().flatten().collect()).boxed()
}

fn laid_over(mut schema: Value, over: Vec<Value>) -> Value {
    for (name, value) in over.iter().filter_map(Value::as_object).flatten() {
        schema[name] = value.clone();
    }
    schema
}

const EITHER_WORD: &str = "x-kubernetes-int-or-string";
const OPEN_WORD: &str = "x-kubernetes-preserve-unknown-fields";
const LIST_WORD: &str = "x-kubernetes-list-type";
const KEYS_WORD: &str = "x-kubernetes-list-map-keys";

/// Words for everything.
const ALL: &[&str] = &[
    r#"{"nullable":true}"#,
    r#"{"description":"what it is"}"#,
    r#"{"title":"T"}"#,
    r#"{"example":{"a":1}}"#,
    r#"{"externalDocs":{"url":"https://a.b","description":"d"}}"#,
];
const TEXTS: &[&str] = &[
    r#"{"enum":["a","b"]}"#,
    r#"{"enum":["a","b"],"default":"a"}"#,
    r#"{"pattern":"^[a-z]*$"}"#,
    r#"{"pattern":"^a","default":"abc"}"#,
    r#"{"minLength":1,"maxLength":10}"#,
    r#"{"format":"date-time"}"#,
    r#"{"format":"foo"}"#,
    r#"{"format":"int32"}"#,
    r#"{"default":"x"}"#,
    r#"{"default":"","nullable":true}"#,
    r#"{"default":null,"nullable":true}"#,
    r#"{"anyOf":[{"pattern":"a"},{"enum":["b"]}],"default":"b"}"#,
    r#"{"not":{"enum":["c"]}}"#,
    r#"{"x-kubernetes-validations":[{"rule":"true","message":"m"}],"maxLength":9}"#,
];
const BROKEN_TEXTS: &[&str] = &[
    r#"{"default":1}"#,
    r#"{"default":"B","enum":["a"]}"#,
    r#"{"default":"zz","maxLength":1}"#,
    r#"{"default":"b","not":{"enum":["b"]}}"#,
    r#"{"default":"b","oneOf":[{"pattern":"b"},{"maxLength":3}]}"#,
    r#"{"default":"x","format":"date"}"#,
    r#"{"pattern":"("}"#,
    r#"{"pattern":"a**"}"#,
    r#"{"pattern":"[z-a]{1,2000}"}"#,
    r#"{"pattern":"\\p{Foo}\\q"}"#,
    r#"{"x-kubernetes-list-type":"set"}"#,
    r#"{"x-kubernetes-map-type":"atomic"}"#,
    r#"{"items":{"type":"string"}}"#,
    r#"{"properties":{"q":{"type":"string"}}}"#,
];
const NUMBERS: &[&str] = &[
    r#"{"minimum":1,"maximum":10}"#,
    r#"{"default":5}"#,
    r#"{"default":5.0}"#,
    r#"{"format":"int32"}"#,
    r#"{"format":"uint8"}"#,
    r#"{"multipleOf":2}"#,
    r#"{"enum":[1,2,3],"default":2}"#,
    r#"{"exclusiveMinimum":true,"minimum":0}"#,
    r#"{"allOf":[{"minimum":1},{"maximum":5}],"default":3}"#,
];
const FRACTIONS: &[&str] = &[
    r#"{"minimum":0.5,"maximum":1e3}"#,
    r#"{"default":0.25}"#,
    r#"{"default":3}"#,
    r#"{"format":"double"}"#,
    r#"{"multipleOf":0.5}"#,
];
const BROKEN_NUMBERS: &[&str] = &[
    r#"{"default":"x"}"#,
    r#"{"default":1.5}"#,
    r#"{"default":0,"minimum":1}"#,
    r#"{"default":7,"multipleOf":2,"maximum":6}"#,
    r#"{"minimum":5,"maximum":1}"#,
    r#"{"default":true}"#,
    r#"{"pattern":")"}"#,
    r#"{"default":3,"allOf":[{"minimum":4},{"maximum":2}]}"#,
];
const FLAGS: &[&str] = &[r#"{"default":true}"#, r#"{"default":false}"#, r#"{"enum":[true]}"#];
const EITHER: &[&str] = &[
    r#"{"default":"10%"}"#,
    r#"{"default":3}"#,
    r#"{"anyOf":[{"type":"integer"},{"type":"string"}]}"#,
    r#"{"allOf":[{"anyOf":[{"type":"integer"},{"type":"string"}]},{"minimum":1}]}"#,
    r#"{"pattern":"^[0-9]+%$"}"#,
];
const OBJECTS: &[&str] = &[
    r#"{"x-kubernetes-preserve-unknown-fields":true}"#,
    r#"{"x-kubernetes-map-type":"atomic"}"#,
    r#"{"x-kubernetes-map-type":"granular"}"#,
    r#"{"default":{}}"#,
    r#"{"minProperties":0,"maxProperties":9}"#,
    r#"{"anyOf":[{"required":["a"]},{"required":["b"]}]}"#,
    r#"{"oneOf":[{"properties":{"a":{"minimum":1}}},{"properties":{"b":{"pattern":"x"}}}]}"#,
    r#"{"x-kubernetes-validations":[{"rule":"true","messageExpression":"'a'","reason":"FieldValueForbidden"}]}"#,
    r#"{"x-kubernetes-preserve-unknown-fields":true,"x-kubernetes-embedded-resource":true}"#,
];
const BROKEN_OBJECTS: &[&str] = &[
    r#"{"default":{"zz":1}}"#,
    r#"{"default":[]}"#,
    r#"{"required":["zz"],"default":{}}"#,
    r#"{"default":{"a":"x","b":1,"c":true}}"#,
    r#"{"additionalProperties":{"type":"string","default":"x"}}"#,
    r#"{"additionalProperties":false}"#,
    r#"{"additionalProperties":true}"#,
    r#"{"x-kubernetes-embedded-resource":true}"#,
    r#"{"x-kubernetes-embedded-resource":true,"properties":{"x":{"type":"string"}},"default":{"x":"y","apiVersion":"v1"}}"#,
    r#"{"x-kubernetes-embedded-resource":true,"properties":{"x":{"type":"string"}},"default":{"x":"y","apiVersion":1}}"#,
    r#"{"x-kubernetes-embedded-resource":true,"properties":{"metadata":{"type":"object","properties":{"name":{"type":"string","default":1}}}}}"#,
    r#"{"anyOf":[{"properties":{"metadata":{}}}]}"#,
    r#"{"x-kubernetes-map-type":"x"}"#,
    r#"{"x-kubernetes-validations":[{"rule":" "}]}"#,
    r#"{"x-kubernetes-validations":[{"rule":"true","message":" ","reason":"x","messageExpression":" "}]}"#,
    r#"{"x-kubernetes-validations":[{"rule":"true\n&& true","fieldPath":".zz","optionalOldSelf":true}]}"#,
    r#"{"x-kubernetes-validations":[{"rule":"true","message":"a\nb","fieldPath":" "}]}"#,
];
const LISTS: &[&str] = &[
    r#"{"x-kubernetes-list-type":"atomic"}"#,
    r#"{"maxItems":3}"#,
    r#"{"minItems":0}"#,
    r#"{"default":[]}"#,
    r#"{"x-kubernetes-list-type":"set","items":{"type":"string"},"default":["a","b"]}"#,
    r#"{"x-kubernetes-list-type":"set","items":{"type":"object","x-kubernetes-map-type":"atomic"}}"#,
];
const BROKEN_LISTS: &[&str] = &[
    r#"{"x-kubernetes-list-type":"set"}"#,
    r#"{"x-kubernetes-list-type":"map"}"#,
    r#"{"x-kubernetes-list-type":"x"}"#,
    r#"{"x-kubernetes-list-map-keys":["a","a"]}"#,
    r#"{"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["a","b"]}"#,
    r#"{"x-kubernetes-list-type":"set","items":{"type":"array","nullable":true,"items":{"type":"string"},"x-kubernetes-list-type":"set"}}"#,
    r#"{"default":["a",1,{"q":true}]}"#,
    r#"{"default":{}}"#,
    r#"{"items":[{"type":"string"}]}"#,
    r#"{"default":["a","b"],"maxItems":1}"#,
];
/// Schemas that break anything.
const BROKEN: &[&str] = &[
    r#"{"type":"foo"}"#,
    r#"{"type":"null"}"#,
    r#"{"type":"array"}"#,
    r#"{"type":""}"#,
    r#"{"id":"x"}"#,
    r##"{"$ref":"#/x"}"##,
    r#"{"$schema":"x"}"#,
    r#"{"uniqueItems":true}"#,
    r#"{"patternProperties":{"x":{"type":"string"}}}"#,
    r#"{"definitions":{"x":{"type":"string","id":"y"}}}"#,
    r#"{"dependencies":{"x":["y"],"z":{"type":"foo"}}}"#,
    r#"{"additionalItems":true}"#,
    r#"{"x-kubernetes-preserve-unknown-fields":false}"#,
    r#"{"x-kubernetes-int-or-string":true}"#,
    r#"{"x-kubernetes-embedded-resource":true}"#,
    r#"{"not":{"type":"string","default":1,"nullable":true,"title":"t","description":"d"}}"#,
    r#"{"anyOf":[{"x-kubernetes-int-or-string":true,"x-kubernetes-list-type":"set","x-kubernetes-map-type":"atomic"}]}"#,
    r#"{"oneOf":[{"additionalProperties":true,"items":{"pattern":"["}},{"x-kubernetes-preserve-unknown-fields":true}]}"#,
    r#"{"allOf":[{"not":{"properties":{"a":{"type":"integer"}}}},{"id":"x"}]}"#,
];
const ROOT: &[&str] = &[
    r#"{"description":"a kind"}"#,
    r#"{"required":["spec"]}"#,
    r#"{"x-kubernetes-validations":[{"rule":"true"}]}"#,
    r#"{"x-kubernetes-preserve-unknown-fields":true}"#,
];
const BROKEN_ROOT: &[&str] = &[
    r#"{"type":"string"}"#,
    r#"{"type":""}"#,
    r#"{"nullable":true}"#,
    r#"{"default":{}}"#,
    r#"{"default":{"zz":1}}"#,
    r#"{"additionalProperties":{"type":"string"}}"#,
    r#"{"minProperties":1}"#,
    r#"{"anyOf":[{"required":["spec"]}]}"#,
    r#"{"x-kubernetes-embedded-resource":true}"#,
    r#"{"x-kubernetes-int-or-string":true}"#,
    r#"{"x-kubernetes-map-type":"atomic"}"#,
];
