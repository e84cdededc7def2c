//! Parse, run, exit code.

use std::process::ExitCode;

/// Memory that 3,000 ended rollouts have freed goes back to the system. The C library keeps much of it, since small objects that
/// live lie between.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    belay::cli::main()
}
