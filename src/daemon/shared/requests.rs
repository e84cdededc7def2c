//! The limit of requests that are under way at once: for the whole daemon, and shared fairly among its sources.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The most writes and dry runs of the whole daemon that are under way at once.
pub const AT_ONCE: usize = 64;
/// The most of one source. Less than all, so that a cluster that answers slowly does not take the room of the others.
pub const OF_ONE_SOURCE: usize = 32;
/// The time after which a request gives its room to others. A webhook may take 30 s, for all objects of a namespace.
const SLOW: Duration = Duration::from_secs(1);
/// The most slow requests of one source that have given their room to others.
const SLOW_AT_ONCE: usize = 64;
/// The most objects of one source whose rollouts seem to have failed, and that are looked into at once.
const LOOKS_AT_ONCE: usize = 16;
/// From how many bytes on an object is large: its values take up to 90 times as much memory.
const LARGE_OBJECT: usize = 256 * 1024;
/// The text of large objects that is dealt with at once, in KiB, or one object that has more.
const LARGE_KIBIBYTES: u32 = 2 * 1024;
/// The time for which a large object may keep its room while others wait for some.
pub const LARGE_WITHIN: Duration = Duration::from_secs(5);
/// The longest wait until nothing else is to be done.
const LONGEST: Duration = Duration::from_mins(1);
/// The period between two checks for other work.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The room of all large objects of the program.
static LARGE: LazyLock<LargeObjects> = LazyLock::new(LargeObjects::new);

/// Room for large objects. Cheap to clone.
#[derive(Clone, Debug)]
struct LargeObjects {
    room: Arc<Semaphore>,
    /// The number of those that wait for room.
    waiting: Arc<AtomicUsize>,
}

impl LargeObjects {
    fn new() -> LargeObjects {
        LargeObjects { room: Arc::new(Semaphore::new(LARGE_KIBIBYTES as usize)), waiting: Arc::default() }
    }

    /// Returns when somebody waits for room.
    async fn are_waited_for(&self) {
        while self.waiting.load(Ordering::Relaxed) == 0 {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

/// One source's part in the daemon's requests. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Requests {
    own: Arc<Semaphore>,
    /// The head of the source's own line: only that one stands in the line of all.
    line: Arc<Semaphore>,
    all: Arc<Semaphore>,
    slow: Arc<Semaphore>,
    looks: Arc<Semaphore>,
    large: LargeObjects,
    /// The number of those that wait for room.
    waiting: Arc<AtomicUsize>,
}

/// One of them that waits for room.
struct RequestWaits<'a>(&'a AtomicUsize);

impl<'a> RequestWaits<'a> {
    fn new(waiting: &'a AtomicUsize) -> RequestWaits<'a> {
        waiting.fetch_add(1, Ordering::Relaxed);
        RequestWaits(waiting)
    }
}

impl Drop for RequestWaits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Room for one request.
#[derive(Debug)]
pub struct RequestPermit {
    _own: OwnedSemaphorePermit,
    _all: Option<OwnedSemaphorePermit>,
    _large: Option<OwnedSemaphorePermit>,
}

/// Returns true when an object with so many bytes needs the room of large ones.
pub fn is_large(bytes: usize) -> bool {
    bytes >= LARGE_OBJECT
}

impl Requests {
    /// Returns the room of a daemon.
    pub fn of_daemon() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(AT_ONCE))
    }

    /// Returns one more source that shares it.
    pub fn share(all: &Arc<Semaphore>) -> Requests {
        Requests {
            own: Arc::new(Semaphore::new(OF_ONE_SOURCE)),
            line: Arc::new(Semaphore::new(1)),
            all: Arc::clone(all),
            slow: Arc::new(Semaphore::new(SLOW_AT_ONCE)),
            looks: Arc::new(Semaphore::new(LOOKS_AT_ONCE)),
            large: LARGE.clone(),
            waiting: Arc::default(),
        }
    }

    /// Waits for room. One request of each source waits in the common line, which is first come, first served: so the
    /// sources take turns, however many requests each has.
    pub async fn room(&self) -> RequestPermit {
        let closed = "the semaphores are never closed";
        let _waits = RequestWaits::new(&self.waiting);
        let own = Arc::clone(&self.own).acquire_owned().await.expect(closed);
        let _first = self.line.acquire().await.expect(closed);
        let all = Arc::clone(&self.all).acquire_owned().await.expect(closed);
        RequestPermit { _own: own, _all: Some(all), _large: None }
    }

    /// Looks into an object with so many bytes whose rollout seems to have failed, as soon as there is room. It waits for no
    /// write. A large object's value is in memory meanwhile, so that its part of the room for these stays taken: `None` when
    /// it took long and others waited for that.
    pub async fn look<T, F>(&self, bytes: usize, look: impl FnOnce() -> F) -> Option<T>
    where
        F: Future<Output = T>,
    {
        let look = async {
            let own = Arc::clone(&self.looks).acquire_owned().await.expect("the semaphores are never closed");
            // Boxed, and made as late as this: thousands wait for room side by side, and few have it.
            Box::pin(self.carry(RequestPermit { _own: own, _all: None, _large: None }, look())).await
        };
        self.in_room_of_large(bytes, look).await
    }

