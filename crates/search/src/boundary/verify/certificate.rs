//! The certificate of a verified limit.

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::version_space::VersionSpace;
use super::super::{Boundary, Class, Point, Scalar};
use super::place::{Place, PlaceKind, axis_of};
use super::report::ReportedLimit;
use crate::error::Result;

/// The verified part of a prediction: the places that are known from both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Certificate {
    /// The source of the prediction.
    pub by: String,
    /// The verified ends of the boundary.
    pub ends: usize,
    /// The verified middles: 0 or 1.
    pub middle: usize,
    /// Ends and middles whose failing side was not sent, because the engine's own report rules it out.
    pub not_sent: usize,
    /// The largest distance between the two sides, by axis, in its own unit.
    pub within: BTreeMap<String, Scalar>,
    /// The number of recorded answers.
    pub probes: usize,
    /// The limit as people write it, if it counts blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub formula: Option<String>,
    /// The point of the workload that the user named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<Point>,
}

impl Boundary {
    /// The certificate of places that are known from both sides, by the source of their prediction; `report` if it is
    /// one. With `by` `"fitted"`, their sides are the proven points that are nearest, because the places moved with every
    /// answer.
    ///
    /// # Errors
    ///
    /// `usage` for places of another boundary.
    pub fn certificate(&self, places: &[Place], by: &str, report: Option<&ReportedLimit>) -> Result<Certificate> {
        let mut certificate = Certificate {
            by: by.to_owned(),
            ends: 0,
            middle: 0,
            not_sent: 0,
            within: BTreeMap::new(),
            probes: self.records().len(),
            formula: match report {
                Some(report) => report.formula(),
                None if by == "fitted" => self.hypotheses()?.and_then(VersionSpace::formula),
                None => None,
            },
            workload: None,
        };
        for place in places {
            if place.at == PlaceKind::Workload && certificate.workload.is_none() {
                certificate.workload = Some(place.point.clone());
            }
            // At an end of the search range there is no other side.
            let (Some(_), Some(fails), Some(axis)) = (&place.fits, &place.fails, axis_of(self, place)) else {
                continue;
            };
            let seen = self.bracket(&place.point, axis.name())?;
            let (width, beyond) = match (by, seen.fits, seen.fails) {
                ("fitted", Some(_), Some(seen_fails)) => {
                    (seen.width.as_f64(), axis.moved(&place.point, seen_fails.as_f64()))
                }
                ("fitted", ..) => continue,
                (_, Some(seen_fits), Some(seen_fails)) if axis.tolerance().is_some() => {
                    ((seen_fails.as_f64() - seen_fits.as_f64()).abs(), fails.clone())
                }
                _ => (place.width(axis).unwrap_or_default(), fails.clone()),
            };
            let widest = certificate
                .within
                .get(axis.name())
                .map_or(width, |widest| widest.as_f64().max(width));
            certificate.within.insert(axis.name().to_owned(), axis.exact(widest));
            match place.at {
                PlaceKind::End => certificate.ends += 1,
                PlaceKind::Middle => certificate.middle += 1,
                PlaceKind::Workload | PlaceKind::Ray => continue,
            }
            certificate.not_sent += usize::from(self.classify(&beyond)? == Class::NotSent);
        }
        Ok(certificate)
    }
}
