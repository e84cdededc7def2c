//! The pages in a real browser. Real time: it is a real browser. Skipped if there is none (Debian: chromium).
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests")]

#[path = "../../support/mod.rs"]
mod support;

mod chromium;

use std::path::{Path, PathBuf};

use belay::web::Web;
use serde_json::{Value, json};

use chromium::Chromium;
use support::daemon::{World, broken, deployment};

/// The most bytes that a picture in the documentation has.
const PICTURE: usize = 100 * 1024;

/// Returns a shop with a workload that runs, one that was taken back, and a manifest that is rejected; and the commit
/// that failed.
async fn shop() -> (World, Web, String) {
    let mut world = World::embedded().await;
    for name in ["cart", "search"] {
        world.repository.write(format!("{name}.yaml"), deployment(name, &format!("{name}:1"), ""));
    }
    let first = world.push("web.yaml", &deployment("web", "web:1", ""), "The shop");
    world.start();
    world.through(&first).await;
    let bad = world.push(
        "web.yaml",
        &broken("web", "never-ready").replace("Seconds: 30", "Seconds: 5"),
        "Cache headers for images",
    );
    world.through(&bad).await;
    let worse = world.push("prices.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Prices}\n", "Prices");
    world.through(&worse).await;
    let web = Web::open("127.0.0.1:0".parse().unwrap(), &[], world.shown()).await.unwrap();
    (world, web, bad)
}

/// axe-core's script, where `BELAY_AXE` names it: `.ci/run` fetches it with npm.
fn axe() -> Option<String> {
    let path = std::env::var_os("BELAY_AXE").map(PathBuf::from);
    let found = path.and_then(|path| std::fs::read_to_string(path).ok());
    if found.is_none() {
        eprintln!("not looked at by axe-core: BELAY_AXE names no axe.min.js");
    }
    found
}

/// Returns axe-core's findings against WCAG 2.2 AA and its own good practices.
fn findings(browser: &mut Chromium, axe: &str) -> Vec<String> {
    browser.ask(&format!("{axe}; true"));
    let tags = json!(["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]);
    let found = browser.ask(&format!("axe.run({{runOnly: {tags}}}).then(found => found.violations)"));
    let told = |violation: &Value| format!("{}: {} {}", violation["id"], violation["help"], violation["nodes"]);
    found.as_array().unwrap().iter().map(told).collect()
}

/// The rules of every page: landmarks, a heading, names, and nothing wider than the screen.
const SOUND: &str = "(() => {
    const wrong = [];
    const need = (fits, what) => { if (!fits) wrong.push(what); };
    need(document.documentElement.scrollWidth <= innerWidth, 'it is ' + document.documentElement.scrollWidth + ' wide');
    need(document.documentElement.lang === 'en', 'no language');
    need(document.title.length > 10, 'no title');
    for (const one of ['header', 'main', 'nav[aria-label]', 'footer', 'h1']) {
        need(document.querySelectorAll(one).length === 1, 'not one ' + one);
    }
    need(document.querySelector('.skip').hash === '#main', 'no way past the navigation');
    for (const one of document.querySelectorAll('input, select')) need(one.closest('label'), 'no label: ' + one.name);
    for (const one of document.querySelectorAll('svg')) need(one.getAttribute('aria-label'), 'a picture without words');
    for (const one of document.querySelectorAll('.s')) {
        need(/[a-z]{4}/.test(one.textContent) && one.querySelector('i').textContent.trim(), 'a state without word or shape');
    }
    for (const one of document.querySelectorAll('table')) {
        need(one.querySelectorAll('thead th[scope=col]').length > 1, 'a table without headings');
    }
    return wrong;
})()";

