use super::*;
use crate::memory::shape::Split;

fn matrix(role: Role) -> Tensor {
    Tensor {
        name: "t",
        rows: 4096,
        columns: 1024,
        copies: 1,
        role,
        split: Split::Rows,
    }
}

#[test]
fn scales_and_zero_points_are_counted() {
    let bytes = |name: &str| {
        let scheme = Scheme::from_name(name).unwrap();
        scheme.bytes(&matrix(Role::Expert), Dtype::Bfloat16)
    };
    let numbers = 4096 * 1024;
    let groups = 4096 * 1024 / 128;
    assert_eq!(bytes("awq"), numbers / 2 + groups * 2 + groups / 2);
    assert_eq!(bytes("gptq"), numbers / 2 + groups * 2 + groups / 2 + 1024 * 4);
    assert_eq!(bytes("fp8"), numbers + 4);
    assert_eq!(bytes("fp8_block"), numbers + 32 * 8 * 4);
    assert_eq!(bytes("mxfp4"), numbers / 2 + numbers / 32);
    assert_eq!(bytes("nvfp4"), numbers / 2 + numbers / 16);
    assert_eq!(bytes("int8"), numbers + 4096 * 4);
    let blocks = numbers / 64;
    assert_eq!(bytes("nf4"), numbers / 2 + blocks + blocks / 256 * 4 + 1092);
    // 144 bytes for 256 weights.
    assert_eq!(bytes("q4_k"), numbers / 256 * 144);
    assert_eq!(bytes("q6_k"), numbers / 256 * 210);
}

#[test]
fn embeddings_and_routers_stay_as_they_are() {
    let awq = Scheme::from_name("awq").unwrap();
    for role in [Role::Embedding, Role::Head, Role::Router, Role::Vector] {
        assert_eq!(awq.bytes(&matrix(role), Dtype::Float16), 4096 * 1024 * 2);
    }
    let mxfp4 = Scheme::from_name("mxfp4").unwrap();
    assert_eq!(mxfp4.bytes(&matrix(Role::Linear), Dtype::Bfloat16), 4096 * 1024 * 2);
}
