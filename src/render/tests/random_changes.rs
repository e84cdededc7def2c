//! The kept rendering of a unit is never out of date after any change in a repository.

use super::*;

/// A random file of a random tree of kustomizations.
fn change(tree: &mut MemoryTree, random: &mut fastrand::Rng) {
    let folder = ["over", "base", "part", "over/sub"][random.usize(..4)];
    let name = ["kustomization.yaml", "kustomization.yml", "a.yaml", "b.yaml", "p.yaml", "e.env", "f.txt", "t.yaml"]
        [random.usize(..8)];
    let path = format!("{folder}/{name}");
    if random.u8(..6) == 0 || (name == "kustomization.yml" && random.bool()) {
        return tree.remove(&path);
    }
    let text = match name {
        "a.yaml" | "b.yaml" => format!("{CONFIG_MAP}{}\ndata: {{k: \"{}\"}}\n", &name[..1], random.u8(..4)),
        "p.yaml" => format!("{CONFIG_MAP}a\ndata: {{p: \"{}\"}}\n", random.u8(..4)),
        "e.env" => format!("E={}\n", random.u8(..4)),
        "t.yaml" => format!(
            "apiVersion: builtin\nkind: PrefixTransformer\nmetadata: {{name: t}}\nprefix: t{}-\nfieldSpecs: [{{path: metadata/name}}]\n",
            random.u8(..4)
        ),
        "f.txt" => random.u8(..4).to_string(),
        _ => kustomization(random),
    };
    tree.file(path, text);
}

