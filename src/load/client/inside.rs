//! The load client on a simulated machine: the same requests and responses, without sockets and threads. All requests are
//! sent at once, as a probe does.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::extract::Request;
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::exchange::Exchange;
use super::shared::Prepared;
use super::{ClientHealth, Clock, LoadConfig, LoadRun, RequestSource};
use crate::fault::{Fault, Result};
use crate::load::framing::Held;
use crate::load::record::{FailureForm, Record};
use crate::world::World;

pub(super) async fn run(
    world: &dyn World,
    url: &str,
    config: LoadConfig,
    source: Arc<dyn RequestSource>,
) -> Result<LoadRun> {
    let began = Instant::now();
    let (mut requests, held) = (Vec::new(), Held::default());
    while let Some(build) = source.next()? {
        let mut job = build()?;
        let wire = std::mem::take(&mut job.body);
        let request = Request::post(url)
            .header("content-type", "application/json")
            .body(Body::from(wire.clone()))
            .map_err(|error| Fault::usage(error.to_string()))?;
        let wire = wire.to_vec();
        let now = began.into_std();
        let exchange = Exchange::new(
            requests.len() as u64,
            (now, now, now),
            config.keep_text,
            &held,
            Prepared { job, wire },
        );
        let (source, cancel) = (Arc::clone(&source), config.cancel.clone());
        requests.push(async move {
            let record = exchanged(world, request, exchange, source.as_ref(), &cancel).await;
            source.ended(&record);
            record
        });
    }
    let records = join_all(requests).await;
    Ok(LoadRun {
        records,
        clock: Clock {
            began: began.into_std(),
            unix: world.now().into(),
        },
        duration: began.elapsed(),
        health: ClientHealth::default(),
    })
}

async fn exchanged(
    world: &dyn World,
    request: Request,
    mut exchange: Exchange,
    source: &dyn RequestSource,
    cancel: &CancellationToken,
) -> Record {
    let now = || Instant::now().into_std();
    exchange.start(now());
    exchange.advance(exchange.unwritten().len());
    let over = tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        over = answered(world, request, &mut exchange, source) => Some(over),
    };
    match over {
        None => exchange.cut_off(now()),
        Some(Ok(())) => exchange.complete(now()),
        Some(Err((form, message))) => exchange.broken(now(), form, message),
    }
}

/// Reads the response to its end.
async fn answered(
    world: &dyn World,
    request: Request,
    exchange: &mut Exchange,
    source: &dyn RequestSource,
) -> std::result::Result<(), (FailureForm, String)> {
    let late = |timeout: Duration| {
        (
            FailureForm::Deadline,
            format!("unfinished after {} s", timeout.as_secs_f64()),
        )
    };
    let timeout = exchange.timeout();
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::ConnectionRefused => (FailureForm::Unreachable, error.to_string()),
        _ => (FailureForm::Broken, error.to_string()),
    };
    let response = tokio::time::timeout_at(exchange.deadline.into(), world.send(request)).await;
    let (head, body) = response.map_err(|_| late(timeout))?.map_err(failed)?.into_parts();
    let head = format!("HTTP/1.1 {}\r\nconnection: close\r\n\r\n", head.status);
    exchange.feed(head.as_bytes(), Instant::now().into_std());
    let mut body: BodyDataStream = body.into_data_stream();
    loop {
        let part = tokio::time::timeout_at(exchange.deadline.into(), body.next()).await;
        let Some(bytes) = part.map_err(|_| late(timeout))? else {
            break;
        };
        let bytes = bytes.map_err(|error| (FailureForm::Broken, error.to_string()))?;
        let had_token = exchange.has_token();
        let over = exchange.feed(&bytes, Instant::now().into_std());
        if exchange.has_token() && !had_token {
            source.first_token();
        }
        if over {
            return Ok(());
        }
    }
    match exchange.close() {
        true => Ok(()),
        false => Err((FailureForm::Broken, "the connection was closed".to_owned())),
    }
}
