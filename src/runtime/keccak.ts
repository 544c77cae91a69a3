// Keccak-256 as Ethereum uses it (padding 0x01 instead of SHA-3's 0x06), for spec and content hashes without a chain library.
import { nobleSha3 } from './packages.ts';

export function keccak256(data: string | Uint8Array): string {
  const bytes = typeof data === 'string' ? Buffer.from(data, 'utf8') : data;
  return `0x${Buffer.from(nobleSha3().keccak_256(bytes)).toString('hex')}`;
}
