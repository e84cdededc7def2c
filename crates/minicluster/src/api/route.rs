//! From a path to its target.

use std::sync::Arc;

use super::query::decode;
use super::registry::Registry;
use super::resource::Resource;

/// The target of a path.
#[derive(Debug)]
pub enum Route {
    /// `/`: the paths that there are.
    Paths,
    /// `/api`: the versions of the core group.
    CoreVersions,
    /// `/apis`: the groups.
    Groups,
    /// `/apis/<group>`
    Group(String),
    /// `/api/v1`, `/apis/<group>/<version>`: the resources of a version.
    Resources {
        /// The group; empty for core.
        group: String,
        /// The version.
        version: String,
    },
    /// Objects.
    Objects(Target),
    /// `/version`
    Version,
    /// `/healthz`, `/livez`, `/readyz`, and one check of them.
    Health {
        /// `healthz`, `livez` or `readyz`.
        endpoint: String,
        /// The one check asked for.
        check: Option<String>,
    },
    /// `/openapi/v2`
    OpenApi2,
    /// `/openapi/v3`
    OpenApi3,
    /// `/openapi/v3/apis/apps/v1`: the rest of the path.
    OpenApi3Document(String),
    /// An unknown subresource of a custom kind: answered as if the object were missing.
    NotBelow(Target),
    /// A place in the API where there is nothing: answered with a `Status`.
    UnknownResource,
    /// Any other place: answered with plain text.
    Unknown,
}

/// A resource, or an object of it, or a subresource.
#[derive(Clone, Debug)]
pub struct Target {
    /// The resource.
    pub resource: Arc<Resource>,
    /// The namespace in the path.
    pub namespace: Option<String>,
    /// The name in the path.
    pub name: Option<String>,
    /// The subresource in the path.
    pub subresource: Option<String>,
    /// True when the path asks for a watch (`/api/v1/watch/…`).
    pub watch: bool,
}

/// Returns the target of a path.
#[must_use]
pub fn route(registry: &Registry, path: &str) -> Route {
    let segments: Vec<String> = path.split('/').skip(1).map(decode).collect();
    let mut segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    while segments.last().is_some_and(|last| last.is_empty()) {
        segments.pop();
    }
    match segments.as_slice() {
        [] => Route::Paths,
        ["api"] => Route::CoreVersions,
        ["apis"] => Route::Groups,
        ["api", version, rest @ ..] => in_version(registry, "", version, rest),
        ["apis", group, rest @ ..] if registry.group(group).is_some() && !group.is_empty() => match rest {
            [] => Route::Group((*group).to_owned()),
            [version, rest @ ..] => in_version(registry, group, version, rest),
        },
        ["version"] => Route::Version,
        [endpoint @ ("healthz" | "livez" | "readyz"), check @ ..] => {
            Route::Health { endpoint: (*endpoint).to_owned(), check: (!check.is_empty()).then(|| check.join("/")) }
        }
        ["openapi", "v2"] => Route::OpenApi2,
        ["openapi", "v3"] => Route::OpenApi3,
        ["openapi", "v3", rest @ ..] => Route::OpenApi3Document(rest.join("/")),
        _ => Route::Unknown,
    }
}

fn in_version(registry: &Registry, group: &str, version: &str, rest: &[&str]) -> Route {
    let Some(known) = registry.version(group, version) else { return Route::UnknownResource };
    let (watch, rest) = match rest {
        [] => return Route::Resources { group: group.to_owned(), version: version.to_owned() },
        ["watch", rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let (namespace, rest) = match rest {
        // A path below a namespace names a resource in it, but for the namespace's own subresources.
        ["namespaces", _, "status" | "finalize", ..] => (None, rest),
        ["namespaces", namespace, _, ..] => (Some(*namespace).filter(|name| !name.is_empty()), &rest[2..]),
        rest => (None, rest),
    };
    let [resource, rest @ ..] = rest else { return Route::UnknownResource };
    let Some(resource) = known.resources.get(*resource) else { return Route::UnknownResource };
    let namespaced = resource.definition.namespaced;
    let (name, subresource) = match rest {
        [] => (None, None),
        [name] => (Some(*name), None),
        [name, subresource] => (Some(*name), Some(*subresource)),
        // A path behind `proxy` is the proxied server's own.
        [name, "proxy", ..] => (Some(*name), Some("proxy")),
        _ => return Route::UnknownResource,
    };
    let target = Target {
        resource: Arc::clone(resource),
        namespace: namespace.map(str::to_owned),
        name: name.map(str::to_owned),
        subresource: subresource.map(str::to_owned),
        watch,
    };
    let misplaced = if namespaced { namespace.is_none() && name.is_some() } else { namespace.is_some() };
    let unknown = subresource.is_some_and(|subresource| resource.subresource(subresource).is_none());
    match (misplaced || name == Some(""), unknown) {
        (false, false) => Route::Objects(target),
        (false, true) if resource.custom.is_some() => Route::NotBelow(target),
        _ => Route::UnknownResource,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(path: &str) -> String {
        match route(&Registry::built_in(), path) {
            Route::Objects(Target { resource, namespace, name, subresource, watch }) => format!(
                "{} {} {} {}{}",
                resource.definition.kind,
                namespace.unwrap_or_else(|| "-".to_owned()),
                name.unwrap_or_else(|| "-".to_owned()),
                subresource.unwrap_or_else(|| "-".to_owned()),
                if watch { " watch" } else { "" },
            ),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn objects_are_found_by_their_path() {
        assert_eq!(at("/api/v1/pods"), "Pod - - -");
        assert_eq!(at("/api/v1/namespaces/default/pods/x"), "Pod default x -");
        assert_eq!(at("/api/v1/namespaces/default/pods/x/log"), "Pod default x log");
        assert_eq!(at("/api/v1/namespaces/default"), "Namespace - default -");
        assert_eq!(at("/api/v1/namespaces/default/"), "Namespace - default -");
        assert_eq!(at("/api/v1/namespaces/default/finalize"), "Namespace - default finalize");
        assert_eq!(at("/api/v1/namespaces//pods"), "Pod - - -");
        assert_eq!(at("/apis/apps/v1/namespaces/a/deployments/b/scale"), "Deployment a b scale");
        assert_eq!(at("/api/v1/watch/namespaces/a/pods/b"), "Pod a b - watch");
        assert_eq!(at("/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode"), "ClusterRole - system:node -");
    }

    #[test]
    fn what_is_not_there_is_told_apart() {
        for path in [
            "/api/v2",
            "/api/v1/foos",
            "/apis/apps/v2/deployments",
            "/api/v1/pods/x",
            "/api/v1/namespaces/a/nodes",
            "/api/v1/namespaces/a/pods/x/foo",
            "/api/v1/namespaces/a/pods/x/status/y",
            "/api//v1/pods",
        ] {
            assert_eq!(at(path), "UnknownResource", "{path}");
        }
        for path in ["/foo", "/apis/foo", "/apis/foo/v1/things", "//api/v1", "/openapi", "/apis//v1"] {
            assert_eq!(at(path), "Unknown", "{path}");
        }
        assert_eq!(at("/"), "Paths");
        assert_eq!(at("/apis/apps/"), "Group(\"apps\")");
        assert_eq!(at("/livez/ping"), "Health { endpoint: \"livez\", check: Some(\"ping\") }");
    }
}
