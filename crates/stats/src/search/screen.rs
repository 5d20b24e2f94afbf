//! Finds the items without which a program does not run at all.
//!
//! Without some of its imports a program does not run, whatever else it may do then: that says nothing
//! of its failure, and things of this kind are not worth a search. They are found by leaving out everything,
//! and then the halves of whatever could not be left out: one run each, for a program without what it needs
//! fails at once. Few of many take few runs; many take three for each.
//!
//! A run may also end otherwise for a reason of its own. Halves are tried anew, so that does little harm before it
//! comes to a single thing, which would stay for ever: so that takes a second run.

/// A search for the things that must stay.
#[derive(Debug, Clone)]
pub struct Screen {
    things: usize,
    /// Things of which it is not known yet whether they can be left out together.
    open: Vec<Vec<usize>>,
    /// Things that could not be left out, in a single run.
    doubtful: Vec<usize>,
    free: Vec<usize>,
    required: Vec<usize>,
}

impl Screen {
    /// Returns a search among the things 0..n.
    pub fn new(things: usize) -> Self {
        Self {
            things,
            open: vec![(0..things).collect()],
            doubtful: Vec::new(),
            free: Vec::new(),
            required: Vec::new(),
        }
    }

    /// Returns the set to run next, in ascending order, unless it is under way.
    pub fn next(&self, in_flight: &[Vec<usize>]) -> Option<Vec<usize>> {
        let sets = self.open.iter().map(|out| self.without(out));
        let mut sets = sets.filter(|set| !in_flight.contains(set));
        sets.next()
    }

    fn without(&self, out: &[usize]) -> Vec<usize> {
        let kept = |thing: &usize| out.binary_search(thing).is_err();
        (0..self.things).filter(kept).collect()
    }

    /// Takes a run into account: whether the program ran as ever, whatever came of it.
    pub fn observe(&mut self, set: &[usize], ran: bool) {
        let Some(out) = self.asked(set) else {
            return;
        };
        match out.as_slice() {
            all if ran => self.free.extend(all),
            [one] if !self.doubtful.contains(one) => {
                self.doubtful.push(*one);
                self.open.push(out);
            }
            _ => self.divide(&out),
        }
        self.free.sort_unstable();
    }

    /// Says that a set cannot be run at all, however often one tries.
    pub fn untestable(&mut self, set: &[usize]) {
        if let Some(out) = self.asked(set) {
            self.divide(&out);
        }
    }

    /// Returns what is left out of a set, if that was asked for, and is not open any more.
    fn asked(&mut self, set: &[usize]) -> Option<Vec<usize>> {
        let asked = self.open.iter().position(|out| self.without(out) == set);
        asked.map(|at| self.open.remove(at))
    }

    /// Takes into account that these cannot be left out together.
    fn divide(&mut self, out: &[usize]) {
        if let [one] = out {
            self.required.push(*one);
            self.required.sort_unstable();
        } else {
            let (first, second) = out.split_at(out.len() / 2);
            self.open.extend([first.to_vec(), second.to_vec()]);
        }
    }

    /// Tells whether all is known.
    pub fn is_over(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns the things that can be left out.
    pub fn free(&self) -> &[usize] {
        &self.free
    }

    /// Returns the things without which the program does not run.
    pub fn required(&self) -> &[usize] {
        &self.required
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screened(things: usize, required: &[usize]) -> (Screen, usize) {
        let mut screen = Screen::new(things);
        for runs in 0.. {
            let Some(set) = screen.next(&[]) else {
                return (screen, runs);
            };
            let ran = required.iter().all(|thing| set.contains(thing));
            screen.observe(&set, ran);
        }
        unreachable!("the numbers do not end")
    }

    #[test]
    fn what_must_stay_is_found_in_few_runs() {
        for (required, most) in [
            (vec![], 1),
            (vec![7], 14),
            (vec![3, 40], 27),
            ((0..64).collect(), 191),
        ] {
            let (screen, runs) = screened(64, &required);
            assert_eq!(screen.required(), required);
            assert_eq!(screen.free().len(), 64 - required.len());
            assert!(runs <= most, "{required:?}: {runs}");
        }
    }

    #[test]
    fn a_single_run_that_ends_otherwise_keeps_nothing() {
        let mut screen = Screen::new(2);
        for set in [vec![], vec![1]] {
            assert_eq!(screen.next(&[]), Some(set.clone()));
            screen.observe(&set, false);
        }
        screen.observe(&[0], true);
        assert_eq!(screen.next(&[]), Some(vec![1]));
        screen.observe(&[1], true);
        assert!(screen.is_over() && screen.required().is_empty());
    }

    #[test]
    fn what_cannot_be_run_at_all_is_not_tried_again() {
        let mut screen = Screen::new(1);
        screen.untestable(&[]);
        assert_eq!((screen.is_over(), screen.required()), (true, &[0][..]));
    }

    #[test]
    fn several_are_tried_at_once_and_none_twice() {
        let mut screen = Screen::new(4);
        let all = screen.next(&[]).unwrap();
        assert_eq!(all, Vec::<usize>::new());
        assert_eq!(screen.next(std::slice::from_ref(&all)), None);
        screen.observe(&all, false);
        let first = screen.next(&[]).unwrap();
        let second = screen.next(std::slice::from_ref(&first)).unwrap();
        assert_eq!((first, second), (vec![2, 3], vec![0, 1]));
    }
}
