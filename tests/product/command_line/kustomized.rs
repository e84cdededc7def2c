//! `belay set image`, `scale` and `new` where a kustomization renders: its lines change, and nothing else of what it renders to.
//! The tool is the real one; without it a test says that it has nothing to run.

use std::path::{Path, PathBuf};

use crate::editing::Copy;
use crate::program::{Ran, belay, finish};
use crate::support::daemon::{deployment, tools_folder};

/// A working copy with a base, an overlay and a chart, and the PATH with the real tools.
struct KustomizedCopy {
    copy: Copy,
    tools: PathBuf,
}

const LIVE: &str = "# What runs.\nresources:\n- ../base # the shop\nnamespace: shop\nnamePrefix: live-\nimages: # newest\n- name: web # the front\n  newName: r.example.com/web\n  newTag: \"1.1\"\n";

impl KustomizedCopy {
    fn new() -> Option<KustomizedCopy> {
        let rendered = KustomizedCopy { copy: Copy::new(), tools: tools_folder()? };
        rendered.write("base/kustomization.yaml", "resources: [web.yaml, api.yaml, other.yaml]\n");
        rendered.write("base/web.yaml", &deployment("web", "web:1", ""));
        rendered.write("base/api.yaml", &deployment("api", "api:1", ""));
        rendered.write("base/other.yaml", &deployment("other", "api:1", ""));
        rendered.write("live/kustomization.yaml", LIVE);
        rendered.write("chart/Chart.yaml", "apiVersion: v2\nname: chart\nversion: 1.0.0\n");
        rendered.write("chart/values.yaml", "tag: v1\n");
        rendered.write("chart/templates/cart.yaml", &deployment("cart", "cart:{{ .Values.tag }}", ""));
        rendered.commit();
        Some(rendered)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.copy.folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn commit(&self) {
        self.copy.git(&["add", "."]);
        self.copy.git(&["-c", "user.name=Ada", "-c", "user.email=a@example.com", "commit", "-qm", "More"]);
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.copy.folder.join(path)).unwrap()
    }

    fn belay(&self, line: &str) -> Ran {
        self.with_path(&self.tools, line)
    }

    fn with_path(&self, path: &Path, line: &str) -> Ran {
        let mut command = belay(self.copy.home.path());
        command.args(line.split(' ')).current_dir(&self.copy.folder).env("PATH", path);
        finish(command, "")
    }

    /// Asserts that a command is refused with these words, and changes nothing.
    fn refused(&self, line: &str, words: &[&str]) {
        let head = self.copy.git(&["rev-parse", "HEAD"]);
        let ran = self.belay(line);
        assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{line}: {ran:?}");
        words.iter().for_each(|words| assert!(ran.err.contains(words), "{line}: {words}: {ran:?}"));
        assert_eq!(self.copy.git(&["status", "--porcelain"]), "", "{line}");
        assert_eq!(self.copy.git(&["rev-parse", "HEAD"]), head, "{line}");
    }
}

#[test]
fn an_image_is_set_in_the_kustomization_that_is_rolled_out() {
    let Some(rendered) = KustomizedCopy::new() else { return };
    let ran = rendered.belay("set image live-web app=r.example.com/web:1.2");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(rendered.read("live/kustomization.yaml"), LIVE.replace("1.1", "1.2"));
    assert!(ran.out.contains("-  newTag: \"1.1\"\n+  newTag: \"1.2\"\n"), "{ran:?}");
    assert!(!ran.err.contains("note:") && ran.err.contains("Set image r.example.com/web:1.2 of deployment live-web"));
    assert_eq!(rendered.copy.git(&["status", "--porcelain"]), "");
    assert_eq!(rendered.copy.git(&["show", "--name-only", "--format="]), "live/kustomization.yaml\n");
    // By digest, under its own name again: the fields that no longer fit are taken out.
    let ran = rendered.belay(&format!("set image live-web app=web@sha256:{}", "a".repeat(64)));
    assert_eq!(ran.code, 0, "{ran:?}");
    let (kept, _) = LIVE.split_once("  newName").unwrap();
    assert_eq!(rendered.read("live/kustomization.yaml"), format!("{kept}  digest: sha256:{}\n", "a".repeat(64)));
    rendered.refused("set image live-web app=web", &["live/kustomization.yaml", "tag or digest"]);
}

