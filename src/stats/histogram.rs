//! A histogram of durations or other positive whole numbers, kept whole.
//!
//! Values are recorded in whole units (microseconds for durations, bytes) with three significant
//! digits, however large they are: it grows with them. Percentiles of several histograms are never
//! averaged: merge, then ask.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2Serializer};
use serde::{Deserialize, Serialize};

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    counts: hdrhistogram::Histogram<u64>,
    sum: u128,
}

impl Default for Histogram {
    fn default() -> Self {
        let counts = hdrhistogram::Histogram::new(3).expect("three digits are possible");
        Histogram { counts, sum: 0 }
    }
}

impl Histogram {
    /// Records one value.
    pub fn record(&mut self, value: u64) {
        self.sum += u128::from(value);
        self.counts.record(value).expect("it grows with its values");
    }

    /// Records the same value `n` times.
    pub fn record_n(&mut self, value: u64, n: u64) {
        self.sum += u128::from(value) * u128::from(n);
        self.counts.record_n(value, n).expect("it grows with its values");
    }

    /// Records a duration in microseconds.
    pub fn record_duration(&mut self, duration: Duration) {
        self.record(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX));
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Histogram) {
        self.counts.add(&other.counts).expect("it grows with its values");
        self.sum += other.sum;
    }

    /// How many values were recorded.
    pub fn n(&self) -> u64 {
        self.counts.len()
    }

    /// The value at a quantile from 0 to 1, in whole units; `None` when empty.
    pub fn quantile(&self, quantile: f64) -> Option<u64> {
        (self.n() > 0).then(|| self.counts.value_at_quantile(quantile).min(self.counts.max()))
    }

    /// The largest value; `None` when empty.
    pub fn max(&self) -> Option<u64> {
        (self.n() > 0).then(|| self.counts.max())
    }

    /// The smallest value; `None` when empty.
    pub fn min(&self) -> Option<u64> {
        (self.n() > 0).then(|| self.counts.min())
    }

    /// The exact mean of what was recorded; `None` when empty.
    pub fn mean(&self) -> Option<f64> {
        (self.n() > 0).then(|| self.sum as f64 / self.n() as f64)
    }

    /// The sum of all values.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// Values with their counts in rising order, empty ones left out.
    pub fn counts(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.counts.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value()))
    }
}

/// How a histogram stands in a record: `hdr` is HdrHistogram's V2 format in base64.
#[derive(Serialize, Deserialize)]
struct Stored {
    hdr: String,
    sum: String,
}

impl Serialize for Histogram {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::new();
        V2Serializer::new()
            .serialize(&self.counts, &mut bytes)
            .map_err(serde::ser::Error::custom)?;
        Stored { hdr: BASE64.encode(bytes), sum: self.sum.to_string() }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;
        let stored = Stored::deserialize(deserializer)?;
        let bytes = BASE64.decode(stored.hdr).map_err(D::Error::custom)?;
        let read: hdrhistogram::Histogram<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|e| D::Error::custom(format!("{e:?}")))?;
        let mut histogram = Histogram {
            sum: stored.sum.parse().map_err(D::Error::custom)?,
            ..Histogram::default()
        };
        histogram.counts.add(&read).map_err(D::Error::custom)?;
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_histogram_reads_back_equal() {
        let mut histogram = Histogram::default();
        for value in [1, 7, 7, 950, 1_234_567, 80_000_000_000_000] {
            histogram.record(value);
        }
        let text = serde_json::to_string(&histogram).expect("json");
        let back: Histogram = serde_json::from_str(&text).expect("histogram");
        assert_eq!(back, histogram);
        assert_eq!((back.n(), back.quantile(0.5)), (6, Some(7)));
        let max = back.max().expect("six values") as f64;
        assert!((max / 8e13 - 1.0).abs() < 1e-3, "80 TB behind is told as {max}");
    }

    #[test]
    fn an_empty_histogram_has_no_quantiles() {
        let histogram = Histogram::default();
        assert_eq!(
            (histogram.quantile(0.5), histogram.max(), histogram.mean()),
            (None, None, None)
        );
    }

    #[test]
    fn merging_is_recording_all() {
        let (mut a, mut b, mut all) =
            (Histogram::default(), Histogram::default(), Histogram::default());
        for value in 1..2000u64 {
            if value % 3 == 0 {
                a.record(value * value)
            } else {
                b.record(value * value)
            }
            all.record(value * value);
        }
        a.merge(&b);
        assert_eq!(a, all);
    }
}