    /// Looks into an object as [`look`](Requests::look) does, in its turn among all requests.
    pub async fn look_in_turn<T, F>(&self, bytes: usize, look: impl FnOnce() -> F) -> Option<T>
    where
        F: Future<Output = T>,
    {
        let look = async {
            let room = self.room().await;
            Box::pin(self.carry(room, look())).await
        };
        self.in_room_of_large(bytes, look).await
    }

    /// Waits for room for a request about an object whose text has so many bytes.
    pub async fn room_for(&self, bytes: usize) -> RequestPermit {
        // In this order everywhere: who waits for the second holds up nobody who has it.
        let large = self.room_of_large(bytes).await;
        RequestPermit { _large: large, ..self.room().await }
    }

    /// Waits until a large object may be dealt with; the values of few are in memory at once. Others need no such room.
    async fn room_of_large(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        if !is_large(bytes) {
            return None;
        }
        let _waits = RequestWaits::new(&self.large.waiting);
        let kibibytes = u32::try_from(bytes / 1024).unwrap_or(u32::MAX).min(LARGE_KIBIBYTES);
        // It is never closed.
        Arc::clone(&self.large.room).acquire_many_owned(kibibytes).await.ok()
    }

    /// Does work about a large object in its room. `None` when that took long and others waited for the room: the server of
    /// one object may not answer, or its whole cluster. The work is boxed at once: an asynchronous function would keep it twice.
    pub fn in_room_of_large<T>(&self, bytes: usize, work: impl Future<Output = T>) -> impl Future<Output = Option<T>> {
        let mut work = Box::pin(work);
        async move {
            let _room = self.room_of_large(bytes).await;
            if let Ok(done) = tokio::time::timeout(LARGE_WITHIN, &mut work).await {
                return Some(done);
            }
            tokio::select! {
                biased;
                done = &mut work => Some(done),
                () = self.large.are_waited_for() => None,
            }
        }
    }

    /// Does a request in this room. One that takes long gives the room to others, so that no object stops another: what it
    /// holds by then must be texts, not values.
    pub async fn carry<T>(&self, room: RequestPermit, request: impl Future<Output = T>) -> T {
        let mut request = std::pin::pin!(request);
        if let Ok(answer) = tokio::time::timeout(SLOW, &mut request).await {
            return answer;
        }
        let slow = Arc::clone(&self.slow).try_acquire_owned();
        let _room = slow.is_err().then_some(room);
        request.await
    }

    /// Returns true when none of the source's requests waits for room.
    pub fn is_calm(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 0
    }