#[test]
fn others_with_the_same_image_change_with_it_and_are_told() {
    let Some(rendered) = KustomizedCopy::new() else { return };
    let ran = rendered.belay("set image live-api app=api:2");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("note: Deployment shop/live-other has the same image, and changes with it\n"), "{ran:?}");
    assert_eq!(rendered.read("live/kustomization.yaml"), format!("{LIVE}- name: api\n  newTag: \"2\"\n"));
    let all = rendered.belay("set image live-api live-other app=api:3");
    assert!(all.code == 0 && !all.err.contains("note:"), "{all:?}");
    rendered.refused("set image live-api app=api:3", &["nothing would change"]);
    // A value that was set for one is not set otherwise for the next.
    let with_side = |name: &str, app: &str, side: &str| {
        format!("{}      - name: side\n        image: {side}\n", deployment(name, app, ""))
    };
    rendered.write("base/api.yaml", &with_side("api", "api:1", "side:1"));
    rendered.write("base/other.yaml", &with_side("other", "other:1", "api:1"));
    rendered.write("live/kustomization.yaml", LIVE);
    rendered.commit();
    rendered.refused(
        "set image live-api live-other app=api:2 side=side:2",
        &["live-api", "live-other have the same image in live/kustomization.yaml, and can't be given two"],
    );
}

#[test]
fn the_number_of_pods_is_set_in_the_kustomization() {
    let Some(rendered) = KustomizedCopy::new() else { return };
    for count in ["3", "4"] {
        let ran = rendered.belay(&format!("scale live-web --replicas {count}"));
        assert_eq!(ran.code, 0, "{ran:?}");
        let wanted = format!("{LIVE}replicas:\n- name: web\n  count: {count}\n");
        assert_eq!(rendered.read("live/kustomization.yaml"), wanted);
    }
    rendered.copy.git(&["mv", "live/kustomization.yaml", "live/Kustomization"]);
    rendered.commit();
    let ran = rendered.belay("scale live-api --replicas 5");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(rendered.read("live/Kustomization").ends_with("  count: 4\n- name: api\n  count: 5\n"), "{ran:?}");
    let plain = rendered.belay("scale web --replicas 7 --dir shop");
    assert_eq!(plain.code, 0, "{plain:?}");
    assert!(rendered.read("shop/web.yaml").contains("replicas: 7"));
}

#[test]
fn what_is_not_certain_is_refused_and_names_the_file() {
    let Some(rendered) = KustomizedCopy::new() else { return };
    rendered.refused("set env live-web A=1", &["rendered by live/kustomization.yaml", "patch", "base/web.yaml"]);
    rendered.refused("set image cart app=other:2", &["chart chart", "chart/values.yaml", "chart/templates/cart.yaml"]);
    rendered.refused("scale cart --replicas 3", &["chart/values.yaml"]);
    rendered.refused("set env cart A=1", &["chart/values.yaml"]);
    rendered.refused("set image base-web app=web:2", &["no manifest of a workload \"base-web\" is here"]);
    // A part of a unit that lies above.
    rendered.write("live/parts/extra.yaml", &deployment("extra", "extra:1", ""));
    rendered.write("live/kustomization.yaml", &LIVE.replace("resources:", "resources:\n- parts/extra.yaml"));
    rendered.commit();
    rendered.refused("set image extra app=extra:2 --dir live/parts", &["live/kustomization.yaml", "--dir"]);
    // An entry further down has the last word.
    rendered.write("live/kustomization.yaml", &format!("{LIVE}- name: r.example.com/web\n  newTag: \"9\"\n"));
    rendered.commit();
    rendered
        .refused("set image live-web app=r.example.com/web:2", &["edit images: in live/kustomization.yaml by hand"]);
    // Two entries for one image.
    rendered.write("live/kustomization.yaml", &format!("{LIVE}- name: web\n  newTag: \"9\"\n"));
    rendered.commit();
    rendered.refused("set image live-web app=web:2", &["live/kustomization.yaml", "several entries"]);
    // Another container of the workload has the same image name.
    let two = "kind: Deployment\nmetadata: {name: web}\nspec: {template: {spec: {containers: [{name: side, image: 'web:1'}]}}}\n";
    rendered.write("live/side.yaml", &format!("apiVersion: apps/v1\n{two}"));
    rendered.write("live/kustomization.yaml", "resources: [../base]\npatches: [{path: side.yaml}]\n");
    rendered.commit();
    rendered.refused(
        "set image web app=web:2 --dir live",
        &["live/kustomization.yaml", "other images of Deployment default/web"],
    );
    let both = rendered.belay("set image web *=web:2 --dir live");
    assert_eq!(both.code, 0, "{both:?}");
}

#[test]
fn without_the_tool_nothing_rendered_is_changed() {
    let Some(rendered) = KustomizedCopy::new() else { return };
    let head = rendered.copy.git(&["rev-parse", "HEAD"]);
    let ran = rendered.with_path(Path::new("/nonexistent"), "set image live-web app=web:2");
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("is not installed") && ran.err.contains("live-web"), "{ran:?}");
    let all = rendered.with_path(Path::new("/nonexistent"), "set image --all *=web:2");
    assert!(all.code == 1 && all.err.contains("is not installed"), "{all:?}");
    assert_eq!(rendered.copy.git(&["rev-parse", "HEAD"]), head);
}

