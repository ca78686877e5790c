"""The recorded runs of the KIP-794 experiment and its linger variants; the first four are committed."""

RUNS = (
    "A_2048_a_r3", "A_2048_b_r3", "A_2048_c_r3", "B_2048_k39_l20_b32k",
    "A_2048_d_r2", "A_4096_a_r1", "A_4096_b_r2", "A_4096_c_r2",
    "B_2048_k32_l20_b32k", "B_2048_k32_linger5", "B_2048_k41_defaults",
)  # fmt: skip  # names, several a line
COMMITTED_RUNS = RUNS[:4]
