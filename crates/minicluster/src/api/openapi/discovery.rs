//! The schemas of discovery's own documents, which no kind's schema names.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

/// By name.
pub(super) static SCHEMAS: LazyLock<BTreeMap<&'static str, Value>> = LazyLock::new(|| {
    let group_version = "io.k8s.apimachinery.pkg.apis.meta.v1.GroupVersionForDiscovery";
    let server = "io.k8s.apimachinery.pkg.apis.meta.v1.ServerAddressByClientCIDR";
    let group = "io.k8s.apimachinery.pkg.apis.meta.v1.APIGroup";
    let servers = ("serverAddressByClientCIDRs", list(&nested(server)));
    let own = [("apiVersion", optional()), ("kind", optional())];
    BTreeMap::from([
        (group_version, of(&["groupVersion", "version"], [("groupVersion", text()), ("version", text())])),
        (server, of(&["clientCIDR", "serverAddress"], [("clientCIDR", text()), ("serverAddress", text())])),
        (
            group,
            of(
                &["name", "versions"],
                own.clone().into_iter().chain([
                    ("name", text()),
                    ("preferredVersion", nested(group_version)),
                    servers.clone(),
                    ("versions", list(&nested(group_version))),
                ]),
            ),
        ),
        (
            "io.k8s.apimachinery.pkg.apis.meta.v1.APIGroupList",
            of(&["groups"], own.clone().into_iter().chain([("groups", list(&nested(group)))])),
        ),
        (
            "io.k8s.apimachinery.pkg.apis.meta.v1.APIVersions",
            of(
                &["versions", "serverAddressByClientCIDRs"],
                own.into_iter().chain([servers, ("versions", list(&text()))]),
            ),
        ),
        ("io.k8s.apimachinery.pkg.version.Info", version()),
    ])
});

fn version() -> Value {
    let required =
        ["major", "minor", "gitVersion", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"];
    let others = ["emulationMajor", "emulationMinor", "minCompatibilityMajor", "minCompatibilityMinor"];
    let fields = required.iter().map(|name| (*name, text())).chain(others.iter().map(|name| (*name, optional())));
    of(&required, fields)
}

fn of(required: &[&str], fields: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    let properties: Map<String, Value> = fields.into_iter().map(|(name, field)| (name.to_owned(), field)).collect();
    json!({ "type": "object", "required": required, "properties": properties })
}

fn text() -> Value {
    json!({ "type": "string", "default": "" })
}

fn optional() -> Value {
    json!({ "type": "string" })
}

fn nested(name: &str) -> Value {
    json!({ "default": {}, "allOf": [{ "$ref": format!("#/components/schemas/{name}") }] })
}

fn list(items: &Value) -> Value {
    json!({ "type": "array", "items": items, "x-kubernetes-list-type": "atomic" })
}
