//! One thing looked at: whether it works, and what to do if not.

use serde::Serialize;

use crate::fault::Fault;

/// Whether something works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Health {
    /// It works.
    Ok,
    /// It is not there; runs that need it end with exit status 3.
    Absent,
    /// It is there, and something about it deserves attention.
    Attention,
}

/// One thing looked at.
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

    pub(super) fn of(name: &'static str, fault: Fault) -> Self {
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
