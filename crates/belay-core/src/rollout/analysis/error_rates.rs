//! Compares the error rate of new pods with that of old ones, by a sequential test: it may be looked at as often as one likes.
//!
//! If the new pods have at most `tolerate` times the error rate of the old ones, a bad answer falls on a new pod with a
//! probability of at most `θ0 = tolerate·new / (tolerate·new + old)`, where `new` and `old` are the answers of a look. For each
//! of six larger rates a likelihood ratio against `θ0` is kept. Their mean exceeds `1 / false_alarm` with a probability of at
//! most `false_alarm`, however often it is looked at (Ville's inequality).
//!
//! The other way round, the same test shows that the new pods are not `prove` times worse: the likelihood ratios are those of six
//! smaller rates against `prove·new / (prove·new + old)`.
//!
//! This holds for answers that fail independently of each other. Errors come in bursts, and each ratio is taken to the power of
//! `1 / dispersion`: the variance of the bad answers, of a pod or of all, between two looks, in terms of their mean. So a burst
//! counts as about one bad answer. That is a rule of thumb; the tests simulate it.

/// The rates that the test looks for, in terms of the one that is tolerated; and the one that is to be disproved in terms of them.
const ALTERNATIVES: [f64; 6] = [1.6, 2.4, 4.0, 8.0, 24.0, 80.0];

/// The answers of one pod between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Answers {
    /// The bad ones.
    pub bad: f64,
    /// All of them.
    pub total: f64,
}

/// The answers of some pods, as the test needs them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AnswerSums {
    /// The bad ones.
    pub bad: f64,
    /// All of them.
    pub total: f64,
    /// The sum of their squares, over each pod and look.
    pub squares: f64,
    /// The number of these, where a pod had answers.
    pub samples: f64,
}

impl AnswerSums {
    /// Returns the sums of some pods between two looks.
    #[must_use]
    pub fn of(pods: impl IntoIterator<Item = Answers>) -> AnswerSums {
        let mut sums = AnswerSums::default();
        for Answers { bad, total } in pods {
            // The two counters are not read at the same moment: a bad answer is one of all.
            let total = total.max(bad);
            if total > 0.0 {
                sums.add(AnswerSums { bad, total, squares: bad * bad, samples: 1.0 });
            }
        }
        sums
    }

    /// Adds the answers of another look.
    pub fn add(&mut self, more: AnswerSums) {
        self.bad += more.bad;
        self.total += more.total;
        self.squares += more.squares;
        self.samples += more.samples;
    }

    /// Returns the rate of bad answers.
    #[must_use]
    pub fn rate(&self) -> f64 {
        if self.total > 0.0 { self.bad / self.total } else { 0.0 }
    }

    /// Returns the dispersion of the bad answers of a pod between two looks.
    fn dispersion(&self) -> f64 {
        dispersion(self.bad, self.squares, self.samples)
    }
}

/// Returns the variance of some numbers, in terms of their mean; at least 1. Nothing is known by one number alone: all of it
/// may have been one burst.
fn dispersion(sum: f64, squares: f64, count: f64) -> f64 {
    if sum <= 0.0 {
        return 1.0;
    }
    let (degrees, mean) = (count - 1.0, sum / count);
    let seen = if degrees < 1.0 { sum } else { (squares - sum * mean) / degrees / mean };
    1.0 + (seen - 1.0).max(0.0) * CAUTION
}

/// The factor by which what is above 1 of an estimated dispersion is taken larger: it is one of few numbers.
const CAUTION: f64 = 1.5;

/// The largest evidence. A number must be one that can be written down.
const MOST_EVIDENCE: f64 = 1e300;

type Ratios = [f64; ALTERNATIVES.len()];

/// The state of the test.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ErrorRateTest {
    /// The logarithm of the likelihood ratio of each alternative: of the larger rates, and of the smaller ones.
    worse: Ratios,
    better: Ratios,
    /// The answers that were compared, and those that wait for answers of the other side: counters are scraped more rarely than
    /// they are looked at.
    new: AnswerGroup,
    old: AnswerGroup,
    /// The number of comparisons.
    comparisons: f64,
}

/// The answers of the new pods, or of the old ones.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct AnswerGroup {
    compared: AnswerSums,
    waiting: AnswerSums,
    /// The sum of the squares of the bad answers of all pods, over each comparison.
    squares: f64,
}

impl AnswerGroup {
    /// Returns the answers that waited, which are compared now.
    fn compare(&mut self) -> AnswerSums {
        let answers = std::mem::take(&mut self.waiting);
        self.compared.add(answers);
        self.squares += answers.bad * answers.bad;
        answers
    }

    /// Returns the larger dispersion: between pods, for a burst that one pod answers, or between comparisons, for one that is
    /// spread over all.
    fn dispersion(&self, comparisons: f64) -> f64 {
        self.compared.dispersion().max(dispersion(self.compared.bad, self.squares, comparisons))
    }
}

impl ErrorRateTest {
    /// Takes in the answers of the new and of the old pods between two looks. `prove` is the rate, in terms of the old one, that
    /// is to be disproved. Returns true when they were compared: both sides had answers since the last comparison.
    pub fn look(&mut self, new: AnswerSums, old: AnswerSums, tolerate: f64, prove: Option<f64>) -> bool {
        self.new.waiting.add(new);
        self.old.waiting.add(old);
        if self.new.waiting.total <= 0.0 || self.old.waiting.total <= 0.0 {
            return false;
        }
        let (new, old) = (self.new.compare(), self.old.compare());
        self.comparisons += 1.0;
        let new_share = |rate: f64| rate * new.total / (rate * new.total + old.total);
        let weigh = |ratios: &mut Ratios, assumed: f64, other: fn(f64, f64) -> f64| {
            let share = new_share(assumed);
            for (ratio, alternative) in ratios.iter_mut().zip(ALTERNATIVES) {
                let other = new_share(other(assumed, alternative));
                *ratio += new.bad * (other / share).ln();
                if old.bad > 0.0 {
                    *ratio += old.bad * ((1.0 - other) / (1.0 - share)).ln();
                }
            }
        };
        weigh(&mut self.worse, tolerate, |assumed, alternative| assumed * alternative);
        if let Some(prove) = prove {
            weigh(&mut self.better, prove, |assumed, alternative| assumed / alternative);
        }
        true
    }

    /// Returns the evidence that the new pods are worse than is tolerated: how much likelier the answers are if they are.
    #[must_use]
    pub fn evidence(&self) -> f64 {
        self.mean_of(&self.worse)
    }

    /// Returns the proof that the new pods are not as bad as is to be disproved: how much likelier the answers are if they are not.
    #[must_use]
    pub fn proof(&self) -> f64 {
        self.mean_of(&self.better)
    }

    /// Returns the mean of likelihood ratios.
    fn mean_of(&self, ratios: &Ratios) -> f64 {
        let dispersion = self.new.dispersion(self.comparisons).max(self.old.dispersion(self.comparisons));
        let sum: f64 = ratios.iter().map(|ratio| (ratio / dispersion).exp()).sum();
        if sum.is_nan() { 0.0 } else { (sum / ALTERNATIVES.len() as f64).min(MOST_EVIDENCE) }
    }

    /// Returns the answers of the new and of the old pods that were compared.
    #[must_use]
    pub fn sums(&self) -> (AnswerSums, AnswerSums) {
        (self.new.compared, self.old.compared)
    }
}
