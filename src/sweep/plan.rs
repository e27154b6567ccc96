//! In which order the trials of a task run: shuffled complete blocks.

use rand::SeedableRng;
use rand::seq::SliceRandom;

use crate::record::Point;
use crate::trial::Seat;

/// Every point once in each block, in an order drawn anew for each block, so that drift of the
/// machine does not look like an effect of the knob. The same seed gives the same order for ever:
/// the generator is PCG-64 MCG.
pub fn seats(task: &str, task_hash: &str, points: &[Point], blocks: u32, seed: u64) -> Vec<Seat> {
    let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
    let mut seats = Vec::new();
    for block in 1..=blocks {
        let mut shuffled = points.to_vec();
        shuffled.shuffle(&mut random);
        for (order_in_block, point) in (1..).zip(shuffled) {
            seats.push(Seat {
                task: task.to_owned(),
                task_hash: task_hash.to_owned(),
                point,
                block,
                order: seats.len() as u32 + 1,
                order_in_block,
            });
        }
    }
    seats
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn points(count: u32) -> Vec<Point> {
        (0..count).map(|i| Point::from([("knob".to_owned(), i.to_string())])).collect()
    }

    proptest! {
        #[test]
        fn every_block_holds_every_point_once(count in 1u32..9, blocks in 1u32..6, seed: u64) {
            let seats = seats("t", "h", &points(count), blocks, seed);
            for block in 1..=blocks {
                let mut held: Vec<_> =
                    seats.iter().filter(|s| s.block == block).map(|s| s.point.clone()).collect();
                held.sort();
                prop_assert_eq!(held, points(count));
            }
            prop_assert!((1..).zip(&seats).all(|(order, seat)| seat.order == order));
        }
    }

    #[test]
    fn the_seed_alone_decides_the_order() {
        let order = |seed| -> Vec<String> {
            seats("t", "h", &points(6), 2, seed).iter().map(|s| s.point["knob"].clone()).collect()
        };
        assert_eq!(order(42), order(42));
        assert_ne!(order(42), order(43));
        let first_block: Vec<_> = order(42)[..6].to_vec();
        assert_ne!(first_block, order(42)[6..].to_vec(), "blocks are shuffled apart");
    }
}
