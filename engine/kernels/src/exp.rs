//! The exponential function in a fixed order of plain operations, so that each instruction set gives the same bits.

/// `e^x` within 2 ulp for -87 <= x <= 88; 0 below that range, infinity above it, NaN for NaN.
///
/// Cody-Waite reduction to |r| <= ln 2 / 2 and a polynomial of degree 6 (the coefficients are those of the Taylor series, whose
/// error on that range is below 2e-7 relative).
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    const LOG2_E: f32 = std::f32::consts::LOG2_E;
    // ln 2 in two parts: the first has few bits, so that its product with a small whole number is exact.
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let clamped = x.clamp(-87.0, 88.0);
    let n = (clamped * LOG2_E).round_ties_even();
    let r = n.mul_add(-LN2_LOW, n.mul_add(-LN2_HIGH, clamped));
    let p = (1.0f32 / 720.0).mul_add(r, 1.0 / 120.0);
    let p = p.mul_add(r, 1.0 / 24.0);
    let p = p.mul_add(r, 1.0 / 6.0);
    let p = p.mul_add(r, 0.5);
    let p = p.mul_add(r, 1.0);
    let p = p.mul_add(r, 1.0);
    // 2^n by its exponent bits: -126 <= n <= 127 after the clamp.
    let scale = f32::from_bits(((n as i32 + 127) << 23) as u32);
    let value = p * scale;
    if x < -87.0 {
        0.0
    } else if x > 88.0 {
        f32::INFINITY
    } else {
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_close_to_the_true_exponential() {
        let mut worst = 0f64;
        let mut x = -87.0f32;
        while x <= 88.0 {
            let truth = f64::from(x).exp();
            worst = worst.max((f64::from(exp(x)) - truth).abs() / truth);
            x += 0.000_97;
        }
        assert!(worst < 3e-7, "relative error {worst}");
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-1000.0), 0.0);
        assert_eq!(exp(1000.0), f32::INFINITY);
        assert!(exp(f32::NAN).is_nan());
    }
}
