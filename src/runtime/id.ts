// Ids: random ones for everything with a name of its own, and job ids that are adjacent in every index.
import { randomFillSync, randomInt } from 'node:crypto';

const alphabet = '0123456789abcdefghjkmnpqrstvwxyz';

/** A short, unguessable id: 16 characters of Crockford base32 (80 random bits). */
export function randomId(prefix: string, length = 16): string {
  if (poolUsed + length > pool.length) {
    randomFillSync(pool);
    poolUsed = 0;
  }
  let id = prefix;
  for (let i = 0; i < length; i++) id += alphabet[pool[poolUsed++]! & 31];
  return id;
}

/** Random bytes are requested in bulk: a system call per id would cost more than the rest of the id. */
const pool = Buffer.alloc(4096);
let poolUsed = pool.length;

/**
 * Ids of consecutive jobs are adjacent in every index, so that a commit touches few pages: blocks of sixteen jobs share
 * their first three characters, and the next block uses the next three. The first block is random, and so are the other
 * thirteen characters (65 bits), which keep the id unguessable.
 */
export function newJobId(): string {
  if (idCount % blockSize === 0)
    blockPrefix = toBlockPrefix((firstBlock + idCount / blockSize) % 32 ** 3);
  idCount += 1;
  return randomId(blockPrefix, 13);
}

const toBlockPrefix = (n: number): string =>
  `job_${alphabet[n >> 10]}${alphabet[(n >> 5) & 31]}${alphabet[n & 31]}`;

const blockSize = 16;
const firstBlock = randomInt(32 ** 3);
let idCount = 0;
let blockPrefix = '';
