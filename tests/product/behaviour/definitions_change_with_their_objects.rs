//! An object and the definition of its kind that change in one commit are applied in that order, and the object is not tried
//! against the old definition.

use belay_core::rollout::{Outcome, StepKind};

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
