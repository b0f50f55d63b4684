//! Walks a stream through the automaton, keeping its state between reads.

use std::{fmt, sync::Arc};

use aho_corasick::{
    Anchored,
    automaton::{Automaton, StateID},
};

use super::Canaries;
use crate::evidence::Form;

/// A position in one stream. A token split over reads is found because the automaton's state is
/// kept; no byte is.
pub struct Scanner {
    canaries: Arc<Canaries>,
    state: StateID,
    /// Bytes seen so far.
    at: u64,
    /// Pieces of a secret, and where the whole secret would end.
    pieces: Vec<(usize, u64)>,
}

impl fmt::Debug for Scanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scanner").field("at", &self.at).finish_non_exhaustive()
    }
}

impl Scanner {
    pub(super) fn new(canaries: Arc<Canaries>) -> Self {
        let state = canaries.start;
        Self { canaries, state, at: 0, pieces: Vec::new() }
    }

    /// Reads on; `found` is told the index of the object and the form of each occurrence.
    pub fn feed(&mut self, bytes: &[u8], found: &mut impl FnMut(usize, Form)) {
        if self.canaries.patterns.is_empty() {
            return;
        }
        if !self.quiet(bytes) {
            let canaries = Arc::clone(&self.canaries);
            let mut state = self.state;
            for (n, byte) in bytes.iter().enumerate() {
                state = canaries.dfa.next_state(Anchored::No, state, *byte);
                if canaries.dfa.is_match(state) {
                    self.note(state, self.at + n as u64 + 1, found);
                }
            }
            self.state = state;
        }
        self.at += bytes.len() as u64;
        let at = self.at;
        self.release(at, found);
    }

    /// Reads on when no spelling ends in these bytes, which is the rule. A walk waits for memory at
    /// every byte, so the bytes are walked as four pieces side by side; each begins early enough to
    /// be in the state a single walk would be in. Measured three times as fast.
    fn quiet(&mut self, bytes: &[u8]) -> bool {
        let canaries = &self.canaries;
        let piece = bytes.len() / 4;
        if piece < 4 * canaries.longest {
            return false;
        }
        let dfa = &canaries.dfa;
        let mut states = [self.state, canaries.start, canaries.start, canaries.start];
        for (n, state) in states.iter_mut().enumerate().skip(1) {
            for byte in &bytes[n * piece - canaries.longest..n * piece] {
                *state = dfa.next_state(Anchored::No, *state, *byte);
            }
        }
        let (first, rest) = bytes.split_at(piece);
        let (second, rest) = rest.split_at(piece);
        let (third, fourth) = rest.split_at(piece);
        let [mut a, mut b, mut c, mut d] = states;
        for (((w, x), y), z) in first.iter().zip(second).zip(third).zip(fourth) {
            a = dfa.next_state(Anchored::No, a, *w);
            b = dfa.next_state(Anchored::No, b, *x);
            c = dfa.next_state(Anchored::No, c, *y);
            d = dfa.next_state(Anchored::No, d, *z);
            // Without a prefilter the special states are the matches and the dead state, which a
            // search that may begin anywhere never enters.
            if dfa.is_special(a) || dfa.is_special(b) || dfa.is_special(c) || dfa.is_special(d) {
                return false;
            }
        }
        for byte in &fourth[piece..] {
            d = dfa.next_state(Anchored::No, d, *byte);
            if dfa.is_special(d) {
                return false;
            }
        }
        self.state = d;
        true
    }

    /// Ends a line or the stream: a piece of a secret can no longer become the whole.
    pub fn settle(&mut self, found: &mut impl FnMut(usize, Form)) {
        self.release(u64::MAX, found);
        self.state = self.canaries.start;
    }

    fn note(&mut self, state: StateID, end: u64, found: &mut impl FnMut(usize, Form)) {
        let canaries = Arc::clone(&self.canaries);
        let mut whole = None;
        for n in 0..canaries.dfa.match_len(state) {
            let pattern = canaries.dfa.match_pattern(state, n).as_usize();
            let Some(pattern) = canaries.patterns.get(pattern) else { continue };
            match pattern.form {
                Form::Masked => {
                    let piece = (pattern.object, end + pattern.after);
                    if !self.pieces.contains(&piece) {
                        self.pieces.push(piece);
                    }
                }
                form => {
                    if form == Form::Raw {
                        whole = Some(pattern.object);
                    }
                    found(pattern.object, form);
                }
            }
        }
        // The whole is there: its pieces say nothing more. They all expect this very end.
        if let Some(object) = whole {
            self.pieces.retain(|piece| *piece != (object, end));
        }
        self.release(end - 1, found);
    }

    /// Reports pieces whose secret should have ended by now and did not.
    fn release(&mut self, at: u64, found: &mut impl FnMut(usize, Form)) {
        self.pieces.retain(|(object, end)| {
            let over = *end <= at;
            if over {
                found(*object, Form::Masked);
            }
            !over
        });
    }
}
