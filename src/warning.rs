//! Warnings for readers of the results. Each has a kind. Warnings are grouped by kind, and each group shows the
//! sentence with the largest effect.

use serde::{Deserialize, Serialize};

use crate::fmt::Count;

/// The kind of warning that times and rates of a simulated engine are not those of the modelled card.
pub const CLOCK_TOO_FAST: &str = "clock_too_fast";

/// A warning. Warnings of one kind are shown as one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Warning {
    /// Its kind, such as `token_counts`; empty for a sentence of a script.
    pub code: String,
    /// The sentence.
    pub message: String,
    /// The size of the effect, if it has one, to compare warnings of one kind.
    pub value: Option<f64>,
}

impl Warning {
    /// A warning of a kind, without a size.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            message: message.into(),
            value: None,
        }
    }

    /// Adds the size of the effect.
    pub fn sized(mut self, value: f64) -> Self {
        self.value = Some(value);
        self
    }

    /// The common property of warnings of one kind: the code, or without one, the sentence without its digits.
    pub fn kind(&self) -> String {
        match self.code.as_str() {
            "" => self
                .message
                .chars()
                .filter(|letter| !letter.is_ascii_digit() && *letter != '.')
                .collect(),
            code => code.to_owned(),
        }
    }

    /// Whether the effect is larger than that of `other`.
    pub fn exceeds(&self, other: &Self) -> bool {
        self.value > other.value
    }
}

impl From<&str> for Warning {
    fn from(message: &str) -> Self {
        Self::new("", message)
    }
}

impl From<String> for Warning {
    fn from(message: String) -> Self {
        Self::new("", message)
    }
}

/// The warnings of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct WarningGroup {
    /// The one with the largest effect.
    pub worst: Warning,
    /// The distinct messages, in order of appearance.
    pub messages: Vec<String>,
    /// Number of loads with one of these warnings; 0 if they do not come from loads.
    pub loads: usize,
}

impl WarningGroup {
    fn new(warning: &Warning) -> Self {
        Self {
            worst: warning.clone(),
            messages: vec![warning.message.clone()],
            loads: 0,
        }
    }

    /// Adds a warning of this kind.
    pub(crate) fn add(&mut self, warning: &Warning) {
        if warning.exceeds(&self.worst) {
            self.worst = warning.clone();
        }
        if !self.messages.contains(&warning.message) {
            self.messages.push(warning.message.clone());
        }
    }

    /// The sentence with the largest effect, and the number of others of the kind.
    pub fn sentence(&self) -> String {
        let mut more = Vec::new();
        if self.messages.len() > 1 {
            more.push(format!("one of {}", Count(self.messages.len(), "such warning")));
        }
        if self.loads > 1 {
            more.push(format!("in {} loads", self.loads));
        }
        if more.is_empty() {
            self.worst.message.clone()
        } else {
            format!("{} ({})", self.worst.message, more.join(", "))
        }
    }
}

/// Adds a warning to its group. Returns whether it is the first of its kind.
pub(crate) fn add_warning(groups: &mut Vec<WarningGroup>, warning: &Warning) -> bool {
    let kind = warning.kind();
    match groups.iter_mut().find(|group| group.worst.kind() == kind) {
        Some(group) => {
            group.add(warning);
            false
        }
        None => {
            groups.push(WarningGroup::new(warning));
            true
        }
    }
}

/// Groups warnings in order of first appearance. `loads` holds the warnings of each load.
pub fn group_warnings(warnings: &[Warning], loads: &[Vec<Warning>]) -> Vec<WarningGroup> {
    let mut groups = Vec::new();
    for warning in warnings {
        add_warning(&mut groups, warning);
    }
    for group in &mut groups {
        let of_group = |load: &&Vec<Warning>| load.iter().any(|warning| group.messages.contains(&warning.message));
        group.loads = loads.iter().filter(of_group).count();
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(percent: f64) -> Warning {
        Warning::new("token_counts", format!("token counts disagree by {percent} %")).sized(percent)
    }

    #[test]
    fn the_largest_effect_stands_for_its_kind() {
        let slow = Warning::from("the disk is slow");
        let all = [counts(15.5), slow.clone(), counts(22.6), counts(8.7), counts(22.6)];
        let loads = [all[..2].to_vec(), all[2..3].to_vec(), vec![slow], Vec::new()];
        let grouped = group_warnings(&all, &loads);
        let sentences: Vec<String> = grouped.iter().map(WarningGroup::sentence).collect();
        assert_eq!(
            sentences,
            [
                "token counts disagree by 22.6 % (one of 3 such warnings, in 2 loads)",
                "the disk is slow (in 2 loads)"
            ]
        );
        assert_eq!(grouped[0].messages.len(), 3);
    }

    #[test]
    fn sentences_without_a_kind_are_grouped_by_their_words() {
        let sentences = ["waited 3.5 ms", "waited 28 ms", "waited long"].map(Warning::from);
        let groups: Vec<usize> = group_warnings(&sentences, &[])
            .iter()
            .map(|group| group.messages.len())
            .collect();
        assert_eq!(groups, [2, 1]);
    }
}
