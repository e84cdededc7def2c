//! Each source has the rights of its own context, and no others.

use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::support::daemon::config_map;

/// A namespace, and a user who may do everything in it, and elsewhere nothing but keep a Lease.
fn rights(namespace: &str, user: &str) -> String {
    let binding = |namespace: &str, kind: &str, role: &str| {
        format!(
            "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {{name: {user}, namespace: {namespace}}}\n\
             roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: {kind}, name: {role}}}\n\
             subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: {user}}}]\n"
        )
    };
    format!(
        "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}}}\n{}{}---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {{name: leases, namespace: default}}\n\
         rules: [{{apiGroups: [coordination.k8s.io], resources: [leases], verbs: ['*']}}]\n",
        binding(namespace, "ClusterRole", "admin"),
        binding("default", "Role", "leases")
    )
}

/// Adds a context for a user to a kubeconfig: the administrator acts as that user.
fn add_context(config: &mut Value, namespace: &str, user: &str) {
    let mut account = config["users"][0].clone();
    account["name"] = json!(user);
    account["user"]["as"] = json!(user);
    let cluster = config["clusters"][0]["name"].clone();
    let context = json!({"name": user, "context": {"cluster": cluster, "user": user, "namespace": namespace}});
    config["users"].as_array_mut().unwrap().push(account);
    config["contexts"].as_array_mut().unwrap().push(context);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_may_not_what_only_the_account_of_another_may() {
    let mut stage = Fixture::new().await;
    let file = stage.home.path().join("kubeconfig");
    let mut kubeconfig: Value = serde_yaml::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let repository = stage.repository.path().display().to_string();
    let mut config = String::new();
    for (name, other, user) in [("one", "two", "alice"), ("two", "one", "bob")] {
        stage.cluster.apply(&rights(name, user)).await.unwrap();
        add_context(&mut kubeconfig, name, user);
        let of = |namespace: &str, object: &str| {
            config_map(object, "1").replace("metadata:\n", &format!("metadata:\n  namespace: {namespace}\n"))
        };
        stage.repository.write(format!("{name}/own.yaml"), of(name, "own"));
        stage.repository.write(format!("{name}/other.yaml"), of(other, &format!("of-{name}")));
        config += &format!(
            "[[source]]\nname = \"{name}\"\nrepository = \"{repository}\"\npath = \"{name}\"\ncontext = \"{user}\"\n"
        );
    }
    std::fs::write(&file, serde_yaml::to_string(&kubeconfig).unwrap()).unwrap();
    stage.repository.commit("All of them");
    stage.repository.push();
    std::fs::write(stage.home.path().join("belay.toml"), config).unwrap();
    let config = stage.home.path().join("belay.toml").display().to_string();
    let ran = stage.run(&["run", "--once", "--timeout", "5s", "--config", &config]);
    assert_ne!(ran.code, 0, "{ran:?}");
    let get = async |namespace: &str, name: &str| {
        let request = http::Request::get(format!("/api/v1/namespaces/{namespace}/configmaps/{name}"));
        stage.cluster.client().request::<Value>(request.body(Vec::new()).unwrap()).await
    };
    for (name, other, user) in [("one", "two", "alice"), ("two", "one", "bob")] {
        assert_eq!(get(name, "own").await.unwrap()["data"]["A"], "1", "{ran:?}");
        assert!(get(other, &format!("of-{name}")).await.is_err(), "{user} wrote into {other}");
        let told = stage.run(&["status", "-A"]);
        assert!(told.out.contains(&format!("of-{name}")) && told.out.contains("waiting"), "{told:?}");
        assert!(ran.err.contains(&format!("User \"{user}\" cannot")), "{ran:?}");
    }
}
