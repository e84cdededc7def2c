//! Growing random values of a type: mostly sound, now and then broken.

use kube_facts::{Field, Scalar, Type};
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::sample::select;
use proptest::strategy::{BoxedStrategy, Just, Strategy, Union};
use serde_json::{Map, Value, json};

use super::schemas;
use super::words::{self, Words};

/// Fields that are not worth a random value: the server's business, or long gone.
const LEFT_OUT: [&str; 13] = [
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

/// The mood in which an object is grown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// The seed stays; few fields are added, and no value is broken by itself.
    Careful,
    /// The seed may change or vanish; values may be broken.
    Careless,
}

impl Mood {
    /// Any of them.
    pub fn any() -> BoxedStrategy<Mood> {
        select(vec![Mood::Careful, Mood::Careful, Mood::Careless]).boxed()
    }

    /// Returns an object of a type, around what is given.
    pub fn object(self, ty: &Type, seed: &Value) -> BoxedStrategy<Value> {
        self.value(ty, "", Some(seed), 0)
    }

    /// Some fields of a type, and nothing else.
    pub fn change(self, ty: &Type) -> BoxedStrategy<Value> {
        self.sparse(ty, 0)
    }

    /// Returns a field of a type by its name, with some of what is in it.
    pub fn part(self, ty: &Type, name: &str) -> Option<BoxedStrategy<Value>> {
        let Type::Struct(inner) = ty.resolve() else { return None };
        Some(self.sparse(&inner.fields.get(name)?.ty, 1))
    }

    /// Returns a value for a place of an object, as a JSON patch names it.
    pub fn at(self, ty: &Type, path: &[&str]) -> BoxedStrategy<Value> {
        let name = path.iter().rev().find(|part| part.parse::<usize>().is_err()).copied().unwrap_or_default();
        match (ty.resolve(), path) {
            (_, []) => self.value(ty, name, None, 6),
            (Type::Struct(inner), [first, rest @ ..]) => match inner.fields.get(*first) {
                Some(field) if rest.is_empty() => self.of_field(first, field, None, 6),
                Some(field) => self.at(&field.ty, rest),
                None => Just(json!("x")).boxed(),
            },
            (Type::List(list), [_, rest @ ..]) => self.at(&list.items, rest),
            (Type::Map(map), [_, rest @ ..]) => self.at(&map.values, rest),
            _ => Just(json!("x")).boxed(),
        }
    }

    fn sparse(self, ty: &Type, depth: usize) -> BoxedStrategy<Value> {
        let Type::Struct(inner) = ty.resolve() else { return self.value(ty, "", None, depth) };
        let fields: Vec<(String, BoxedStrategy<Value>)> = inner
            .fields
            .iter()
            .filter(|(name, _)| !LEFT_OUT.contains(&name.as_str()))
            .map(|(name, field)| {
                let nested = matches!(field.ty.resolve(), Type::Struct(_)) && depth < 4;
                let (field, of) = (field.clone(), name.clone());
                let grow = move || {
                    if nested { self.sparse(&field.ty, depth + 1) } else { self.of_field(&of, &field, None, depth + 2) }
                };
                (name.clone(), later(grow))
            })
            .collect();
        let chance = if depth == 0 { 0.6 } else { 1.2 / fields.len().max(2) as f64 };
        assemble(fields.into_iter().map(|(name, strategy)| (name, weighted(chance, strategy).boxed())).collect())
    }

