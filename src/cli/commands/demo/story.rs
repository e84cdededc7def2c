//! The commits of the demo, and the manifest of each.

/// The sample application, as it is in the repository of belay.
const SAMPLE: &str = include_str!("../../../../manifests/sample/web.yaml");

/// One commit of the story.
pub(super) struct Chapter {
    pub title: &'static str,
    pub author: &'static str,
    pub subject: &'static str,
    pub image: &'static str,
    pub rolls: Rolls,
    pub ends: Ending,
}

/// The way in which a version is rolled out, and the fate of its pods.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rolls {
    /// At once, with the fate that its image has.
    AtOnce,
    /// In steps.
    InSteps,
    /// In steps, and its pods crash some seconds after they are ready.
    InStepsAndCrashes,
}

/// The expected end of a chapter, as the cluster reports it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// The commit's version runs.
    Complete,
    /// The version before runs again, and the commit is held.
    TakenBack,
}

pub(super) const STORY: [Chapter; 4] = [
    Chapter {
        title: "A first version",
        author: "Ada",
        subject: "The shop's front",
        image: "registry.example.com/shop/web:1.0",
        rolls: Rolls::AtOnce,
        ends: Ending::Complete,
    },
    Chapter {
        title: "A good change",
        author: "Grace",
        subject: "Cache headers for images",
        image: "registry.example.com/shop/web:1.1",
        rolls: Rolls::AtOnce,
        ends: Ending::Complete,
    },
    Chapter {
        title: "A bad change: its image can't be pulled",
        author: "Ada",
        subject: "Faster images",
        image: "registry.example.com/shop/web:404",
        rolls: Rolls::AtOnce,
        ends: Ending::TakenBack,
    },
    Chapter {
        title: "Its fix",
        author: "Grace",
        subject: "Name the image that was built",
        image: "registry.example.com/shop/web:1.2",
        rolls: Rolls::AtOnce,
        ends: Ending::Complete,
    },
];

pub(super) const STORY_IN_STEPS: [Chapter; 3] = [
    Chapter {
        title: "A first version",
        author: "Ada",
        subject: "The shop's front",
        image: "registry.example.com/shop/web:1.0",
        rolls: Rolls::InSteps,
        ends: Ending::Complete,
    },
    Chapter {
        title: "A good change: one new pod, then two, then all",
        author: "Grace",
        subject: "Cache headers for images",
        image: "registry.example.com/shop/web:1.1",
        rolls: Rolls::InSteps,
        ends: Ending::Complete,
    },
    Chapter {
        title: "A bad change: ready at first, it crashes a moment later",
        author: "Ada",
        subject: "Faster images",
        image: "registry.example.com/shop/web:1.2",
        rolls: Rolls::InStepsAndCrashes,
        ends: Ending::TakenBack,
    },
];

impl Chapter {
    /// Returns the files of the commit, as one.
    pub(super) fn manifest(&self) -> String {
        let manifest = SAMPLE
            .replace("registry.example.com/shop/web:1.0", self.image)
            // Nobody wants to wait a minute in a demo.
            .replace("progressDeadlineSeconds: 60", "progressDeadlineSeconds: 6");
        if self.rolls == Rolls::AtOnce {
            return manifest;
        }
        let labels = "  labels:\n    app: web\nspec:";
        let steps = format!("  annotations:\n    belay.dev/canary: \"1 4s, 2 4s\"\n{labels}");
        let manifest = manifest.replace(labels, &steps);
        if self.rolls == Rolls::InSteps {
            return manifest;
        }
        let fate = r#"crash-after=3s,code=1,log="no database""#;
        let template = "  template:\n    metadata:\n";
        manifest.replace(template, &format!("{template}      annotations:\n        kubelet.belay.dev/fate: '{fate}'\n"))
    }
}