    /// Waits until none of the source's requests is under way or waits for room; at most a minute, so that constant
    /// requests do not keep mere reports waiting for ever.
    pub async fn idle(&self) {
        let idle = async {
            while !self.is_calm()
                || self.own.available_permits() < OF_ONE_SOURCE
                || self.slow.available_permits() < SLOW_AT_ONCE
            {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        // Late is as good as idle: the Event is sent all the same.
        drop(tokio::time::timeout(LONGEST, idle).await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::time::Duration;

    /// Lets each source send its requests, 10 ms each, and returns the sources in the order in which they got room.
    async fn order(all: usize, sources: &[usize]) -> Vec<usize> {
        let all = Arc::new(Semaphore::new(all));
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = tokio::task::JoinSet::new();
        for (number, count) in sources.iter().enumerate() {
            let share = Requests::share(&all);
            for _ in 0..*count {
                let (share, order) = (share.clone(), Arc::clone(&order));
                tasks.spawn(async move {
                    let _room = share.room().await;
                    order.lock().unwrap().push(number);
                    tokio::time::sleep(Duration::from_millis(10)).await;
                });
            }
        }
        while tasks.join_next().await.is_some() {}
        std::mem::take(&mut *order.lock().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_with_one_request_does_not_wait_for_one_with_thousands() {
        let order = order(4, &[3000, 1]).await;
        let place = order.iter().position(|source| *source == 1).unwrap();
        assert!(place <= 5, "{place}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_only_told_waits_for_what_is_to_be_done() {
        let share = Requests::share(&Arc::new(Semaphore::new(1)));
        share.idle().await;
        let first = share.room().await;
        let idle = tokio::time::timeout(Duration::from_secs(59), share.idle()).await;
        assert!(idle.is_err(), "one is under way");
        let mut second = std::pin::pin!(share.room());
        assert!(futures::poll!(second.as_mut()).is_pending());
        drop(first);
        let idle = tokio::time::timeout(Duration::from_secs(59), share.idle()).await;
        assert!(idle.is_err(), "one waits for room");
        let room = second.await;
        let began = tokio::time::Instant::now();
        share.idle().await;
        assert_eq!(began.elapsed(), LONGEST, "not for ever");
        drop(room);
        let began = tokio::time::Instant::now();
        share.idle().await;
        assert_eq!(began.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn large_objects_are_dealt_with_a_few_at_once_and_hold_up_no_small_one() {
        let share = Requests { large: LargeObjects::new(), ..Requests::share(&Requests::of_daemon()) };
        let first = share.room_for(usize::MAX).await;
        assert!(futures::poll!(std::pin::pin!(share.room_for(LARGE_OBJECT))).is_pending());
        drop(share.room_for(LARGE_OBJECT - 1).await);
        drop(first);
        let some: Vec<_> = futures::future::join_all((0..8).map(|_| share.room_for(LARGE_OBJECT))).await;
        assert!(futures::poll!(std::pin::pin!(share.room_for(LARGE_OBJECT))).is_pending());
        drop(some);
        drop(share.room_for(LARGE_OBJECT).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_object_without_an_answer_gives_its_room_to_those_who_wait() {
        let share = Requests { large: LargeObjects::new(), ..Requests::share(&Requests::of_daemon()) };
        let after = async |seconds: u64| tokio::time::sleep(Duration::from_secs(seconds)).await;
        let all = usize::MAX;
        assert_eq!(share.in_room_of_large(all, after(30)).await, Some(()), "nobody else needs it");
        let began = tokio::time::Instant::now();
        let hung = share.in_room_of_large(all, std::future::pending::<()>());
        let other = async {
            after(1).await;
            share.in_room_of_large(all, after(1)).await.unwrap();
            began.elapsed()
        };
        let (hung, other) = tokio::join!(hung, other);
        assert_eq!(hung, None);
        assert!(other < LARGE_WITHIN + Duration::from_secs(2), "{other:?}");
        // A write waits no longer.
        let hung = share.in_room_of_large(all, std::future::pending::<()>());
        let room = async { drop(share.room_for(all).await) };
        let began = tokio::time::Instant::now();
        tokio::join!(hung, room);
        assert!(began.elapsed() <= LARGE_WITHIN + LOOK_AGAIN, "{:?}", began.elapsed());
        // A small object needs no room, and has as much time as it takes.
        let small = share.in_room_of_large(LARGE_OBJECT - 1, after(60));
        assert_eq!(tokio::join!(small, share.in_room_of_large(all, after(1))), (Some(()), Some(())));
    }

    /// Servers that answer slowly get no more large values into memory than those that answer at once.
    #[tokio::test(start_paused = true)]
    async fn a_look_into_a_large_object_keeps_its_room_however_slow_the_answers_are() {
        let share = Requests { large: LargeObjects::new(), ..Requests::share(&Requests::of_daemon()) };
        let (held, most, answered) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let look = async || {
            let _held = RequestWaits::new(&held);
            most.fetch_max(held.load(Ordering::Relaxed), Ordering::Relaxed);
            tokio::time::sleep(SLOW * 4).await;
            answered.fetch_add(1, Ordering::Relaxed);
        };
        let (share_of, look) = (&share, &look);
        let slow = (0..40).map(|nth| async move {
            let share = share_of;
            match nth % 2 {
                0 => share.look(LARGE_OBJECT, look).await,
                _ => share.look_in_turn(LARGE_OBJECT, look).await,
            }
        });
        futures::future::join_all(slow).await;
        assert_eq!((most.into_inner(), answered.into_inner()), (8, 40));
        // One without an answer gives its room to those who wait for it, and looks again later.
        let (hung, other) = tokio::join!(
            share.look(usize::MAX, std::future::pending::<()>),
            share.look_in_turn(LARGE_OBJECT, || std::future::ready(())),
        );
        assert_eq!((hung, other), (None, Some(())));
        assert_eq!(share.large.room.available_permits(), LARGE_KIBIBYTES as usize);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_take_long_give_their_room_to_others() {
        let share = Requests::share(&Requests::of_daemon());
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..SLOW_AT_ONCE {
            let share = share.clone();
            tasks.spawn(async move {
                let room = share.room().await;
                share.carry(room, tokio::time::sleep(Duration::from_secs(30))).await;
            });
        }
        tokio::task::yield_now().await;
        let began = tokio::time::Instant::now();
        let room = share.room().await;
        share.carry(room, async {}).await;
        assert!(began.elapsed() <= SLOW * 3, "{:?}", began.elapsed());
        while tasks.join_next().await.is_some() {}
        assert_eq!(share.slow.available_permits(), SLOW_AT_ONCE);
    }

    #[tokio::test(start_paused = true)]
    async fn sources_take_turns() {
        let order = order(2, &[100, 100, 100]).await;
        for source in 0..3 {
            let early = order.iter().take(90).filter(|one| **one == source).count();
            assert!((28..=32).contains(&early), "source {source}: {early} of 90");
        }
    }
}
