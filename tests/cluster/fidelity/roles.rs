//! `crates/minicluster/src/api/access/roles.json` says which roles the real API server begins with, and who has them.
//! `BELAY_WRITE_FACTS=1` writes it anew.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::support::control_plane::{self, ControlPlane, Controllers};

const FILE: &str = "crates/minicluster/src/api/access/roles.json";
const GROUP: &str = "/apis/rbac.authorization.k8s.io/v1";

#[tokio::test]
async fn the_roles_of_a_new_cluster_are_the_reference_servers_own() {
    let Some(assets) = control_plane::assets("the roles of a new cluster") else { return };
    let plane = ControlPlane::start(&assets, Controllers::None).await;
    let mut lines = Vec::new();
    for kind in ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"] {
        let url = format!("{GROUP}/{}s", kind.to_lowercase());
        let request = http::Request::get(&url).body(Vec::new()).unwrap();
        let list: Value = plane.client().request(request).await.unwrap_or_else(|error| panic!("GET {url}: {error}"));
        lines.extend(list["items"].as_array().unwrap().iter().map(|object| line(kind, object)));
    }
    let facts = format!("[\n{}\n]\n", lines.join(",\n"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    if std::env::var_os("BELAY_WRITE_FACTS").is_some() {
        fs::write(&path, &facts).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    let difference = written.lines().zip(facts.lines()).find(|(a, b)| a != b);
    assert!(
        written == facts,
        "{FILE} differs from the reference server, first at {difference:?}; BELAY_WRITE_FACTS=1 writes it anew"
    );
}

/// Returns an object as it was made, on one line.
fn line(kind: &str, object: &Value) -> String {
    let kept = ["name", "namespace", "labels", "annotations"];
    let metadata: Map<String, Value> =
        kept.iter().filter_map(|key| Some(((*key).to_owned(), object["metadata"].get(key)?.clone()))).collect();
    let mut made = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata });
    for (key, value) in object.as_object().unwrap() {
        if key != "metadata" && !value.is_null() {
            made[key] = value.clone();
        }
    }
    made.to_string()
}
