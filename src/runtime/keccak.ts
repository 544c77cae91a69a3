// Keccak-256 as Ethereum uses it (padding 0x01 instead of SHA-3's 0x06), for spec and content hashes without a chain
// library. Lanes are pairs of 32-bit halves, because BigInt is ten times slower.

const rounds = 24;
const rateBytes = 136;
const rotations = new Int32Array(rounds);
const targets = new Int32Array(rounds);
/** Two halves per round. */
const constants = new Int32Array(2 * rounds);
derive();

/** Shared scratch space: hashing is synchronous. */
const column = new Int32Array(10);
const row = new Int32Array(10);

export function keccak256(data: string | Uint8Array): string {
  const bytes = typeof data === 'string' ? Buffer.from(data, 'utf8') : data;
  const length = Math.ceil((bytes.length + 1) / rateBytes) * rateBytes;
  const padded = new Uint8Array(length);
  padded.set(bytes);
  padded[bytes.length]! |= 0x01;
  padded[length - 1]! |= 0x80;
  const words = new DataView(padded.buffer);
  const state = new Int32Array(50);
  for (let block = 0; block < length; block += rateBytes) {
    for (let i = 0; i < rateBytes / 4; i++) state[i]! ^= words.getInt32(block + i * 4, true);
    permute(state);
  }
  return `0x${Buffer.from(state.buffer, 0, 32).toString('hex')}`;
}

function permute(s: Int32Array): void {
  for (let round = 0; round < rounds; round++) {
    theta(s);
    rhoPi(s);
    for (let y = 0; y < 50; y += 10) {
      for (let i = 0; i < 10; i++) row[i] = s[y + i]!;
      for (let i = 0; i < 10; i++)
        s[y + i]! ^= ~row[i < 8 ? i + 2 : i - 8]! & row[i < 6 ? i + 4 : i - 6]!;
    }
    s[0]! ^= constants[2 * round]!;
    s[1]! ^= constants[2 * round + 1]!;
  }
}

function theta(s: Int32Array): void {
  for (let i = 0; i < 10; i++)
    column[i] = s[i]! ^ s[i + 10]! ^ s[i + 20]! ^ s[i + 30]! ^ s[i + 40]!;
  for (let x = 0; x < 5; x++) {
    const left = ((x + 4) % 5) * 2;
    const right = ((x + 1) % 5) * 2;
    const low = column[left]! ^ ((column[right]! << 1) | (column[right + 1]! >>> 31));
    const high = column[left + 1]! ^ ((column[right + 1]! << 1) | (column[right]! >>> 31));
    for (let y = 0; y < 50; y += 10) {
      s[y + x * 2]! ^= low;
      s[y + x * 2 + 1]! ^= high;
    }
  }
}

function rhoPi(s: Int32Array): void {
  let low = s[2]!;
  let high = s[3]!;
  for (let i = 0; i < rounds; i++) {
    const at = targets[i]! * 2;
    const nextLow = s[at]!;
    const nextHigh = s[at + 1]!;
    const by = rotations[i]!;
    const a = by < 32 ? low : high;
    const b = by < 32 ? high : low;
    const r = by & 31;
    s[at] = r === 0 ? a : (a << r) | (b >>> (32 - r));
    s[at + 1] = r === 0 ? b : (b << r) | (a >>> (32 - r));
    low = nextLow;
    high = nextHigh;
  }
}

/** Computes the tables from their definitions: the rho and pi walk, and the iota shift register. */
function derive(): void {
  let x = 1;
  let y = 0;
  for (let t = 0; t < rounds; t++) {
    rotations[t] = (((t + 1) * (t + 2)) / 2) % 64;
    [x, y] = [y, (2 * x + 3 * y) % 5];
    targets[t] = x + 5 * y;
  }
  let register = 1;
  for (let round = 0; round < rounds; round++) {
    for (let j = 0; j < 7; j++) {
      const position = 2 ** j - 1;
      if (register & 1) constants[2 * round + (position >> 5)]! |= 1 << (position & 31);
      register = register & 0x80 ? ((register << 1) ^ 0x171) & 0xff : register << 1;
    }
  }
}
