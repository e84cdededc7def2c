//! Fields that an API server misses.
//!
//! OpenAPI calls more fields required than a server insists on, and fewer. `required.txt` lists those that the real one
//! was seen to refuse an object without; a test takes each away from a valid object and asks it again.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;

use kube_facts::Type;

/// Returns the fields that must be there in a type, by its name in OpenAPI.
pub(super) fn fields(type_name: &str) -> &'static [&'static str] {
    static FIELDS: LazyLock<BTreeMap<&str, Vec<&str>>> = LazyLock::new(|| {
        let lines = include_str!("required.txt").lines();
        lines
            .filter_map(|line| {
                let mut words = line.split(' ');
                Some((words.next()?, words.collect()))
            })
            .collect()
    });
    if type_name.is_empty() { &[] } else { FIELDS.get(type_name).map_or(&[], Vec::as_slice) }
}

/// Returns true when a required list must also hold something.
pub(super) fn not_empty(type_name: &str, field: &str) -> bool {
    type_name == "io.k8s.api.core.v1.PodSpec" && field == "containers"
}

/// Returns the type of every object's `metadata`.
pub(super) fn object_meta() -> &'static Type {
    static META: LazyLock<Type> = LazyLock::new(|| Type::named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"));
    &META
}

/// Returns the type of a schema inside a definition, where OpenAPI leaves it open because a list or true may stand
/// there as well.
pub(super) fn schema_or(type_name: &str, value: &Value) -> Option<&'static Type> {
    static SCHEMA: LazyLock<Type> =
        LazyLock::new(|| Type::named("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"));
    let short = type_name.rsplit('.').next().unwrap_or_default();
    let allowed = match short {
        "JSONSchemaPropsOrArray" => !value.is_array(),
        "JSONSchemaPropsOrBool" => !value.is_boolean(),
        _ => false,
    };
    allowed.then_some(&*SCHEMA)
}
