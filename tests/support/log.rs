//! The log lines of belay on this thread, heard whatever other tests of the program do.

use std::sync::LazyLock;

use tracing::Dispatch;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::{EnvFilter, fmt};

/// As long as there is but one subscriber, tracing asks whichever thread comes first whether an event interests anybody at
/// all; that may be one that listens to nothing just then.
static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(tracing_subscriber::registry()));

/// Writes what is logged on this thread from here on, each line without its time, until the guard is dropped. `filter` is
/// one of `BELAY_LOG`, and hears as little of kube's client as that.
pub fn listen(filter: &str, to: impl for<'a> MakeWriter<'a> + Send + Sync + 'static) -> DefaultGuard {
    LazyLock::force(&SECOND);
    let filter = belay::telemetry::without_answers(EnvFilter::new(filter));
    let subscriber = fmt().with_env_filter(filter).without_time().with_ansi(false).with_writer(to).finish();
    tracing::subscriber::set_default(subscriber)
}
