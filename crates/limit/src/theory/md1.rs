//! The M/D/1 queue with unit service: how long an arrival waits, W, which is the unfinished work that it finds.
//!
//! The classical series for P(W ≤ x) (Erlang, 1909) alternates with terms like (ρx)^j/j!·e^ρx and has lost all
//! digits of a small tail by x = 10. Here every sum has positive terms only, so that tails are good to
//! about 10⁻¹³ of themselves, however small:
//!
//! * The stationary number in the system, p_m, by the cut between m and m + 1 (Ramaswami's recursion for M/G/1):
//!   with A Poisson of mean ρ, p_{m+1} P(A = 0) = p_0 P(A ≥ m + 1) + Σ_{i=1..m} p_i P(A ≥ m + 2 − i).
//! * Its tails T_m = P(N > m), summed from the far end. At whole numbers P(W > m) = T_m.
//! * Between whole numbers Franx's formula (Operations Research Letters 29, 2001), here for the complement: with
//!   k = ⌊x⌋ + 1 and A of mean ρ(k − x), P(W > x) = P(A ≥ k) + Σ_{j<k} P(A = j) T_{k−j}.
//! * Beyond x = 64 the exponential C e^(−θx) to which the tail converges, θ the root of ρ(e^θ − 1) = θ and
//!   C = (1 − ρ)/(ρ + θ − 1). What it leaves out there is below 10⁻¹⁰ of it for every load, and below 10⁻²⁰ for every
//!   load at which that tail is 10⁻¹² or more.
//!
//! The mean excess follows from the integral of −F̄′(x) = ρ(F̄(x−1) − F̄(x)), F̄ the tail:
//! ∫ F̄(u) du from x = Σ_{n≥1} F̄(x + n)/ρ.

use super::TheoryError;

/// Where the exponential takes over.
const FAR: usize = 64;

/// Terms of a Poisson distribution of mean below 1 that an `f64` can tell from 0, and more.
const POISSON_TERMS: usize = 2 * FAR;

/// The wait in an M/D/1 queue whose service time is 1.
#[derive(Clone, Debug)]
pub struct Md1 {
    load: f64,
    /// θ.
    decay: f64,
    /// C.
    constant: f64,
    /// T_m, which is also P(W > m).
    tails: [f64; FAR + 1],
}

impl Md1 {
    /// The queue under `load` ρ, arrivals per service time.
    ///
    /// # Errors
    /// [`TheoryError::Load`] unless it is greater than 0 and less than 1.
    pub fn new(load: f64) -> Result<Md1, TheoryError> {
        if !(load > 0.0 && load < 1.0) {
            return Err(TheoryError::Load { given: load });
        }
        let decay = decay(load);
        // θ − (1 − ρ) in this order, or nothing is left of it near a load of 1.
        let constant = (1.0 - load) / (decay - (1.0 - load));
        Ok(Md1 {
            load,
            decay,
            constant,
            tails: tails(load, constant * (-decay * FAR as f64).exp()),
        })
    }

    /// P(W > x); 1 below 0, the load at 0.
    pub fn tail(&self, x: f64) -> f64 {
        if x < 0.0 {
            return 1.0;
        }
        if x >= FAR as f64 {
            return self.constant * (-self.decay * x).exp();
        }
        let next = x as usize + 1;
        let mean = self.load * (next as f64 - x);
        let (mut exactly, mut sum) = ((-mean).exp(), 0.0);
        for arrivals in 0..next {
            sum += exactly * self.tails[next - arrivals];
            exactly *= mean / (arrivals + 1) as f64;
        }
        // P(A ≥ next), until a term changes nothing.
        let mut arrivals = next;
        while exactly > sum * f64::EPSILON {
            sum += exactly;
            arrivals += 1;
            exactly *= mean / arrivals as f64;
        }
        sum
    }

    /// E[max(0, W − x)], the integral of the tail from `x`.
    pub fn excess(&self, x: f64) -> f64 {
        if x < 0.0 {
            return self.excess(0.0) - x;
        }
        let (mut at, mut sum) = (x + 1.0, 0.0);
        while at < FAR as f64 {
            sum += self.tail(at);
            at += 1.0;
        }
        // A geometric series; its ratio's complement is 1 − e^(−θ).
        sum += self.tail(at) / -(-self.decay).exp_m1();
        sum / self.load
    }

