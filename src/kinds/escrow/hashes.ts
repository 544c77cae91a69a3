// Content hashes: keccak256 as `0x…` (what chains and CardZero use) or `sha256:…`. Pure.
import { hash } from 'node:crypto';
import { keccak256 } from '../../runtime/keccak.ts';

export const contentHashPattern = /^(0x[0-9a-fA-F]{64}|sha256:[0-9a-fA-F]{64})$/;

export function hashMatches(bytes: Uint8Array, expected: string): boolean {
  return expected.startsWith('0x')
    ? keccak256(bytes) === expected.toLowerCase()
    : `sha256:${hash('sha256', bytes)}` === expected.toLowerCase();
}

export const sha256Of = (text: string): string => `sha256:${hash('sha256', text)}`;