    /// Returns a value of a type around what is there already.
    fn value(self, ty: &Type, name: &str, seed: Option<&Value>, depth: usize) -> BoxedStrategy<Value> {
        match ty.resolve() {
            Type::Struct(inner) => {
                let parent = name;
                let given = |name: &str| seed.is_some_and(|seed| seed.get(name).is_some());
                let left_out = |name: &str| LEFT_OUT.contains(&name) && !given(name);
                let fields = inner.fields.iter().filter(|(name, _)| !left_out(name));
                let optional = fields.clone().count().max(3) as f64;
                let fields = fields.map(|(name, field)| {
                    let seed = seed.and_then(|seed| seed.get(name));
                    let chance = match (seed, self) {
                        (Some(_), Mood::Careful) => 0.9999,
                        (Some(_), Mood::Careless) => 0.97,
                        (None, _) if inner.required.contains(name) => 0.97,
                        (None, _) if depth > 9 => 0.05,
                        (None, Mood::Careful) => (1.2 / optional).min(0.3),
                        (None, Mood::Careless) => (1.6 / optional).min(0.4),
                    };
                    // The type of an expression's value depends on its purpose.
                    let told = matches!(
                        (name.as_str(), parent),
                        ("expression", _) | ("type" | "format", "additionalPrinterColumns")
                    );
                    let of = if told { format!("{name} of {parent}") } else { name.clone() };
                    let (field, seed) = (field.clone(), seed.cloned());
                    let grow = later(move || self.of_field(&of, &field, seed.as_ref(), depth + 1));
                    (name.clone(), weighted(chance, grow).boxed())
                });
                assemble(fields.collect())
            }
            Type::List(list) => self.list(&list.items, name, seed, depth),
            Type::Map(map) => {
                let base = seed.cloned().unwrap_or_else(|| json!({}));
                if name == "matchLabels" && self == Mood::Careful && seed.is_some() {
                    return Just(base).boxed();
                }
                // Explicitly empty maps and lists are for the written cases.
                let entries =
                    vec((self.choose(words::keys(name)), self.value(&map.values, name, None, depth + 1)), 1..3);
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
            Type::Scalar(scalar) => self.leaf(*scalar, name, seed),
            _ => Just(seed.cloned().unwrap_or_else(|| json!({ "x": 1 }))).boxed(),
        }
    }

    fn list(self, items: &Type, name: &str, seed: Option<&Value>, depth: usize) -> BoxedStrategy<Value> {
        let (given, most) = match (seed, self) {
            (Some(Value::Array(given)), Mood::Careful) => (given.clone(), 0),
            (Some(Value::Array(given)), Mood::Careless) => (given.clone(), 2),
            _ => (Vec::new(), 2),
        };
        let least = usize::from(given.is_empty());
        let more = vec(self.value(items, name, given.first(), depth + 1), least..=most.max(least));
        let given: Vec<_> = given.iter().map(|item| self.value(items, name, Some(item), depth + 1)).collect();
        (given, more).prop_map(|(given, more)| given.into_iter().chain(more).collect()).boxed()
    }

    fn of_field(self, name: &str, field: &Field, seed: Option<&Value>, depth: usize) -> BoxedStrategy<Value> {
        if let ("openAPIV3Schema", Mood::Careful, Some(seed)) = (name, self, seed) {
            return Just(seed.clone()).boxed();
        }
        if let Some(seed) = seed.filter(|seed| !seed.is_object() && !seed.is_array()) {
            if self == Mood::Careful {
                return Just(seed.clone()).boxed();
            }
            let other = self.value(&field.ty, name, None, depth);
            return Union::new_weighted(vec![(12, Just(seed.clone()).boxed()), (1, other)]).boxed();
        }
        if name == "openAPIV3Schema" {
            return schemas::root(self);
        }
        if !field.one_of.is_empty() && matches!(field.ty, Type::Scalar(Scalar::String)) {
            return self.pick(field.one_of.clone(), vec![json!("Nonsense"), json!("")]);
        }
        self.value(&field.ty, name, seed, depth)
    }

    fn leaf(self, scalar: Scalar, name: &str, seed: Option<&Value>) -> BoxedStrategy<Value> {
        if let Some(seed) = seed {
            return Just(seed.clone()).boxed();
        }
        match scalar {
            Scalar::Boolean => select(vec![json!(true), json!(false)]).boxed(),
            Scalar::Int32 | Scalar::Int64 => {
                let (sound, broken) = words::numbers(name);
                let values = |numbers: &[i64]| numbers.iter().map(|number| json!(number)).collect();
                self.pick(values(sound), values(broken))
            }
            Scalar::Number => select(vec![json!(1), json!(0.5)]).boxed(),
            Scalar::IntOrString => match name {
                "port" | "targetPort" => {
                    self.pick(vec![json!(80), json!("http")], vec![json!(0), json!("A"), json!("-a"), json!(70000)])
                }
                _ => self.pick(
                    vec![json!(1), json!("25%"), json!(0), json!("0%"), json!("100%")],
                    vec![json!(-1), json!("x"), json!("101%"), json!("5")],
                ),
            },
            Scalar::Quantity => self.pick(
                vec![json!("1"), json!("100m"), json!("1Gi"), json!("0"), json!("1.5"), json!("2")],
                vec![json!("-1"), json!("1000m"), json!("0.0001")],
            ),
            Scalar::Time => Just(json!("2026-01-01T00:00:00Z")).boxed(),
            Scalar::MicroTime => Just(json!("2026-01-01T00:00:00.000000Z")).boxed(),
            Scalar::Bytes => self.pick(vec![json!("aGk="), json!("")], vec![json!("x")]),
            Scalar::String => self.choose(words::texts(name)).prop_map(Value::String).boxed(),
        }
    }

    fn choose(self, words: Words) -> BoxedStrategy<String> {
        let sound = select(words.sound).prop_map(str::to_owned).boxed();
        match self {
            Mood::Careful => sound,
            Mood::Careless => {
                let broken = select(words.broken).prop_map(str::to_owned).boxed();
                Union::new_weighted(vec![(10, sound), (1, broken)]).boxed()
            }
        }
    }

    fn pick(self, sound: Vec<Value>, broken: Vec<Value>) -> BoxedStrategy<Value> {
        match self {
            Mood::Careful => select(sound).boxed(),
            Mood::Careless => {
                Union::new_weighted(vec![(10, select(sound).boxed()), (1, select(broken).boxed())]).boxed()
            }
        }
    }
}

/// Grows a value only if it is wanted: types hold each other, some themselves.
fn later<S: Strategy<Value = Value> + 'static>(grow: impl Fn() -> S + 'static) -> BoxedStrategy<Value> {
    Just(()).prop_flat_map(move |()| grow()).boxed()
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
