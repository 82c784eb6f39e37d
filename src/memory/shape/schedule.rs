//! Which mechanism each layer has, from the keys of `config.json` that say so: lists of names, patterns, periods and
//! windows. No key depends on the family.

use serde_json::Value;

use super::config::Config;
use crate::fault::{Fault, Result};

/// The mechanism of a layer, and with it the tokens that it caches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mixer {
    /// Attention to every token.
    Full,
    /// Attention to the most recent tokens (sliding), or to those of the same chunk.
    Window(u64),
    /// Attention to entries that each stand for several tokens, and to the most recent tokens; 0 for the latter alone.
    Compressed(u64),
    /// A state of fixed size: Mamba, linear attention, a short convolution.
    Recurrent,
    /// Attention to another part of the model, such as an image.
    Cross,
    /// Neither.
    None,
    /// A mechanism of this name that is not known here.
    Unknown(String),
}

/// The feed-forward part of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FeedForward {
    /// As other keys say: dense, or experts.
    Usual,
    Dense,
    Experts,
    None,
}

/// One layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) mixer: Mixer,
    pub(super) feed_forward: FeedForward,
    /// Whether it reads the keys and values of an earlier layer instead of its own.
    pub(super) shares: bool,
}

/// The mechanism of each of `layers` layers.
///
/// # Errors
///
/// `usage` if a list has too few entries, if layers have a window whose size is not stated, and for mechanisms that are
/// not known, by their layers.
pub(super) fn schedule(config: &Config, layers: u64) -> Result<Vec<Step>> {
    let shared = config.number_or_zero(&["num_kv_shared_layers"])?;
    let cross = config.numbers("cross_attention_layers").unwrap_or_default();
    let mut steps = Vec::new();
    for (layer, (mixer, feed_forward)) in (0..).zip(listed(config, layers)?) {
        steps.push(Step {
            mixer: if cross.contains(&layer) { Mixer::Cross } else { mixer },
            feed_forward,
            shares: layer + shared >= layers && shared > 0,
        });
    }
    let unknown = (0..)
        .zip(&steps)
        .filter_map(|(layer, step): (u64, _)| match &step.mixer {
            Mixer::Unknown(name) => Some((layer, name)),
            _ => None,
        });
    let unknown: Vec<(u64, &String)> = unknown.collect();
    match unknown.first() {
        None => Ok(steps),
        Some((_, name)) => Err(Fault::usage(format!(
            "`config.json`: unknown attention in {}: `{name}` is not known here",
            layers_named(unknown.iter().map(|(layer, _)| *layer))
        ))
        .hint("`profiler run memory_breakdown` measures what an engine needs for it")),
    }
}

/// Names layers for people: `layer 3`, `layers 3, 7`, `layers 0 to 31`.
pub(super) fn layers_named(layers: impl IntoIterator<Item = u64>) -> String {
    let mut spans: Vec<(u64, u64)> = Vec::new();
    for layer in layers {
        match spans.last_mut() {
            Some((_, last)) if *last + 1 == layer => *last = layer,
            _ => spans.push((layer, layer)),
        }
    }
    let several = spans.len() > 1 || spans.iter().any(|(first, last)| first != last);
    let text = spans.iter().map(|(first, last)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first} to {last}"),
    });
    format!(
        "layer{} {}",
        if several { "s" } else { "" },
        text.collect::<Vec<_>>().join(", ")
    )
}

/// Whether keys say which layers have a window, rather than only how large it is.
pub(super) fn lists_windows(config: &Config) -> bool {
    let lists = [
        "layer_types",
        "hybrid_layer_pattern",
        "hybrid_override_pattern",
        "layers_block_type",
        "sliding_window_pattern",
        "block_configs",
        "no_rope_layers",
    ];
    config.get(&lists).is_some() || config.get(&["use_sliding_window"]).is_some_and(|used| used == false)
}

type Kind = (Mixer, FeedForward);

