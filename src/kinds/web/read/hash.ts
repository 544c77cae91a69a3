// Computes content hashes of texts.
import { createHash } from 'node:crypto';

/** Hashes the title and the full text of a page, independent of the part selected as main text. */
export function pageHashOf(title: string | undefined, texts: readonly string[]): string {
  return hashOf([title ?? '', ...texts].join('\n'));
}

export function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