fn kustomization(random: &mut fastrand::Rng) -> String {
    let mut some = |choices: &[&str]| {
        let mut chosen: Vec<String> = choices.iter().map(|choice| (*choice).to_owned()).collect();
        chosen.retain(|_| random.u8(..3) == 0);
        chosen
    };
    let resources = some(&["a.yaml", "b.yaml", "../base", "../../base", "sub", "../part/b.yaml"]);
    let mut text = format!("resources: [{}]\n", resources.join(", "));
    for line in some(&[
        "patches: [{path: p.yaml}]",
        "configMapGenerator: [{name: g, files: [f.txt], envs: [e.env]}]",
        "secretGenerator: [{name: s, files: [k=f.txt]}]",
        "transformers: [t.yaml]",
        "components: [../part]",
        "namePrefix: x-",
        "buildMetadata: [originAnnotations]",
        "buildMetadata: [managedByLabel]",
        "kind: Component\napiVersion: kustomize.config.k8s.io/v1alpha1",
    ]) {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// A random file of random charts, or of the values that one of them is rendered with.
fn change_chart(tree: &mut MemoryTree, random: &mut fastrand::Rng) {
    let path = [
        "web/values.yaml",
        "web/templates/a.yaml",
        "web/templates/_part.tpl",
        "web/files/f.txt",
        "web/charts/db/Chart.yaml",
        "web/charts/db/templates/d.yaml",
        "web/.helmignore",
        "live/web.yaml",
        "live/other.yaml",
    ][random.usize(..9)];
    if random.u8(..6) == 0 && path != "live/web.yaml" {
        return tree.remove(path);
    }
    let number = random.u8(..4);
    let text = match path {
        "web/templates/a.yaml" => format!(
            "{CONFIG_MAP}a{number}\ndata: {{v: \"{{{{ .Values.size }}}}\", f: {{{{ .Files.Get \"files/f.txt\" | quote }}}}}}\n"
        ),
        "web/templates/_part.tpl" => "{{ define \"part\" }}x{{ end }}".to_owned(),
        "web/charts/db/Chart.yaml" => format!("apiVersion: v2\nname: db\nversion: 1.0.{number}\n"),
        "web/charts/db/templates/d.yaml" => {
            format!("{CONFIG_MAP}d{number}\ndata: {{p: {{{{ include \"part\" . }}}}}}\n")
        }
        "web/.helmignore" => ["f.txt\n", "charts\n", ""][usize::from(number % 3)].to_owned(),
        "web/files/f.txt" => number.to_string(),
        _ => format!("size: {number}\n"),
    };
    tree.file(path, text);
}

/// The same of charts: their folder and their values are all that they are made from.
#[test]
fn what_is_kept_of_a_chart_is_never_out_of_date() {
    let Some(tools) = real_tools() else { return };
    let seed = std::env::var("BELAY_SEED").ok().and_then(|seed| seed.parse().ok());
    let values = vec!["/live/web.yaml".to_owned()];
    let chart = HelmOptions { chart: "web".to_owned(), values, ..HelmOptions::default() };
    let options = Options { helm: vec![chart], ..Options::default() };
    let (mut rendered_well, mut kept) = (0, 0);
    for seed in seed.map_or(1..4, |seed: u64| seed..seed + 1) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut tree = MemoryTree::default();
        tree.file("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n");
        tree.file("web/templates/a.yaml", format!("{CONFIG_MAP}a\ndata: {{v: \"{{{{ .Values.size }}}}\"}}\n"));
        tree.file("live/web.yaml", "size: 1\n");
        let renderer = Renderer::new(options.clone(), tools.clone(), None);
        for step in 0..12 {
            change_chart(&mut tree, &mut random);
            let before = renderer.runs();
            let now = rendered(&renderer, &tree);
            kept += usize::from(renderer.runs() == before);
            let anew = rendered(&Renderer::new(options.clone(), tools.clone(), None), &tree);
            assert_eq!(now, anew, "BELAY_SEED={seed}, step {step}, {tree:?}");
            rendered_well += now.iter().filter(|file| !file.manifests.is_empty()).count();
        }
    }
    assert!(rendered_well > 10 && kept > 3, "{rendered_well} rendered, {kept} of them kept: too few to tell anything");
}

/// After any change, the kept rendering equals one from all of the repository.
#[test]
fn what_is_kept_is_never_out_of_date() {
    let Some(tools) = real_tools() else { return };
    let seed = std::env::var("BELAY_SEED").ok().and_then(|seed| seed.parse().ok());
    let (mut rendered_well, mut kept) = (0, 0);
    for seed in seed.map_or(1..7, |seed: u64| seed..seed + 1) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut tree = MemoryTree::default();
        tree.file("over/kustomization.yaml", "resources: [a.yaml, ../base]\n");
        tree.file("base/kustomization.yaml", "resources: [b.yaml]\n");
        for file in ["over/a.yaml", "base/b.yaml"] {
            tree.file(file, format!("{CONFIG_MAP}{}\n", file.replace('/', ".")));
        }
        let renderer = Renderer::new(Options::default(), tools.clone(), None);
        for step in 0..12 {
            (0..random.u8(1..3)).for_each(|_| change(&mut tree, &mut random));
            let Ok(plan) = renderer.plan(&tree, "over");
            let scopes = Scopes::new("default");
            for unit in plan.units.values().filter(|unit| unit.refusal.is_none()) {
                let before = renderer.runs();
                let Ok(file) = renderer.file(&tree, unit, &scopes);
                kept += usize::from(renderer.runs() == before);
                let Ok(root) = tree.node("");
                let whole = Unit { inputs: Inputs { nodes: [(String::new(), root)].into() }, ..unit.clone() };
                let Ok(anew) = Renderer::new(Options::default(), tools.clone(), None).file(&tree, &whole, &scopes);
                let wrong =
                    |file: &File| file.complaints.iter().map(|complaint| complaint.place.clone()).collect::<Vec<_>>();
                assert_eq!(file.manifests, anew.manifests, "BELAY_SEED={seed}, step {step}, {tree:?}");
                assert_eq!(wrong(&file), wrong(&anew), "BELAY_SEED={seed}, step {step}, {tree:?}");
                rendered_well += usize::from(!file.manifests.is_empty());
            }
        }
    }
    assert!(rendered_well > 10 && kept > 5, "{rendered_well} rendered, {kept} of them kept: too few to tell anything");
}