fn listed(config: &Config, layers: u64) -> Result<Vec<Kind>> {
    let window = window(config);
    let usual = |mixer| (mixer, FeedForward::Usual);
    let windows = config.flag(&["use_sliding_window"], true)?;
    let sliding = |slides: bool| match window.filter(|_| slides && windows) {
        Some(tokens) => Mixer::Window(tokens),
        None => Mixer::Full,
    };
    if let Some(blocks) = config.get(&["block_configs"]).and_then(Value::as_array) {
        return (0..layers)
            .map(|layer| block(entry(blocks, layer, "block_configs")?))
            .collect();
    }
    if let Some(pattern) = config.get(&["hybrid_override_pattern"]).and_then(Value::as_str) {
        let letters: Vec<String> = pattern
            .chars()
            .filter(|letter| *letter != '|')
            .map(String::from)
            .collect();
        let separate = separate(&letters);
        return (0..layers)
            .map(|layer| named(entry(&letters, layer, "hybrid_override_pattern")?, separate, window))
            .collect();
    }
    if let Some(names) = config.names(&["layer_types", "layers_block_type"]) {
        let separate = separate(&names);
        return (0..layers)
            .map(|layer| match *entry(&names, layer, "layer_types")? {
                "sliding_attention" if !windows => Ok(usual(Mixer::Full)),
                name => named(name, separate, window),
            })
            .collect();
    }
    if let Some(ratios) = config.numbers("compress_ratios") {
        return (0..layers)
            .map(|layer| Ok(usual(Mixer::Compressed(*entry(&ratios, layer, "compress_ratios")?))))
            .collect();
    }
    if let Some(pattern) = config.numbers("hybrid_layer_pattern") {
        return (0..layers)
            .map(|layer| Ok(usual(sliding(*entry(&pattern, layer, "hybrid_layer_pattern")? == 1))))
            .collect();
    }
    if let Some(linear) = config.get(&["linear_attn_config"]) {
        let full = linear["full_attn_layers"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        // Layers are counted from 1.
        let attends = |layer: u64| full.iter().any(|number| number.as_u64() == Some(layer + 1));
        return Ok((0..layers)
            .map(|layer| usual(if attends(layer) { Mixer::Full } else { Mixer::Recurrent }))
            .collect());
    }
    if let Some(types) = config.numbers("attn_type_list") {
        return (0..layers)
            .map(|layer| {
                let recurs = *entry(&types, layer, "attn_type_list")? == 0;
                Ok(usual(if recurs { Mixer::Recurrent } else { Mixer::Full }))
            })
            .collect();
    }
    (0..layers)
        .map(|layer| Ok(usual(periodic(config, layer, layers, &sliding)?)))
        .collect()
}

/// The size of the window, if the model has one. Negative numbers stand for none.
fn window(config: &Config) -> Option<u64> {
    let value = config.get(&["sliding_window", "sliding_window_size", "attention_chunk_size"])?;
    value.as_u64().filter(|tokens| (1..1 << 40).contains(tokens))
}

fn entry<'a, T>(list: &'a [T], layer: u64, name: &str) -> Result<&'a T> {
    let at = usize::try_from(layer).ok().and_then(|layer| list.get(layer));
    at.ok_or_else(|| {
        Fault::usage(format!(
            "`config.json`: `{name}` has {} entries, and none for layer {layer}",
            list.len()
        ))
    })
}

/// Whether feed-forward parts are layers of their own, so that the others have none.
fn separate(names: &[impl AsRef<str>]) -> bool {
    names
        .iter()
        .any(|name| ["moe", "mlp", "E", "-"].contains(&name.as_ref()))
}

/// A layer by the name that a list gives it.
fn named(name: &str, separate: bool, window: Option<u64>) -> Result<Kind> {
    let mixer = match name {
        "full_attention"
        | "attention"
        | "global_attention"
        | "global"
        | "full"
        | "self_attention"
        | "softmax_attention"
        | "*"
        | "deepseek_sparse_attention"
        | "minimax_m3_sparse"
        | "sparse_attention"
        | "hybrid" => Mixer::Full,
        "sliding_attention"
        | "chunked_attention"
        | "local_attention"
        | "sliding_window_attention"
        | "sliding"
        | "local"
        | "swa" => match window {
            Some(tokens) => Mixer::Window(tokens),
            None => {
                return Err(Fault::usage(format!(
                    "`config.json` has layers of `{name}` and no `sliding_window`"
                )));
            }
        },
        "linear_attention"
        | "mamba"
        | "mamba2"
        | "recurrent"
        | "conv"
        | "short_conv"
        | "kda"
        | "gated_deltanet"
        | "lightning_attention"
        | "M" => Mixer::Recurrent,
        "cross_attention" => Mixer::Cross,
        "compressed_sparse_attention" => Mixer::Compressed(4),
        "heavily_compressed_attention" => Mixer::Compressed(128),
        "moe" | "E" => return Ok((Mixer::None, FeedForward::Experts)),
        "mlp" | "-" => return Ok((Mixer::None, FeedForward::Dense)),
        other => Mixer::Unknown(other.to_owned()),
    };
    Ok((
        mixer,
        if separate {
            FeedForward::None
        } else {
            FeedForward::Usual
        },
    ))
}

/// A layer of a model that a search over architectures put together.
fn block(block: &Value) -> Result<Kind> {
    let attention = &block["attention"];
    let mixer = match () {
        () if attention["no_op"] == true => Mixer::None,
        () if attention["replace_with_linear"] == true => Mixer::None,
        () if attention["sparsify"].is_array() => Mixer::Unknown("sparsify".to_owned()),
        () => match attention["window_length"].as_u64() {
            Some(tokens) => Mixer::Window(tokens),
            None => Mixer::Full,
        },
    };
    let none = block["ffn"]["no_op"] == true;
    Ok((mixer, if none { FeedForward::None } else { FeedForward::Usual }))
}

