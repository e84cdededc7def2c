//! A ReplicationController by hand, beside a daemon that follows it: an undo that is held, and a rolling update that is told.

use serde_json::Value;

use crate::by_hand::{Office, hold_of, image_of};
use crate::support::daemon::short;
use crate::workstation::path;

fn controller(image: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ReplicationController\nmetadata: {{name: web}}\nspec:\n  replicas: 1\n  selector: {{app: web}}\n  \
         template:\n    metadata: {{labels: {{app: web}}}}\n    spec: {{containers: [{{name: app, image: \"{image}\"}}]}}\n"
    )
}

async fn live(office: &Office) -> Value {
    office.desk.get(&path("replicationcontrollers", "web")).await.unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undo_rolls_it_back_and_is_held() {
    let mut office = Office::new().await;
    let first = office.push(&controller("web:1"), "First version");
    office.start();
    office.until(&first, "complete").await;
    let none = office.belay("undo web");
    assert_eq!(none.code, 1, "{none:?}");
    assert!(none.err.contains("no history here of an earlier commit that was complete"), "{}", none.err);
    let second = office.push(&controller("web:2"), "Second version");
    office.until(&second, "complete").await;

    let numbered = office.belay("undo rc/web --to-revision 1");
    assert!(numbered.code == 1 && numbered.err.contains("keeps no revisions; say --to-commit"), "{numbered:?}");
    let tried = office.belay("undo web --dry-run");
    assert_eq!(
        (tried.code, tried.out.as_str()),
        (0, "replicationcontroller/web rolled back (server dry run)\n"),
        "{tried:?}"
    );
    assert!(tried.err.contains("the pods of web would be replaced by those of web-"), "{}", tried.err);
    assert_eq!(image_of(&live(&office).await), "web:2");

    let undone = office.belay("undo rc web --reason=slow");
    assert_eq!((undone.code, undone.out.as_str()), (0, "replicationcontroller/web rolled back\n"), "{undone:?}");
    assert!(undone.err.contains(&format!("commit {} is held", short(&second))), "{}", undone.err);
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    let now = live(&office).await;
    assert_eq!(
        (image_of(&now), &now["metadata"]["annotations"]["belay.dev/commit"]),
        ("web:1", &Value::from(first.as_str()))
    );
    assert_eq!(hold_of(&now).expect("held")["commit"], second.as_str());
    assert_eq!(office.undone(&second)["outcome"], "rolled-back");
    let again = office.belay("undo web");
    assert_eq!(again.code, 1, "there is nothing earlier: {again:?}");
    let held = office.belay(&format!("undo web --to-commit {second}"));
    assert_eq!(held.code, 1, "{held:?}");
    let told = format!("commit {} is held for replicationcontrollers \"web\"", short(&second));
    assert!(held.err.contains(&told) && held.err.contains("belay retry"), "{}", held.err);
    let same = office.belay(&format!("undo web --to-commit {first}"));
    assert_eq!(
        same.out,
        format!("replicationcontroller/web skipped rollback (current template already matches commit {first})\n")
    );

    // A rolling update by hand while something is held is reported, and stays; and so does the hold.
    let rolled = office.belay("rolling-update web --image=web:3 --update-period 100ms --poll-interval 100ms");
    assert_eq!(rolled.code, 0, "{rolled:?}");
    assert!(rolled.err.contains("belongs to the source \"shop\""), "{}", rolled.err);
    let record = office.triggered("rolling-update").await;
    assert!(record["trigger"]["who"].as_str().unwrap().contains(" as "), "{record:#}");
    assert_eq!(record["outcome"], "complete");
    let shown = office.belay("history web -o wide");
    assert!(shown.out.contains("rolling-update ("), "{}", shown.out);
    let held = office.belay("status web -o json");
    assert!(held.out.contains("\"state\": \"held\""), "{held:?}");
    let now = live(&office).await;
    assert_eq!((image_of(&now), &hold_of(&now).expect("held")["commit"]), ("web:3", &Value::from(second.as_str())));
}