    /// The least x with P(W > x) ≤ `probability`; infinite for none.
    pub fn quantile(&self, probability: f64) -> f64 {
        if probability >= self.load {
            return 0.0;
        }
        if probability < self.tails[FAR] {
            return ((self.constant / probability).ln() / self.decay).max(FAR as f64);
        }
        let (mut less, mut x) = (0.0, FAR as f64);
        for _ in 0..super::BISECTIONS {
            let middle = f64::midpoint(less, x);
            if self.tail(middle) <= probability {
                x = middle;
            } else {
                less = middle;
            }
        }
        x
    }

    /// ρ.
    pub fn load(&self) -> f64 {
        self.load
    }

    /// 1 − ρ, the probability that an arrival finds the server idle.
    pub fn idle(&self) -> f64 {
        1.0 - self.load
    }

    /// θ: far out, tails shrink by e^−θ per unit of work.
    pub fn decay(&self) -> f64 {
        self.decay
    }
}

/// θ > 0 with ρ(e^θ − 1) = θ, as the root of (e^θ − 1 − θ)/θ = (1 − ρ)/ρ, whose left side is convex and grows: from
/// above, Newton's method comes down to it.
fn decay(load: f64) -> f64 {
    // e^θ has to stay finite; of less load nothing is left where θ counts.
    let load = load.max(1e-100);
    let right = (1.0 - load) / load;
    // Two bounds from above: θ/2 ≤ the left side; and e^θ outgrows any load.
    let mut theta = (2.0 * right).min(2.0 * (2.0 / load).ln());
    for _ in 0..200 {
        let (left, slope) = growth(theta);
        let step = (left - right) / slope;
        theta -= step;
        if step.abs() <= theta * f64::EPSILON {
            break;
        }
    }
    theta
}

/// (e^θ − 1 − θ)/θ and its derivative, by the power series where a difference would cancel.
fn growth(theta: f64) -> (f64, f64) {
    if theta > 1.0 {
        let value = (theta.exp_m1() - theta) / theta;
        return (value, (theta.exp_m1() - value) / theta);
    }
    // Σ_{n≥1} θ^n/(n + 1)! and Σ_{n≥1} n θ^(n−1)/(n + 1)!.
    let (mut power, mut value, mut slope) = (1.0, 0.0, 0.0);
    for n in 1..=20 {
        power /= f64::from(n + 1);
        slope += f64::from(n) * power;
        power *= theta;
        value += power;
    }
    (value, slope)
}

/// T_0 … T_64, from T_64 downwards.
fn tails(load: f64, last: f64) -> [f64; FAR + 1] {
    let numbers = numbers(load);
    let mut tails = [last; FAR + 1];
    for m in (0..FAR).rev() {
        tails[m] = tails[m + 1] + numbers[m + 1];
    }
    tails
}

/// p_0 … p_64.
fn numbers(load: f64) -> [f64; FAR + 1] {
    let none = (-load).exp();
    let at_least = poisson_tails(load);
    let mut numbers = [0.0; FAR + 1];
    numbers[0] = 1.0 - load;
    for m in 0..FAR {
        let from_busy = (1..=m).map(|i| numbers[i] * at_least[m + 2 - i]);
        let upwards = numbers[0] * at_least[m + 1] + from_busy.sum::<f64>();
        numbers[m + 1] = upwards / none;
    }
    numbers
}

/// P(A ≥ n), A of mean `mean` below 1, smallest terms first.
fn poisson_tails(mean: f64) -> [f64; POISSON_TERMS] {
    let mut tails = [0.0; POISSON_TERMS];
    let mut exactly = (-mean).exp();
    for (n, slot) in tails.iter_mut().enumerate() {
        *slot = exactly;
        exactly *= mean / (n + 1) as f64;
    }
    for n in (0..POISSON_TERMS - 1).rev() {
        tails[n] += tails[n + 1];
    }
    tails
}

#[cfg(test)]
mod tests;