/// The mechanism of a layer if no list names it.
fn periodic(config: &Config, layer: u64, layers: u64, sliding: &dyn Fn(bool) -> Mixer) -> Result<Mixer> {
    let number = layer + 1;
    let states = ["mamba_d_state", "ssm_state_size", "state_size", "linear_num_key_heads"];
    let recurrent = |attends: bool| if attends { Mixer::Full } else { Mixer::Recurrent };
    if let Some(attending) = config.numbers("attn_layer_indices") {
        return Ok(recurrent(attending.contains(&layer)));
    }
    if let Some(every) = config.optional(&["full_attention_interval"])? {
        return Ok(recurrent(number.is_multiple_of(every)));
    }
    if let Some(period) = config.optional(&["attn_layer_period"])? {
        return Ok(recurrent(
            layer % period == config.number_or_zero(&["attn_layer_offset"])?,
        ));
    }
    if config.get(&states).is_some() && !config.defaults().is_some_and(|family| family.parallel) {
        return Err(Fault::usage(
            "`config.json` has recurrent layers, and does not say which they are: neither `layer_types` nor `attn_layer_period`",
        )
        .hint("the headers of its safetensors files would decide it: give a folder that has them"));
    }
    if let Some(rotated) = config.numbers("no_rope_layers").filter(|layers| !layers.is_empty())
        && config.get(&["attention_chunk_size"]).is_some()
    {
        // Despite its name, the list has a 1 where positions are rotated, and attention is within chunks.
        return Ok(sliding(
            usize::try_from(layer).ok().and_then(|layer| rotated.get(layer)) == Some(&1),
        ));
    }
    if let Some(every) = config.optional(&["no_rope_layer_interval"])?
        && config.get(&["attention_chunk_size"]).is_some()
    {
        return Ok(sliding(!number.is_multiple_of(every)));
    }
    if let Some(pattern) = config.get(&["sliding_window_pattern", "_sliding_window_pattern", "layer_switch"]) {
        return Ok(match pattern.as_str() {
            // One letter for each layer of a period: L is local, G global. The last layer is global.
            Some(letters) => {
                let at = usize::try_from(layer).unwrap_or_default() % letters.len().max(1);
                sliding(letters.as_bytes().get(at) == Some(&b'L') && number < layers)
            }
            None => sliding(
                pattern
                    .as_u64()
                    .is_some_and(|every| every > 0 && !number.is_multiple_of(every)),
            ),
        });
    }
    match config.optional(&["max_window_layers"])? {
        Some(first) => Ok(sliding(layer >= first)),
        None => Ok(sliding(true)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn windows(json: Value, layers: u64) -> Vec<bool> {
        let steps = schedule(&Config::new(&json).unwrap(), layers).unwrap();
        steps
            .iter()
            .map(|step| matches!(step.mixer, Mixer::Window(_)))
            .collect()
    }

    #[test]
    fn windows_follow_the_keys_whatever_the_family() {
        assert_eq!(
            windows(json!({"sliding_window": 8, "sliding_window_pattern": 3}), 4),
            [true, true, false, true]
        );
        assert_eq!(
            windows(json!({"sliding_window": 8, "sliding_window_pattern": "LG"}), 3),
            [true, false, false]
        );
        assert_eq!(
            windows(json!({"sliding_window": 8, "hybrid_layer_pattern": [0, 1]}), 2),
            [false, true]
        );
        assert_eq!(
            windows(json!({"sliding_window": 8, "max_window_layers": 1}), 2),
            [false, true]
        );
        assert_eq!(
            windows(json!({"sliding_window": 8, "use_sliding_window": false}), 1),
            [false]
        );
        assert_eq!(windows(json!({"sliding_window": -1}), 1), [false]);
        assert_eq!(
            windows(json!({"attention_chunk_size": 8, "no_rope_layers": [1, 0]}), 2),
            [true, false]
        );
    }

    #[test]
    fn mechanisms_that_are_not_known_are_named_with_their_layers() {
        let config = json!({"layer_types": ["full_attention", "wormhole", "wormhole", "full_attention", "wormhole"]});
        let fault = schedule(&Config::new(&config).unwrap(), 5).unwrap_err();
        assert!(
            fault
                .message
                .contains("unknown attention in layers 1, 2, 4: `wormhole`"),
            "{}",
            fault.message
        );
        let short = schedule(&Config::new(&config).unwrap(), 6).unwrap_err();
        assert!(
            short.message.contains("5 entries, and none for layer 5"),
            "{}",
            short.message
        );
    }

    #[test]
    fn feed_forward_parts_may_be_layers_of_their_own() {
        let config = Config::new(&json!({"hybrid_override_pattern": "M-*E"})).unwrap();
        let steps = schedule(&config, 4).unwrap();
        let parts: Vec<_> = steps.into_iter().map(|step| (step.mixer, step.feed_forward)).collect();
        assert_eq!(
            parts,
            [
                (Mixer::Recurrent, FeedForward::None),
                (Mixer::None, FeedForward::Dense),
                (Mixer::Full, FeedForward::None),
                (Mixer::None, FeedForward::Experts),
            ]
        );
    }
}
