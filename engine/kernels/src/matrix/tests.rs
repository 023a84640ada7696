use super::*;

fn row(quant: Quant, cols: usize, bytes: &[u8]) -> Vec<f32> {
    let matrix = Matrix::pack(1, cols, quant, bytes).unwrap();
    let mut out = vec![0.0; cols];
    matrix.row(0, &mut out).unwrap();
    out
}

#[test]
fn small_blocks_mean_what_gguf_says() {
    let two = f16::from_f32(2.0).to_le_bytes();
    let half = f16::from_f32(0.5).to_le_bytes();
    let nibbles: Vec<u8> = (0..16).map(|i| i | (15 - i) << 4).collect();
    let bytes = [&two[..], &nibbles].concat();
    let q4_0 = row(Quant::Q4_0, 32, &bytes);
    let bytes = [&two[..], &half, &nibbles].concat();
    let q4_1 = row(Quant::Q4_1, 32, &bytes);
    for i in 0..16 {
        let (low, high) = (i as f32, (15 - i) as f32);
        assert_eq!((q4_0[i], q4_0[16 + i]), (2.0 * (low - 8.0), 2.0 * (high - 8.0)));
        assert_eq!((q4_1[i], q4_1[16 + i]), (2.0 * low + 0.5, 2.0 * high + 0.5));
    }
    let signed: Vec<u8> = (0..32u8).map(|i| i.wrapping_sub(16)).collect();
    let q8_0 = row(Quant::Q8_0, 32, &[&two[..], &signed].concat());
    assert_eq!(q8_0[0], -32.0);
    assert_eq!(q8_0[31], 30.0);
}

#[test]
fn the_first_sub_blocks_of_q4k_have_their_own_scales() {
    let mut block = vec![0u8; 144];
    block[..2].copy_from_slice(&f16::ONE.to_le_bytes());
    block[2..4].copy_from_slice(&f16::ONE.to_le_bytes());
    // Sub-block 0: scale 3, minimum 5. Sub-block 4: scale 2 + (1 << 4), minimum 7 + (2 << 4).
    block[4] = 3 | 1 << 6;
    block[8] = 5 | 2 << 6;
    block[12] = 2 | 7 << 4;
    block[16..].fill(0x21);
    let values = row(Quant::Q4K, 256, &block);
    assert_eq!(values[0], 3.0 * 1.0 - 5.0);
    assert_eq!(values[4 * 32], 18.0 * 1.0 - 39.0);
    assert_eq!(values[32], 0.0);
}

#[test]
fn q6k_joins_low_and_high_bits() {
    let mut block = vec![0u8; 210];
    block[208..].copy_from_slice(&f16::ONE.to_le_bytes());
    block[192..208].fill(2);
    block[0] = 0xa5;
    block[128] = 0b1110_0100;
    block[32] = 0x3c;
    let values = row(Quant::Q6K, 256, &block);
    assert_eq!(values[0], 2.0 * (5.0 - 32.0));
    assert_eq!(values[32], 2.0 * (12.0 + 16.0 - 32.0));
    assert_eq!(values[64], 2.0 * (10.0 + 32.0 - 32.0));
    assert_eq!(values[96], 2.0 * (3.0 + 48.0 - 32.0));
    assert_eq!(values[1], -64.0);
}

#[test]
fn several_tensors_become_one_matrix() {
    let bytes = |by: u8| -> Vec<u8> { (0..17 * 34).map(|i| if i % 34 < 2 { 0x3c } else { by }).collect() };
    let mut joined = Matrix::zeroed(34, 32, Quant::Q8_0).unwrap();
    joined.set_rows(0, 17, Quant::Q8_0, &bytes(1)).unwrap();
    joined.set_rows(17, 17, Quant::Q8_0, &bytes(2)).unwrap();
    let (mut a, mut b) = ([0.0; 32], [0.0; 32]);
    joined.row(16, &mut a).unwrap();
    joined.row(17, &mut b).unwrap();
    assert_eq!(a[0] * 2.0, b[0]);
}

#[test]
fn wrong_sizes_and_kinds_are_refused() {
    assert!(Matrix::zeroed(4, 33, Quant::F32).is_err());
    assert!(Matrix::pack(4, 32, Quant::Q8_0, &[0; 4 * 34 - 1]).is_err());
    assert!(Matrix::pack(1, 32, Quant::Q4K, &[0; 144]).is_err());
    let mut matrix = Matrix::zeroed(4, 32, Quant::Q8_0).unwrap();
    assert!(matrix.set_rows(4, 1, Quant::Q8_0, &[0; 34]).is_err());
    assert!(matrix.set_rows(0, 1, Quant::Q4_0, &[0; 18]).is_err());
    assert!(matrix.row(4, &mut [0.0; 32]).is_err());
}