#[tokio::test(flavor = "multi_thread")]
async fn every_page_on_every_screen() {
    let Some(mut browser) = Chromium::start() else {
        eprintln!("skipped: there is no chromium here");
        return;
    };
    let (world, first, bad) = shop().await;
    let axe = axe();
    // A page that was closed makes room for others that listen some seconds later: each screen has listeners of its own.
    let mut webs = vec![first];
    let pages = [
        "/",
        "/?state=held",
        "/timeline",
        &format!("/commits/{bad}"),
        "/workloads/shop/Deployment/default/web",
        "/delivery",
        "/daemon",
        "/nothing",
    ];
    for (width, height, dark) in [
        (1280, 800, false),
        (1280, 800, true),
        (360, 740, false),
        (360, 740, true),
        (768, 1024, false),
        (2560, 1440, true),
        (3840, 2160, false),
    ] {
        browser.screen(width, height);
        browser.dark(dark);
        let web = Web::open("127.0.0.1:0".parse().unwrap(), &[], world.shown()).await.unwrap();
        for path in pages {
            browser.open(&format!("http://{}{path}", web.address()));
            let place = format!("{path} at {width}x{height}{}", if dark { ", dark" } else { "" });
            assert_eq!(browser.ask(SOUND), json!([]), "{place}");
            if let Some(axe) = &axe {
                assert_eq!(findings(&mut browser, axe), Vec::<String>::new(), "{place}");
            }
        }
        webs.push(web);
    }
    // The browser, too, reports a missing page.
    browser.complaints.retain(|complaint| !complaint.contains("/nothing"));
    assert_eq!(browser.complaints, Vec::<String>::new());
    drop(world);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_page_changes_without_being_loaded_again() {
    let Some(mut browser) = Chromium::start() else {
        eprintln!("skipped: there is no chromium here");
        return;
    };
    let (mut world, web, _) = shop().await;
    browser.screen(1280, 800);
    browser.open(&format!("http://{}/", web.address()));
    browser.until("document.getElementById('live').textContent === 'live'");
    browser.ask("window.same = true; document.querySelector('main a[href^=\"/workloads\"]').focus(); true");
    assert_eq!(browser.ask("document.title"), "1 rejected · belay");
    world.repository.remove("prices.yaml");
    let fix = world.push("web.yaml", &deployment("web", "web:3", ""), "Mend the cache");
    browser.until("document.querySelector('main').innerText.includes('Mend the cache')");
    world.through(&fix).await;
    browser.until("document.title === '3 ok · belay'");
    assert_eq!(browser.ask("document.querySelector('link[rel=icon]').getAttribute('href')"), "/icon/good.svg");
    assert_eq!(browser.ask("window.same === true"), true, "it was not loaded again");
    let focused = browser.ask("document.activeElement.getAttribute('href')");
    assert!(
        focused.as_str().is_some_and(|link| link.starts_with("/workloads/shop/")),
        "the keyboard is where it was: {focused}"
    );
    // The daemon goes away, and the page says so and keeps what it shows.
    drop(web);
    browser.until("document.getElementById('live').textContent.includes('trying again')");
    assert_eq!(browser.ask("document.querySelector('main').innerText.includes('Mend the cache')"), true);
}

/// The number of rows that are seen without scrolling.
const ROWS_SEEN: &str = "[...document.querySelectorAll('.objects tbody tr')]
    .filter(row => row.getBoundingClientRect().bottom <= innerHeight).length";

#[tokio::test(flavor = "multi_thread")]
async fn many_rows_fit_a_screen_and_a_filter_works_while_one_types() {
    let Some(mut browser) = Chromium::start() else {
        eprintln!("skipped: there is no chromium here");
        return;
    };
    let mut world = World::embedded().await;
    for number in 0..20 {
        let name = format!("service-{number:02}");
        world.repository.write(format!("{name}.yaml"), deployment(&name, "web:1", ""));
    }
    let first = world.push("web.yaml", &deployment("web", "web:1", ""), "The shop");
    world.start();
    world.through(&first).await;
    let web = Web::open("127.0.0.1:0".parse().unwrap(), &[], world.shown()).await.unwrap();
    for (width, height, rows) in [(1280, 800, 15), (360, 740, 8)] {
        browser.screen(width, height);
        browser.open(&format!("http://{}/", web.address()));
        let seen = browser.ask(ROWS_SEEN).as_u64().unwrap();
        assert!(seen >= rows, "{seen} rows at {width}x{height}");
    }
    browser.until("document.getElementById('live').textContent === 'live'");
    browser.ask(
        "const input = document.querySelector('input[name=q]'); input.focus(); input.value = 'service-07'; \
         input.dispatchEvent(new Event('input', {bubbles: true})); true",
    );
    browser.until("document.querySelectorAll('.objects tbody tr').length === 1");
    assert_eq!(browser.ask("document.activeElement.name"), "q", "one can type on");
    assert_eq!(browser.ask("location.search"), "?q=service-07");
    assert_eq!(browser.ask("document.querySelector('.filter .count').textContent"), "1 of 21");
    assert_eq!(browser.complaints, Vec::<String>::new());
    drop(world);
}

/// Times of day, and exact times, are those of the reader's time zone. The title of each has both.
#[tokio::test(flavor = "multi_thread")]
async fn times_are_of_the_readers_time_zone() {
    let Some(mut browser) = Chromium::start() else {
        eprintln!("skipped: there is no chromium here");
        return;
    };
    let (world, web, _) = shop().await;
    browser.screen(1280, 800);
    browser.call("Emulation.setTimezoneOverride", json!({"timezoneId": "Asia/Kathmandu"}));
    for (path, selector, form) in [
        ("/timeline", ".timeline time", "{hour: '2-digit', minute: '2-digit'}"),
        ("/?state=held", "details time", "{timeStyle: 'medium'}"),
    ] {
        browser.open(&format!("http://{}{path}", web.address()));
        browser.until("document.getElementById('live').textContent === 'live'");
        let wrong = browser.ask(&format!(
            "(() => {{
                const clock = new Intl.DateTimeFormat('en-GB', {{timeZone: 'Asia/Kathmandu', ...{form}}});
                const all = [...document.querySelectorAll('{selector}')];
                const fits = (one) => one.textContent.includes(clock.format(new Date(one.dateTime)))
                    && one.title.includes('GMT+5:45') && one.title.endsWith(' UTC)')
                    && !one.textContent.includes('UTC');
                return all.length === 0 ? ['none'] : all.filter(one => !fits(one)).map(one => one.outerHTML);
            }})()"
        ));
        assert_eq!(wrong, json!([]), "{path}");
    }
    assert_eq!(browser.complaints, Vec::<String>::new());
    drop(world);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_scripts_everything_is_there() {
    let Some(mut browser) = Chromium::start() else {
        eprintln!("skipped: there is no chromium here");
        return;
    };
    let (world, web, bad) = shop().await;
    browser.scripts(false);
    browser.screen(1280, 800);
    for (path, texts) in [
        (
            "/".to_owned(),
            vec![
                "Git and the cluster differ",
                "is not ready",
                "wants",
                "1 held",
                "rejected",
                "Deployment default/cart",
            ],
        ),
        ("/timeline".to_owned(), vec!["Cache headers for images", "rolled-back"]),
        (format!("/commits/{bad}"), vec!["Evidence", "belay retry deployment/web -n default"]),
        (
            "/workloads/shop/Deployment/default/web".to_owned(),
            vec!["Git and the cluster differ", "Revisions", "present", "Pods"],
        ),
        ("/delivery".to_owned(), vec!["The last 30 days"]),
        ("/daemon".to_owned(), vec!["Last fetch"]),
    ] {
        browser.open(&format!("http://{}{path}", web.address()));
        let root = browser.call("DOM.getDocument", json!({}))["root"]["nodeId"].clone();
        let html = browser.call("DOM.getOuterHTML", json!({"nodeId": root}))["outerHTML"].as_str().unwrap().to_owned();
        for text in texts {
            assert!(html.contains(text), "{path}: {text:?} is not in {html}");
        }
        assert!(html.contains("as of "), "{path}: the script has run");
    }
    drop(world);
}

/// The pictures of the README and the pages in `docs/`: made here, written with `BELAY_BLESS=1`.
#[tokio::test(flavor = "multi_thread")]
async fn pictures_for_the_documentation() {
    let Some(mut browser) = Chromium::start() else {
        eprintln!("skipped: there is no chromium here");
        return;
    };
    let (world, web, bad) = shop().await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/images");
    browser.screen(960, 600);
    for (name, path, dark) in [
        ("overview.png", "/".to_owned(), false),
        ("commit.png", format!("/commits/{bad}"), false),
        ("overview-dark.png", "/".to_owned(), true),
    ] {
        browser.dark(dark);
        browser.open(&format!("http://{}{path}", web.address()));
        let picture = browser.picture();
        assert!(picture.len() <= PICTURE, "{name} has {} bytes", picture.len());
        if std::env::var_os("BELAY_BLESS").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(name), picture).unwrap();
        }
        assert!(folder.join(name).exists(), "{name} is missing: BELAY_BLESS=1 makes it");
    }
    drop(world);
}