#[test]
fn a_new_manifest_is_a_resource_of_the_kustomization() {
    let Some(rendered) = KustomizedCopy::new() else { return };
    let ran = rendered.belay("new deployment cache --image cache:1 --dir live");
    assert_eq!(ran.code, 0, "{ran:?}");
    let wanted = LIVE.replace("- ../base # the shop\n", "- ../base # the shop\n- cache.yaml\n");
    assert_eq!(rendered.read("live/kustomization.yaml"), wanted);
    assert_eq!(rendered.copy.git(&["show", "--name-only", "--format="]), "live/cache.yaml\nlive/kustomization.yaml\n");
    assert!(rendered.belay("render live -o name").out.contains("Deployment shop/live-cache\n"));
    // In brackets, from a folder below, and without the tool.
    std::fs::create_dir(rendered.copy.folder.join("base/parts")).unwrap();
    let none = Path::new("/nonexistent");
    let ran = rendered.with_path(none, "new deployment queue --image queue:1 --dir base/parts");
    assert_eq!(ran.code, 0, "{ran:?}");
    let base = "resources: [web.yaml, api.yaml, other.yaml, parts/queue.yaml]\n";
    assert_eq!(rendered.read("base/kustomization.yaml"), base);
    // A manifest that the tool would not render is not written.
    rendered.refused(
        "new deployment api --image api:1 --dir live",
        &["add api.yaml to resources: in live/kustomization.yaml by hand", "already registered id"],
    );
    // It is named already, and nothing of that is committed.
    let listed = rendered.read("live/kustomization.yaml").replace("cache.yaml\n", "cache.yaml\n- mail.yaml\n");
    rendered.write("live/kustomization.yaml", &listed);
    let ran = rendered.belay("new deployment news --image news:1 --dir live");
    assert!(ran.code == 1 && ran.err.contains("changes that are not committed"), "{ran:?}");
    let ran = rendered.belay("new deployment mail --image mail:1 --dir live");
    assert_eq!((ran.code, rendered.read("live/kustomization.yaml")), (0, listed), "{}", ran.err);
    let plain = rendered.belay("new deployment cache --image cache:1 --dir shop");
    assert_eq!(plain.code, 0, "{plain:?}");
    assert_eq!(rendered.copy.git(&["show", "--name-only", "--format="]), "shop/cache.yaml\n");
}

/// The one value that does it is found by trying; the comments and the layout of its file stay.
#[test]
fn the_value_of_a_chart_that_does_it_is_changed() {
    let Some(rendered) = KustomizedCopy::new() else { return };
    let values = "# What runs.\nweb:\n  tag: v1 # newest\n  size: 2\nport: 2\n";
    rendered.write("chart/values.yaml", values);
    let template =
        deployment("cart", "cart:{{ .Values.web.tag }}", "").replace("replicas: 2", "replicas: {{ .Values.web.size }}");
    rendered.write("chart/templates/cart.yaml", &template);
    rendered.commit();
    let image = rendered.belay("set image cart app=cart:v2");
    assert_eq!(image.code, 0, "{image:?}");
    assert_eq!(rendered.read("chart/values.yaml"), values.replace("v1", "v2"));
    let scale = rendered.belay("scale cart --replicas 5");
    assert_eq!(scale.code, 0, "{scale:?}");
    assert_eq!(rendered.read("chart/values.yaml"), values.replace("v1", "v2").replace("size: 2", "size: 5"));
    // Two places that would do.
    let twice = "web: {tag: v1, size: 2}\ntag: v1\n";
    rendered.write("chart/values.yaml", twice);
    rendered.write(
        "chart/templates/cart.yaml",
        &deployment("cart", "cart:{{ .Values.tag | default .Values.web.tag }}", ""),
    );
    rendered.commit();
    rendered.belay("set image cart app=cart:v2");
    assert_eq!(rendered.read("chart/values.yaml"), twice.replace("\ntag: v1", "\ntag: v2"), "the one that counts");
    // A value that two workloads share changes with both, and more than their images does not.
    rendered.write(
        "chart/templates/api.yaml",
        &deployment("api", "cart:{{ .Values.tag }}", "  minReadySeconds: {{ .Values.wait }}\n"),
    );
    rendered.write(
        "chart/templates/cart.yaml",
        &deployment("cart", "cart:{{ .Values.tag }}", "").replace("replicas: 2", "replicas: {{ .Values.wait }}"),
    );
    rendered.write("chart/values.yaml", "tag: v1\nwait: 1\n");
    rendered.commit();
    let both = rendered.belay("set image cart app=cart:v2");
    assert!(both.code == 0 && both.err.contains("Deployment default/api has the same image"), "{both:?}");
    rendered.refused("scale cart --replicas 3", &["no single value", "chart/values.yaml"]);
}

