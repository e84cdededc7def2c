//! Lets belay decide about redirects of Git servers in libgit2's place: see `src/git/transport/redirect.rs`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg=-Wl,--wrap=git_net_url_apply_redirect");
}
