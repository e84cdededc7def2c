//! Tests of the time of rendering: a newer head gives an older one's units up, older commits have a budget, and slow
//! units are reported.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use super::*;

fn one_unit() -> MemoryTree {
    let mut tree = MemoryTree::default();
    tree.file("kustomization.yaml", "");
    tree
}

#[test]
fn a_newer_head_gives_up_what_an_older_one_renders() {
    let (_folder, tools) =
        script("[ -e slow ] && sleep 1000; printf 'apiVersion: v1\\nkind: ConfigMap\\nmetadata: {name: a}\\n'");
    let mut slow = MemoryTree::default();
    // The whole repository is an input: each tool sees the file.
    (0..10).for_each(|number| slow.file(format!("{number}/kustomization.yaml"), "transformers: [x.yaml]\n"));
    let mut quick = slow.clone();
    slow.file("slow", "");
    quick.file("other", "");
    let renderer = Renderer::new(Options::default(), tools, None);
    let (began, first) = (Instant::now(), renderer.begin("first"));
    let files = std::thread::scope(|scope| {
        let rendering = scope.spawn(|| {
            let Ok(plan) = renderer.plan(&slow, "");
            let Ok(()) = renderer.prepare(&slow, &plan.units.values().collect::<Vec<_>>());
        });
        while renderer.runs() == 0 {
            std::thread::yield_now();
        }
        assert!(!first.is_cancelled());
        let _second = renderer.begin("second");
        assert!(first.is_cancelled() && renderer.has_turn("second") && !renderer.has_turn("first"));
        let files = rendered(&renderer, &quick);
        rendering.join().unwrap();
        files
    });
    assert!(files.iter().all(|file| file.manifests.len() == 1), "{files:?}");
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    // A unit that was given up is not counted as failed.
    let Ok(plan) = renderer.plan(&slow, "");
    assert!(plan.units.values().all(|unit| !renderer.is_known(unit)));
    let again = renderer.begin("second");
    assert!(!again.is_cancelled(), "the same head keeps its turn");
}

#[test]
fn older_commits_have_a_budget() {
    let (_folder, tools) = script("sleep 1000");
    // The budget is all that ends the tool: a machine with much to do may take long for the rest.
    let limits = ChildLimits { time: Duration::from_hours(1), ..ChildLimits::default() };
    let renderer = Renderer::new(Options::default(), tools, None).with_limits(limits);
    let tree = one_unit();
    let Ok(plan) = renderer.plan(&tree, "");
    let unit = plan.units.values().next().unwrap();
    let mut left = Duration::from_millis(1500);
    let began = Instant::now();
    let Ok(known) = renderer.renders_within(&tree, unit, &mut left);
    assert!(!known && left.is_zero(), "{left:?}");
    let Ok(known) = renderer.renders_within(&tree, unit, &mut left);
    assert!(!known && renderer.runs() == 1 && began.elapsed() < Duration::from_secs(500));
    assert!(!renderer.is_known(unit), "its own commit may take longer");
}

#[test]
fn what_takes_long_is_told() {
    let (_folder, tools) = script("sleep 3; exit 1");
    let told = Arc::new(Mutex::new(Vec::new()));
    let telling = Arc::clone(&told);
    let tell = move |units: &BTreeSet<Arc<str>>| {
        telling.lock().unwrap().push(units.iter().map(|unit| unit.to_string()).collect::<Vec<_>>())
    };
    let renderer = Renderer::new(Options::default(), tools, None).telling(tell);
    let _ = rendered(&renderer, &one_unit());
    assert_eq!(*told.lock().unwrap(), [vec!["kustomization.yaml".to_owned()], vec![]]);
    assert!(!renderer.is_slow());
}

/// Five sources ask for ten tools each: never do more run at once than there are processors.
#[test]
fn no_more_tools_run_than_there_are_processors() {
    let processors = std::thread::available_parallelism().unwrap().get();
    // A tool may write only into its own folder: it says in its output when it ran.
    let (_folder, tools) = script("a=$(date +%s%N); sleep 0.2; echo \"$a $(date +%s%N)\" >&2; exit 1");
    let spans = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..5 {
            scope.spawn(|| {
                let mut tree = MemoryTree::default();
                (0..4).for_each(|number| tree.file(format!("{number}/kustomization.yaml"), ""));
                for file in rendered(&Renderer::new(Options::default(), tools.clone(), None), &tree) {
                    let said = file.complaints[0].message.clone();
                    let numbers = said.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
                    let numbers: Vec<u64> = numbers.filter(|number| *number > 1_000_000).collect();
                    spans.lock().unwrap().push((numbers[0], numbers[1]));
                }
            });
        }
    });
    let spans = spans.into_inner().unwrap();
    assert_eq!(spans.len(), 20);
    let at_once = |moment: u64| spans.iter().filter(|(from, to)| (*from..*to).contains(&moment)).count();
    let most = spans.iter().map(|(from, _)| at_once(*from)).max().unwrap();
    assert!(most <= processors, "{most}");
}
