//! Finds the items without which a program does not run at all.
//!
//! Without some of its imports a program does not run at all. Such a trial gives no information about the failure, so
//! these items are excluded from the search. The screen leaves out all items, and then halves of each set that could
//! not be left out. Each set takes one run, because a program without a required item fails at once. A few required
//! items among many take few runs; many required items take three runs each.
//!
//! A run may also end differently for another reason. Halves are tried again, so this does little harm except for a
//! single item, which would count as required for good: a single item takes a second run.

/// A search for the required items.
#[derive(Debug, Clone)]
pub struct ItemScreen {
    things: usize,
    /// Sets of items that may or may not be left out together.
    open: Vec<Vec<usize>>,
    /// Items that could not be left out, in a single run.
    doubtful: Vec<usize>,
    free: Vec<usize>,
    required: Vec<usize>,
}

impl ItemScreen {
    /// Returns a search among the items 0..n.
    pub fn new(item_count: usize) -> Self {
        Self {
            things: item_count,
            open: vec![(0..item_count).collect()],
            doubtful: Vec::new(),
            free: Vec::new(),
            required: Vec::new(),
        }
    }

    /// Returns the set to run next, in ascending order, unless it is in flight.
    pub fn next_set(&self, in_flight: &[Vec<usize>]) -> Option<Vec<usize>> {
        let mut sets = self
            .open
            .iter()
            .map(|left_out| self.set_without(left_out))
            .filter(|set| !in_flight.contains(set));
        sets.next()
    }

    fn set_without(&self, left_out: &[usize]) -> Vec<usize> {
        let is_kept = |item: &usize| left_out.binary_search(item).is_err();
        (0..self.things).filter(is_kept).collect()
    }

    /// Adds a run: `ran` says whether the program ran as usual, with any outcome.
    pub fn observe_run(&mut self, set: &[usize], ran: bool) {
        let Some(left_out) = self.take_asked(set) else {
            return;
        };
        match left_out.as_slice() {
            items if ran => self.free.extend(items),
            [item] if !self.doubtful.contains(item) => {
                self.doubtful.push(*item);
                self.open.push(left_out);
            }
            _ => self.divide_items(&left_out),
        }
        self.free.sort_unstable();
    }

    /// Marks a set as not testable, however often it is tried.
    pub fn mark_untestable(&mut self, set: &[usize]) {
        if let Some(left_out) = self.take_asked(set) {
            self.divide_items(&left_out);
        }
    }

    /// Removes and returns the items that are left out of a set, if the screen asked for that set.
    fn take_asked(&mut self, set: &[usize]) -> Option<Vec<usize>> {
        let index = self
            .open
            .iter()
            .position(|left_out| self.set_without(left_out) == set);
        index.map(|index| self.open.remove(index))
    }

    /// Splits a set of items that cannot be left out together.
    fn divide_items(&mut self, left_out: &[usize]) {
        if let [item] = left_out {
            self.required.push(*item);
            self.required.sort_unstable();
        } else {
            let (first, second) = left_out.split_at(left_out.len() / 2);
            self.open.extend([first.to_vec(), second.to_vec()]);
        }
    }

    /// Returns whether all items are decided.
    pub fn is_over(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns the items that can be left out.
    pub fn free_items(&self) -> &[usize] {
        &self.free
    }

    /// Returns the items without which the program does not run.
    pub fn required_items(&self) -> &[usize] {
        &self.required
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screened(things: usize, required: &[usize]) -> (ItemScreen, usize) {
        let mut screen = ItemScreen::new(things);
        for runs in 0.. {
            let Some(set) = screen.next_set(&[]) else {
                return (screen, runs);
            };
            let ran = required.iter().all(|thing| set.contains(thing));
            screen.observe_run(&set, ran);
        }
        unreachable!("the numbers do not end")
    }

    #[test]
    fn required_items_are_found_in_few_runs() {
        for (required, most) in [
            (vec![], 1),
            (vec![7], 14),
            (vec![3, 40], 27),
            ((0..64).collect(), 191),
        ] {
            let (screen, runs) = screened(64, &required);
            assert_eq!(screen.required_items(), required);
            assert_eq!(screen.free_items().len(), 64 - required.len());
            assert!(runs <= most, "{required:?}: {runs}");
        }
    }

    #[test]
    fn a_single_contradicting_run_makes_no_item_required() {
        let mut screen = ItemScreen::new(2);
        for set in [vec![], vec![1]] {
            assert_eq!(screen.next_set(&[]), Some(set.clone()));
            screen.observe_run(&set, false);
        }
        screen.observe_run(&[0], true);
        assert_eq!(screen.next_set(&[]), Some(vec![1]));
        screen.observe_run(&[1], true);
        assert!(screen.is_over() && screen.required_items().is_empty());
    }

    #[test]
    fn an_untestable_item_is_required_and_not_tried_again() {
        let mut screen = ItemScreen::new(1);
        screen.mark_untestable(&[]);
        assert_eq!(
            (screen.is_over(), screen.required_items()),
            (true, &[0][..])
        );
    }

    #[test]
    fn different_sets_are_tried_in_parallel() {
        let mut screen = ItemScreen::new(4);
        let all = screen.next_set(&[]).unwrap();
        assert_eq!(all, Vec::<usize>::new());
        assert_eq!(screen.next_set(std::slice::from_ref(&all)), None);
        screen.observe_run(&all, false);
        let first = screen.next_set(&[]).unwrap();
        let second = screen.next_set(std::slice::from_ref(&first)).unwrap();
        assert_eq!((first, second), (vec![2, 3], vec![0, 1]));
    }
}
