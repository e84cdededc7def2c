//! Parse, run, exit code.

use std::process::ExitCode;

/// Requests, objects and patches are many small allocations; see Cargo.toml.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    belay::cli::main()
}
