use serde_json::json;

use super::*;

fn stored(name: &str, dims: &[u64]) -> StoredTensor {
    StoredTensor {
        name: name.to_owned(),
        dtype: "BF16".into(),
        dims: dims.to_vec(),
        bytes: dims.iter().product::<u64>() * 2,
    }
}

fn shape(tensors: Vec<StoredTensor>) -> Result<Shape> {
    let config = Config::new(&json!({"model_type": "brand_new"})).unwrap();
    read(&config, &Headers { tensors })
}

#[test]
fn keys_and_values_follow_from_the_matrices_that_make_them() {
    let found = shape(vec![
        stored("model.embed_tokens.weight", &[100, 8]),
        stored("model.layers.0.self_attn.k_proj.weight", &[4, 8]),
        stored("model.layers.0.self_attn.v_proj.weight", &[6, 8]),
        stored("model.layers.1.mixer.in_proj.weight", &[6, 8]),
    ])
    .unwrap();
    let kept: Vec<u64> = found
        .layers
        .iter()
        .filter_map(|layer| Some(layer.per_token.as_ref()?.width))
        .collect();
    assert_eq!(
        (kept, found.layers.len(), found.parameters()),
        (vec![10], 2, 800 + 80 + 48)
    );
    assert!(found.left_out.unwrap().contains("1 layers have no matrices"));
}

#[test]
fn fused_matrices_are_refused() {
    let embedding = stored("transformer.wte.weight", &[100, 8]);
    let fused = stored("transformer.h.0.attn.c_attn.weight", &[24, 8]);
    assert!(
        shape(vec![embedding.clone(), fused])
            .unwrap_err()
            .message
            .contains("keys or values")
    );
    assert!(shape(Vec::new()).unwrap_err().message.contains("embedding"));
}
