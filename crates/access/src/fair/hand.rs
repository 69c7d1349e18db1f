//! Shuffle sharding: each flow may use a few of the queues, and hardly two flows the same ones.
//!
//! So one that floods its queues leaves nearly everyone else a queue that it is not in.

/// The largest hand. A larger one would give every flow nearly all queues, which is what hands are to prevent.
const MOST: usize = 32;

/// The queues of one flow.
pub(super) struct Hand {
    cards: [u32; MOST],
    len: usize,
}

impl Hand {
    /// Deals `size` different cards of a deck, always the same to the same flow.
    pub(super) fn deal(flow: u64, deck: u32, size: u32) -> Self {
        let len = (size.min(deck) as usize).clamp(1, MOST);
        // In ascending order until all are dealt.
        let mut cards = [0; MOST];
        for dealt in 0..len {
            let left = u64::from(deck.max(1)) - dealt as u64;
            let mut card = (mix(flow.wrapping_add(dealt as u64)) % left) as u32;
            let mut place = 0;
            while place < dealt && card >= cards[place] {
                card += 1;
                place += 1;
            }
            cards.copy_within(place..dealt, place + 1);
            cards[place] = card;
        }
        // Where all are as good, the first is taken: flows must not meet there because it is the lowest.
        cards[..len].rotate_left(mix(!flow) as usize % len);
        Hand { cards, len }
    }

    pub(super) fn cards(&self) -> &[u32] {
        &self.cards[..self.len]
    }
}

/// Spreads the bits of a number (splitmix64).
fn mix(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_hand_has_different_cards_of_the_deck() {
        for (deck, size) in [(1, 1), (2, 2), (6, 6), (64, 6), (128, 6), (16, 4), (10_000_000, 8), (5, 100)] {
            for flow in 0..500 {
                let hand = Hand::deal(flow, deck, size);
                let cards: BTreeSet<u32> = hand.cards().iter().copied().collect();
                assert_eq!(cards.len(), size.min(deck) as usize, "{deck} {size} {flow}");
                assert!(cards.iter().all(|card| *card < deck), "{deck} {size} {flow}: {cards:?}");
            }
        }
    }

    #[test]
    fn every_card_is_dealt_about_as_often() {
        let mut times = [0_u32; 64];
        for flow in 0..6400 {
            Hand::deal(flow, 64, 6).cards().iter().for_each(|card| times[*card as usize] += 1);
        }
        assert!(times.iter().all(|n| (450..750).contains(n)), "{times:?}");
    }

    #[test]
    fn hardly_two_flows_have_the_same_queues() {
        let greedy: BTreeSet<u32> = Hand::deal(7, 128, 6).cards().iter().copied().collect();
        let covered = (1000..11_000)
            .filter(|flow| Hand::deal(*flow, 128, 6).cards().iter().all(|card| greedy.contains(card)));
        assert_eq!(covered.count(), 0);
    }
}
