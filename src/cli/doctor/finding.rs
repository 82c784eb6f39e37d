//! The result of one check: its state and a remedy.

use serde::Serialize;

use crate::fault::Fault;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Health {
    Ok,
    /// Missing; runs that need it end with exit status 3.
    Absent,
    /// Present, but with a problem.
    Attention,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    name: &'static str,
    health: Health,
    detail: String,
    remedy: Option<String>,
}

impl Finding {
    pub(super) fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self {
            name,
            health: Health::Ok,
            detail: detail.into(),
            remedy: None,
        }
    }

    pub(super) fn absent(name: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            health: Health::Absent,
            remedy: Some(remedy.into()),
            ..Self::ok(name, detail)
        }
    }

    pub(super) fn attention(name: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            health: Health::Attention,
            ..Self::absent(name, detail, remedy)
        }
    }

    pub(super) fn from_fault(name: &'static str, fault: Fault) -> Self {
        Self {
            remedy: fault.hint,
            health: Health::Absent,
            ..Self::ok(name, fault.message)
        }
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let health = match self.health {
            Health::Ok => "ok",
            Health::Absent => "absent",
            Health::Attention => "look",
        };
        write!(f, "{health:<7} {:<16} {}", self.name, self.detail)?;
        match &self.remedy {
            Some(remedy) => write!(f, "\n{:24} → {remedy}", ""),
            None => Ok(()),
        }
    }
}