/// `[[source.helm]]` says how the chart is rendered, and so which file of values counts.
#[test]
fn the_configuration_says_which_values_count() {
    let Some(rendered) = KustomizedCopy::new() else { return };
    rendered.write("live/values.yaml", "tag: v5\n");
    rendered.write("live/kustomization.yaml", "resources: []\n");
    rendered.write(
        "belay.toml",
        "[[source]]\nname = \"shop\"\nrepository = \".\"\n[[source.helm]]\nchart = \"chart\"\nvalues = [\"/live/values.yaml\"]\n",
    );
    rendered.commit();
    let set = rendered.belay("set image cart app=cart:v6 --config belay.toml");
    assert_eq!(set.code, 0, "{set:?}");
    assert_eq!(rendered.read("live/values.yaml"), "tag: v6\n");
    assert_eq!(rendered.read("chart/values.yaml"), "tag: v1\n");
    rendered.refused("set image cart app=cart:v7 --config belay.toml --source site", &["has no source \"site\""]);
}

/// A base may have lines of its own, and names of its own.
#[test]
fn what_a_base_says_itself_is_known() {
    let Some(rendered) = KustomizedCopy::new() else { return };
    rendered.write(
        "base/kustomization.yaml",
        "resources: [web.yaml]\nnamePrefix: b-\nimages: [{name: web, newTag: \"7\"}]\n",
    );
    rendered.write("live/kustomization.yaml", "resources: [../base]\nnamePrefix: live-\n");
    rendered.commit();
    let image = rendered.belay("set image live-b-web app=web:8");
    assert_eq!(image.code, 0, "{image:?}");
    let scaled = rendered.belay("scale live-b-web --replicas 4");
    assert_eq!(scaled.code, 0, "{scaled:?}");
    let live = rendered.read("live/kustomization.yaml");
    let value = belay_core::manifest::yaml::documents(&live).0.remove(0).read().0.unwrap().value().clone();
    assert_eq!(value["images"], serde_json::json!([{"name": "web", "newTag": "8"}]), "{live}");
    assert_eq!(value["replicas"][0]["count"], 4, "{live}");
    assert!(rendered.read("base/kustomization.yaml").contains("newTag: \"7\""), "the base stays");
    let shown = rendered.belay("render live");
    assert!(shown.out.contains("image: web:8") && shown.out.contains("replicas: 4"), "{shown:?}");
}

/// `--all` and `-l` take the workloads of charts and of kustomizations alike.
#[test]
fn all_workloads_are_changed_wherever_they_are_rendered() {
    let Some(rendered) = KustomizedCopy::new() else { return };
    let all = rendered.belay("set image --all app=r.example.com/all:3 --dir live");
    assert_eq!(all.code, 0, "{all:?}");
    let live = rendered.read("live/kustomization.yaml");
    assert_eq!(live.matches("newTag: \"3\"").count(), 2, "web, and api for both that have it: {live}");
    rendered.write("both/over/kustomization.yaml", "resources: [../../base]\n");
    rendered.write("both/chart/Chart.yaml", "apiVersion: v2\nname: chart\nversion: 1.0.0\n");
    rendered.write("both/chart/templates/cart.yaml", &deployment("cart", "{{ .Values.image }}", ""));
    rendered.write("both/chart/values.yaml", "image: cart:1\n");
    rendered.commit();
    let both = rendered.belay("set image --all app=all:4 --dir both");
    assert_eq!(both.code, 0, "{both:?}");
    assert_eq!(rendered.read("both/chart/values.yaml"), "image: all:4\n");
    let over = rendered.read("both/over/kustomization.yaml");
    assert!(over.contains("newName: all") && over.contains("newTag: \"4\""), "{over}");
    rendered.write(
        "both/chart/templates/cart.yaml",
        &deployment("cart", "{{ .Values.image }}", "")
            .replace("  name: cart\n", "  name: cart\n  labels: {app: cart}\n"),
    );
    rendered.commit();
    let labelled = rendered.belay("set image -l app=cart app=all:5 --dir both");
    assert_eq!(labelled.code, 0, "{labelled:?}");
    assert_eq!(rendered.read("both/chart/values.yaml"), "image: all:5\n");
    assert_eq!(rendered.read("both/over/kustomization.yaml"), over);
}
