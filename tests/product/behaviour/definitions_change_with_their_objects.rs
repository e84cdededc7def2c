//! An object and the definition of its kind that change in one commit are applied in that order, and the object is not tried
//! against the old definition.

use belay_core::rollout::{Outcome, SourceState, StepKind};

use crate::support::daemon::{WIDGETS, World};

fn widget(spec: &str) -> String {
    format!("apiVersion: example.com/v1\nkind: Widget\nmetadata: {{name: one}}\nspec: {spec}\n")
}

/// Returns how long after its definition was complete an object was applied.
fn seconds_after_its_definition(world: &World, commit: &str, object: &str) -> i64 {
    let definition = world.record(commit, "CustomResourceDefinition widgets.example.com");
    let object = world.record(commit, object);
    assert_eq!((definition.outcome, object.outcome), (Outcome::Complete, Outcome::Complete), "{object:#?}");
    let steps = world.history().steps(object.id).unwrap();
    let applied = steps.iter().find(|step| step.kind == StepKind::Applying).unwrap();
    applied.at.duration_since(definition.ended.unwrap()).as_secs()
}

#[tokio::test(start_paused = true)]
async fn they_are_applied_in_order_within_three_seconds() {
    let mut world = World::embedded().await;
    world.repository.write("definition.yaml", WIDGETS);
    world.repository.write("widget.yaml", widget("{size: 1}"));
    let first = world.with_all_of_them().await;
    assert!((0..=3).contains(&seconds_after_its_definition(&world, &first, "Widget default/one")));
    let table = [
        (
            "a new field",
            "size: {type: integer}",
            "size: {type: integer}, colour: {type: string}",
            "{size: 1, colour: red}",
        ),
        (
            "an enumeration",
            "colour: {type: string}",
            "colour: {type: string, enum: [red, blue]}",
            "{size: 1, colour: blue}",
        ),
        ("a stricter schema", "size: {type: integer}", "size: {type: integer, minimum: 5}", "{size: 7, colour: blue}"),
        ("another type", "size: {type: integer, minimum: 5}", "size: {type: string}", "{size: large, colour: red}"),
    ];
    let mut definition = WIDGETS.to_owned();
    for (case, from, to, spec) in table {
        assert!(definition.contains(from), "{case}");
        definition = definition.replace(from, to);
        world.repository.write("definition.yaml", &definition);
        let commit = world.push("widget.yaml", &widget(spec), case);
        world.through(&commit).await;
        assert!((0..=3).contains(&seconds_after_its_definition(&world, &commit, "Widget default/one")), "{case}");
    }
}

/// The scope of a definition can't change: the definition is refused, and its objects say so.
#[tokio::test(start_paused = true)]
async fn objects_of_a_definition_whose_scope_changes_name_it() {
    for (live, wanted) in [("Namespaced", "Cluster"), ("Cluster", "Namespaced")] {
        let mut world = World::embedded().await;
        let definition = |scope: &str| WIDGETS.replace("scope: Namespaced", &format!("scope: {scope}"));
        world.repository.write("definition.yaml", definition(live));
        world.repository.write("widget.yaml", widget("{size: 1}"));
        world.with_all_of_them().await;
        world.repository.write("definition.yaml", definition(wanted));
        let second = world.push("widget.yaml", &widget("{size: 2}"), "Another scope");
        let object = if wanted == "Cluster" { "Widget one" } else { "Widget default/one" };
        let message = |source: &belay::daemon::SourceStatus| {
            let way = source.under_way.iter().find(|(key, _)| key.to_string() == object);
            way.map(|(_, way)| way.message.clone()).unwrap_or_default()
        };
        world.until("the definition is named", |source| message(source).contains("can't change")).await;
        let said = message(&world.status());
        let refused = "waits for CustomResourceDefinition widgets.example.com (definition.yaml:1:1): ";
        assert!(said.starts_with(refused), "{said}");
        assert!(said.contains(&format!("write scope: {live} there again")), "{said}");
        assert!(said.contains("kubectl delete crd widgets.example.com"), "{said}");
        let refused = world.record(&second, "CustomResourceDefinition widgets.example.com");
        assert_eq!(refused.outcome, Outcome::Rejected);
        let hint = refused.complaints[0].hint.clone().unwrap_or_default();
        assert!(hint.contains("delete the definition with all of its objects"), "{hint}");
        // Somebody deletes it: both are made anew.
        world.delete("apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com").await;
        world.until("all is well", |source| source.state() == SourceState::Synced).await;
        let path = if wanted == "Cluster" { "widgets/one" } else { "namespaces/default/widgets/one" };
        let live = world.get(&format!("apis/example.com/v1/{path}")).await.unwrap();
        assert_eq!(live["spec"]["size"], 2);
    }
}

#[tokio::test(start_paused = true)]
async fn objects_of_a_definition_that_is_refused_name_it() {
    let by_the_server =
        "waits for CustomResourceDefinition widgets.example.com (definition.yaml:1:1), which the API server refuses: ";
    let by_belay = "waits for the kind Widget, whose definition is refused: definition.yaml:3:";
    for (from, to, words) in [
        ("storage: true", "storage: false", by_the_server),
        ("{name: widgets.example.com}", "{name: gadgets.example.com}", by_belay),
    ] {
        let mut world = World::embedded().await;
        world.repository.write("definition.yaml", WIDGETS.replace(from, to));
        world.repository.write("widget.yaml", widget("{size: 1}"));
        world.repository.commit("A definition that is wrong");
        world.repository.push();
        world.start();
        let is_named =
            |source: &belay::daemon::SourceStatus| source.under_way.values().any(|way| way.message.starts_with(words));
        world.until("the definition is named", is_named).await;
        world.push("definition.yaml", WIDGETS, "A good one");
        world.until("all is well", |source| source.state() == SourceState::Synced).await;
    }
}
