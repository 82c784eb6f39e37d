use serde_json::json;

use super::*;

fn from_config(quantization: &Value) -> Result<Option<Scheme>> {
    Scheme::from_config(&Config::new(&json!({"quantization_config": quantization})).unwrap())
}

#[test]
fn what_config_json_states_is_read() {
    let scales = |quantization: &Value| from_config(quantization).unwrap().unwrap().scales;
    assert_eq!(
        scales(&json!({"quant_method": "awq", "bits": 4, "group_size": 64})),
        groups(64, 2, 4, 0)
    );
    assert_eq!(
        scales(&json!({"quant_method": "fp8", "weight_block_size": [128, 64]})),
        Scales::WeightBlock { rows: 128, columns: 64 }
    );
    assert_eq!(scales(&json!({"quant_method": "fp8"})), Scales::PerTensor(4));
    let group = json!({"weights": {"num_bits": 4, "strategy": "group", "group_size": 32, "symmetric": true}});
    assert_eq!(
        scales(&json!({"quant_method": "compressed-tensors", "config_groups": {"group_0": group}})),
        groups(32, 2, 0, 0)
    );
}

#[test]
fn what_is_not_known_is_refused() {
    assert!(
        from_config(&json!({"quant_method": "aqlm"}))
            .unwrap_err()
            .message
            .contains("`aqlm`")
    );
    assert!(
        from_config(&json!({"quant_method": "gptq"}))
            .unwrap_err()
            .message
            .contains("`bits`")
    );
    assert!(from_config(&json!({"quant_method": "gptq", "bits": 4, "group_size": 0})).is_err());
    assert!(
        Scheme::from_config(&Config::new(&json!({})).unwrap())
            .unwrap()
            .is_none()
    );
}
